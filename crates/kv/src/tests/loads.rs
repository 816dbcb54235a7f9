//! Loads that do not fit into memory.

use super::{Model, Pairs, check, load, options};
use crate::{Batch, Durability, ErrorKind, Kv, KvOptions, WriteOptions};
use quire_env::SimEnv;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn try_open(env: &Arc<SimEnv>) -> crate::Result<Kv> {
    let options = KvOptions {
        memory_bytes: 1 << 20,
        memtable_bytes: Some(64 << 10),
        ..options()
    };
    Kv::open_on(env.clone(), "/db", options)
}

fn open(env: &Arc<SimEnv>) -> Kv {
    try_open(env).unwrap()
}

/// Pairs of some 70 memtables: first in order, then in any, with several values for many keys.
fn pairs() -> Pairs {
    let key = |number: u32| number.to_be_bytes().to_vec();
    let value = |number: u32| [number.to_le_bytes().repeat(20), vec![7; 100]].concat();
    let ascending = (0..2_000).map(|number| (key(3 * number), value(number)));
    let any = (0..16_000u32).map(|number| {
        let random = number.wrapping_mul(0x9e37_79b9) >> 16;
        (key(random % 9_000), value(number))
    });
    ascending.chain(any).collect()
}

fn tables(env: &SimEnv) -> u64 {
    let files = env.files();
    let tables = files.iter().filter(|file| {
        let extension = file.extension();
        extension.is_some_and(|extension| extension == "table")
    });
    tables.count() as u64
}

#[test]
fn a_load_of_any_order_and_size_is_seen_at_once_over_all_that_was_written_before() {
    let env = SimEnv::new(1);
    let kv = open(&env);
    let (mut model, mut before) = (Model::new(), Model::new());
    for number in (0..9_000u32).step_by(1_000) {
        kv.put(number.to_be_bytes(), b"old").unwrap();
        before.insert(number.to_be_bytes().to_vec(), b"old".to_vec());
    }
    model.extend(before.clone());
    let mut load = kv.bulk_load().unwrap();
    for (key, value) in pairs() {
        load.put(&key, &value).unwrap();
        model.insert(key, value);
    }
    assert_eq!(load.put(b"", b"").unwrap_err().kind(), ErrorKind::Invalid);
    let memory = kv.stats().memtable_bytes;
    assert!(memory < 200 << 10, "{memory} bytes");
    kv.with(WriteOptions::new().durability(Durability::None))
        .put([0; 4], b"while it loads")
        .unwrap();
    before.insert(vec![0; 4], b"while it loads".to_vec());
    let view = kv.view().unwrap();
    let probes = [vec![1], vec![0, 0, 9]];
    check(&view, &before, &probes);
    load.finish().unwrap();
    check(&view, &before, &probes);
    drop(view);
    check(&kv.view().unwrap(), &model, &probes);
    assert_eq!(
        tables(&env),
        kv.stats().tree.tables,
        "what it sorted is gone"
    );

    kv.put([0; 4], b"after it").unwrap();
    model.insert(vec![0; 4], b"after it".to_vec());
    kv.settle().unwrap();
    let kv = open(&env.after_crash(1));
    check(&kv.view().unwrap(), &model, &probes);
}

#[test]
fn a_load_that_fails_or_is_given_up_leaves_nothing() {
    let env = SimEnv::new(1);
    let kv = open(&env);
    kv.put(b"a", b"1").unwrap();
    kv.flush().unwrap();
    env.set_capacity(200 << 10);
    let mut failed = kv.bulk_load().unwrap();
    let refused = pairs()
        .iter()
        .find_map(|(key, value)| failed.put(key, value).err());
    assert_eq!(refused.unwrap().kind(), ErrorKind::Full);
    env.set_capacity(1 << 30);
    let (key, value) = (b"b", b"2");
    assert_eq!(
        failed.put(key, value).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    assert_eq!(failed.finish().unwrap_err().kind(), ErrorKind::Invalid);

    let mut given_up = kv.bulk_load().unwrap();
    for (key, value) in pairs() {
        given_up.put(&key, &value).unwrap();
    }
    assert!(tables(&env) > 1);
    drop(given_up);
    assert_eq!(tables(&env), 1);

    let closed = kv.bulk_load().unwrap();
    load(&kv, &[]).unwrap();
    let model = Model::from([(b"a".to_vec(), b"1".to_vec())]);
    check(&kv.view().unwrap(), &model, &[vec![0], vec![1]]);
    kv.close().unwrap();
    assert_eq!(closed.finish().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(kv.bulk_load().unwrap_err().kind(), ErrorKind::Closed);
}

/// It would remove files whose names the next opening has given to others by then.
#[test]
fn a_load_that_outlives_the_close_keeps_the_directory_locked() {
    let env = SimEnv::new(1);
    let kv = open(&env);
    let mut load = kv.bulk_load().unwrap();
    for (key, value) in pairs() {
        load.put(&key, &value).unwrap();
    }
    kv.close().unwrap();
    drop(kv);
    assert_eq!(try_open(&env).unwrap_err().kind(), ErrorKind::Locked);
    drop(load);
    assert_eq!(tables(&env), 0);
    let kv = open(&env);
    kv.put(b"a", b"1").unwrap();
    kv.flush().unwrap();
    assert_eq!(tables(&env), 1);
}

/// On the real machine, where threads meet as they please.
#[test]
fn loads_beside_a_writer_are_seen_whole_and_over_what_was_written_before() {
    let dir = tempfile::tempdir().unwrap();
    let options = KvOptions {
        memory_bytes: 4 << 20,
        memtable_bytes: Some(256 << 10),
        durability: Durability::None,
        ..options()
    };
    let kv = Kv::open(dir.path().join("db"), options).unwrap();
    let keys: Vec<_> = (0..100u32).map(u32::to_be_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let round_of = |kv: &Kv| {
        let found = kv.multi_get(&keys).unwrap();
        assert!(found.iter().all(|value| *value == found[0]));
        found[0].as_deref().map_or(0, |value| value[0])
    };
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = 0;
            for number in 0u64.. {
                let key = [b"w", &(number % 3_000).to_be_bytes()[..]].concat();
                kv.put(&key, number.to_be_bytes().repeat(60)).unwrap();
                let found = kv.get(&key).unwrap().unwrap();
                assert_eq!(found[..8], number.to_be_bytes());
                let round = round_of(&kv);
                assert!(round >= last, "{round} after {last}");
                last = round;
                if ended.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for round in 1..=20u8 {
            let mut load = kv.bulk_load().unwrap();
            for key in keys.iter().rev() {
                load.put(key, [round; 100]).unwrap();
            }
            load.finish().unwrap();
            assert_eq!(round_of(&kv), round);
            let mut batch = Batch::new();
            for key in &keys {
                batch.put(key, [round; 50]).unwrap();
            }
            kv.write(&batch).unwrap();
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert_eq!(round_of(&kv), 20);
}
