//! The store with a machine as small as can be: words counted by merging, and a total in its state.

use crate::{
    ApplyError, Durability, Error, ErrorKind, LogSettings, Machine, Place, Shared, Store,
    StoreOptions, TreeId, TreeWriter,
};
use bytes::Bytes;
use proptest::prelude::*;
use quire_env::{Env, Fault, IoClass, IoScope, JobClass, SimEnv, Volumes};
use quire_lsm::{BytesMerger, FoldBytes, MergeError, TreeSpec};
use quire_model::Position;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "shuttle")]
mod checked;
mod follow;
mod trees;

/// Counts: the value is a u64, an operand is added to it.
#[derive(Debug)]
struct Add;

fn number(bytes: &[u8]) -> Result<u64, MergeError> {
    Ok(u64::from_le_bytes(
        bytes
            .try_into()
            .map_err(|_| MergeError("not a number".into()))?,
    ))
}

impl BytesMerger for Add {
    fn name(&self) -> &str {
        "add"
    }

    fn apply(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operand: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        let base = base.map_or(Ok(0), number)?;
        out.extend_from_slice(&(base + number(operand)?).to_le_bytes());
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

/// A record is a word: counted in one tree, its last position kept in another. `!word` forgets the
/// word.
#[derive(Debug)]
struct Words {
    total: u64,
}

thread_local! {
    /// The class of I/O of this thread when it last applied a record.
    static APPLIED_AS: RefCell<String> = RefCell::default();
}

/// The class of what this thread reads and writes, as a scope shows it.
fn io_class() -> String {
    format!("{:?}", IoScope::enter(IoClass::Read))
}

const COUNTS: TreeId = TreeId(1);
const LAST: TreeId = TreeId(2);

impl Machine for Words {
    type Summary = u64;

    fn trees() -> Vec<TreeSpec> {
        let counts = TreeSpec {
            merger: Some(FoldBytes::shared(Add)),
            ..TreeSpec::new(1, "counts")
        };
        vec![counts, TreeSpec::new(2, "last")]
    }

    fn new() -> Words {
        Words { total: 0 }
    }

    fn decode(state: &[u8]) -> Result<Words, String> {
        Ok(Words {
            total: number(state).map_err(|error| error.to_string())?,
        })
    }

    fn encode(&self) -> Vec<u8> {
        self.total.to_le_bytes().to_vec()
    }

    fn summary(&self) -> u64 {
        self.total
    }

    fn check(&self, first: Position, records: &[Bytes]) -> Result<(), (Position, String)> {
        match records.iter().position(Bytes::is_empty) {
            Some(at) => Err((Position(first.0 + at as u64), "an empty word".into())),
            None => Ok(()),
        }
    }

    fn apply(&mut self, record: &[u8], trees: &TreeWriter<'_>) -> Result<(), ApplyError> {
        self.total += 1;
        APPLIED_AS.replace(io_class());
        match record {
            [] => Err(ApplyError::Record("an empty word".into())),
            [b'!', word @ ..] => {
                trees.delete(COUNTS, word)?;
                trees.delete(LAST, word)
            }
            word => {
                trees.merge(COUNTS, word, &1u64.to_le_bytes())?;
                trees.put(LAST, word, &trees.position().0.to_le_bytes())
            }
        }
    }
}

/// What the trees must hold: word → (count, last position).
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    total: u64,
    words: BTreeMap<Vec<u8>, (u64, u64)>,
}

impl Model {
    fn of<'a>(records: impl IntoIterator<Item = &'a str>) -> Model {
        let mut model = Model::default();
        for record in records {
            model.total += 1;
            match record.strip_prefix('!') {
                Some(word) => {
                    model.words.remove(word.as_bytes());
                }
                None => {
                    let entry = model.words.entry(record.as_bytes().to_vec()).or_default();
                    *entry = (entry.0 + 1, model.total);
                }
            }
        }
        model
    }
}

fn place() -> Place {
    Place {
        volumes: Volumes::single("/db"),
        subdir: "c1/p0".into(),
        identity: *b"words identity 1",
    }
}

fn options() -> StoreOptions {
    let mut options = StoreOptions {
        replay_bytes_max: 400,
        ..StoreOptions::default()
    };
    options.log.block_bytes = 64;
    options.log.segment_bytes = 700;
    options
}

fn open(env: &Arc<SimEnv>) -> crate::Result<Store<Words>> {
    open_with(env, 16 << 20, options())
}

fn open_with(
    env: &Arc<SimEnv>,
    memory_bytes: u64,
    options: StoreOptions,
) -> crate::Result<Store<Words>> {
    let env: Arc<dyn Env> = env.clone();
    let shared = Shared::new(Arc::clone(&env), memory_bytes, None);
    match Store::<Words>::create(&shared, &place()) {
        Ok(()) | Err(Error::Exists { .. }) => {}
        Err(error) => return Err(error),
    }
    Store::open(shared, place(), options, env.gate())
}

fn write(store: &Store<Words>, words: &[&str], durability: Durability) -> crate::Result<()> {
    store.write(durability, |transaction| {
        for word in words {
            transaction.append(word.as_bytes().to_vec());
        }
        Ok::<_, Error>(())
    })
}

fn contents(store: &Store<Words>) -> crate::Result<Model> {
    contents_of(&*store.view()?)
}

fn contents_of(view: &crate::View<u64>) -> crate::Result<Model> {
    let mut model = Model {
        total: *view.summary(),
        words: BTreeMap::new(),
    };
    assert_eq!(
        view.position().0,
        model.total,
        "the summary is the one at the view's position"
    );
    for item in view
        .tree(COUNTS)?
        .scan(Bound::Unbounded, Bound::Unbounded)?
    {
        let (key, count) = item?;
        let last = view
            .tree(LAST)?
            .get(&key)?
            .expect("a word in one tree is in the other");
        model.words.insert(
            key.to_vec(),
            (number(&count).unwrap(), number(&last).unwrap()),
        );
    }
    let last = view
        .tree(LAST)?
        .scan(Bound::Unbounded, Bound::Unbounded)?
        .count();
    assert_eq!(last, model.words.len());
    Ok(model)
}

#[test]
fn a_write_is_seen_when_it_is_acknowledged_and_not_before() {
    let store = open(&SimEnv::new(1)).unwrap();
    let (_, position) = store
        .write_unsynced(|t| Ok::<_, Error>(t.append(b"a".to_vec())))
        .unwrap();
    assert_eq!(contents(&store).unwrap(), Model::default());
    store.acknowledge(position, Durability::Sync).unwrap();
    assert_eq!(contents(&store).unwrap(), Model::of(["a"]));
    let tail: Vec<_> = store
        .tail(Position(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(tail, [(Position(1), "a".into())]);
}

#[test]
fn a_write_that_is_decided_against_leaves_nothing() {
    let store = open(&SimEnv::new(1)).unwrap();
    let result = store.write(Durability::Sync, |transaction| {
        transaction.append(b"a".to_vec());
        Err::<(), _>(Error::Closed)
    });
    assert!(result.is_err());
    write(&store, &["b"], Durability::Sync).unwrap();
    assert_eq!(contents(&store).unwrap(), Model::of(["b"]));
}

#[test]
fn a_flush_that_finds_nothing_to_write_is_counted() {
    let env = SimEnv::new(1);
    let store = open_with(&env, 16 << 20, options()).unwrap();
    write(&store, &["word"], Durability::Sync).unwrap();
    store.flush().unwrap();
    let flushed = store.stats().flushes;
    store.flush().unwrap();
    assert_eq!(store.stats().flushes, flushed + 1);
}

#[test]
fn a_view_stays_as_it_was_while_writes_flushes_and_compactions_go_on() {
    let env = SimEnv::new(1);
    let store = open(&env).unwrap();
    let mut views = Vec::new();
    let mut written = Vec::new();
    for round in 0..40 {
        let word = ["a", "b", "!a", "c", "a"][round % 5];
        write(&store, &[word], Durability::None).unwrap();
        written.push(word);
        views.push((store.view().unwrap(), Model::of(written.iter().copied())));
        match round % 7 {
            1 => {
                let view = store.flushed_view_of(&[COUNTS, LAST]).unwrap();
                views.push((view, Model::of(written.iter().copied())));
            }
            3 => store.flush().unwrap(),
            5 => store.compact().unwrap(),
            6 => drop(env.run_until_idle()),
            _ => {}
        }
    }
    for (view, model) in views {
        assert_eq!(contents_of(&view).unwrap(), model);
    }
}

#[test]
fn a_full_disk_refuses_writes_loses_nothing_and_goes_on_when_there_is_room() {
    let env = SimEnv::new(1);
    env.set_capacity(20_000_000);
    let store = open(&env).unwrap();
    let used: usize = env
        .files()
        .iter()
        .map(|path| env.read_all(path).unwrap().len())
        .sum();
    write(&store, &["kept"], Durability::Sync).unwrap();
    env.set_capacity(used as u64 + 1);
    let mut refused = None;
    let mut kept = vec!["kept".to_string()];
    for round in 0..100_000 {
        let word = format!("word-{round}");
        match write(&store, &[&word], Durability::Sync) {
            Ok(()) => kept.push(word),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    assert_eq!(
        refused.expect("the disk is full at last").kind(),
        ErrorKind::Full
    );
    assert!(store.flush().is_err());
    assert_eq!(
        contents(&store).unwrap(),
        Model::of(kept.iter().map(String::as_str))
    );
    env.set_capacity(40_000_000);
    write(&store, &["later"], Durability::Sync).unwrap();
    store.flush().unwrap();
    kept.push("later".into());
    assert_eq!(
        contents(&store).unwrap(),
        Model::of(kept.iter().map(String::as_str))
    );
}

#[test]
fn a_close_on_a_full_disk_loses_nothing_and_is_no_error() {
    let env = SimEnv::new(1);
    // Memory for a replay without a flush: that would need room.
    let open = || open_with(&env, 512 << 20, StoreOptions::default());
    let store = open().unwrap();
    // So much that a close would write it out, for the next opening to be faster.
    let words: Vec<_> = (0..6_000).map(|at| format!("{at:01000}")).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    write(&store, &words, Durability::Sync).unwrap();
    env.set_capacity(1);
    store.close().unwrap();
    let store = open().unwrap();
    assert!(contents(&store).unwrap() == Model::of(words));
    store.close().unwrap();
}

#[test]
fn memory_full_of_what_no_table_has_room_for_is_replayed_and_read() {
    const MEMORY: u64 = 16 << 20;
    let env = SimEnv::new(1);
    let store = open_with(&env, MEMORY, StoreOptions::default()).unwrap();
    let tables = Path::new("/db/c1/p0/tables");
    env.set_capacity_below(tables, 1);
    let words: Vec<_> = (0..20_000).map(|at| format!("{at:01000}")).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let mut written = 0;
    let refused = words.chunks(100).find_map(|batch| {
        let refused = write(&store, batch, Durability::None).err();
        written += batch.len() * usize::from(refused.is_none());
        refused
    });
    assert_eq!(refused.unwrap().kind(), ErrorKind::Full);
    let model = Model::of(words.iter().copied().take(written));
    drop(store);
    for _ in 0..2 {
        let store = open_with(&env, MEMORY, StoreOptions::default()).unwrap();
        assert!(contents(&store).unwrap() == model);
    }
    env.set_capacity_below(tables, 1 << 30);
    let store = open_with(&env, MEMORY, StoreOptions::default()).unwrap();
    store.flush().unwrap();
    assert!(contents(&store).unwrap() == model);
}

#[test]
fn a_writer_that_waits_for_memory_goes_on_once_a_reader_gives_it_back() {
    let env = SimEnv::new(1);
    let store = open_with(&env, 16 << 20, StoreOptions::default()).unwrap();
    let memtables = Arc::clone(store.inner.shared.memtables());
    let mut words = (0..).map(|at| format!("{at:01000}"));
    let mut views = Vec::new();
    while memtables.used() < memtables.limit() {
        write(&store, &[&words.next().unwrap()], Durability::None).unwrap();
        views.push(store.view().unwrap());
    }
    let seconds = Duration::from_secs;
    env.schedule(
        JobClass::Compaction,
        seconds(5),
        Box::new(move || drop(views)),
    );
    env.schedule(JobClass::Compaction, seconds(50), Box::new(|| {}));
    let begun = env.monotonic();
    write(&store, &[&words.next().unwrap()], Durability::None).unwrap();
    let waited = env.monotonic() - begun;
    assert!((seconds(5)..seconds(6)).contains(&waited), "{waited:?}");
}

#[test]
fn views_of_files_alone_have_no_writer_wait_however_long_they_are_kept() {
    let env = SimEnv::new(1);
    let store = open_with(&env, 16 << 20, StoreOptions::default()).unwrap();
    let limit = store.inner.shared.memtables().limit();
    let mut views = Vec::new();
    let mut written = 0;
    while written < 4 * limit {
        let word = format!("{written:01000}");
        write(&store, &[&word], Durability::None).unwrap();
        written += word.len() as u64;
        if views.len() as u64 * limit < 32 * written {
            views.push(store.flushed_view_of(&[COUNTS, LAST]).unwrap());
        }
    }
    assert!(env.monotonic() < Duration::from_secs(1), "nothing waited");
    assert!(views.iter().all(|view| view.held_memtable_bytes() == 0));
    for view in views {
        assert_eq!(contents_of(&view).unwrap().total, view.position().0);
    }
}

#[test]
fn a_writer_that_may_hold_the_room_that_a_flush_waits_for_is_not_held_back() {
    let env = SimEnv::new(1);
    let store = open_with(&env, 16 << 20, StoreOptions::default()).unwrap();
    let shared = Arc::clone(&store.inner.shared);
    let full = shared.memtables().charge(shared.memtables().limit());
    // Somebody in the background waits for room.
    let claim = shared.work().claim();
    let begun = env.monotonic();
    let mut words = (0..).map(|at| format!("{at:01000}"));
    let mut next = || write(&store, &[&words.next().unwrap()], Durability::None);
    next().unwrap();
    assert!(env.monotonic() - begun < Duration::from_secs(1));
    // Not without end, as long as nothing is flushed; nor when the room is there.
    let added = shared.memtables().limit() / 4;
    shared.note_added(added);
    assert!(!shared.admits());
    shared.flush_ended();
    assert!(shared.admits());
    drop(claim);
    assert_eq!(next().unwrap_err().kind(), ErrorKind::Full);
    drop(full);
    next().unwrap();
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_until_reopened() {
    let env = SimEnv::new(1);
    let store = open(&env).unwrap();
    write(&store, &["kept"], Durability::Sync).unwrap();
    env.fail_syncs(true);
    assert!(write(&store, &["unknown"], Durability::Sync).is_err());
    env.fail_syncs(false);
    assert_eq!(
        write(&store, &["refused"], Durability::None)
            .unwrap_err()
            .kind(),
        ErrorKind::ReadOnly
    );
    assert_eq!(
        contents(&store).unwrap(),
        Model::of(["kept"]),
        "what is not durable is not seen"
    );
    drop(store);
    let store = open(&env.after_crash(3)).unwrap();
    let found = contents(&store).unwrap();
    assert!(
        found == Model::of(["kept"]) || found == Model::of(["kept", "unknown"]),
        "{found:?}"
    );
}

#[test]
fn a_sync_that_finds_the_disk_full_does_not_say_that_nothing_was_written() {
    let env = SimEnv::new(1);
    let store = open(&env).unwrap();
    write(&store, &["kept"], Durability::Sync).unwrap();
    let step = env.operations() + 1;
    env.fail_at(step, Fault::Enospc);
    let error = write(&store, &["unknown"], Durability::Sync).unwrap_err();
    assert_eq!(env.operations(), step + 1, "the write appends, then syncs");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
}

#[test]
fn a_crash_during_a_replay_too_long_for_memory_loses_nothing() {
    let words: Vec<String> = (0..3_000).map(|number| format!("word-{number}")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let long = || StoreOptions {
        replay_bytes_max: u64::MAX,
        ..options()
    };
    let env = SimEnv::new(1);
    let store = open_with(&env, 16 << 20, long()).unwrap();
    for words in words.chunks(50) {
        write(&store, words, Durability::Sync).unwrap();
    }
    assert_eq!(store.stats().flushes, 0, "all of it has to be replayed");
    drop(store);
    let template = env.after_crash(1);
    let steps = template.operations();
    // With less memory the replay flushes now and then.
    drop(open_with(&template, 2 << 20, long()).unwrap());
    let steps = steps..template.operations();
    assert!(steps.end > steps.start + 50, "flushes at {steps:?}");
    for step in steps.step_by(5) {
        let env = env.after_crash(1);
        env.crash_at(step);
        assert!(open_with(&env, 2 << 20, long()).is_err());
        let store = open_with(&env.after_crash(step), 16 << 20, long()).unwrap();
        let found = contents(&store).unwrap();
        assert_eq!(found, Model::of(words.iter().copied()), "step {step}");
    }
}

#[test]
fn a_crash_while_opening_after_a_failed_compaction_loses_nothing() {
    let words = ["one", "two", "three"];
    let prepared = |env: &Arc<SimEnv>| {
        let store = open(env).unwrap();
        for word in words {
            write(&store, &[word], Durability::Sync).unwrap();
            store.flush().unwrap();
        }
        store
    };
    let steps = {
        let env = SimEnv::new(1);
        let store = prepared(&env);
        let before = env.operations();
        store.compact().unwrap();
        before..env.operations()
    };
    for step in steps {
        for recovery_step in 0..15 {
            let env = SimEnv::new(1);
            let store = prepared(&env);
            env.fail_at(step, Fault::Eio);
            let _ = store.compact();
            drop(store);
            env.crash_at(env.operations() + recovery_step);
            drop(open(&env));
            for seed in 0..20 {
                let store = open(&env.after_crash(seed))
                    .unwrap_or_else(|error| panic!("step {step}, seed {seed}: {error}"));
                assert_eq!(contents(&store).unwrap(), Model::of(words));
            }
        }
    }
}

#[test]
fn each_timed_write_is_durable_in_its_own_time() {
    let env = SimEnv::new(1);
    let store = open(&env).unwrap();
    let timed = |millis| Durability::Async(Duration::from_millis(millis));
    write(&store, &["slow"], timed(60_000)).unwrap();
    write(&store, &["fast"], timed(5)).unwrap();
    env.advance(Duration::from_millis(6));
    env.run_due();
    for seed in 0..8 {
        let store = open(&env.after_crash(seed)).unwrap();
        assert_eq!(contents(&store).unwrap(), Model::of(["slow", "fast"]));
    }
}

#[test]
fn a_segment_is_sealed_when_it_is_old_and_never_when_it_is_empty() {
    const AGE: Duration = Duration::from_secs(100);
    let env = SimEnv::new(1);
    let mut options = StoreOptions {
        segment_age: Some(AGE),
        ..options()
    };
    options.log.segment_bytes = 1 << 20;
    let settings = LogSettings {
        block_bytes: options.log.block_bytes,
        codec: options.log.codec,
        segment_age: None,
    };
    let store = open_with(&env, 16 << 20, options).unwrap();
    let segments = || store.stats().log.segments;
    let pass = |time| {
        env.advance(time);
        env.run_due();
    };
    pass(3 * AGE);
    assert_eq!(segments(), 1, "an empty segment has no age");
    for round in 1..4 {
        write(&store, &["word"], Durability::None).unwrap();
        pass(AGE / 2);
        write(&store, &["more"], Durability::None).unwrap();
        pass(AGE / 2 - Duration::from_millis(1));
        assert_eq!(segments(), round, "it is younger than that");
        pass(Duration::from_millis(1));
        assert_eq!(segments(), round + 1);
        pass(5 * AGE);
        assert_eq!(segments(), round + 1, "nothing was written since");
    }
    // One that was sealed by its size is not sealed again, and its successor has an age of its own.
    write(&store, &["word"], Durability::Sync).unwrap();
    pass(AGE / 2);
    store.inner.log.rotate().unwrap();
    write(&store, &["word"], Durability::Sync).unwrap();
    pass(AGE / 2);
    assert_eq!(segments(), 5);
    pass(AGE / 2);
    assert_eq!(segments(), 6);
    store.set_log(settings).unwrap();
    write(&store, &["word"], Durability::Sync).unwrap();
    pass(2 * AGE);
    assert_eq!(segments(), 6, "the setting was taken back");
    assert_eq!(
        contents(&store).unwrap(),
        Model::of(
            std::iter::repeat_n(["word", "more"], 3)
                .flatten()
                .chain(["word"; 3])
        )
    );
}

#[test]
fn a_log_that_lost_its_tail_is_an_error_not_a_shorter_history() {
    let env = SimEnv::new(1);
    let store = open(&env).unwrap();
    write(&store, &["a", "b"], Durability::Sync).unwrap();
    store.flush().unwrap();
    drop(store);
    for path in env
        .files()
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
    {
        env.remove(path).unwrap();
    }
    assert_eq!(open(&env).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[derive(Debug, Clone)]
enum Step {
    Write(Vec<u8>, Durability),
    Flush,
    Compact,
    RunJobs,
    Reopen,
    Close,
    Crash(u64),
    Fail(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let durability = prop_oneof![
        Just(Durability::Sync),
        Just(Durability::None),
        Just(Durability::Async(std::time::Duration::from_millis(5)))
    ];
    let step = prop_oneof![
        12 => (prop::collection::vec(any::<u8>(), 1..6), durability)
            .prop_map(|(words, d)| Step::Write(words, d)),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        3 => Just(Step::RunJobs),
        1 => Just(Step::Reopen),
        1 => Just(Step::Close),
        2 => any::<u64>().prop_map(Step::Crash),
        1 => (0u64..12).prop_map(Step::Fail),
    ];
    prop::collection::vec(step, 1..60)
}

/// One of a few words, or the forgetting of one.
fn word(choice: u8) -> String {
    format!(
        "{}w{}",
        if choice.is_multiple_of(5) { "!" } else { "" },
        choice / 5 % 9
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// After any history the store equals apply() over a prefix of what was written, whole writes
    /// only, that holds everything that was acknowledged under `sync`.
    #[test]
    fn any_history_leaves_a_prefix_with_all_that_was_synced(
        steps in steps(),
        seed in any::<u64>(),
    ) {
        let mut env = SimEnv::new(seed);
        let mut store = open(&env).unwrap();
        // Every write tried since the last recovery, and how many of them must survive.
        let mut tried: Vec<Vec<String>> = Vec::new();
        let mut synced = 0;
        for step in steps {
            let mut recover = false;
            match step {
                Step::Write(choices, durability) => {
                    let words: Vec<_> = choices.into_iter().map(word).collect();
                    let slices: Vec<_> = words.iter().map(String::as_str).collect();
                    let result = write(&store, &slices, durability);
                    let full = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full);
                    // Refused with nothing written, or written for all we know.
                    if !full {
                        tried.push(words);
                    }
                    match result {
                        Ok(()) if durability == Durability::Sync => synced = tried.len(),
                        Ok(()) => {}
                        Err(_) => recover = !full,
                    }
                }
                Step::Flush => match store.flush() {
                    Ok(()) => synced = tried.len(),
                    Err(_) => recover = true,
                },
                Step::Compact => match store.compact() {
                    Ok(()) => synced = tried.len(),
                    Err(_) => recover = true,
                },
                Step::RunJobs => drop(env.run_until_idle()),
                Step::Reopen => recover = true,
                Step::Close => {
                    if store.close().is_ok() {
                        synced = tried.len();
                    }
                    recover = true;
                }
                Step::Crash(seed) => {
                    env.crash_at(env.operations() + seed % 20);
                    env.run_until_idle();
                }
                Step::Fail(after) => env.fail_at(env.operations() + after, Fault::Eio),
            }
            if recover {
                drop(store);
                env = env.after_crash(seed.wrapping_add(tried.len() as u64));
                store = open(&env).unwrap();
                let found = contents(&store).unwrap();
                let model = |count: usize| {
                    Model::of(tried[..count].iter().flatten().map(String::as_str))
                };
                let survived = (synced..=tried.len()).find(|count| model(*count) == found);
                let Some(survived) = survived else {
                    let what = format!("{found:?} is no prefix of {tried:?} from {synced} on");
                    return Err(TestCaseError::fail(what));
                };
                tried.truncate(survived);
                synced = survived;
            }
        }
    }
}

#[test]
fn recovery_leaves_the_disk_to_what_users_read() {
    let env = SimEnv::new(1);
    let store = open(&env).unwrap();
    write(&store, &["word"], Durability::Sync).unwrap();
    drop(store);
    APPLIED_AS.take();
    let store = open(&env).unwrap();
    assert!(APPLIED_AS.take().contains("Log"));
    assert!(io_class().contains("Read"));
    store.close().unwrap();
}
