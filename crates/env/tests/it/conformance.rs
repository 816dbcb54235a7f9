//! The real and the simulated machine give the same results for the same calls, with the same error
//! texts.

use proptest::collection::vec;
use proptest::prelude::*;
use quire_env::{AppendFile, Env, ErrorKind, FileLock, OsEnv, ReadFile, SimEnv};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

const SLOTS: usize = 3;
/// Names that are used as files, as directories, and inside each other.
const PATHS: [&str; 9] = ["x", "y", "d", "d/x", "d/y", "d/e", "d/e/x", "x/y", "no/x"];

#[derive(Debug, Clone)]
enum Op {
    Create(usize, usize),
    OpenAppend(usize, usize),
    Append(usize, Vec<u8>),
    Reserve(usize, u64),
    Sync(usize),
    Truncate(usize, u64),
    OpenRead(usize, usize),
    ReadAt(usize, u64, usize),
    Len(usize),
    Read(usize, u64),
    Replace(usize, Vec<u8>),
    Rename(usize, usize),
    Remove(usize),
    CreateDirAll(usize),
    RemoveDirAll(usize),
    List(usize),
    Exists(usize),
    SyncDir(usize),
    Lock(usize, usize),
    Close(usize),
}

fn any_op() -> impl Strategy<Value = Op> {
    let slot = || 0..SLOTS;
    let path = || 0..PATHS.len();
    let bytes = || vec(any::<u8>(), 0..2000);
    prop_oneof![
        3 => (slot(), path()).prop_map(|(s, p)| Op::Create(s, p)),
        1 => (slot(), path()).prop_map(|(s, p)| Op::OpenAppend(s, p)),
        4 => (slot(), bytes()).prop_map(|(s, b)| Op::Append(s, b)),
        1 => (slot(), 0..100_000u64).prop_map(|(s, n)| Op::Reserve(s, n)),
        1 => slot().prop_map(Op::Sync),
        1 => (slot(), 0..3000u64).prop_map(|(s, n)| Op::Truncate(s, n)),
        2 => (slot(), path()).prop_map(|(s, p)| Op::OpenRead(s, p)),
        2 => (slot(), 0..3000u64, 0..2000usize).prop_map(|(s, o, n)| Op::ReadAt(s, o, n)),
        1 => slot().prop_map(Op::Len),
        2 => (path(), 0..3000u64).prop_map(|(p, n)| Op::Read(p, n)),
        1 => (path(), bytes()).prop_map(|(p, b)| Op::Replace(p, b)),
        2 => (path(), path()).prop_map(|(a, b)| Op::Rename(a, b)),
        1 => path().prop_map(Op::Remove),
        3 => path().prop_map(Op::CreateDirAll),
        1 => path().prop_map(Op::RemoveDirAll),
        1 => path().prop_map(Op::List),
        1 => path().prop_map(Op::Exists),
        1 => path().prop_map(Op::SyncDir),
        1 => (slot(), path()).prop_map(|(s, p)| Op::Lock(s, p)),
        1 => slot().prop_map(Op::Close),
    ]
}

/// A machine under test, with the files open on it.
struct Subject {
    env: Arc<dyn Env>,
    appenders: [Option<Box<dyn AppendFile>>; SLOTS],
    readers: [Option<Arc<dyn ReadFile>>; SLOTS],
    locks: [Option<Box<dyn FileLock>>; SLOTS],
}

/// What a caller can observe.
fn shown<T: Debug>(outcome: quire_env::Result<T>) -> String {
    match outcome {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?}: {error}", error.kind()),
    }
}

impl Subject {
    fn new(env: Arc<dyn Env>) -> Subject {
        Subject {
            env,
            appenders: Default::default(),
            readers: Default::default(),
            locks: Default::default(),
        }
    }

    fn keep_appender(
        &mut self,
        slot: usize,
        opened: quire_env::Result<Box<dyn AppendFile>>,
    ) -> String {
        shown(opened.map(|file| {
            let seen = (file.path().to_path_buf(), file.len());
            self.appenders[slot] = Some(file);
            seen
        }))
    }

    fn with_appender(
        &mut self,
        slot: usize,
        act: impl FnOnce(&mut dyn AppendFile) -> quire_env::Result<()>,
    ) -> String {
        self.appenders[slot]
            .as_mut()
            .map_or("closed".into(), |file| {
                let outcome = act(file.as_mut());
                format!("{} {}", shown(outcome), file.len())
            })
    }

    fn run(&mut self, root: &Path, op: &Op) -> String {
        let at = |path: &usize| root.join(PATHS[*path]);
        let env = Arc::clone(&self.env);
        match op {
            Op::Create(slot, path) => self.keep_appender(*slot, env.create(&at(path))),
            Op::OpenAppend(slot, path) => self.keep_appender(*slot, env.open_append(&at(path))),
            Op::Append(slot, bytes) => self.with_appender(*slot, |file| file.append(bytes)),
            Op::Reserve(slot, bytes) => self.with_appender(*slot, |file| file.reserve(*bytes)),
            Op::Sync(slot) => self.with_appender(*slot, |file| file.sync()),
            Op::Truncate(slot, len) => self.with_appender(*slot, |file| file.truncate(*len)),
            Op::OpenRead(slot, path) => shown(env.open_read(&at(path)).map(|file| {
                let seen = file.path().to_path_buf();
                self.readers[*slot] = Some(file);
                seen
            })),
            Op::ReadAt(slot, offset, length) => self.readers[*slot]
                .as_ref()
                .map_or("closed".into(), |file| {
                    shown(file.read_at(*offset, *length))
                }),
            Op::Len(slot) => self.readers[*slot]
                .as_ref()
                .map_or("closed".into(), |file| shown(file.len())),
            Op::Read(path, bytes_max) => shown(env.read(&at(path), *bytes_max)),
            Op::Replace(path, contents) => shown(env.replace(&at(path), contents)),
            Op::Rename(from, to) => shown(env.rename(&at(from), &at(to))),
            Op::Remove(path) => shown(env.remove(&at(path))),
            Op::CreateDirAll(path) => shown(env.create_dir_all(&at(path))),
            Op::RemoveDirAll(path) => shown(env.remove_dir_all(&at(path))),
            Op::List(path) => shown(env.list(&at(path))),
            Op::Exists(path) => shown(env.exists(&at(path))),
            Op::SyncDir(path) => shown(env.sync_dir(&at(path))),
            Op::Lock(slot, path) => shown(env.lock(&at(path)).map(|lock| {
                self.locks[*slot] = Some(lock);
            })),
            Op::Close(slot) => {
                self.appenders[*slot] = None;
                self.readers[*slot] = None;
                self.locks[*slot] = None;
                String::new()
            }
        }
    }

    /// All files and directories under `path`.
    fn contents(&self, path: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for name in self.env.list(path).unwrap() {
            let path = path.join(name);
            found.push(format!(
                "{} {}",
                path.display(),
                shown(self.env.read(&path, u64::MAX))
            ));
            if self.env.list(&path).is_ok() {
                found.extend(self.contents(&path));
            }
        }
        found
    }
}

/// Runs `ops` on both machines, on the real one below `parent`.
fn check_both_answer_alike(parent: &Path, ops: &[Op]) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir_in(parent).unwrap();
    let sim = SimEnv::new(1);
    sim.create_dir_all(dir.path()).unwrap();
    let mut real = Subject::new(OsEnv::new().unwrap());
    let mut simulated = Subject::new(sim);
    for op in ops {
        prop_assert_eq!(
            real.run(dir.path(), op),
            simulated.run(dir.path(), op),
            "{:?}",
            op
        );
    }
    prop_assert_eq!(real.contents(dir.path()), simulated.contents(dir.path()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn both_machines_answer_alike_on_disk(ops in vec(any_op(), 1..80)) {
        check_both_answer_alike(&std::env::temp_dir(), &ops)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// More cases where a sync costs nothing, if there is such a directory.
    #[test]
    fn both_machines_answer_alike_in_memory(ops in vec(any_op(), 1..80)) {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() {
            check_both_answer_alike(memory, &ops)?;
        }
    }
}

/// Runs `test` on each machine, with an empty directory.
fn on_both(test: impl Fn(Arc<dyn Env>, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    test(OsEnv::new().unwrap(), dir.path());
    let sim = SimEnv::new(1);
    sim.create_dir_all(dir.path()).unwrap();
    test(sim, dir.path());
}

#[test]
fn open_files_outlive_their_names() {
    on_both(|env, dir| {
        let (path, other) = (dir.join("a"), dir.join("b"));
        let mut writer = env.create(&path).unwrap();
        let reader = env.open_read(&path).unwrap();
        writer.append(b"one").unwrap();
        env.rename(&path, &other).unwrap();
        writer.append(b"two").unwrap();
        env.remove(&other).unwrap();
        writer.append(b"three").unwrap();
        assert_eq!(&reader.read_at(0, 11).unwrap()[..], b"onetwothree");
        assert_eq!(reader.map().unwrap(), reader.read_at(0, 11).unwrap());
        let map = reader.map_at_random().unwrap();
        assert_eq!(map.look(3, 5, <[u8]>::to_vec).unwrap(), b"twoth");
        let past = map.look(3, 9, <[u8]>::to_vec).unwrap_err();
        assert_eq!(past.kind(), ErrorKind::UnexpectedEnd);
        assert!(!env.exists(&path).unwrap() && !env.exists(&other).unwrap());
    });
}

#[test]
fn stamp_is_another_one_after_a_change_and_after_a_rename_over_it() {
    on_both(|env, dir| {
        let (path, other) = (dir.join("a"), dir.join("b"));
        let mut writer = env.create(&path).unwrap();
        let empty = env.stamp(&path).unwrap();
        writer.append(b"one").unwrap();
        let first = env.stamp(&path).unwrap();
        assert_eq!((empty.bytes, first.bytes), (0, 3));
        assert_eq!(env.stamp(&path).unwrap(), first);
        let mut second = env.create(&other).unwrap();
        second.append(b"two").unwrap();
        env.rename(&other, &path).unwrap();
        let replaced = env.stamp(&path).unwrap();
        assert_eq!(replaced.bytes, first.bytes);
        assert_ne!(replaced.identity, first.identity, "the first one is open");
        let error = env.stamp(&other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn paths_that_name_no_file_are_refused() {
    on_both(|env, _| {
        for path in ["/", "..", ""] {
            assert!(env.replace(Path::new(path), b"x").is_err(), "{path:?}");
            assert!(env.create(Path::new(path)).is_err(), "{path:?}");
            assert!(env.open_read(Path::new(path)).is_err(), "{path:?}");
        }
        env.create_dir_all(Path::new("/")).unwrap();
    });
}

#[test]
fn clocks_and_randomness_move_on() {
    on_both(|env, _| {
        let (wall, since_start) = (env.now_micros(), env.monotonic());
        env.sleep(std::time::Duration::from_millis(2));
        assert!(env.now_micros() > wall);
        assert!(env.monotonic() >= since_start + std::time::Duration::from_millis(2));
        let (mut one, mut other) = ([0; 100], [0; 100]);
        env.random(&mut one);
        env.random(&mut other);
        assert_ne!(one, other);
        assert_ne!(one[90..], [0; 10]);
        env.random(&mut []);
    });
}
