//! Failing reads, vanished disks, slow disks: a short history with each fault at every single
//! place.
//!
//! Each answer is right or an error; no acknowledged write is lost; one fault of the machine costs
//! one error, and no more once the faults end and, if a disk was gone, the database was opened
//! again.

use quire_env::{Absence, Env, Latency, ReadFault, SimEnv};
use quiredb::{
    Collection, CollectionSettings, Database, DatabaseBuilder, DatabaseOptions, Document,
    Durability, Effect, Error, ErrorKind, Key, Medium, Position, Volumes, Write,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const KEYS: u32 = 12;

/// One operation of a client.
#[derive(Debug, Clone, Copy)]
enum Act {
    Put(u32, usize),
    Patch(u32),
    Delete(u32),
    Get,
    MultiGet,
    Scan,
    Tail,
    Flush,
    Compact,
    Jobs,
    Reopen { close: bool },
}

fn history() -> Vec<Act> {
    use Act::*;
    vec![
        Put(0, 100),
        Put(1, 3_000),
        Put(2, 10),
        Flush,
        Patch(0),
        Delete(1),
        Put(3, 200),
        Get,
        Flush,
        Scan,
        Reopen { close: true },
        Get,
        Put(4, 20_000),
        Patch(3),
        Flush,
        Jobs,
        Compact,
        Reopen { close: true },
        MultiGet,
        Put(5, 30),
        Reopen { close: false },
        Scan,
        Patch(4),
        Delete(0),
        Flush,
        Compact,
        Tail,
        Reopen { close: true },
        Tail,
        Get,
    ]
}

/// The documents that a key may have: more than one after a failed write.
type Possible = BTreeSet<Option<String>>;

/// A client, its database on a simulated machine, and the documents that it expects.
struct Client {
    env: Arc<SimEnv>,
    volumes: Volumes,
    database: Option<Database>,
    created: bool,
    known: BTreeMap<u32, Possible>,
    /// What failed writes of this opening may have left on the disk: it may show once the database
    /// is opened again, whatever was read meanwhile.
    doubted: BTreeMap<u32, Possible>,
    written: u32,
    /// The errors so far.
    errors: Vec<(String, ErrorKind)>,
}

fn key(n: u32) -> Key {
    Key::from(i64::from(n))
}

impl Client {
    fn new(seed: u64) -> Client {
        let env = SimEnv::new(seed);
        let volumes = ["/disks/a/db", "/disks/b/db"].map(|path| (PathBuf::from(path), Medium::Ssd));
        for disk in ["/disks/a", "/disks/b"] {
            env.create_dir_all(Path::new(disk)).unwrap();
        }
        // So that table files take turns.
        env.set_capacity_below(Path::new("/disks/a"), 1 << 30);
        env.set_capacity_below(Path::new("/disks/b"), 1 << 30);
        Client {
            env,
            volumes: Volumes::new(volumes).unwrap(),
            database: None,
            created: false,
            known: BTreeMap::new(),
            doubted: BTreeMap::new(),
            written: 0,
            errors: Vec::new(),
        }
    }

    fn note(&mut self, doing: String, error: &Error) {
        self.errors
            .push((format!("{doing}: {error}"), error.kind()));
    }

    fn collection(&mut self) -> Result<Collection, Error> {
        let database = match &self.database {
            Some(database) => database.clone(),
            None => {
                let options = DatabaseOptions {
                    create_if_missing: !self.created,
                    ..DatabaseOptions::default()
                };
                let database = DatabaseBuilder::on(&self.volumes)
                    .env(self.env.clone())
                    .options(options)
                    .open()?;
                self.created = true;
                for (n, left) in std::mem::take(&mut self.doubted) {
                    self.known.entry(n).or_default().extend(left);
                }
                self.database.insert(database).clone()
            }
        };
        let settings = || CollectionSettings {
            partitions: 2,
            ..CollectionSettings::default()
        };
        match self.known.is_empty() {
            true => database.collection_or_create("docs", settings),
            // Once it was made, that there is none would be a wrong answer.
            false => database.collection("docs"),
        }
    }

    /// Runs one operation; an error is noted, a wrong answer fails the test.
    fn act(&mut self, act: Act) {
        if let Err(error) = self.try_act(act) {
            self.note(format!("{act:?}"), &error);
        }
    }

    fn try_act(&mut self, act: Act) -> Result<(), Error> {
        if let Act::Reopen { close } = act {
            if let Some(database) = self.database.take()
                && close
            {
                database.close()?;
            }
            return self.collection().map(drop);
        }
        let collection = self.collection()?;
        match act {
            Act::Put(n, bytes) => {
                self.written += 1;
                let text = format!(r#"{{"n":{},"x":"{}"}}"#, self.written, "x".repeat(bytes));
                let document = Document::from_json(text.as_bytes()).unwrap();
                self.write(&collection, n, Write::put(key(n), document), Some(text))
            }
            Act::Patch(n) => {
                // A patch is of what is there, so that must be clear.
                let found = self.get(&collection, n)?;
                self.written += 1;
                let patch = format!(r#"{{"n":{}}}"#, self.written);
                let patched = found.map(|text| {
                    let (_, rest) = text.split_once(',').unwrap();
                    format!(r#"{{"n":{},{rest}"#, self.written)
                });
                let patch = Document::from_json(patch.as_bytes()).unwrap();
                match (
                    self.write(&collection, n, Write::patch(key(n), patch), patched.clone()),
                    patched,
                ) {
                    (Err(error), None) if error.kind() == ErrorKind::NotFound => Ok(()),
                    (result, _) => result,
                }
            }
            Act::Delete(n) => self.write(&collection, n, Write::delete(key(n)), None),
            Act::Get => {
                for n in 0..KEYS {
                    self.get(&collection, n)?;
                }
                Ok(())
            }
            Act::MultiGet => {
                let keys: Vec<_> = (0..KEYS).map(key).collect();
                let found = collection.get_many(&keys)?;
                for (n, found) in (0..KEYS).zip(found) {
                    self.saw(n, found.map(|found| found.document.to_json()));
                }
                Ok(())
            }
            Act::Scan => {
                let mut found = BTreeMap::new();
                for document in collection.scan(..)? {
                    let document = document?;
                    found.insert(document.key.clone(), document.document.to_json());
                }
                assert!(found.len() as u64 == collection.count()?);
                for n in 0..KEYS {
                    let document = found.remove(&key(n));
                    self.saw(n, document);
                }
                assert!(found.is_empty(), "{found:?}");
                Ok(())
            }
            Act::Tail => self.tail(&collection),
            Act::Flush => collection.flush(),
            Act::Compact => collection.compact(),
            Act::Jobs => {
                self.env.run_due();
                self.env.advance(Duration::from_secs(2));
                self.env.run_due();
                Ok(())
            }
            Act::Reopen { .. } => Ok(()),
        }
    }

    /// The last change of each key in the log is the key's document.
    fn tail(&mut self, collection: &Collection) -> Result<(), Error> {
        let mut last = BTreeMap::new();
        for change in collection.tail(Position(1))? {
            let change = change?;
            last.insert(change.key, change.document.map(|found| found.to_json()));
        }
        for n in 0..KEYS {
            let document = last.remove(&key(n)).flatten();
            self.saw(n, document);
        }
        Ok(())
    }

    fn get(&mut self, collection: &Collection, n: u32) -> Result<Option<String>, Error> {
        let found = collection.get(&key(n))?;
        let found = found.map(|found| found.document.to_json());
        self.saw(n, found.clone());
        Ok(found)
    }

    /// The document that was read must be one that the key may have; from now on it is the only
    /// one in this opening.
    fn saw(&mut self, n: u32, found: Option<String>) {
        let possible = self.known.entry(n).or_insert_with(|| [None].into());
        assert!(
            possible.contains(&found),
            "key {n} is {found:.60?}, and should be one of {possible:.60?}; errors: {:#?}",
            self.errors
        );
        *possible = [found].into();
    }

    fn write(
        &mut self,
        collection: &Collection,
        n: u32,
        write: Write,
        then: Option<String>,
    ) -> Result<(), Error> {
        let result = collection
            .batch()
            .writes(vec![write])
            .durability(Durability::Sync)
            .write()
            .remove(0);
        let possible = self.known.entry(n).or_insert_with(|| [None].into());
        match &result {
            Ok(written) if written.effect == Effect::Unchanged => {
                assert!(possible.contains(&then));
                *possible = [then].into();
            }
            Ok(_) => {
                *possible = [then].into();
                self.doubted.remove(&n);
            }
            Err(_) => {
                possible.insert(then.clone());
                self.doubted.entry(n).or_default().insert(then);
            }
        }
        result.map(drop)
    }

    /// Without faults: everything is as expected, now, after opening again, and after a crash.
    fn finish(&mut self, reopen: bool) {
        self.env.heal();
        self.errors.clear();
        if reopen {
            self.database = None;
        }
        for act in [
            Act::Scan,
            Act::Put(KEYS - 1, 50),
            Act::Flush,
            Act::Get,
            Act::Reopen { close: true },
            Act::MultiGet,
            Act::Tail,
        ] {
            self.act(act);
            assert_eq!(self.errors, [], "on a machine that is well");
        }
        self.database = None;
        self.env = self.env.after_crash(7);
        let report = quiredb::operations::verify(
            self.env.clone(),
            self.volumes.clone(),
            &Default::default(),
            &mut |_, _| {},
        )
        .unwrap();
        assert_eq!(report.damage, []);
        for act in [Act::Compact, Act::Scan] {
            self.act(act);
            assert_eq!(self.errors, [], "after a crash");
        }
    }
}

/// Steps and reads of the history without faults.
fn size_of(history: &[Act]) -> (u64, u64) {
    let mut client = Client::new(1);
    for act in history {
        client.act(*act);
    }
    let size = (client.env.operations(), client.env.reads());
    assert_eq!(client.errors, []);
    client.finish(false);
    size
}

/// The errors that a failing read may cause.
fn is_reported_as(fault: ReadFault, kind: ErrorKind) -> bool {
    match fault {
        ReadFault::Eio => kind == ErrorKind::Io,
        // A file that ends too early looks damaged.
        ReadFault::Short => kind == ErrorKind::Corrupt,
    }
}

#[test]
fn read_that_fails_once_costs_one_error_wherever_it_is() {
    let history = history();
    let (_, reads) = size_of(&history);
    let (mut seen, mut read_only) = (0, 0);
    for fault in [ReadFault::Eio, ReadFault::Short] {
        for read in 0..reads {
            println!("{fault:?} at read {read}");
            let mut client = Client::new(1);
            client.env.fail_read_at(read, fault);
            for act in &history {
                client.act(*act);
            }
            let errors = std::mem::take(&mut client.errors);
            let mut rest = errors.iter();
            if let Some((text, kind)) = rest.next() {
                assert!(is_reported_as(fault, *kind), "{text} ({kind:?})");
                seen += 1;
            }
            // A log that has made a file and can't open it goes read-only, as after any step that
            // failed half-way.
            let rest: Vec<_> = rest.collect();
            let half_way = rest.iter().all(|(_, kind)| *kind == ErrorKind::ReadOnly);
            assert!(half_way, "{errors:#?}");
            read_only += usize::from(!rest.is_empty());
            client.finish(false);
        }
    }
    println!("{seen} errors at {reads} reads, read-only after {read_only}");
    assert!(seen > 100 && read_only * 20 < seen);
}

#[test]
fn while_reads_fail_no_answer_is_wrong_and_when_they_work_again_all_is_there() {
    let history = history();
    let (_, reads) = size_of(&history);
    for fault in [ReadFault::Eio, ReadFault::Short] {
        for read in (0..reads).step_by(3) {
            println!("{fault:?} from read {read}");
            let mut client = Client::new(1);
            client.env.fail_reads_from(read, fault);
            for act in &history {
                client.act(*act);
            }
            assert_ne!(client.errors, []);
            let mut errors = client.errors.iter();
            let (text, kind) = errors.next().unwrap();
            assert!(is_reported_as(fault, *kind), "{text} ({kind:?})");
            for (text, kind) in errors {
                let known = is_reported_as(fault, *kind) || *kind == ErrorKind::ReadOnly;
                assert!(known, "{text} ({kind:?})");
            }
            client.finish(true);
        }
    }
}

#[test]
fn file_that_cannot_be_read_costs_what_depends_on_it_and_no_more() {
    let history = history();
    let mut client = Client::new(1);
    for act in &history {
        client.act(*act);
    }
    let files = client.env.files();
    for bad in files {
        println!("{} can't be read", bad.display());
        let mut client = Client::new(1);
        for act in &history {
            client.act(*act);
        }
        client.database = None;
        client.env.fail_reads_of(&bad);
        for act in [
            Act::Get,
            Act::Scan,
            Act::Put(2, 10),
            Act::Flush,
            Act::Compact,
        ] {
            client.act(act);
        }
        for (text, kind) in &client.errors {
            assert_eq!(*kind, ErrorKind::Io, "{text}");
            assert!(text.contains(bad.to_str().unwrap()), "{text}");
        }
        client.finish(true);
    }
}

#[test]
fn disk_that_vanishes_at_any_step_loses_nothing() {
    let history = history();
    let (made, _) = size_of(&history[..1]);
    let (steps, _) = size_of(&history);
    for (disk, every) in [("/disks/b", 1), ("/disks/a", 2)] {
        for absence in [Absence::Failing, Absence::Unmounted] {
            // Steps before `made` are left out: a disk that is away while the database is made is
            // another case.
            for step in (made..steps).step_by(every) {
                println!("{disk} at step {step}: {absence:?}");
                let mut client = Client::new(1);
                client.env.vanish_at(step, Path::new(disk), absence);
                for act in &history {
                    client.act(*act);
                }
                for (text, kind) in &client.errors {
                    let known = match kind {
                        ErrorKind::Io | ErrorKind::ReadOnly => true,
                        // The first disk is replaced by an empty directory, so its files look
                        // missing. Another disk is reported as lost.
                        ErrorKind::NotFound | ErrorKind::Corrupt | ErrorKind::Invalid => {
                            let empty = disk == "/disks/a" && absence == Absence::Unmounted;
                            empty
                                && (text.contains("No such file")
                                    || text.contains("missing")
                                    || text.contains("no database here")
                                    || text.contains("no CATALOG"))
                        }
                        _ => false,
                    };
                    assert!(known, "{text} ({kind:?})");
                }
                client.finish(true);
            }
        }
    }
}

#[test]
fn slow_disk_changes_no_answer_and_time_is_seen_to_pass() {
    let history = history();
    let took = |latency| {
        let mut client = Client::new(1);
        client.env.set_latency(latency);
        let before = client.env.monotonic();
        for act in &history {
            client.act(*act);
        }
        let took = client.env.monotonic() - before;
        assert_eq!(client.errors, []);
        client.finish(false);
        (took, client.env.operations() + client.env.reads())
    };
    let (fast, _) = took(Latency::default());
    let slow = Latency {
        per_operation: Duration::from_millis(20),
        per_mib: Duration::from_secs(1),
        jitter: Duration::from_millis(200),
    };
    let (slow, calls) = took(slow);
    assert!(
        slow > fast + Duration::from_millis(20) * calls as u32,
        "{slow:?}"
    );
}
