//! A collection that is split or merged while it is read, and between two runs.

use crate::fake::{Fake, Fault};
use crate::faults::{LONG, documents, env, run, target};
use crate::wire::{listen, request};
use quire_ship::{
    Access, Change, CollectionSource, Cursor, Error, Failure, Http, Result, ServerSource,
    ShipOptions, Sink, Source, Target, Topic, Verdict, ship, status,
};
use quiredb::{Collection, CollectionSettings, Database, Document, Env, Key};
use serde_json::{Value, json};
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A log of key and position by partition of four. It has two partitions until it is split.
#[derive(Debug, Clone)]
struct Log(Arc<Mutex<LogState>>);

#[derive(Debug)]
struct LogState {
    changes: Vec<(u32, u64)>,
    partitions: u32,
    /// It is split after this number of reads.
    split_after: u64,
    /// Where the state of the sink `search` is, and the stored cursors that readers began at.
    state: PathBuf,
    began: Vec<String>,
}

impl Log {
    fn new(count: u64, split_after: u64, state: &Path) -> Log {
        let changes = (1..=count).map(|position| ((position * 7 % 4) as u32, position));
        Log(Arc::new(Mutex::new(LogState {
            changes: changes.collect(),
            partitions: 2,
            split_after,
            state: state.to_owned(),
            began: Vec::new(),
        })))
    }
}

impl Source for Log {
    fn identity(&self) -> String {
        "log".to_owned()
    }

    fn grows(&self) -> bool {
        true
    }

    fn has_dense_positions(&self) -> bool {
        true
    }

    fn open(&self, place: Option<&Value>) -> Result<Box<dyn Topic>> {
        let mut log = self.0.lock().unwrap();
        let stored = status(&*env(), &log.state, "search").unwrap();
        let cursor = stored.as_ref().map(|stored| stored.cursor().to_string());
        assert_eq!(
            stored.and_then(|stored| stored.place).as_ref(),
            place,
            "what was read is stored before it is opened anew"
        );
        log.began.push(cursor.unwrap_or_default());
        Ok(Box::new(LogTopic {
            log: self.clone(),
            partitions: log.partitions,
        }))
    }
}

struct LogTopic {
    log: Log,
    partitions: u32,
}

impl Topic for LogTopic {
    fn read(&mut self, cursor: &Cursor, _: usize, _: Duration) -> Result<Vec<Change>> {
        let mut log = self.log.0.lock().unwrap();
        match log.split_after.checked_sub(1) {
            Some(left) => log.split_after = left,
            None => log.partitions = 4,
        }
        if log.partitions != self.partitions {
            return Err(Error::SourceSplit);
        }
        let changes = log.changes.iter().map(|(quarter, position)| Change {
            partition: quarter * self.partitions / 4,
            position: *position,
            time_micros: 0,
            key: format!("k{position}").into(),
            document: Some("{}".into()),
        });
        let is_new = |change: &Change| change.position > cursor.position(change.partition);
        Ok(changes.filter(is_new).take(5).collect())
    }

    fn resumed(&self, cursor: Cursor, place: Option<&Value>) -> Result<Cursor> {
        match place == Some(&json!(2)) && self.partitions == 4 {
            true => {
                let position = |partition: u32| cursor.position(partition / 2);
                Ok(Cursor::new((0..4).map(position).collect()))
            }
            false => Ok(cursor),
        }
    }

    fn place(&self) -> Option<Value> {
        Some(json!(self.partitions))
    }
}

/// Takes each change once. Is busy now and then.
#[derive(Debug, Default)]
struct Once {
    taken: Mutex<Vec<u64>>,
    calls: AtomicU64,
    /// So often it can't make durable what it took.
    failing_syncs: AtomicU64,
}

impl Sink for Once {
    fn send(&self, bulk: &[&Change]) -> Result<Vec<Verdict>, Failure> {
        if self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) {
            return Err(Failure::Busy("it is busy".to_owned()));
        }
        let positions = bulk.iter().map(|change| change.position);
        self.taken.lock().unwrap().extend(positions);
        Ok(vec![Verdict::Done; bulk.len()])
    }

    fn concurrency_max(&self) -> usize {
        2
    }

    fn begin(&self, _mark: Option<&Value>) -> Result<(), Failure> {
        Ok(())
    }

    fn sync(&self) -> Result<(), Failure> {
        let (order, less) = (Ordering::Relaxed, |left: u64| left.checked_sub(1));
        match self.failing_syncs.fetch_update(order, order, less) {
            Ok(_) => Err(Failure::NoAnswer("it does not answer".to_owned())),
            Err(_) => Ok(()),
        }
    }
}

/// A sink of that kind, and the target of it.
fn once() -> (Arc<Once>, Target) {
    let sink = Arc::new(Once::default());
    let target = Target {
        name: "search".to_owned(),
        sink: sink.clone(),
        bulk_bytes: Some(300),
        concurrency: Some(2),
        dead_letters_max: 0,
    };
    (sink, target)
}

impl Once {
    /// The positions that it took, in order.
    fn taken(&self) -> Vec<u64> {
        let mut taken = self.taken.lock().unwrap().clone();
        taken.sort_unstable();
        taken
    }
}

#[test]
fn a_lane_goes_on_with_the_new_partitions_when_all_that_was_read_is_stored() {
    for split_after in [0, 1, 4, 7] {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let (log, (sink, target)) = (Log::new(40, split_after, &state), once());
        // It is to store what was read before the split.
        sink.failing_syncs
            .store(split_after.min(1), Ordering::Relaxed);
        let progress = run(&env(), &log, &target, &state, &|| false).unwrap();
        assert!(progress.is_level);
        assert_eq!(progress.changes, 40);
        assert_eq!(sink.failing_syncs.load(Ordering::Relaxed), 0);
        let all: Vec<u64> = (1..=40).collect();
        assert_eq!(sink.taken(), all, "{split_after}");
        let stored = status(&*env(), &state, "search").unwrap().unwrap();
        assert_eq!(stored.place, Some(json!(4)));
        assert_eq!(stored.cursor().to_string(), "40,39,38,37", "{split_after}");
        assert_eq!(stored.changes, 40);
        let began = log.0.lock().unwrap().began.clone();
        assert_eq!(began.len(), 2, "{began:?}");
        // Of each read there are five.
        let read = 5 * split_after;
        let last = Cursor::parse(&began[1]).unwrap();
        assert_eq!(last.positions().iter().max().unwrap_or(&0), &read);
    }
}

#[test]
fn a_lane_that_is_stopped_while_it_crosses_a_split_is_taken_up_by_the_next_run() {
    for looks_max in [1, 2, 5, 8, 12, 20] {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let (log, (sink, target)) = (Log::new(60, 3, &state), once());
        let looks = AtomicU64::new(0);
        let stop = || looks.fetch_add(1, Ordering::Relaxed) > looks_max;
        let end = run(&env(), &log, &target, &state, &stop);
        assert!(end.is_ok() || matches!(end, Err(Error::Stopped)), "{end:?}");
        run(&env(), &log, &target, &state, &|| false).unwrap();
        let mut taken = sink.taken();
        taken.dedup();
        assert_eq!(taken, (1..=60).collect::<Vec<u64>>(), "{looks_max}");
        let stored = status(&*env(), &state, "search").unwrap().unwrap();
        assert_eq!(stored.cursor().to_string(), "60,59,58,57");
    }
}

fn put(collection: &Collection, key: u64, value: u64) {
    let json = format!("{{\"_id\":{key},\"value\":{value}}}");
    let document = Document::from_json(json.as_bytes()).unwrap();
    collection.put(&document).unwrap();
}

fn tracks(dir: &Path, partitions: u32) -> (Database, Collection) {
    let database = Database::open(dir.join("db")).unwrap();
    let settings = CollectionSettings {
        partitions,
        ..CollectionSettings::default()
    };
    let collection = database.create_collection("tracks", settings).unwrap();
    (database, collection)
}

#[test]
fn a_collection_that_is_split_or_merged_between_two_runs_is_read_on() {
    let (env, dir) = (env(), tempfile::tempdir().unwrap());
    let (database, collection) = tracks(dir.path(), 2);
    let source = CollectionSource::new(collection.clone(), "db/tracks", false);
    let (fake, state) = (Fake::start(vec![]), dir.path().join("state"));
    let target = target(&env, &fake.url, LONG);
    (0..100).for_each(|key| put(&collection, key, key));
    run(&env, &source, &target, &state, &|| false).unwrap();
    (50..60).for_each(|key| put(&collection, key, 1));
    database.split_collection("tracks", 4, &|_| true).unwrap();
    collection.delete(&Key::from(3)).unwrap();
    (90..110).for_each(|key| put(&collection, key, 2));
    let progress = run(&env, &source, &target, &state, &|| false).unwrap();
    // Ten before the split; a deletion and twenty after it.
    assert_eq!((progress.changes, progress.lag_changes), (31, Some(0)));
    assert_eq!(
        fake.state.lock().unwrap().documents(),
        documents(&collection)
    );
    database.split_collection("tracks", 12, &|_| true).unwrap();
    let progress = run(&env, &source, &target, &state, &|| false).unwrap();
    assert_eq!((progress.changes, progress.lag_changes), (0, Some(0)));
    let stored = status(&*env, &state, "search").unwrap().unwrap();
    assert_eq!(stored.place.unwrap()["partitions"], json!(12));

    // Between two runs it is merged, and written before, meanwhile and afterwards.
    (40..60).for_each(|key| put(&collection, key, 4));
    let writes = AtomicU64::new(0);
    let watch = |_| {
        put(&collection, writes.fetch_add(1, Ordering::Relaxed) % 40, 5);
        true
    };
    database.merge_collection("tracks", 3, &watch).unwrap();
    collection.delete(&Key::from(58)).unwrap();
    let progress = run(&env, &source, &target, &state, &|| false).unwrap();
    assert!((21..150).contains(&progress.changes), "{progress:?}");
    assert_eq!(progress.lag_changes, Some(0));
    assert_eq!(
        fake.state.lock().unwrap().documents(),
        documents(&collection)
    );
    let stored = status(&*env, &state, "search").unwrap().unwrap();
    assert_eq!(stored.place.unwrap()["partitions"], json!(3));
    let progress = run(&env, &source, &target, &state, &|| false).unwrap();
    assert_eq!((progress.changes, progress.lag_changes), (0, Some(0)));
}

#[test]
fn the_position_of_an_older_program_leaves_nothing_out_though_it_has_no_number_of_partitions() {
    let (env, dir) = (env(), tempfile::tempdir().unwrap());
    let (database, collection) = tracks(dir.path(), 2);
    let source = CollectionSource::new(collection.clone(), "db/tracks", false);
    let (fake, state) = (Fake::start(vec![]), dir.path().join("state"));
    let target = target(&env, &fake.url, LONG);
    (0..50).for_each(|key| put(&collection, key, key));
    run(&env, &source, &target, &state, &|| false).unwrap();
    let path = state.join("search.position.json");
    let mut stored: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let place = stored["place"].as_object_mut().unwrap();
    assert_eq!(place.remove("partitions"), Some(json!(2)));
    std::fs::write(&path, stored.to_string()).unwrap();
    (20..70).for_each(|key| put(&collection, key, 1));
    database.split_collection("tracks", 8, &|_| true).unwrap();
    run(&env, &source, &target, &state, &|| false).unwrap();
    assert_eq!(
        fake.state.lock().unwrap().documents(),
        documents(&collection)
    );
}

#[test]
fn a_run_goes_on_while_its_collection_is_written_split_and_merged() {
    let (env, dir) = (env(), tempfile::tempdir().unwrap());
    let (database, collection) = tracks(dir.path(), 2);
    let source = CollectionSource::new(collection.clone(), "db/tracks", true);
    let faults = vec![Fault::RejectItems, Fault::Away, Fault::HalfAnswer];
    let (fake, state) = (Fake::start(faults), dir.path().join("state"));
    let target = target(&env, &fake.url, LONG);
    (0..500).for_each(|key| put(&collection, key, 0));
    let options = ShipOptions {
        state: state.clone(),
        once: false,
        report_every: Duration::from_millis(100),
    };
    let (is_over, is_split) = (AtomicBool::new(false), AtomicBool::new(false));
    let lag = Mutex::new(None);
    thread::scope(|scope| {
        let shipping = scope.spawn(|| {
            let observe = |progress: &quire_ship::Progress| {
                *lag.lock().unwrap() = progress.lag_changes;
            };
            let stop = || is_over.load(Ordering::Relaxed);
            ship(&env, &source, &[target], &options, &observe, &stop)
        });
        let writing = scope.spawn(|| {
            let mut turn = 0;
            while !is_split.load(Ordering::Relaxed) || turn < 3_000 {
                turn += 1;
                put(&collection, turn * 31 % 700, turn);
                if turn % 10 == 0 {
                    let key = Key::from(turn * 17 % 700);
                    collection.delete(&key).unwrap();
                }
            }
        });
        for partitions in [4, 12] {
            database
                .split_collection("tracks", partitions, &|_| true)
                .unwrap();
        }
        database.merge_collection("tracks", 6, &|_| true).unwrap();
        is_split.store(true, Ordering::Relaxed);
        writing.join().unwrap();
        let expected = documents(&collection);
        let mut looks = 0;
        while fake.state.lock().unwrap().documents() != expected {
            assert!(!shipping.is_finished(), "it ended by itself");
            looks += 1;
            assert!(looks < 3_000, "it is not level after a minute");
            thread::sleep(Duration::from_millis(20));
        }
        // Partitions end after their last changes, and it is level all the same.
        thread::sleep(Duration::from_millis(1_500));
        assert_eq!(*lag.lock().unwrap(), Some(0));
        is_over.store(true, Ordering::Relaxed);
        let ends = shipping.join().unwrap().unwrap();
        assert!(matches!(ends[0], Err(Error::Stopped)), "{:?}", ends[0]);
    });
    let stored = status(&*env, &state, "search").unwrap().unwrap();
    assert_eq!(stored.place.unwrap()["partitions"], json!(6));
    assert!(!fake.state.lock().unwrap().key_in_two_bulks);
}

/// A server with a collection of one key a position, which is in the partition of four that the
/// position says. It has two partitions until it is split.
#[derive(Debug)]
struct Server {
    positions: Vec<u64>,
    partitions: u32,
    /// It is split after this number of requests for changes.
    split_after: Option<u64>,
    /// Where all partitions end, also those whose last change is before that.
    end: u64,
}

impl Server {
    /// None for a cursor of more partitions than there are.
    fn answer(&mut self, path: &str) -> Option<String> {
        if path.contains("/_stats") {
            return Some(json!({"indices": {"tracks": {"uuid": "one"}}}).to_string());
        }
        if self.split_after == Some(0) {
            self.partitions = 4;
        }
        self.split_after = self.split_after.and_then(|left| left.checked_sub(1));
        let parameter = |name: &str| {
            let (_, query) = path.split_once('?').unwrap();
            let mut all = query.split('&').filter_map(|one| one.split_once('='));
            all.find(|(found, _)| *found == name)
                .map(|(_, value)| value)
        };
        let after = parameter("after")
            .and_then(Cursor::parse)
            .unwrap_or_default();
        let times = match after.positions().len() as u32 {
            0 => 1,
            given => self.partitions / given,
        };
        if times == 0 {
            return None;
        }
        let only: Option<u32> = parameter("partition").map(|one| one.parse().unwrap());
        let limit: usize = parameter("limit").unwrap().parse().unwrap();
        let mut seen = Cursor::new(vec![0; self.partitions as usize]);
        for partition in 0..self.partitions {
            seen.advance(partition, after.position(partition / times));
        }
        let (mut lines, mut found) = (String::new(), 0);
        for position in self.positions.iter().copied() {
            let partition = (position % 4) as u32 * self.partitions / 4;
            let is_wanted = only.is_none_or(|only| only == partition);
            if position <= seen.position(partition) || !is_wanted {
                continue;
            }
            if found == limit.min(10) {
                return Some(format!("{lines}{{\"cursor\":\"{seen}\"}}\n"));
            }
            found += 1;
            seen.advance(partition, position);
            lines += &format!(
                "{{\"partition\":{partition},\"position\":{position},\"key\":\"{position}\",\
                 \"document\":{{}}}}\n"
            );
        }
        for partition in 0..self.partitions {
            if only.is_none_or(|only| only == partition) {
                seen.advance(partition, self.end);
            }
        }
        Some(format!("{lines}{{\"cursor\":\"{seen}\"}}\n"))
    }
}

fn served(env: &Arc<dyn Env>, server: &Arc<Mutex<Server>>) -> ServerSource {
    let shared = Arc::clone(server);
    let url = listen(move |stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some((_, path, _)) = request(&mut reader) {
            let answer = shared.lock().unwrap().answer(&path);
            let status = if answer.is_some() { 200 } else { 400 };
            let answer = answer.unwrap_or_default();
            let length = answer.len();
            let text = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{answer}");
            if stream.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    });
    let access = Access {
        url,
        timeout: LONG,
        ..Access::default()
    };
    ServerSource::new(Http::new(&**env, &access, 1).unwrap(), "tracks")
}

#[test]
fn a_collection_of_a_server_that_is_split_is_read_on() {
    // While it is opened, while it is read, between two runs.
    for split_after in [Some(0), Some(1), Some(3), None] {
        let (env, dir) = (env(), tempfile::tempdir().unwrap());
        let server = Arc::new(Mutex::new(Server {
            positions: (1..=90).collect(),
            partitions: 2,
            split_after,
            end: 100,
        }));
        let source = served(&env, &server);
        let ((sink, target), state) = (once(), dir.path().join("state"));
        let progress = run(&env, &source, &target, &state, &|| false).unwrap();
        assert_eq!(progress.changes, 90, "{split_after:?}");
        let change = |partitions: u32, positions: std::ops::RangeInclusive<u64>, end: u64| {
            let mut server = server.lock().unwrap();
            (server.partitions, server.end) = (partitions, end);
            server.positions.retain(|position| *position < 50);
            server.positions.extend(positions);
        };
        change(4, 101..=103, 103);
        let progress = run(&env, &source, &target, &state, &|| false).unwrap();
        assert_eq!(progress.changes, 3, "{split_after:?}");
        let all: Vec<u64> = (1..=90).chain(101..=103).collect();
        assert_eq!(sink.taken(), all, "{split_after:?}");

        // A partition may end where it has no change, but not before what was read of it.
        change(4, 104..=104, 110);
        let progress = run(&env, &source, &target, &state, &|| false).unwrap();
        assert_eq!(progress.changes, 1);
        for (partitions, says) in [
            (4, "past the end of partition"),
            (2, "of 4 partitions, and the collection has 2"),
        ] {
            change(partitions, 50..=60, 60);
            let error = run(&env, &source, &target, &state, &|| false).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
