use super::*;
use crate::FoldBytes;
use crate::entry_kind::EntryKind;
use crate::testing::Concat;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn folder() -> Folder {
    Folder {
        tree: "t".into(),
        merger: None,
    }
}

fn memtable() -> Arc<Memtable> {
    Arc::new(Memtable::new(&Budget::new(u64::MAX), Position(0)))
}

fn seen(memtable: &Arc<Memtable>, at: Position, from: &[u8]) -> Vec<(Vec<u8>, EntryKind, Vec<u8>)> {
    let mut cursor = memtable.cursor(at, Start::From(from));
    let mut all = Vec::new();
    while let (Some(key), Some(entry)) = (cursor.key(), cursor.entry()) {
        all.push((key.to_vec(), entry.kind, entry.value.to_vec()));
        cursor.advance();
    }
    all
}

fn get(memtable: &Memtable, key: &[u8], at: Position) -> Option<Entry> {
    let mut found = Found::default();
    memtable.find(key, table::hash(key), at, &mut found);
    found.into_entry(&folder(), key).unwrap()
}

fn concat() -> Folder {
    Folder {
        tree: "t".into(),
        merger: Some(FoldBytes::shared(Concat)),
    }
}

proptest! {
    #[test]
    fn operands_are_a_few_at_every_position_and_make_what_was_written_up_to_it(
        operands in vec((0u8..3, 0usize..200), 1..120),
    ) {
        let (memtable, folder) = (memtable(), concat());
        let mut model = BTreeMap::<u8, Vec<u8>>::new();
        let mut history = vec![model.clone()];
        for (at, (key, length)) in operands.iter().enumerate() {
            // `Concat` refuses some bytes, all of them greater.
            let operand = vec![at as u8 % 32; *length];
            let position = Position(at as u64 + 1);
            memtable.write(&folder, &[*key], position, Op::Merge(&operand)).unwrap();
            model.entry(*key).or_default().extend(operand);
            history.push(model.clone());
        }
        for (position, model) in history.iter().enumerate().step_by(5) {
            let at = Position(position as u64);
            let mut cursor = memtable.cursor(at, Start::FIRST);
            let mut seen = BTreeMap::new();
            while let Some(key) = cursor.key().map(<[u8]>::to_vec) {
                let mut stack = Stack::default();
                prop_assert!(!cursor.push_to(&mut stack), "older places count");
                let folded = folder.encode(&key, stack, false).unwrap();
                prop_assert_eq!(folded.kind, EntryKind::Merge);
                seen.insert(key[0], folded.value.to_vec());
                cursor.advance();
            }
            prop_assert_eq!(&seen, model);
            for (key, expected) in model {
                let mut found = Found::default();
                memtable.find(&[*key], table::hash(&[*key]), at, &mut found);
                prop_assert!(found.count() <= 12, "{} operands", found.count());
                let folded = found.into_entry(&folder, &[*key]).unwrap().unwrap();
                prop_assert_eq!(folded.kind, EntryKind::Put);
                prop_assert_eq!(&*folded.value, expected.as_slice());
            }
        }
    }

    #[test] // A reader finds what another has sorted of the keys, of some moment before.
    fn readers_between_writes_see_every_key_in_order(
        keys in vec((any::<u16>(), 0u8..12), 1..900),
    ) {
        let (memtable, folder) = (memtable(), folder());
        let mut model = BTreeMap::new();
        for (index, (key, read)) in keys.iter().enumerate() {
            let at = Position(index as u64 + 1);
            let key = key.to_be_bytes();
            memtable.write(&folder, &key, at, Op::Put(&[])).unwrap();
            model.insert(key.to_vec(), ());
            if *read == 0 {
                let keys = seen(&memtable, at, &key).into_iter().map(|(key, ..)| key);
                let expected = model.range(key.to_vec()..).map(|(key, ())| key.clone());
                prop_assert!(keys.eq(expected), "after {} keys", index + 1);
            }
        }
    }

    #[test]
    fn writes_at_once_are_what_they_are_one_by_one(
        batches in vec(
            vec((vec(0u8..4, 1..4), 0u8..3, vec(0u8..32, 0..90)), 0..40), 1..6,
        ),
    ) {
        let (folder, at_once, one_by_one) = (concat(), memtable(), memtable());
        for (at, batch) in (1..).map(Position).zip(&batches) {
            let ops: Vec<_> = batch
                .iter()
                .map(|(key, kind, value)| match kind {
                    0 => (key.as_slice(), Op::Put(value)),
                    1 => (key.as_slice(), Op::Delete),
                    _ => (key.as_slice(), Op::Merge(value)),
                })
                .collect();
            at_once.write_all(&folder, at, &ops).unwrap();
            for (key, op) in ops {
                one_by_one.write(&folder, key, at, op).unwrap();
            }
        }
        for at in (0..=batches.len() as u64).map(Position) {
            prop_assert_eq!(seen(&at_once, at, &[]), seen(&one_by_one, at, &[]));
        }
        prop_assert_eq!(at_once.bytes(), one_by_one.bytes());
    }

    #[test]
    fn every_position_sees_what_was_written_up_to_it(
        writes in vec(
            (vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 1..11), any::<bool>()),
            1..200,
        ),
    ) {
        let (memtable, folder) = (memtable(), folder());
        let mut model = BTreeMap::new();
        let mut history = vec![model.clone()];
        for (index, (key, put)) in writes.iter().enumerate() {
            let value = index.to_le_bytes();
            let op = if *put { Op::Put(&value) } else { Op::Delete };
            memtable.write(&folder, key, Position(index as u64 + 1), op).unwrap();
            let entry = match put {
                true => (EntryKind::Put, value.to_vec()),
                false => (EntryKind::Delete, vec![]),
            };
            model.insert(key.clone(), entry);
            history.push(model.clone());
        }
        for (position, model) in history.iter().enumerate().step_by(7) {
            let at = Position(position as u64);
            let from = writes[position % writes.len()].0.as_slice();
            let expected: Vec<_> =
                model
                    .range(from.to_vec()..)
                    .map(|(key, (kind, value))| (key.clone(), *kind, value.clone()))
                    .collect();
            prop_assert_eq!(seen(&memtable, at, from), expected);
            for (key, _) in &writes {
                let found = get(&memtable, key, at);
                let found = found.map(|entry| (entry.kind, entry.value.to_vec()));
                prop_assert_eq!(found, model.get(key).cloned());
            }
        }
    }
}

/// Of more keys than the largest chunks make one of.
#[test]
fn the_keys_of_a_large_memtable_come_in_order_and_each_is_found() {
    const KEYS: u64 = 17 * 65_536 + 300;
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let (memtable, folder) = (memtable(), folder());
    for number in 0..KEYS {
        let value = number.to_le_bytes();
        let written = memtable.write(&folder, &key(number), Position(1), Op::Put(&value));
        written.unwrap();
    }
    let mut keys: Vec<_> = (0..KEYS).map(key).collect();
    keys.sort_unstable();
    let mut cursor = memtable.cursor(Position(1), Start::FIRST);
    for expected in &keys {
        assert_eq!(cursor.key(), Some(&expected[..]));
        cursor.advance();
    }
    assert_eq!(cursor.key(), None);
    for number in (0..KEYS).step_by(97) {
        let key = key(number);
        let entry = get(&memtable, &key, Position(1)).unwrap();
        assert_eq!(*entry.value, number.to_le_bytes());
    }
}

#[test]
fn a_position_that_goes_back_is_refused_and_the_same_one_replaces() {
    let (memtable, folder) = (memtable(), folder());
    memtable
        .write(&folder, b"k", Position(5), Op::Put(b"a"))
        .unwrap();
    memtable
        .write(&folder, b"k", Position(5), Op::Put(b"b"))
        .unwrap();
    assert!(
        memtable
            .write(&folder, b"k", Position(4), Op::Delete)
            .is_err()
    );
    assert_eq!(
        get(&memtable, b"k", Position(5)).unwrap().value.as_ref(),
        b"b"
    );
    assert_eq!(get(&memtable, b"k", Position(4)), None);
    assert_eq!(memtable.newest(), Position(5));
}

#[test]
fn memory_is_charged_while_anyone_holds_the_memtable_and_given_back_after() {
    let budget = Budget::new(1 << 20);
    let memtable = Arc::new(Memtable::new(&budget, Position(0)));
    assert_eq!(budget.used(), 0);
    for number in 0..1000u64 {
        memtable
            .write(
                &folder(),
                &number.to_be_bytes(),
                Position(number),
                Op::Put(&[0; 100]),
            )
            .unwrap();
    }
    assert!(
        memtable.bytes() > 1000 * (8 + 100) && memtable.bytes() < 1000 * (8 + 100 + 200),
        "{}",
        memtable.bytes()
    );
    assert!(budget.used() >= memtable.bytes() && budget.used() < memtable.bytes() + CHARGE_STEP);
    let cursor = memtable.cursor(Position(3), Start::FIRST);
    drop(memtable);
    assert!(budget.used() > 0);
    drop(cursor);
    assert_eq!(budget.used(), 0);
}

/// Every value is a number written eight times over, and is its own position: half a write would
/// show.
#[test]
// Plain threads: the memtable alone is under test, without a machine around it.
#[allow(clippy::disallowed_methods)]
fn readers_beside_the_writer_see_whole_writes_up_to_their_position() {
    const WRITES: u64 = 30_000;
    let memtable = memtable();
    let published = Arc::new(AtomicU64::new(0));
    let readers: Vec<_> = (0..3u64)
        .map(|reader| {
            let (memtable, published) = (Arc::clone(&memtable), Arc::clone(&published));
            std::thread::spawn(move || {
                let mut looks = 0u64;
                loop {
                    let at = published.load(Ordering::Acquire);
                    let mut last: Option<Vec<u8>> = None;
                    let mut newest = 0;
                    for (key, kind, value) in
                        seen(&memtable, Position(at), &(reader * 50).to_be_bytes())
                    {
                        assert!(last.as_ref().is_none_or(|last| *last < key), "keys ascend");
                        let position = u64::from_le_bytes(value[..8].try_into().unwrap());
                        assert_eq!((kind, value.len()), (EntryKind::Put, 64));
                        assert!(
                            value.chunks(8).all(|chunk| chunk == &value[..8]),
                            "a value is whole"
                        );
                        assert!(position <= at, "nothing from after the position");
                        newest = newest.max(position);
                        last = Some(key);
                    }
                    if reader == 0 {
                        assert_eq!(newest, at, "everything up to the position");
                    }
                    looks += 1;
                    if at == WRITES {
                        return looks;
                    }
                }
            })
        })
        .collect();
    for position in 1..=WRITES {
        let key = (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 500).to_be_bytes();
        let value = position.to_le_bytes().repeat(8);
        memtable
            .write(&folder(), &key, Position(position), Op::Put(&value))
            .unwrap();
        published.store(position, Ordering::Release);
    }
    for reader in readers {
        assert!(reader.join().unwrap() > 0);
    }
}
