//! Keys and values against an ordered map: any operations, options and openings.

use crate::{
    Batch, Codec, Durability, ErrorKind, Iter, Kv, KvOptions, LogCodec, MergeError, Merger, View,
    WriteOptions,
};
use proptest::collection::vec;
use proptest::prelude::*;
use quire_env::{Env, SimEnv};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

mod faults;
mod loads;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Appends, up to a limit: more it refuses.
#[derive(Debug)]
struct Append;

const APPENDED_MAX: usize = 24;

impl Merger for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn apply(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operand: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        out.extend_from_slice(base.unwrap_or_default());
        out.extend_from_slice(operand);
        match out.len() <= APPENDED_MAX {
            true => Ok(()),
            false => Err(MergeError("it would be too long".into())),
        }
    }

    fn combine(
        &self,
        _: &[u8],
        older: &[u8],
        newer: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        *out = [older, newer].concat();
        Ok(())
    }
}

#[derive(Debug, Clone)]
enum Change {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    DeleteRange(Bound<Vec<u8>>, Bound<Vec<u8>>),
    /// For this many seconds.
    PutFor(Vec<u8>, Vec<u8>, u64),
}

type Slices<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

fn slices<'a>(from: &'a Bound<Vec<u8>>, to: &'a Bound<Vec<u8>>) -> Slices<'a> {
    (
        from.as_ref().map(Vec::as_slice),
        to.as_ref().map(Vec::as_slice),
    )
}

#[derive(Debug, Clone)]
enum Step {
    One(Change),
    Together(Vec<Change>),
    Load(Vec<(Vec<u8>, Vec<u8>)>),
    Flush,
    Settle,
    Compact,
    Reopen {
        close: bool,
    },
    View,
    DropView,
    /// This many seconds.
    Pass(u64),
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    vec(
        prop_oneof![Just(b'a'), Just(b'b'), Just(0), Just(255)],
        1..4,
    )
}

fn any_bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        3 => any_key().prop_map(Bound::Included),
        3 => any_key().prop_map(Bound::Excluded),
        1 => Just(Bound::Unbounded),
    ]
}

fn any_change() -> impl Strategy<Value = Change> {
    let value = || vec(any::<u8>(), 0..APPENDED_MAX);
    let operand = || vec(any::<u8>(), 0..6);
    prop_oneof![
        4 => (any_key(), value()).prop_map(|(key, value)| Change::Put(key, value)),
        2 => any_key().prop_map(Change::Delete),
        2 => (any_key(), operand()).prop_map(|(key, operand)| Change::Merge(key, operand)),
        2 => (any_key(), value(), 0..20u64)
            .prop_map(|(key, value, time)| Change::PutFor(key, value, time)),
        1 => (any_bound(), any_bound()).prop_map(|(from, to)| Change::DeleteRange(from, to)),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => any_change().prop_map(Step::One),
        4 => vec(any_change(), 0..6).prop_map(Step::Together),
        2 => vec((any_key(), vec(any::<u8>(), 0..9)), 0..6).prop_map(Step::Load),
        3 => Just(Step::Flush),
        1 => Just(Step::Settle),
        1 => Just(Step::Compact),
        2 => any::<bool>().prop_map(|close| Step::Reopen { close }),
        2 => Just(Step::View),
        1 => Just(Step::DropView),
        3 => (0..10u64).prop_map(Step::Pass),
    ]
}

fn any_options() -> impl Strategy<Value = KvOptions> {
    let durability = prop_oneof![Just(Durability::Sync), Just(Durability::None)];
    let space_percent = prop_oneof![Just(None), (1u32..200).prop_map(Some)];
    let codec = prop_oneof![
        Just(Codec::None),
        Just(Codec::Lz4),
        (1u8..20).prop_map(|level| Codec::Zstd { level })
    ];
    (
        any::<[bool; 2]>(),
        codec,
        0.003f64..1.5,
        space_percent,
        durability,
    )
        .prop_map(
            |([log_packed, map], codec, filter_false_positives, space_percent, durability)| {
                KvOptions {
                    map,
                    codec,
                    log_codec: if log_packed {
                        LogCodec::Lz4
                    } else {
                        LogCodec::None
                    },
                    filter_false_positives,
                    space_percent,
                    durability,
                    ..options()
                }
            },
        )
}

fn options() -> KvOptions {
    KvOptions {
        memory_bytes: 32 << 20,
        memtable_bytes: Some(1 << 20),
        merger: Some(Arc::new(Append)),
        ..KvOptions::default()
    }
}

fn open(env: &Arc<SimEnv>) -> Kv {
    Kv::open_on(env.clone(), "/db", options()).unwrap()
}

/// What the change makes of the model; `None` if the merger refuses.
fn change(model: &mut Model, change: &Change) -> Option<()> {
    match change {
        Change::Put(key, value) | Change::PutFor(key, value, _) => {
            drop(model.insert(key.clone(), value.clone()));
        }
        Change::Delete(key) => drop(model.remove(key)),
        Change::Merge(key, operand) => {
            let merged = [model.get(key).cloned().unwrap_or_default(), operand.clone()].concat();
            if merged.len() > APPENDED_MAX {
                return None;
            }
            model.insert(key.clone(), merged);
        }
        Change::DeleteRange(from, to) => {
            let range = slices(from, to);
            model.retain(|key, _| !RangeBounds::<&[u8]>::contains(&range, &key.as_slice()));
        }
    }
    Some(())
}

/// Until when keys have their values.
#[derive(Debug, Clone, Default)]
struct Deadlines(BTreeMap<Vec<u8>, i64>);

impl Deadlines {
    /// Does what [`change`] does, and takes away what lives for no time: also from what is merged
    /// with it in the same batch.
    fn change(&mut self, model: &mut Model, one: &Change, now: i64) -> Option<()> {
        change(model, one)?;
        match one {
            Change::PutFor(key, _, time) => {
                self.0.insert(key.clone(), now + *time as i64 * 1_000_000);
            }
            Change::Put(key, _) | Change::Delete(key) => drop(self.0.remove(key)),
            Change::DeleteRange(..) => self.0.retain(|key, _| model.contains_key(key)),
            Change::Merge(..) => {}
        }
        self.expire(model, now);
        Some(())
    }

    fn expire(&mut self, model: &mut Model, now: i64) {
        self.0.retain(|key, deadline| {
            let live = *deadline > now;
            if !live {
                model.remove(key);
            }
            live
        });
    }
}

fn load(kv: &Kv, pairs: &[(Vec<u8>, Vec<u8>)]) -> crate::Result<()> {
    let mut load = kv.bulk_load()?;
    for (key, value) in pairs {
        load.put(key, value)?;
    }
    load.finish()
}

fn batch_of(changes: &[Change]) -> Batch {
    let mut batch = Batch::new();
    for change in changes {
        match change {
            Change::Put(key, value) => batch.put(key, value),
            Change::PutFor(key, value, time) => {
                batch.put_for(key, value, Duration::from_secs(*time))
            }
            Change::Delete(key) => batch.delete(key),
            Change::Merge(key, operand) => batch.merge(key, operand),
            Change::DeleteRange(from, to) => batch.delete_range(slices(from, to)),
        }
        .unwrap();
    }
    batch
}

/// Reads two pairs where they lie, one by itself, two where they lie …
fn read(mut pairs: Iter) -> Pairs {
    let mut all = Pairs::new();
    loop {
        let enough = all.len() + 2;
        let visited = pairs.visit(|key, value| {
            all.push((key.to_vec(), value.to_vec()));
            match all.len() {
                len if len == enough => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        let at_end = visited.unwrap().is_continue();
        match pairs.next().transpose().unwrap() {
            Some((key, value)) => all.push((key.to_vec(), value.to_vec())),
            None => return all,
        }
        assert!(!at_end, "it goes on after its end");
    }
}

/// Every way to read the view gives what the model has.
fn check(view: &View, model: &Model, probes: &[Vec<u8>; 2]) {
    let all: Pairs = model.clone().into_iter().collect();
    assert_eq!(read(view.range(..).unwrap()), all);
    let [a, b] = probes;
    let (low, high) = (a.min(b).as_slice(), a.max(b).as_slice());
    for ends in [
        (Bound::Included(low), Bound::Excluded(high)),
        (Bound::Excluded(low), Bound::Included(high)),
        (Bound::Unbounded, Bound::Excluded(low)),
        (Bound::Included(high), Bound::Unbounded),
    ] {
        let inside = |key: &[u8]| std::ops::RangeBounds::<&[u8]>::contains(&ends, &key);
        let mut expected: Pairs = all.iter().filter(|(key, _)| inside(key)).cloned().collect();
        assert_eq!(read(view.range(ends).unwrap()), expected, "{ends:?}");
        expected.reverse();
        assert_eq!(read(view.range_rev(ends).unwrap()), expected, "{ends:?}");
    }
    for prefix in [
        &[][..],
        b"\xff",
        low,
        low.get(..1).unwrap_or_default(),
        high,
    ] {
        let inside = all.iter().filter(|(key, _)| key.starts_with(prefix));
        let mut expected: Pairs = inside.cloned().collect();
        assert_eq!(read(view.prefix(prefix).unwrap()), expected, "{prefix:?}");
        expected.reverse();
        assert_eq!(
            read(view.prefix_rev(prefix).unwrap()),
            expected,
            "{prefix:?}"
        );
    }
    let keys: Vec<_> = model.keys().chain(probes).map(Vec::as_slice).collect();
    for (key, found) in keys.iter().zip(view.multi_get(&keys).unwrap()) {
        let expected = model.get(*key).map(Vec::as_slice);
        assert_eq!(found.as_deref(), expected);
        assert_eq!(view.get(key).unwrap().as_deref(), expected);
        let visited = view.visit(key, <[u8]>::to_vec).unwrap();
        assert_eq!(visited.as_deref(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn keys_and_values_agree_with_a_map(
        steps in vec(any_step(), 1..60),
        all_options in vec(any_options(), 4),
        probes in [any_key(), any_key()],
    ) {
        let env = SimEnv::new(1);
        let mut openings = all_options.iter().cycle();
        let mut open = || {
            let options = openings.next().unwrap().clone();
            Kv::open_on(env.clone(), "/db", options).unwrap()
        };
        let (mut kv, mut model) = (open(), Model::new());
        let mut deadlines = Deadlines::default();
        let mut views: Vec<(View, Model)> = Vec::new();
        for step in &steps {
            match step {
                Step::One(one) => {
                    let mut next = model.clone();
                    let expected = deadlines.change(&mut next, one, env.now_micros());
                    let expected = expected.map(|()| model = next);
                    let done = match one {
                        Change::Put(key, value) => kv.put(key, value),
                        Change::PutFor(key, value, time) => {
                            kv.put_for(key, value, Duration::from_secs(*time))
                        }
                        Change::Delete(key) => kv.delete(key),
                        Change::Merge(key, operand) => kv.merge(key, operand),
                        Change::DeleteRange(from, to) => kv.delete_range(slices(from, to)),
                    };
                    prop_assert_eq!(done.is_ok(), expected.is_some(), "{:?}", done);
                }
                Step::Together(changes) => {
                    let mut next = model.clone();
                    let (mut until, now) = (deadlines.clone(), env.now_micros());
                    let mut changed = changes.iter().map(|one| until.change(&mut next, one, now));
                    let all: Option<()> = changed.by_ref().collect();
                    let expected = all.map(|()| (model, deadlines) = (next, until));
                    let done = kv.write(&batch_of(changes));
                    prop_assert_eq!(done.is_ok(), expected.is_some(), "{:?}", done);
                }
                Step::Load(pairs) => {
                    load(&kv, pairs).unwrap();
                    model.extend(pairs.iter().cloned());
                    deadlines.0.retain(|key, _| !pairs.iter().any(|(loaded, _)| loaded == key));
                }
                Step::Pass(time) => {
                    env.advance(Duration::from_secs(*time));
                    deadlines.expire(&mut model, env.now_micros());
                }
                Step::Flush => kv.flush().unwrap(),
                Step::Settle => kv.settle().unwrap(),
                Step::Compact => kv.compact().unwrap(),
                Step::Reopen { close } => {
                    views.clear();
                    if *close {
                        kv.close().unwrap();
                    }
                    drop(kv);
                    kv = open();
                }
                Step::View => {
                    // Each holds a memtable: more of them than there is memory for would stop the
                    // writer.
                    views.truncate(2);
                    views.push((kv.view().unwrap(), model.clone()));
                }
                Step::DropView => drop(views.pop()),
            }
            check(&kv.view().unwrap(), &model, &probes);
            let keys = probes.each_ref().map(Vec::as_slice);
            let expected = keys.map(|key| model.get(key).map(Vec::as_slice));
            let found = kv.multi_get(&keys).unwrap();
            prop_assert_eq!(found.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
        }
        for (view, model) in &views {
            check(view, model, &probes);
        }
    }
}

#[test]
fn what_the_log_holds_is_dropped_once_the_tree_has_it() {
    let env = SimEnv::new(1);
    let mut model = Model::new();
    let value = vec![7; 1000];
    for _ in 0..3 {
        let kv = open(&env);
        for number in 0..6_000u32 {
            let key = (model.len() as u32 ^ number.reverse_bits()).to_be_bytes();
            kv.with(WriteOptions::new().durability(Durability::None))
                .put(key, &value)
                .unwrap();
            model.insert(key.to_vec(), value.clone());
        }
        kv.settle().unwrap();
        let stats = kv.stats();
        assert!(stats.log.segments == 1, "{stats:?}");
        assert!(
            stats.log.first.0 > 1 && stats.log_dropped_bytes > 2 << 20,
            "{stats:?}"
        );
        kv.close().unwrap();
    }
    let kv = open(&env.after_crash(1));
    assert!(kv.stats().log.first.0 > 1 && kv.stats().filters.pages > 0);
    check(&kv.view().unwrap(), &model, &[b"a".to_vec(), b"b".to_vec()]);
    kv.put(b"a", b"after").unwrap();
    assert_eq!(kv.get(b"a").unwrap().as_deref(), Some(&b"after"[..]));
}

#[test]
fn keys_that_are_written_again_take_no_more_room_than_the_options_say() {
    let most = |space_percent| {
        let env = SimEnv::new(5);
        let options = KvOptions {
            space_percent,
            codec: Codec::None,
            ..options()
        };
        let machine: Arc<dyn Env> = Arc::<SimEnv>::clone(&env);
        let kv = Kv::open_on(machine, "/kv", options).unwrap();
        let mut most = 0;
        for round in 0..80_u32 {
            for key in (round % 8 * 125..).take(125) {
                let key = key.wrapping_mul(0x9e37_79b9).to_be_bytes();
                kv.put(key, [round as u8; 96]).unwrap();
            }
            kv.settle().unwrap();
            most = most.max(kv.stats().tree.table_bytes);
        }
        most
    };
    // Live are 1,000 keys and values of 100 bytes, of which each flush has an eighth.
    let (free, bounded) = (most(None), most(Some(25)));
    assert!(free > 180_000 && bounded < 140_000, "{free} and {bounded}");
}

#[test]
fn what_can_not_be_stored_is_refused_and_nothing_is_written() {
    let env = SimEnv::new(1);
    let kv = open(&env);
    let long = vec![1; crate::VALUE_BYTES_MAX + 1];
    let key = |bytes: usize| vec![1; bytes];
    let kind = |done: crate::Result<()>| done.unwrap_err().kind();
    assert_eq!(kind(kv.put(b"", b"v")), ErrorKind::Invalid);
    assert_eq!(kind(kv.delete(b"")), ErrorKind::Invalid);
    assert_eq!(kind(kv.merge(b"", b"v")), ErrorKind::Invalid);
    assert_eq!(
        kind(kv.put(key(crate::KEY_BYTES_MAX + 1), b"")),
        ErrorKind::TooLarge
    );
    assert_eq!(kind(kv.put(b"k", &long)), ErrorKind::TooLarge);
    let mut batch = Batch::new();
    let largest = &long[1..];
    batch.put(b"a", largest).unwrap();
    assert_eq!(kind(batch.put(b"b", largest)), ErrorKind::TooLarge);
    assert_eq!(batch.len(), 1);
    assert_eq!(read(kv.range(..).unwrap()), []);

    kv.put(key(crate::KEY_BYTES_MAX), b"longest").unwrap();
    kv.close().unwrap();
    assert_eq!(kind(kv.put(b"k", b"v")), ErrorKind::Closed);
    assert_eq!(kv.get(b"k").unwrap_err().kind(), ErrorKind::Closed);
    drop(kv);
    let without = KvOptions {
        merger: None,
        ..options()
    };
    let kv = Kv::open_on(env.clone(), "/db", without).unwrap();
    assert_eq!(kind(kv.merge(b"k", b"v")), ErrorKind::Invalid);
    let locked = Kv::open_on(env.clone(), "/db", options()).unwrap_err();
    assert_eq!(locked.kind(), ErrorKind::Locked);
    assert_eq!(
        kv.get(key(crate::KEY_BYTES_MAX)).unwrap().as_deref(),
        Some(&b"longest"[..])
    );
}

#[test]
fn a_directory_of_something_else_and_options_without_sense_are_refused() {
    let env = SimEnv::new(1);
    env.create_dir_all("/other".as_ref()).unwrap();
    env.replace("/other/notes.txt".as_ref(), b"").unwrap();
    let refused = |path: &str, options: KvOptions| {
        let error = Kv::open_on(env.clone(), path, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    };
    assert!(refused("/other", options()).contains("no KEYVALUE"));
    let missing = KvOptions {
        create_if_missing: false,
        ..options()
    };
    assert!(refused("/nothing", missing).contains("no keys and values"));
    for filter_false_positives in [0.0, -0.1, f64::NAN] {
        let wrong = KvOptions {
            filter_false_positives,
            ..options()
        };
        assert!(refused("/db", wrong).contains("filter_false_positives"));
    }
    let wrong = KvOptions {
        space_percent: Some(0),
        ..options()
    };
    assert!(refused("/db", wrong).contains("space_percent"));
    for memtable_bytes in [1, 16 << 20] {
        let wrong = KvOptions {
            memtable_bytes: Some(memtable_bytes),
            ..options()
        };
        assert!(refused("/db", wrong).contains("memtable_bytes"));
    }
}

#[test]
fn what_is_past_its_deadline_is_gone_with_what_it_was_put_over_and_is_not_read_for_ever() {
    let env = SimEnv::new(1);
    let kv = open(&env);
    let minute = Duration::from_secs(60);
    let get = |key: &[u8]| kv.get(key).unwrap().map(|value| value.to_vec());
    for key in [b"a", b"b", b"c", b"d"] {
        kv.put(key, b"old").unwrap();
    }
    let filler = |at: u32| {
        let random = at.wrapping_mul(0x9e37_79b9).to_be_bytes();
        [b"z", random.repeat(8).as_slice()].concat()
    };
    (0..2_000).for_each(|at| kv.put(filler(at), filler(at)).unwrap());
    kv.flush().unwrap();
    for key in [b"a", b"b", b"c"] {
        kv.put_for(key, b"new", minute).unwrap();
    }
    kv.put_for(b"for ever", b"new", Duration::MAX).unwrap();
    kv.merge(b"c", b"er").unwrap();
    let view = kv.view().unwrap();
    env.advance(Duration::from_secs(50));
    assert_eq!(get(b"a").as_deref(), Some(&b"new"[..]));
    assert_eq!(
        get(b"c").as_deref(),
        Some(&b"newer"[..]),
        "a merge keeps the time"
    );
    kv.put(b"b", b"kept").unwrap();
    env.advance(Duration::from_secs(10));
    assert_eq!((get(b"a"), get(b"c")), (None, None));
    assert_eq!(get(b"b").as_deref(), Some(&b"kept"[..]));
    assert_eq!(
        kv.multi_get(&[b"a", b"d"])
            .unwrap()
            .iter()
            .flatten()
            .count(),
        1
    );
    assert_eq!(kv.range(..&b"e"[..]).unwrap().count(), 2);
    assert_eq!(view.get(b"a").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(view.range_rev(..&b"e"[..]).unwrap().count(), 4);
    kv.merge(b"c", b"anew").unwrap();
    assert_eq!(get(b"c").as_deref(), Some(&b"anew"[..]));

    // The clock goes back: what no compaction came by is there for that long again, and nothing
    // older ever is.
    let back = -2 * minute.as_micros() as i64;
    env.shift_wall_clock(back);
    assert_eq!(get(b"a").as_deref(), Some(&b"new"[..]));
    assert_eq!(get(b"c").as_deref(), Some(&b"anew"[..]));
    env.shift_wall_clock(-back);
    kv.flush().unwrap();
    assert_eq!((kv.stats().tree.runs, kv.stats().tree.timed), (2, 1));
    env.shift_wall_clock(back);
    assert_eq!(get(b"a"), None);
    assert_eq!(view.get(b"a").unwrap().as_deref(), Some(&b"new"[..]));
    kv.compact().unwrap();
    assert_eq!((get(b"a"), get(b"for ever").is_some()), (None, true));

    // A single run is worth compacting once something in it is past its deadline.
    kv.put_for(b"a", b"last", minute).unwrap();
    kv.compact().unwrap();
    assert_eq!(kv.stats().tree.timed, 2);
    env.advance(minute);
    kv.compact().unwrap();
    assert_eq!((kv.stats().tree.timed, kv.stats().tree.tombstones), (1, 0));
    assert_eq!(get(b"a"), None);
}

/// A manifest that is gone is no reason to begin anew, and to remove what it named.
#[test]
fn a_lost_manifest_is_an_error_and_nothing_is_removed() {
    let env = SimEnv::new(1);
    let kv = open(&env);
    kv.put(b"k", b"v").unwrap();
    kv.flush().unwrap();
    kv.close().unwrap();
    drop(kv);
    let manifest = "/db/store/MANIFEST";
    let bytes = env.read(manifest.as_ref(), 1 << 20).unwrap();
    env.remove(manifest.as_ref()).unwrap();
    let error = Kv::open_on(env.clone(), "/db", options()).unwrap_err();
    assert!(error.to_string().contains("MANIFEST"), "{error}");
    env.replace(manifest.as_ref(), &bytes).unwrap();
    assert_eq!(open(&env).get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn views_that_are_kept_too_long_are_told_of_and_give_back_what_they_hold() {
    let env = SimEnv::new(1);
    let limited = KvOptions {
        view_age_max: Some(Duration::from_secs(60)),
        ..options()
    };
    let kv = Kv::open_on(env.clone(), "/db", limited).unwrap();
    assert_eq!((kv.stats().views, kv.stats().view_age), (0, None));
    for key in [b"a", b"b", b"c"] {
        kv.put(key, [1; 100]).unwrap();
        kv.flush().unwrap();
    }
    let view = kv.view().unwrap();
    let mut pairs = view.range(..).unwrap();
    let mut pairs_back = kv.range_rev(..).unwrap();
    assert!(pairs.next().unwrap().is_ok() && pairs_back.next().unwrap().is_ok());
    kv.compact().unwrap();
    let tables = || {
        env.files()
            .iter()
            .filter(|file| file.extension().is_some_and(|e| e == "table"))
            .count()
    };
    assert_eq!(tables(), 3);
    env.advance(Duration::from_secs(59));
    env.run_due();
    let (views, age) = (kv.stats().views, kv.stats().view_age);
    assert!(views == 3 && age.unwrap() >= Duration::from_secs(59));
    let young = kv.view().unwrap();
    assert!(view.get(b"a").unwrap().is_some());

    env.advance(Duration::from_secs(1));
    env.run_due();
    assert_eq!(view.get(b"a").unwrap_err().kind(), ErrorKind::Gone);
    assert_eq!(view.range(..).unwrap_err().kind(), ErrorKind::Gone);
    assert_eq!(pairs.next().unwrap().unwrap_err().kind(), ErrorKind::Gone);
    assert!(pairs.next().is_none(), "it ends after an error");
    assert_eq!(
        pairs_back.next().unwrap().unwrap_err().kind(),
        ErrorKind::Gone
    );
    assert_eq!(tables(), 1);
    assert_eq!(kv.stats().views, 1);
    assert!(young.get(b"a").unwrap().is_some());
    env.advance(Duration::from_secs(59));
    env.run_due();
    assert!(young.get(b"a").is_err());

    // One that comes of age while it hands out a pair is emptied after that.
    let mut pairs = kv.range(..).unwrap();
    kv.put(b"a", b"new").unwrap();
    kv.compact().unwrap();
    assert_eq!(tables(), 2);
    let mut visits = 0;
    let visited = pairs.visit::<()>(|_, _| {
        visits += 1;
        env.advance(Duration::from_secs(60));
        env.run_due();
        assert_eq!(tables(), 2, "it is in use");
        ControlFlow::Continue(())
    });
    assert_eq!(visited.unwrap_err().kind(), ErrorKind::Gone);
    assert_eq!((visits, tables(), kv.stats().views), (1, 1, 0));
    assert!(pairs.next().is_none());
}

#[test]
fn ranges_and_prefixes_of_strings_and_bytes_have_their_keys() {
    let kv = open(&SimEnv::new(1));
    for key in [
        &b"a"[..],
        b"user:",
        b"user:anna",
        b"user:ben",
        b"user;",
        b"\xff",
        b"\xff\xff",
    ] {
        kv.put(key, "x").unwrap();
    }
    let view = kv.view().unwrap();
    let keys = |pairs: crate::Result<Iter>| -> Vec<String> {
        let keys = read(pairs.unwrap()).into_iter().map(|(key, _)| key);
        keys.map(|key| String::from_utf8_lossy(&key).into_owned())
            .collect()
    };
    let users = ["user:", "user:anna", "user:ben"];
    let backwards = ["user:ben", "user:anna", "user:"];
    assert_eq!(keys(kv.prefix("user:")), users);
    assert_eq!(keys(view.prefix(b"user:")), users);
    assert_eq!(keys(kv.prefix_rev("user:")), backwards);
    assert_eq!(keys(view.prefix_rev(String::from("user:"))), backwards);
    assert_eq!(keys(kv.prefix("user:anna and more")), [""; 0]);
    assert_eq!(kv.prefix("").unwrap().count(), 7);
    // No key comes after these: there is no end to look for.
    assert_eq!(kv.prefix(b"\xff").unwrap().count(), 2);
    assert_eq!(view.prefix_rev([255, 255]).unwrap().count(), 1);

    assert_eq!(keys(kv.range("a".."user:anna")), ["a", "user:"]);
    assert_eq!(
        keys(view.range("a"..="user:anna")),
        ["a", "user:", "user:anna"]
    );
    assert_eq!(
        keys(kv.range_rev(&b"user:ben"[..]..&b"v"[..])),
        ["user;", "user:ben"]
    );
    assert_eq!(keys(view.range_rev(..&b"user:"[..])), ["a"]);
    assert_eq!(keys(kv.range(..=String::from("user:"))), ["a", "user:"]);
    assert_eq!(
        keys(kv.range("b".."a")),
        [""; 0],
        "it ends before it begins"
    );
    let after = (Bound::Excluded("user:ben"), Bound::Included("user;"));
    assert_eq!(keys(view.range(after)), ["user;"]);
    kv.delete_range("user:".."user;").unwrap();
    assert_eq!(kv.range(..).unwrap().count(), 4);
}

/// A write by a writer.
type Write<'a> = &'a dyn Fn(crate::Writer<'_>) -> crate::Result<()>;

#[test]
fn write_options_hold_for_each_kind_of_write() {
    let env = SimEnv::new(1);
    let options = KvOptions {
        durability: Durability::None,
        ..options()
    };
    let kv = Kv::open_on(env.clone(), "/db", options).unwrap();
    // The first write makes a segment of the log, whose name is synced in the background.
    kv.put("first", "0").unwrap();
    env.run_until_idle();
    let syncs = || {
        env.trace()
            .iter()
            .filter(|line| line.contains(" sync "))
            .count()
    };
    let writes: [(&str, Write<'_>); 6] = [
        ("put", &|write| write.put("a", "1")),
        ("put_for", &|write| {
            write.put_for("b", "1", Duration::from_secs(60))
        }),
        ("merge", &|write| write.merge("a", "2")),
        ("delete", &|write| write.delete("b")),
        ("delete_range", &|write| write.delete_range("c"..)),
        ("write", &|write| {
            let mut batch = Batch::new();
            batch.put("c", "3")?;
            write.write(&batch)
        }),
    ];
    for (name, write) in writes {
        let before = syncs();
        write(kv.with(WriteOptions::new())).unwrap();
        assert_eq!(syncs(), before, "{name}: as of the opening");
        write(kv.with(WriteOptions::new().durability(Durability::Sync))).unwrap();
        assert!(syncs() > before, "{name}: synced");
    }
}
