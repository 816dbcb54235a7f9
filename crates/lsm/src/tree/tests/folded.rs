//! Reads of accumulators: what is folded is what a read of bytes gives, and is not serialised.

use super::*;
use crate::{FoldedValue, Merger};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU32;

type Set = BTreeSet<u8>;

impl Pair {
    /// Compares accumulators with the model, if the tree's merger is of [`Sets`] or of bytes.
    pub(super) fn check_folded(&self, snapshot: &TreeSnapshot, probe: &[u8]) {
        let model = &self.history[snapshot.position().0 as usize];
        let all = (Bound::Unbounded, Bound::Unbounded);
        let from_probe = (Bound::Included(probe), Bound::Excluded(&b"key/5"[..]));
        let Some(merger) = &self.tree.spec.merger else {
            let refused = snapshot.get_folded::<Sets>(probe).unwrap_err();
            return assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        };
        for (from, to) in [all, from_probe] {
            let inside = model
                .iter()
                .filter(|(key, _)| from == Bound::Unbounded || key.as_slice() >= probe);
            let inside =
                inside.filter(|(key, _)| to == Bound::Unbounded || key.as_slice() < &b"key/5"[..]);
            if merger.name() == "sets" {
                let expected = inside.map(|(key, value)| (key.clone(), set(value)));
                compare(snapshot, &Sets, from, to, expected.collect());
                let refused = snapshot.get_folded::<FoldBytes>(probe).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
                let mut scan = snapshot.scan(from, to).unwrap();
                let refused = scan.visit_folded::<FoldBytes, ()>(|_, _| ControlFlow::Continue(()));
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
            } else {
                // What begins an accumulator of bytes is the same of all of them.
                let merger = FoldBytes(Arc::new(Concat));
                let expected = inside.map(|(key, value)| (key.clone(), Some(value.clone())));
                compare(snapshot, &merger, from, to, expected.collect());
            }
        }
    }
}

fn set(value: &[u8]) -> Set {
    value.iter().copied().collect()
}

/// Compares gets and scans, in both directions, with what is expected from `from` to `to`.
fn compare<M: Merger<Accumulator: PartialEq + fmt::Debug>>(
    snapshot: &TreeSnapshot,
    merger: &M,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    mut expected: Vec<(Vec<u8>, M::Accumulator)>,
) {
    let folded = |mut scan: Scan| {
        let mut all = Vec::new();
        loop {
            let visited = scan.visit_folded::<M, ()>(|key, value| {
                let accumulator = value.into_accumulator(merger, key).unwrap();
                all.push((key.to_vec(), accumulator));
                match all.len().is_multiple_of(3) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            if visited.unwrap().is_continue() {
                return all;
            }
        }
    };
    for (key, value) in &expected {
        let found = snapshot.get_folded::<M>(key).unwrap();
        assert_eq!(found.as_ref(), Some(value));
    }
    assert!(
        snapshot
            .get_folded::<M>(b"no such key here")
            .unwrap()
            .is_none()
    );
    assert_eq!(folded(snapshot.scan(from, to).unwrap()), expected);
    expected.reverse();
    assert_eq!(folded(snapshot.scan_back(from, to).unwrap()), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn accumulators_agree_with_a_map_at_every_position_and_with_what_a_compaction_serialises(
        spec in any_spec(), steps in vec(any_step(), 1..60), probe in any_key(),
    ) {
        let mut pair = Pair::new(spec);
        for step in &steps {
            pair.step(step);
            pair.check_folded(&pair.tree.snapshot(pair.position()), &probe);
        }
        for snapshot in &pair.snapshots {
            pair.check_folded(snapshot, &probe);
        }
        let before = pair.tree.snapshot(pair.position());
        pair.step(&Step::Reopen);
        pair.step(&Step::Compact { full: true });
        // Nothing is left to fold: these are begun from the bytes that compactions wrote.
        pair.check_folded(&pair.tree.snapshot(pair.position()), &probe);
        pair.check_folded(&before, &probe);
    }
}

/// Counts what is serialised.
#[derive(Debug, Default)]
struct Counted {
    begun: AtomicU32,
    serialised: AtomicU32,
}

impl Merger for Counted {
    type Accumulator = Set;

    fn name(&self) -> &str {
        "counted"
    }

    fn begin(&self, key: &[u8], base: Option<&[u8]>) -> std::result::Result<Set, MergeError> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Sets.begin(key, base)
    }

    fn add(
        &self,
        key: &[u8],
        set: &mut Set,
        operand: &[u8],
    ) -> std::result::Result<(), MergeError> {
        match operand {
            b"!" => Err(MergeError("an exclamation mark".into())),
            operand => Sets.add(key, set, operand),
        }
    }

    fn is_nothing(&self, set: &Set) -> bool {
        Sets.is_nothing(set)
    }

    fn encode(
        &self,
        key: &[u8],
        set: &Set,
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), MergeError> {
        self.serialised.fetch_add(1, Ordering::Relaxed);
        Sets.encode(key, set, out)
    }

    fn combine(
        &self,
        key: &[u8],
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), MergeError> {
        self.serialised.fetch_add(1, Ordering::Relaxed);
        Merger::combine(&Sets, key, operands, out)
    }
}

/// A tree that counts, with a value at `a`, an operand over a value at `b`, three operands at `c`,
/// and one above a deleted range at `d`: in three runs and a memtable.
fn counted() -> (Pair, Arc<Counted>) {
    let counted = Arc::new(Counted::default());
    let spec = TreeSpec {
        merger: Some(Arc::clone(&counted) as _),
        compaction: Arc::new(Apart),
        ..spec()
    };
    let mut pair = Pair::new(spec);
    let put = |bytes: &[u8]| Write::Put(bytes.to_vec());
    let merge = |bytes: &[u8]| Write::Merge(bytes.to_vec());
    let key = |name: &str| name.as_bytes().to_vec();
    pair.write(&[
        (key("a"), put(&[9, 1])),
        (key("b"), put(&[1])),
        (key("d"), put(&[5])),
    ]);
    pair.step(&Step::Flush);
    pair.write(&[
        (key("c"), merge(&[1, 7, 1, 8])),
        (key("d"), Write::DeleteRange(key("e"))),
    ]);
    pair.step(&Step::Flush);
    pair.write(&[(key("c"), merge(&[0, 7])), (key("d"), merge(&[1, 6]))]);
    pair.step(&Step::Flush);
    pair.write(&[(key("b"), merge(&[1, 2])), (key("c"), merge(&[1, 3]))]);
    assert_eq!(pair.tree.stats().runs, 3);
    counted.begun.store(0, Ordering::Relaxed);
    counted.serialised.store(0, Ordering::Relaxed);
    (pair, counted)
}

#[test]
fn a_folded_read_serialises_nothing_and_shows_stored_values_where_they_lie() {
    let (pair, counted) = counted();
    let snapshot = pair.tree.snapshot(pair.position());
    let expected = [
        ("a", &[1, 9][..]),
        ("b", &[1, 2]),
        ("c", &[3, 8]),
        ("d", &[6]),
    ];
    for (key, bytes) in expected {
        let found = snapshot.get_folded::<Counted>(key.as_bytes()).unwrap();
        assert_eq!(found, Some(set(bytes)), "{key}");
    }
    assert_eq!(counted.begun.swap(0, Ordering::Relaxed), 4);
    let mut shown = Vec::new();
    let mut scan = snapshot.scan(Bound::Unbounded, Bound::Unbounded).unwrap();
    let visited: ControlFlow<()> = scan
        .visit_folded::<Counted, _>(|key, value| {
            shown.push(match value {
                FoldedValue::Stored(bytes) => (key.to_vec(), Err(bytes.to_vec())),
                FoldedValue::Folded(set) => (key.to_vec(), Ok(set)),
            });
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(visited.is_continue());
    let folded = |key: &str, bytes| (key.as_bytes().to_vec(), Ok(set(bytes)));
    assert_eq!(
        shown,
        [
            (b"a".to_vec(), Err(vec![9, 1])),
            folded("b", &[1, 2]),
            folded("c", &[3, 8]),
            folded("d", &[6]),
        ]
    );
    assert_eq!(
        counted.begun.load(Ordering::Relaxed),
        3,
        "each key is folded once"
    );
    assert_eq!(counted.serialised.load(Ordering::Relaxed), 0);
}

#[test]
fn a_merger_that_refuses_ends_a_folded_scan_with_its_error() {
    let (pair, _) = counted();
    let at = pair.position().next();
    pair.tree.freeze();
    pair.tree.write(b"b", at, Op::Merge(b"!")).unwrap();
    let snapshot = pair.tree.snapshot(at);
    let refused = snapshot.get_folded::<Counted>(b"b").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Merge);
    let mut scan = snapshot.scan(Bound::Unbounded, Bound::Unbounded).unwrap();
    let mut seen = 0;
    let mut visit = || {
        scan.visit_folded::<Counted, ()>(|_, _| {
            seen += 1;
            ControlFlow::Continue(())
        })
    };
    assert_eq!(visit().unwrap_err().kind(), ErrorKind::Merge);
    assert!(visit().unwrap().is_continue(), "it has ended");
    assert_eq!(seen, 1);
}

#[test]
fn an_accumulator_ends_with_the_deadline_of_the_value_below_it() {
    let env = SimEnv::new(1);
    let context = context(&env);
    let spec = TreeSpec {
        merger: Some(Arc::new(Sets)),
        compaction: Arc::new(Apart),
        ..spec()
    };
    let tree = Tree::open(spec, context, Vec::new()).unwrap();
    let now = wall_clock_micros(&*env);
    let timed = |until: u64| [&until.to_le_bytes()[..], &[4]].concat();
    let (soon, later) = (timed(now + 1_000_000), timed(now + 1_000_000_000));
    for (key, value) in [(b"a", &soon), (b"b", &later), (b"c", &soon)] {
        tree.write(key, Position(1), Op::PutUntil(value)).unwrap();
    }
    tree.freeze();
    let edit = tree.flush().unwrap().unwrap();
    tree.install(edit);
    for key in [b"a", b"b"] {
        tree.write(key, Position(2), Op::Merge(&[1, 5])).unwrap();
    }
    let shown = || {
        let snapshot = tree.snapshot(Position(2));
        let mut shown = Vec::new();
        let mut scan = snapshot.scan(Bound::Unbounded, Bound::Unbounded).unwrap();
        let visited = scan.visit_folded::<Sets, ()>(|key, value| {
            shown.push((key[0], value.into_accumulator(&Sets, key).unwrap()));
            ControlFlow::Continue(())
        });
        assert!(visited.unwrap().is_continue());
        for key in [b"a", b"b", b"c"] {
            let in_scan = shown.iter().find(|(shown, _)| *shown == key[0]);
            let found = snapshot.get_folded::<Sets>(key).unwrap();
            assert_eq!(found.as_ref(), in_scan.map(|(_, set)| set));
        }
        shown
    };
    let expected = [
        (b'a', set(&[4, 5])),
        (b'b', set(&[4, 5])),
        (b'c', set(&[4])),
    ];
    assert_eq!(shown(), expected);
    env.advance(std::time::Duration::from_secs(2));
    assert_eq!(shown(), expected[1..2]);
}
