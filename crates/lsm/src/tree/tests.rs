use super::*;
use crate::testing::{Concat, Sets, Sum, any_codec, context, number};
use crate::{
    BlockCodec, CompactionPolicy, DynMerger, ErrorKind, FoldBytes, KEY_BYTES_MAX, MergeError,
    SmallBytes, verify_table,
};
use proptest::collection::vec;
use proptest::prelude::*;
use quire_env::{FileId, SimEnv};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, ControlFlow, Range};

mod faults;
mod folded;
mod model;
mod ranges;
mod readers;
mod steps;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a test writes; `Op` with bytes of its own.
#[derive(Debug, Clone)]
enum Write {
    Put(Vec<u8>),
    Delete,
    Merge(Vec<u8>),
    DeleteRange(Vec<u8>),
}

impl Write {
    fn op(&self) -> Op<'_> {
        match self {
            Write::Put(value) => Op::Put(value),
            Write::Delete => Op::Delete,
            Write::Merge(operand) => Op::Merge(operand),
            Write::DeleteRange(to) => Op::DeleteRange(to),
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// One record: writes at one position.
    Record(Vec<(Vec<u8>, Write)>),
    Freeze,
    Flush,
    AbandonFlush,
    Compact {
        full: bool,
    },
    StopCompaction,
    /// Makes an edit and keeps it, to be installed later.
    StartFlush,
    StartCompaction,
    InstallHeld,
    /// Keeps a snapshot, this many positions back if that can still be seen.
    Snapshot(u64),
    DropSnapshot(usize),
    Reopen,
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0u8..8).prop_map(|n| format!("key/{n}").into_bytes()),
        2 => vec(0u8..3, 1..4),
        1 => vec(any::<u8>(), 1..20),
    ]
}

fn any_write() -> impl Strategy<Value = Write> {
    let bytes = || {
        vec(
            any::<u8>().prop_filter("Concat refuses it", |byte| *byte != b'!'),
            0..12,
        )
    };
    prop_oneof![
        3 => bytes().prop_map(Write::Put),
        2 => Just(Write::Delete),
        3 => bytes().prop_map(Write::Merge),
        1 => prop_oneof![6 => any_key(), 1 => Just(vec![])].prop_map(Write::DeleteRange),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => vec((any_key(), any_write()), 1..4).prop_map(Step::Record),
        2 => Just(Step::Freeze),
        3 => Just(Step::Flush),
        1 => Just(Step::AbandonFlush),
        2 => Just(Step::Compact { full: false }),
        1 => Just(Step::Compact { full: true }),
        1 => Just(Step::StopCompaction),
        1 => Just(Step::StartFlush),
        1 => Just(Step::StartCompaction),
        2 => Just(Step::InstallHeld),
        2 => (0u64..5).prop_map(Step::Snapshot),
        1 => any::<usize>().prop_map(Step::DropSnapshot),
        1 => Just(Step::Reopen),
    ]
}

fn any_spec() -> impl Strategy<Value = TreeSpec> {
    let merger = prop_oneof![
        Just(Some(FoldBytes::shared(Concat))),
        Just(Some(FoldBytes::shared(Sum))),
        Just(Some(Arc::new(Sets) as Arc<dyn DynMerger>)),
        Just(None)
    ];
    let block_bytes = prop_oneof![Just(1usize), Just(60), Just(4096)];
    let table_bytes_max = prop_oneof![Just(1u64), Just(400), Just(64 << 20)];
    (
        merger,
        block_bytes,
        table_bytes_max,
        any_codec(),
        any::<bool>(),
        prop_oneof![Just(0u32), Just(10)],
    )
        .prop_map(
            |(merger, block_bytes, table_bytes_max, codec, mapped, filter_bits_per_key)| TreeSpec {
                merger,
                block_bytes,
                table_bytes_max,
                codec,
                mapped,
                filter_bits_per_key,
                ..TreeSpec::new(1, "t")
            },
        )
}

/// A tree beside a map for every position.
struct Pair {
    context: TreeContext,
    tree: Tree,
    history: Vec<Model>,
    snapshots: Vec<TreeSnapshot>,
    held: Vec<TreeEdit>,
    /// What the manifest would say when the tree was opened last: nothing before it can be seen.
    opened_at: Position,
}

impl Pair {
    fn new(spec: TreeSpec) -> Pair {
        Pair::on(&SimEnv::new(1), spec)
    }

    fn on(env: &Arc<SimEnv>, spec: TreeSpec) -> Pair {
        let context = context(env);
        let tree = Tree::open(spec, context.clone(), Vec::new()).unwrap();
        Pair {
            context,
            tree,
            history: vec![Model::new()],
            snapshots: Vec::new(),
            held: Vec::new(),
            opened_at: Position(0),
        }
    }

    fn position(&self) -> Position {
        Position(self.history.len() as u64 - 1)
    }

    fn write(&mut self, record: &[(Vec<u8>, Write)]) {
        let mut model = self.history.last().unwrap().clone();
        for (key, write) in record {
            let written = self.tree.write(key, self.position().next(), write.op());
            match (write, &self.tree.spec.merger) {
                (Write::Put(value), _) => drop(model.insert(key.clone(), value.clone())),
                (Write::Delete, _) => drop(model.remove(key)),
                (Write::DeleteRange(to), _) => {
                    model.retain(|each, _| each < key || (!to.is_empty() && each >= to));
                }
                (Write::Merge(operand), Some(merger)) => {
                    let mut out = Vec::new();
                    let before = model.get(key).map(Vec::as_slice);
                    match merger.fold(key, before, &[operand], &mut out).unwrap() {
                        true => drop(model.insert(key.clone(), out)),
                        false => drop(model.remove(key)),
                    }
                }
                (Write::Merge(_), None) => {
                    assert_eq!(written.unwrap_err().kind(), ErrorKind::InvalidArgument);
                    continue;
                }
            }
            written.unwrap();
        }
        self.history.push(model);
    }

    /// What the store does: the manifest would be written between preview and install.
    fn install(&self, edit: TreeEdit) {
        let preview = self.tree.preview(&edit);
        self.tree.install(edit);
        assert_eq!(self.tree.runs(), preview);
    }

    /// Does one step of a compaction.
    fn compact(&self, picked: Compaction) {
        let edit = self.tree.compact(picked, &|| false).unwrap().unwrap();
        self.install(edit);
    }

    fn finish_compactions(&self) {
        while let Some(picked) = self.tree.unfinished_compaction() {
            self.compact(picked);
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Record(record) => self.write(record),
            Step::Freeze => {
                self.tree.freeze();
                assert_eq!(self.tree.memtable_bytes(), 0);
            }
            Step::Flush => {
                self.tree.freeze();
                if let Some(edit) = self.tree.flush().unwrap() {
                    self.install(edit);
                    assert_eq!(self.tree.frozen_bytes(), 0);
                }
            }
            Step::AbandonFlush => {
                self.tree.freeze();
                let before = self.context.files.list().unwrap();
                if let Some(edit) = self.tree.flush().unwrap() {
                    self.tree.abandon(edit);
                    assert_eq!(self.context.files.list().unwrap(), before);
                }
            }
            Step::Compact { full: false } => {
                if let Some(picked) = self.tree.pick_compaction() {
                    self.compact(picked);
                }
            }
            Step::Compact { full: true } => {
                self.finish_compactions();
                if let Some(picked) = self.tree.full_compaction() {
                    self.compact(picked);
                    self.finish_compactions();
                    let stats = self.tree.stats();
                    let left = stats.tombstones + stats.range_tombstones;
                    assert!(stats.runs <= 1 && left == 0, "{stats:?}");
                }
            }
            Step::StopCompaction => {
                let before = self.context.files.list().unwrap();
                if let Some(picked) = self.tree.full_compaction() {
                    assert!(self.tree.compact(picked, &|| true).unwrap().is_none());
                }
                assert_eq!(self.context.files.list().unwrap(), before);
            }
            Step::StartFlush => {
                self.tree.freeze();
                self.held.extend(self.tree.flush().unwrap());
            }
            Step::StartCompaction => {
                if let Some(picked) = self.tree.pick_compaction() {
                    self.held
                        .extend(self.tree.compact(picked, &|| false).unwrap());
                }
            }
            Step::InstallHeld => {
                if let Some(edit) = self.held.pop() {
                    self.install(edit);
                }
            }
            Step::Snapshot(back) => {
                let at = Position(self.position().0.saturating_sub(*back));
                let snapshot = self.tree.snapshot(at);
                if snapshot.flushed().max(self.opened_at) <= at {
                    self.snapshots.push(snapshot);
                }
            }
            Step::DropSnapshot(index) => {
                if !self.snapshots.is_empty() {
                    self.snapshots.swap_remove(index % self.snapshots.len());
                }
            }
            Step::Reopen => {
                while let Some(edit) = self.held.pop() {
                    self.install(edit);
                }
                self.step(&Step::Flush);
                let runs = self.tree.runs();
                self.opened_at = self.position();
                self.tree =
                    Tree::open(self.tree.spec.clone(), self.context.clone(), runs.clone()).unwrap();
                assert_eq!(self.tree.runs(), runs);
            }
        }
    }

    fn check(&self, snapshot: &TreeSnapshot, probe: &[u8]) {
        let model = &self.history[snapshot.position().0 as usize];
        let all: Vec<_> = model
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let mut keys: Vec<_> = self
            .history
            .iter()
            .flat_map(BTreeMap::keys)
            .map(Vec::as_slice)
            .collect();
        keys.extend([probe, b"", b"key/"]);
        keys.sort_unstable();
        keys.dedup();
        keys.reverse();
        let expected: Vec<_> = keys
            .iter()
            .map(|key| model.get(*key).cloned().map(SmallBytes::from))
            .collect();
        assert_eq!(snapshot.get_many(&keys).unwrap(), expected);
        for (from, to) in [
            (Bound::Unbounded, Bound::Unbounded),
            (Bound::Included(probe), Bound::Unbounded),
            (Bound::Excluded(probe), Bound::Excluded(b"key/4".as_slice())),
            (Bound::Excluded(b"key/2".as_slice()), Bound::Included(probe)),
            (
                Bound::Included(b"key/2".as_slice()),
                Bound::Included(b"key/5".as_slice()),
            ),
        ] {
            let inside = |key: &Vec<u8>| {
                (match from {
                    Bound::Included(from) => key.as_slice() >= from,
                    Bound::Excluded(from) => key.as_slice() > from,
                    Bound::Unbounded => true,
                }) && (match to {
                    Bound::Included(to) => key.as_slice() <= to,
                    Bound::Excluded(to) => key.as_slice() < to,
                    Bound::Unbounded => true,
                })
            };
            let mut expected: Vec<_> = all.iter().filter(|(key, _)| inside(key)).cloned().collect();
            assert_eq!(scan(snapshot, from, to), expected);
            assert_eq!(visited(snapshot.scan(from, to).unwrap()), expected);
            expected.reverse();
            assert_eq!(visited(snapshot.scan_back(from, to).unwrap()), expected);
        }
    }

    fn check_now(&self) {
        self.check(&self.tree.snapshot(self.position()), b"key/3");
    }

    fn run_files(&self) -> Vec<FileId> {
        let mut files: Vec<_> = self
            .tree
            .runs()
            .iter()
            .flat_map(|run| &run.tables)
            .map(|table| table.file)
            .collect();
        files.sort_unstable();
        files
    }
}

fn scan(snapshot: &TreeSnapshot, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let read = |scan: Scan| -> Vec<_> {
        let pairs = scan.map(Result::unwrap);
        pairs
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect()
    };
    let ascending = read(snapshot.scan(from, to).unwrap());
    let mut descending = read(snapshot.scan_back(from, to).unwrap());
    descending.reverse();
    assert_eq!(ascending, descending);
    ascending
}

/// What a scan hands over, which is broken off after every third pair.
fn visited(mut scan: Scan) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    loop {
        let visit = scan.visit(|key, value| {
            all.push((key.to_vec(), value.to_vec()));
            match all.len().is_multiple_of(3) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        if visit.unwrap().is_continue() {
            return all;
        }
    }
}

fn spec() -> TreeSpec {
    let merger = FoldBytes::shared(Concat);
    TreeSpec {
        merger: Some(merger),
        block_bytes: 60,
        table_bytes_max: 150,
        ..TreeSpec::new(1, "t")
    }
}

/// Writes 60 keys in four records' worth of kinds, and deletes some of them by a range half way.
fn fill(pair: &mut Pair, round: u32) {
    for number in 0..60u32 {
        let key = format!("key/{:03}", number * (round + 1) % 60).into_bytes();
        let write = match number % 4 {
            0 => Write::Delete,
            1 => Write::Merge(format!("+{round}").into_bytes()),
            _ => Write::Put(format!("value {round} of {number}").into_bytes()),
        };
        pair.write(&[(key, write)]);
        if number == 30 {
            let range = Write::DeleteRange(format!("key/0{}", 20 + round).into_bytes());
            pair.write(&[(b"key/010".to_vec(), range)]);
        }
    }
}

/// Leaves runs as they are.
#[derive(Debug)]
struct Apart;

impl CompactionPolicy for Apart {
    fn pick(&self, _: &[u64]) -> Option<Range<usize>> {
        None
    }
}

/// A machine on which a tree has two runs and a frozen memtable; what is done to it next is what is
/// tested.
fn prepared(env: &Arc<SimEnv>) -> Pair {
    let spec = TreeSpec {
        compaction: Arc::new(Apart),
        ..spec()
    };
    let mut pair = Pair::on(env, spec);
    for round in 0..2 {
        fill(&mut pair, round);
        pair.step(&Step::Flush);
    }
    fill(&mut pair, 2);
    pair.tree.freeze();
    pair
}

fn flush(tree: &Tree) -> Result<Option<TreeEdit>> {
    tree.flush()
}

/// A step of a full compaction, or of one that is not finished.
fn compact(tree: &Tree) -> Result<Option<TreeEdit>> {
    let picked = tree.unfinished_compaction();
    match picked.or_else(|| tree.full_compaction()) {
        Some(picked) => tree.compact(picked, &|| false),
        None => Ok(None),
    }
}

#[test]
fn replaced_files_go_when_the_last_snapshot_that_holds_them_does() {
    let env = SimEnv::new(1);
    let mut pair = prepared(&env);
    let old = pair.run_files();
    let snapshot = pair.tree.snapshot(pair.position());
    let mut scan = snapshot.scan(Bound::Unbounded, Bound::Unbounded).unwrap();
    let first = scan.next().unwrap().unwrap();
    assert_eq!(
        *first.0,
        **pair.history.last().unwrap().keys().next().unwrap()
    );
    pair.step(&Step::Compact { full: true });
    let all = pair.context.files.list().unwrap();
    assert!(old.iter().all(|file| all.contains(file)));
    pair.check(&snapshot, b"key/010");
    drop(snapshot);
    assert_eq!(
        pair.context.files.list().unwrap(),
        all,
        "the scan holds them too"
    );
    assert_eq!(
        scan.by_ref().count() + 1,
        pair.history.last().unwrap().len()
    );
    assert_eq!(
        pair.context.files.list().unwrap(),
        pair.run_files(),
        "a scan at its end releases them"
    );
    assert!(old.iter().all(|file| !pair.run_files().contains(file)));
}

#[test]
fn a_flush_is_written_as_one_with_runs_of_its_size_and_not_held_up_by_a_damaged_one() {
    let env = SimEnv::new(5);
    let mut pair = Pair::on(&env, spec());
    // Each of these rounds writes all 60 keys.
    let mut flush = |round| {
        fill(&mut pair, round);
        pair.tree.freeze();
        pair.install(pair.tree.flush().unwrap().unwrap());
        pair.check_now();
        pair.tree.runs().len()
    };
    assert_eq!([flush(0), flush(6)], [1, 1]);
    let file = env.files().pop().unwrap();
    for byte in 20..60 {
        env.flip_bit(&file, 8 * byte).unwrap();
    }
    fill(&mut pair, 10);
    pair.tree.freeze();
    pair.install(pair.tree.flush().unwrap().unwrap());
    assert_eq!(pair.tree.runs().len(), 2, "the damaged run stays as it is");
}

#[test]
fn keys_and_values_past_the_limits_are_refused_and_those_at_the_limits_are_kept() {
    let env = SimEnv::new(1);
    let pair = Pair { ..prepared(&env) };
    let at = pair.position().next();
    let refused = |key: &[u8], op| pair.tree.write(key, at, op).unwrap_err().kind();
    assert_eq!(refused(b"", Op::Delete), ErrorKind::InvalidArgument);
    assert_eq!(
        refused(&vec![1; KEY_BYTES_MAX + 1], Op::Delete),
        ErrorKind::TooLarge
    );
    pair.tree.write(b"n", at, Op::Delete).unwrap();
    let longest = vec![1; crate::VALUE_BYTES_MAX + 1];
    assert_eq!(refused(b"k", Op::Put(&longest)), ErrorKind::TooLarge);
    assert_eq!(refused(b"k", Op::Merge(&longest)), ErrorKind::TooLarge);
    assert_eq!(refused(b"n", Op::Merge(b"!")), ErrorKind::Merge);
    pair.check_now();

    let key = vec![2; KEY_BYTES_MAX];
    pair.tree.write(&key, at, Op::Put(&longest[1..])).unwrap();
    assert_eq!(
        refused(&key, Op::Merge(b"+")),
        ErrorKind::TooLarge,
        "a fold that would be too long"
    );
    pair.tree.freeze();
    pair.install(pair.tree.flush().unwrap().unwrap());
    let found = pair.tree.snapshot(at).get(&key).unwrap().unwrap();
    assert!(
        *found == longest[1..],
        "the longest value under the longest key"
    );
}

#[test]
fn specs_and_runs_that_make_no_sense_are_refused() {
    let env = SimEnv::new(1);
    let pair = prepared(&env);
    let open = |spec, runs| {
        Tree::open(spec, pair.context.clone(), runs)
            .expect_err("no sense")
            .kind()
    };
    assert_eq!(
        open(
            TreeSpec {
                block_bytes: 0,
                ..spec()
            },
            vec![]
        ),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        open(
            TreeSpec {
                filter_bits_per_key: 65,
                ..spec()
            },
            vec![]
        ),
        ErrorKind::InvalidArgument
    );
    for table_bytes_max in [0, (2 << 30) + 1] {
        let spec = TreeSpec {
            table_bytes_max,
            ..spec()
        };
        assert_eq!(open(spec, vec![]), ErrorKind::InvalidArgument);
    }
    let mut runs = pair.tree.runs();
    runs[0].tables.reverse();
    assert_eq!(open(spec(), runs), ErrorKind::InvalidArgument);
    // A run of which another has a part: the one below has more than that, or begins elsewhere, or
    // there is none.
    for cuts in [
        [b"key/010", b""],
        [b"key/010", b"key/011"],
        [b"key/010", b"key/010"],
    ] as [[&[u8]; 2]; 3]
    {
        let mut runs = pair.tree.runs();
        for (run, from) in runs.iter_mut().zip(cuts) {
            run.from = from.to_vec();
        }
        assert_eq!(open(spec(), runs), ErrorKind::InvalidArgument);
    }
    let missing = pair.run_files()[0];
    pair.context.files.remove(missing).unwrap();
    assert_eq!(
        open(spec(), pair.tree.runs()),
        ErrorKind::Env(quire_env::ErrorKind::NotFound)
    );
}

#[test]
fn filters_keep_reads_of_absent_keys_from_the_disk() {
    let env = SimEnv::new(1);
    let pair = prepared(&env);
    let snapshot = pair.tree.snapshot(pair.position());
    assert_eq!(snapshot.get(b"key/000x").unwrap(), None);
    let before = pair.tree.stats();
    assert_eq!(before.filter_checks, 0, "no page is in memory");
    assert!(env.run_until_idle() > 0, "which was noticed");
    for number in 0..1000 {
        assert_eq!(
            snapshot
                .get(format!("key/{number:03}x").as_bytes())
                .unwrap(),
            None
        );
    }
    let stats = pair.tree.stats();
    assert!(
        stats.filter_checks > 50 && stats.filter_negatives > stats.filter_checks * 9 / 10,
        "{stats:?}"
    );
    assert_eq!(
        (stats.runs, stats.tables, stats.frozen_bytes > 0),
        (2, pair.run_files().len() as u64, true)
    );
}

#[test]
fn a_snapshot_says_what_it_alone_holds_of_memtables() {
    let env = SimEnv::new(1);
    let pair = prepared(&env);
    let before = pair.tree.snapshot(pair.position());
    assert_eq!(before.held_bytes(), 0, "the tree reads them too");
    let frozen = pair.tree.frozen_bytes();
    let edit = flush(&pair.tree).unwrap().unwrap();
    drop(pair.tree.install(edit));
    assert!(before.held_bytes() >= frozen && frozen > 0);
    assert_eq!(pair.tree.snapshot(pair.position()).held_bytes(), 0);
}

#[test]
fn names_taken_by_orphans_are_passed_over() {
    let env = SimEnv::new(1);
    let context = context(&env);
    let (first, _) = context.files.create(None, &[], None).unwrap();
    let again = crate::TableFiles::new(
        Arc::clone(&context.env),
        quire_env::Volumes::single("/db"),
        "t".into(),
        first.number,
    );
    let (second, _) = again.create(None, &[], None).unwrap();
    assert_eq!(
        (second.number, again.next_number()),
        (first.number + 1, first.number + 2)
    );
    assert_eq!(again.list().unwrap(), [first, second]);
}
