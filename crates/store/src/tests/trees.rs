//! Trees that are added to a store with records, built, followed and dropped: with a crash and a
//! fault at every step.

use super::*;
use crate::follow::UNREAD_FOLLOWS;
use crate::{BaseView, DerivedTrees, Difference, TreeBatch, TreeState, View};
use quire_env::{Budget, ReadFault};
use quire_seeded::{Bug, assert_each_is_found};
use std::sync::atomic::{AtomicU64, Ordering};

/// Count of a word (big-endian), then the word → its last position.
pub(super) const BY_COUNT: TreeId = TreeId(10);
/// Count (big-endian) → how many words have it.
pub(super) const TOTALS: TreeId = TreeId(11);
/// The tree of [`Empty`].
const EMPTY: TreeId = TreeId(12);

/// A part of building, and of following, is this number of words.
const PART: usize = 2;

/// Adds numbers that wrap: an operand that is written twice, or not at all, shows.
#[derive(Debug)]
struct Sum;

impl BytesMerger for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn apply(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operand: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        let base = base.map_or(Ok(0), number)?;
        out.extend_from_slice(&base.wrapping_add(number(operand)?).to_le_bytes());
        Ok(())
    }

    fn combine(
        &self,
        key: &[u8],
        older: &[u8],
        newer: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        self.apply(key, Some(older), newer, out)
    }
}

/// Words by their counts: an index of the trees of [`Words`].
#[derive(Debug)]
pub(super) struct ByCount;

fn entry(view: &BaseView, word: &[u8]) -> crate::Result<Option<(u64, u64)>> {
    let get = |tree| -> crate::Result<_> {
        let found = view.tree(tree)?.get(word)?;
        Ok(found.map(|found| number(&found).unwrap()))
    };
    Ok(get(COUNTS)?.zip(get(LAST)?))
}

fn by_count(count: u64, word: &[u8]) -> Vec<u8> {
    [&count.to_be_bytes(), word].concat()
}

impl ByCount {
    fn add(batch: &mut TreeBatch, word: &[u8], (count, last): (u64, u64)) {
        batch.put(BY_COUNT, &by_count(count, word), &last.to_le_bytes());
        batch.merge(TOTALS, &count.to_be_bytes(), &1u64.to_le_bytes());
    }

    fn remove(batch: &mut TreeBatch, word: &[u8], (count, _): (u64, u64)) {
        batch.delete(BY_COUNT, &by_count(count, word));
        batch.merge(TOTALS, &count.to_be_bytes(), &u64::MAX.to_le_bytes());
    }
}

impl DerivedTrees for ByCount {
    fn trees(&self) -> Vec<TreeSpec> {
        let totals = TreeSpec {
            merger: Some(FoldBytes::shared(Sum)),
            ..TreeSpec::new(TOTALS.0, "totals")
        };
        vec![TreeSpec::new(BY_COUNT.0, "by count"), totals]
    }

    /// The cursor is the last word that was built.
    fn build(
        &self,
        view: &BaseView,
        cursor: &[u8],
        batch: &mut TreeBatch,
    ) -> crate::Result<Option<Vec<u8>>> {
        let mut last = None;
        let words = view.tree(COUNTS)?;
        for item in words
            .scan(Bound::Excluded(cursor), Bound::Unbounded)?
            .take(PART)
        {
            let (word, _) = item?;
            let found = entry(view, &word)?.expect("a word of one tree is in the other");
            ByCount::add(batch, &word, found);
            last = Some(word.to_vec());
        }
        Ok(last)
    }

    fn follow(
        &self,
        difference: &Difference<'_>,
        from: Position,
        batch: &mut TreeBatch,
    ) -> crate::Result<Option<Position>> {
        // Each word at its last record.
        let mut changed = BTreeMap::new();
        for item in difference.records(Position(0)) {
            let (position, record) = item?;
            let word = record.strip_prefix(b"!").unwrap_or(&record).to_vec();
            changed.insert(word, position);
        }
        let changed = changed.into_iter().map(|(word, position)| (position, word));
        let changed: BTreeMap<_, _> = changed.collect();
        let mut rest = changed.range(from..);
        for (_, word) in rest.by_ref().take(PART) {
            if difference.built.is_some_and(|built| &**word > built) {
                continue;
            }
            if let Some(old) = entry(difference.old, word)? {
                ByCount::remove(batch, word, old);
            }
            if let Some(new) = entry(difference.new, word)? {
                ByCount::add(batch, word, new);
            }
        }
        Ok(rest.next().map(|(position, _)| *position))
    }
}

/// [`ByCount`], and the most memory that was taken while it was built.
#[derive(Debug)]
struct Watched {
    budget: Arc<Budget>,
    most: AtomicU64,
}

impl DerivedTrees for Watched {
    fn trees(&self) -> Vec<TreeSpec> {
        ByCount.trees()
    }

    fn build(
        &self,
        view: &BaseView,
        cursor: &[u8],
        batch: &mut TreeBatch,
    ) -> crate::Result<Option<Vec<u8>>> {
        self.most.fetch_max(self.budget.used(), Ordering::Relaxed);
        ByCount.build(view, cursor, batch)
    }

    fn follow(
        &self,
        difference: &Difference<'_>,
        from: Position,
        batch: &mut TreeBatch,
    ) -> crate::Result<Option<Position>> {
        ByCount.follow(difference, from, batch)
    }
}

/// Another index, with nothing in it.
#[derive(Debug)]
struct Empty;

impl DerivedTrees for Empty {
    fn trees(&self) -> Vec<TreeSpec> {
        vec![TreeSpec::new(EMPTY.0, "empty")]
    }

    fn build(
        &self,
        _view: &BaseView,
        _cursor: &[u8],
        _batch: &mut TreeBatch,
    ) -> crate::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn follow(
        &self,
        _difference: &Difference<'_>,
        _from: Position,
        _batch: &mut TreeBatch,
    ) -> crate::Result<Option<Position>> {
        Ok(None)
    }
}

fn with_index() -> StoreOptions {
    StoreOptions {
        derived: vec![Arc::new(ByCount)],
        derived_lag_bytes: 40,
        ..options()
    }
}

pub(super) fn open_with_index(env: &Arc<SimEnv>) -> crate::Result<Store<Words>> {
    open_with(env, 16 << 20, with_index())
}

/// What the trees hold, without the counts that no word has.
type Index = (BTreeMap<Vec<u8>, u64>, BTreeMap<u64, u64>);

fn index_of_model(model: &Model) -> Index {
    let (mut by, mut totals) = Index::default();
    for (word, (count, last)) in &model.words {
        by.insert(by_count(*count, word), *last);
        *totals.entry(*count).or_default() += 1;
    }
    (by, totals)
}

fn index_of_view(view: &View<u64>) -> crate::Result<Index> {
    let (mut by, mut totals) = Index::default();
    let all = (Bound::Unbounded, Bound::Unbounded);
    for item in view.tree(BY_COUNT)?.scan(all.0, all.1)? {
        let (key, last) = item?;
        by.insert(key.to_vec(), number(&last).unwrap());
    }
    for item in view.tree(TOTALS)?.scan(all.0, all.1)? {
        let (key, total) = item?;
        let count = u64::from_be_bytes(key.as_ref().try_into().unwrap());
        totals.insert(count, number(&total).unwrap());
    }
    totals.retain(|_, total| *total > 0);
    Ok((by, totals))
}

/// All is as the first records of `history` make it, and an index that is complete is exactly that
/// of its position. Returns how many records there are.
fn try_check(store: &Store<Words>, history: &[String]) -> crate::Result<usize> {
    let model = |count: usize| Model::of(history[..count].iter().map(String::as_str));
    let view = store.view()?;
    let count = view.position().0 as usize;
    assert_eq!(contents_of(&view)?, model(count));
    if store.tree_state(BY_COUNT).is_none() {
        assert!(store.view_of(&[BY_COUNT]).is_err());
        return Ok(count);
    }
    let view = store.view_of(&[COUNTS, LAST, BY_COUNT, TOTALS])?;
    let state = view.tree_state(BY_COUNT);
    assert_eq!(view.tree_state(TOTALS), state);
    check_view(&view, history)?;
    Ok(count)
}

/// A view's trees are as the first records of `history` make them.
pub(super) fn check_view(view: &View<u64>, history: &[String]) -> crate::Result<()> {
    let model = |at: Position| Model::of(history[..at.0 as usize].iter().map(String::as_str));
    assert_eq!(contents_of(view)?, model(view.position()));
    let states = [BY_COUNT, TOTALS].map(|tree| view.tree_state(tree).unwrap());
    for (tree, state) in [BY_COUNT, TOTALS].into_iter().zip(states) {
        if state == TreeState::Building {
            let error = view.tree(tree).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
    }
    if let [
        TreeState::Complete { built },
        other @ TreeState::Complete { .. },
    ] = states
    {
        assert_eq!(other, TreeState::Complete { built });
        assert!(built <= view.position());
        let expected = index_of_model(&model(built));
        assert_eq!(index_of_view(view)?, expected, "at {built}");
    }
    Ok(())
}

fn check(store: &Store<Words>, history: &[String]) -> usize {
    try_check(store, history).unwrap()
}

/// The table files on disk are those that the store names.
fn check_files(env: &SimEnv, store: &Store<Words>) {
    let is_table = |path: &&std::path::PathBuf| path.extension().is_some_and(|it| it == "table");
    let on_disk = env.files().iter().filter(is_table).count();
    let trees = store.stats().trees;
    let named: u64 = trees.iter().map(|tree| tree.figures.tables).sum();
    assert_eq!(on_disk as u64, named, "{trees:?}");
}

/// What a run of the scenario has got to.
#[derive(Debug, Default)]
struct Run {
    history: Vec<String>,
    /// This number of records is durable.
    durable: usize,
    added: bool,
    complete: bool,
    dropping: bool,
    dropped: bool,
}

impl Run {
    /// Writes a few words. Nothing can be said of what comes after a write that may have failed.
    fn write(&mut self, store: &Store<Words>, seed: u8) -> crate::Result<()> {
        for number in 0..4u8 {
            let word = word(seed.wrapping_mul(91).wrapping_add(number * 37));
            self.history.push(word.clone());
            match write(store, &[&word], Durability::Sync) {
                Ok(()) => self.durable = self.history.len(),
                Err(error) if error.kind() == ErrorKind::Full => drop(self.history.pop()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn look(&mut self, store: &Store<Words>) {
        // What can't be read now is read after the next opening.
        let _ = try_check(store, &self.history);
        let state = store.tree_state(BY_COUNT);
        self.complete |= matches!(state, Some(TreeState::Complete { .. }));
    }

    /// Adds the index, builds it, drops it; with writes, flushes and compactions in between. What
    /// fails is left at that.
    fn play(&mut self, env: &Arc<SimEnv>) -> crate::Result<()> {
        let store = open_with_index(env)?;
        self.look(&store);
        self.added = store.add_trees(Arc::new(ByCount)).is_ok();
        // A part at a time, with what changes in between.
        for round in 0..4 {
            let _ = store.inner.derive_in_background();
            self.look(&store);
            self.write(&store, round)?;
            if round % 2 == 1 {
                let _ = store.flush();
            }
        }
        env.run_due();
        self.look(&store);
        self.write(&store, 10)?;
        env.run_due();
        self.look(&store);
        let _ = store.compact();
        self.write(&store, 11)?;
        let _ = store.inner.derive_in_background();
        self.look(&store);
        let held = store.view()?;
        self.dropping = true;
        self.dropped = store.drop_trees(TOTALS).is_ok();
        self.look(&store);
        drop(held);
        self.write(&store, 12)?;
        let _ = store.flush();
        env.run_due();
        self.look(&store);
        Ok(())
    }

    /// Opens what a crash has left, and goes on with it.
    fn go_on(mut self, env: &Arc<SimEnv>) {
        let store = open_with_index(env).unwrap();
        let found = check(&store, &self.history);
        assert!(found >= self.durable, "{found} of {} records", self.durable);
        self.history.truncate(found);
        let state = store.tree_state(BY_COUNT);
        assert!(!self.dropped || state.is_none(), "it was dropped");
        if self.added && !self.dropping {
            assert!(state.is_some(), "it was added");
        }
        if self.complete && !self.dropping {
            let complete = matches!(state, Some(TreeState::Complete { .. }));
            assert!(complete, "it was complete: {state:?}");
        }
        if state.is_none() {
            check_files(env, &store);
        }
        self.write(&store, 20).unwrap();
        check(&store, &self.history);
        env.run_due();
        check(&store, &self.history);
        if state.is_none() {
            store.add_trees(Arc::new(ByCount)).unwrap();
        }
        env.run_due();
        self.write(&store, 21).unwrap();
        store.flush().unwrap();
        check(&store, &self.history);
        let built = store.position();
        let state = store.tree_state(BY_COUNT);
        assert_eq!(state, Some(TreeState::Complete { built }));
        drop(store);

        let env = env.after_crash(1);
        let store = open_with_index(&env).unwrap();
        check(&store, &self.history);
        let state = store.tree_state(BY_COUNT);
        assert!(
            matches!(state, Some(TreeState::Complete { .. })),
            "{state:?}"
        );
        check_files(&env, &store);
        store.drop_trees(BY_COUNT).unwrap();
        drop(store);
        let env = env.after_crash(2);
        let store = open_with_index(&env).unwrap();
        assert_eq!(store.tree_state(BY_COUNT), None);
        check(&store, &self.history);
        check_files(&env, &store);
        store.close().unwrap();
    }
}

/// A store with records and no index: some in tables, some in the log alone.
fn old_store() -> (Arc<SimEnv>, Vec<String>) {
    let env = SimEnv::new(1);
    let store = open(&env).unwrap();
    let mut history = Vec::new();
    for number in 0..24u8 {
        let word = word(number.wrapping_mul(53));
        write(&store, &[&word], Durability::Sync).unwrap();
        history.push(word);
        if number % 9 == 8 {
            store.flush().unwrap();
        }
    }
    drop(store);
    (env.after_crash(1), history)
}

#[derive(Debug, Clone, Copy)]
enum Trouble {
    None,
    Crash(u64),
    Fail(u64, Fault),
    FailRead(u64),
}

fn play(old: &(Arc<SimEnv>, Vec<String>), trouble: Trouble) -> (Arc<SimEnv>, Run) {
    let env = old.0.after_crash(1);
    let mut run = Run {
        history: old.1.clone(),
        durable: old.1.len(),
        ..Run::default()
    };
    let begin = env.operations();
    match trouble {
        Trouble::None => {}
        Trouble::Crash(step) => env.crash_at(begin + step),
        Trouble::Fail(step, fault) => env.fail_at(begin + step, fault),
        Trouble::FailRead(read) => env.fail_read_at(env.reads() + read, ReadFault::Eio),
    }
    let _ = run.play(&env);
    env.heal();
    (env, run)
}

fn play_and_go_on(old: &(Arc<SimEnv>, Vec<String>), trouble: Trouble) {
    let (env, run) = play(old, trouble);
    run.go_on(&env.after_crash(3));
}

/// The steps of the scenario that write, and its reads.
fn steps_of(old: &(Arc<SimEnv>, Vec<String>)) -> (u64, u64) {
    let before = old.0.after_crash(1);
    let (env, run) = play(old, Trouble::None);
    assert!(run.added && run.complete && run.dropped, "{run:?}");
    run.go_on(&env.after_crash(4));
    (
        env.operations() - before.operations(),
        env.reads() - before.reads(),
    )
}

fn crash_at_every_step() {
    let old = old_store();
    let (steps, _) = steps_of(&old);
    for step in 0..steps {
        play_and_go_on(&old, Trouble::Crash(step));
    }
}

#[test]
fn trees_that_nobody_reads_lag_further_until_a_view_is_made_of_them() {
    let env = SimEnv::new(1);
    let options = StoreOptions {
        replay_bytes_max: 1 << 20,
        ..with_index()
    };
    let store = open_with(&env, 16 << 20, options).unwrap();
    store.add_trees(Arc::new(ByCount)).unwrap();
    env.run_until_idle();
    // Of two bytes each: at 20 of them the trees are brought up to date, if somebody reads them.
    let lag_after = |records: usize| {
        for _ in 0..records {
            write(&store, &["w1"], Durability::Sync).unwrap();
        }
        env.run_due();
        store.position().0 - store.inner.derived_position().0
    };
    assert_eq!(lag_after(60), 60);
    assert_eq!(lag_after(100), 0, "eight times as many");
    assert_eq!(lag_after(60), 60);
    store.view_of(&[BY_COUNT]).unwrap();
    assert_eq!(lag_after(0), 0, "a view has them catch up");
    for _ in 1..UNREAD_FOLLOWS {
        assert_eq!(lag_after(20), 0);
    }
    assert_eq!(lag_after(20), 20, "no view was made for long");
}

#[test]
fn what_names_a_tree_as_complete_is_not_counted_as_a_flush() {
    let env = SimEnv::new(1);
    let store = open_with(&env, 16 << 20, with_index()).unwrap();
    store.add_trees(Arc::new(ByCount)).unwrap();
    env.run_until_idle();
    assert!(matches!(
        store.tree_state(BY_COUNT),
        Some(TreeState::Complete { .. })
    ));
    assert_eq!(store.stats().flushes, 0);
    store.flush().unwrap();
    assert_eq!(store.stats().flushes, 1, "it was called for");
    write(&store, &["w1"], Durability::Sync).unwrap();
    store.flush().unwrap();
    assert_eq!(store.stats().flushes, 2);
}

#[test]
fn trees_are_added_built_and_dropped_with_a_crash_at_every_step() {
    crash_at_every_step();
}

#[test]
fn trees_are_added_built_and_dropped_with_a_fault_at_every_step() {
    let old = old_store();
    let (steps, reads) = steps_of(&old);
    for step in 0..steps {
        for fault in [Fault::Eio, Fault::Enospc] {
            play_and_go_on(&old, Trouble::Fail(step, fault));
        }
    }
    for read in 0..reads {
        let (env, mut run) = play(&old, Trouble::FailRead(read));
        // A tree that could not follow is built anew.
        run.complete = false;
        run.go_on(&env.after_crash(3));
    }
}

#[test]
fn each_bug_of_added_trees_is_found() {
    assert_each_is_found(Bug::OF_ADDED_TREES, crash_at_every_step);
}

#[test]
fn trees_that_a_store_is_not_opened_with_are_kept_and_built_anew_when_they_are_given_again() {
    let (env, mut history) = old_store();
    let store = open_with_index(&env).unwrap();
    store.add_trees(Arc::new(ByCount)).unwrap();
    env.run_due();
    store.close().unwrap();
    drop(store);

    let store = open(&env).unwrap();
    assert_eq!(store.tree_state(BY_COUNT), None);
    let error = store.add_trees(Arc::new(ByCount)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "it is there: {error}");
    let named = |store: &Store<Words>| store.trees().iter().any(|tree| tree.id == TOTALS);
    assert!(named(&store));
    let (captures, ()) = crate::capture(&[Arc::new(store.clone())], || ()).unwrap();
    let manifest = captures[0].files.iter().find_map(|file| match file {
        crate::FileCopy::Manifest(path, _, bytes) => {
            Some(crate::manifest::Manifest::decode(path, bytes).unwrap())
        }
        _ => None,
    });
    let copied: Vec<_> = manifest.unwrap().trees.iter().map(|tree| tree.id).collect();
    assert_eq!(copied, [COUNTS, LAST], "what is copied has all its files");
    write(&store, &["later"], Durability::Sync).unwrap();
    history.push("later".into());
    store.flush().unwrap();
    store.close().unwrap();
    drop(store);

    let store = open_with_index(&env).unwrap();
    assert_eq!(store.tree_state(BY_COUNT), Some(TreeState::Building));
    check(&store, &history);
    env.run_due();
    let built = store.position();
    assert_eq!(
        store.tree_state(BY_COUNT),
        Some(TreeState::Complete { built })
    );
    check(&store, &history);
    store.close().unwrap();
    drop(store);

    let store = open(&env).unwrap();
    store.drop_trees(BY_COUNT).unwrap();
    store.drop_trees(TOTALS).unwrap();
    assert!(!named(&store));
    assert!(store.drop_trees(COUNTS).is_err(), "apply writes it");
    drop(store);
    let store = open_with_index(&env.after_crash(1)).unwrap();
    assert_eq!(store.tree_state(BY_COUNT), None);
    check(&store, &history);
}

#[test]
fn a_copy_of_an_open_store_has_its_derived_trees() {
    let (env, history) = old_store();
    let store = open_with_index(&env).unwrap();
    store.add_trees(Arc::new(ByCount)).unwrap();
    env.run_due();
    let (captures, ()) = crate::capture(&[Arc::new(store.clone())], || ()).unwrap();
    let copy = SimEnv::new(9);
    for file in &captures[0].files {
        let bytes: Vec<u8> = file.pieces(0).unwrap().flat_map(Result::unwrap).collect();
        copy.create_dir_all(file.path().parent().unwrap()).unwrap();
        let mut written = copy.create(file.path()).unwrap();
        written.append(&bytes).unwrap();
        written.sync().unwrap();
        copy.sync_dir(file.path().parent().unwrap()).unwrap();
    }
    let copied = open_with_index(&copy).unwrap();
    let built = copied.position();
    assert_eq!(
        copied.tree_state(TOTALS),
        Some(TreeState::Complete { built })
    );
    check(&copied, &history);
}

#[test]
fn a_view_keeps_a_tree_that_is_dropped_and_the_tree_can_be_added_again() {
    let (env, history) = old_store();
    let store = open_with_index(&env).unwrap();
    // 80 trees: more than one part of the list of added ones has.
    for _ in 0..40 {
        store.add_trees(Arc::new(ByCount)).unwrap();
        env.run_due();
        let view = store.view_of(&[BY_COUNT, TOTALS]).unwrap();
        let expected = index_of_view(&view).unwrap();
        store.drop_trees(BY_COUNT).unwrap();
        assert_eq!(index_of_view(&view).unwrap(), expected);
        assert!(store.view_of(&[TOTALS]).is_err());
        drop(view);
        check(&store, &history);
        check_files(&env, &store);
    }
}

#[test]
fn a_tree_is_built_although_the_one_before_it_is_dropped_at_any_moment() {
    // Each seed is an order of the jobs: the drop comes before the first tree is built, between
    // that and the flush that makes it complete, or later.
    for seed in 0..50 {
        let env = SimEnv::new(seed);
        let store = open_with(&env, 16 << 20, options()).unwrap();
        store.add_trees(Arc::new(ByCount)).unwrap();
        store.add_trees(Arc::new(Empty)).unwrap();
        let of_job = store.clone();
        let drop_first = move || of_job.drop_trees(BY_COUNT).unwrap();
        env.schedule(JobClass::Compaction, Duration::ZERO, Box::new(drop_first));
        env.run_until_idle();
        assert_eq!(store.tree_state(BY_COUNT), None);
        let state = store.tree_state(EMPTY);
        assert!(
            matches!(state, Some(TreeState::Complete { .. })),
            "seed {seed}: {state:?}"
        );
    }
}

#[test]
fn derived_trees_hold_nothing_that_a_flush_has_freed_and_are_built_in_bounded_memory() {
    let env = SimEnv::new(1);
    let memory = 4 << 20;
    let words: Vec<_> = (0..4_000).map(|at| format!("{at:0500}")).collect();
    let store = open_with(&env, memory, with_index()).unwrap();
    for words in words.chunks(100) {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        write(&store, &words, Durability::None).unwrap();
    }
    let budget = Arc::clone(store.inner.shared.memtables());
    let (limit, used) = (budget.limit(), || budget.used());
    let watched = Arc::new(Watched {
        budget: Arc::clone(&budget),
        most: AtomicU64::new(0),
    });
    store.add_trees(watched.clone()).unwrap();
    env.run_until_idle();
    assert!(store.stats().flushes > 8, "{:?}", store.stats());
    let most = watched.most.load(Ordering::Relaxed);
    assert!(most < limit + limit / 2, "{most} bytes of {limit}");
    store.flush().unwrap();
    assert!(used() < limit / 8, "{} bytes are held", used());
    check(&store, &words);
}

#[test]
fn memtables_that_derived_trees_fill_are_flushed_although_nobody_writes() {
    let env = SimEnv::new(1);
    let machine: Arc<dyn Env> = env.clone();
    let shared = Shared::new(Arc::clone(&machine), 16 << 20, None);
    let stores: Vec<Store<Words>> = (0..8)
        .map(|number| {
            let place = Place {
                subdir: format!("c1/p{number}").into(),
                ..place()
            };
            let options = StoreOptions {
                derived: vec![Arc::new(ByCount)],
                ..StoreOptions::default()
            };
            Store::<Words>::create(&shared, &place).unwrap();
            let store = Store::open(Arc::clone(&shared), place, options, machine.gate()).unwrap();
            store.add_trees(Arc::new(ByCount)).unwrap();
            store
        })
        .collect();
    env.run_until_idle();
    let memtables = shared.memtables();
    let half = memtables.limit() / 2;
    // No write finds memtables more than half full.
    for number in 0.. {
        if memtables.used() > half / 4 * 3 {
            break;
        }
        let words: Vec<_> = (0..100).map(|at| format!("{number:0500}{at}")).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        write(&stores[number % stores.len()], &words, Durability::None).unwrap();
    }
    env.run_until_idle();
    assert!(memtables.used() <= half, "{} of {half}", memtables.used());
}

#[test]
fn a_follower_derives_its_own_trees() {
    let (env, history) = old_store();
    let leader = open(&env).unwrap();
    let env = SimEnv::new(2);
    let follower = open_with_index(&env).unwrap();
    follower.add_trees(Arc::new(ByCount)).unwrap();
    while let crate::Shipped::Records { records, whole } =
        leader.ship(follower.extent().last, 50).unwrap()
    {
        let first = follower.extent().last.next();
        follower
            .ingest(first, &records, whole, Durability::Sync)
            .unwrap();
        env.run_due();
        check(&follower, &history);
    }
    follower.flush().unwrap();
    let built = leader.position();
    assert_eq!(
        follower.tree_state(TOTALS),
        Some(TreeState::Complete { built })
    );
    check(&follower, &history);
}
