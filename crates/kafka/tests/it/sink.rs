//! The topic as a sink.

use crate::broker::Broker;
use crate::{Documents, Producer, TOPIC, read};
use quire_env::{Env, OsEnv};
use quire_kafka::{KafkaOptions, KafkaSink, KafkaSinkOptions, KafkaSource};
use quire_ship::{
    Change, Cursor, Error, FileSource, Progress, ShipOptions, SinkConfig, Source, SourceConfig,
    ship,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// A pipe from a file of changes, which grows, into the topic.
struct Pipe {
    env: Arc<dyn Env>,
    folder: TempDir,
    sink: SinkConfig,
    lines: u64,
}

impl Pipe {
    fn new(broker: &Broker, compression: &str) -> Pipe {
        let pipe = Pipe {
            env: OsEnv::new().unwrap(),
            folder: TempDir::new().unwrap(),
            sink: SinkConfig {
                name: "topic".to_owned(),
                kind: "kafka".to_owned(),
                url: Some(format!("kafka://127.0.0.1:{}", broker.port)),
                topic: Some(TOPIC.to_owned()),
                compression: Some(compression.to_owned()),
                bulk_bytes: Some(16 << 10),
                timeout_s: Some(20),
                ..SinkConfig::default()
            },
            lines: 0,
        };
        std::fs::write(pipe.path(), "").unwrap();
        pipe
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("changes.ndjson")
    }

    /// Adds changes to the source: keys, each with a document or none.
    fn add(&mut self, changes: &[(String, Option<Value>)]) {
        let mut text = String::new();
        for (key, document) in changes {
            self.lines += 1;
            let (position, key) = (self.lines, Value::from(key.as_str()));
            let what = match document {
                Some(document) => format!("\"document\":{document}"),
                None => "\"deleted\":true".to_owned(),
            };
            text += &format!("{{\"partition\":0,\"position\":{position},\"key\":{key},{what}}}\n");
        }
        let mut file = OpenOptions::new().append(true).open(self.path()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn run(&self, once: bool, stop: &AtomicBool) -> Result<Progress, Error> {
        let source = FileSource::new(Arc::clone(&self.env), vec![self.path()], "_id");
        let options = KafkaSinkOptions::new(&*self.env, &self.sink)?;
        let sink = KafkaSink::new(Arc::clone(&self.env), options)?;
        let target = self.sink.target_of(Arc::new(sink));
        let options = ShipOptions {
            state: self.folder.path().join("state"),
            once,
            report_every: Duration::from_secs(1),
        };
        let is_stopped = || stop.load(Ordering::Relaxed);
        let (env, observe) = (&self.env, &|_: &Progress| ());
        let mut ends = ship(env, &source, &[target], &options, observe, &is_stopped)?;
        ends.pop().unwrap()
    }

    fn once(&self) -> Result<Progress, Error> {
        self.run(true, &AtomicBool::new(false))
    }
}

/// Writes records by Kafka's own client: a line of each, `|` between key and value.
fn produce_by_kafka(broker: &Broker, lines: &str) {
    let mut command = broker.java("org.apache.kafka.tools.ConsoleProducer");
    let address = format!("127.0.0.1:{}", broker.port);
    command
        .args(["--bootstrap-server", &address, "--topic", TOPIC])
        .args(["--reader-property", "parse.key=true"])
        .args(["--reader-property", "key.separator=|"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// All records of the topic, as changes.
fn records(broker: &Broker) -> Vec<Change> {
    let source = SourceConfig {
        kind: Some("kafka".to_owned()),
        url: Some(format!("kafka://127.0.0.1:{}", broker.port)),
        topic: Some(TOPIC.to_owned()),
        ..SourceConfig::default()
    };
    let source = KafkaSource::new(KafkaOptions::new(&*OsEnv::new().unwrap(), &source).unwrap());
    let mut topic = source.open(None).unwrap();
    let (mut all, mut cursor) = (Vec::new(), Cursor::default());
    loop {
        let read = topic.read(&cursor, 1 << 20, Duration::ZERO).unwrap();
        if read.is_empty() {
            return all;
        }
        for change in &read {
            cursor.advance(change.partition, change.position);
        }
        all.extend(read);
    }
}

/// What the topic has after its last record of each key.
fn documents(broker: &Broker) -> Documents {
    let mut documents = Documents::new();
    for change in records(broker) {
        let key = change.key.to_string();
        match change.document {
            Some(text) => documents.insert(key, serde_json::from_str(&text).unwrap()),
            None => documents.remove(&key),
        };
    }
    documents
}

#[test]
fn a_key_is_in_the_partition_where_kafkas_own_client_puts_it() {
    let Some(broker) = Broker::start() else {
        return;
    };
    Producer::new(&broker).create(5);
    let keys: Vec<String> = (0..60)
        .map(|number| format!("{number}-é{}", number * 7))
        .collect();
    let lines: Vec<String> = keys.iter().map(|key| format!("{key}|{{}}\n")).collect();
    produce_by_kafka(&broker, &lines.concat());
    let mut pipe = Pipe::new(&broker, "none");
    let changes = keys.iter().map(|key| (key.clone(), None));
    pipe.add(&changes.collect::<Vec<_>>());
    pipe.once().unwrap();
    let records = records(&broker);
    let places = |is_ours: bool| -> BTreeSet<(u32, &str)> {
        let of_one = records
            .iter()
            .filter(|record| record.document.is_none() == is_ours);
        of_one
            .map(|record| (record.partition, &*record.key))
            .collect()
    };
    assert_eq!(places(true).len(), 60);
    assert_eq!(places(true), places(false));
}

/// Adds changes of all keys, and of a few again, and to `right` what they are then.
fn add_round(pipe: &mut Pipe, round: usize, right: &mut Documents) {
    let mut changes = Vec::new();
    for step in 0..400 {
        let key = format!("k{}", step % 300);
        let is_gone = (step + round).is_multiple_of(7);
        let document = serde_json::json!({"round": round, "step": step, "text": "x".repeat(500)});
        match is_gone {
            true => right.remove(&key),
            false => right.insert(key.clone(), document.clone()),
        };
        changes.push((key, (!is_gone).then_some(document)));
    }
    pipe.add(&changes);
}

#[test]
fn the_topic_equals_the_source_over_stops_of_the_run_and_kills_of_the_broker() {
    let Some(mut broker) = Broker::start() else {
        return;
    };
    Producer::new(&broker).create(3);
    let mut right = Documents::new();
    let mut pipe = Pipe::new(&broker, "zstd");
    for round in 0..9 {
        pipe.sink.compression = Some(["zstd", "lz4", "snappy", "gzip", "none"][round % 5].into());
        add_round(&mut pipe, round, &mut right);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let running = std::thread::Builder::new();
            let running = running
                .spawn_scoped(scope, || pipe.run(false, &stop))
                .unwrap();
            std::thread::sleep(Duration::from_millis(20 * round as u64));
            if round % 3 == 2 {
                broker.kill();
                broker.run();
            }
            stop.store(true, Ordering::Relaxed);
            let end = running.join().unwrap();
            assert!(matches!(end, Err(Error::Stopped)), "{end:?}");
        });
    }
    pipe.once().unwrap();
    assert_eq!(documents(&broker), right);
    let times: BTreeSet<bool> = records(&broker)
        .iter()
        .map(|one| one.time_micros > 0)
        .collect();
    assert_eq!(times, BTreeSet::from([true]));
}

#[test]
fn a_record_that_is_too_large_is_put_aside_and_another_number_of_partitions_is_refused() {
    let Some(broker) = Broker::start() else {
        return;
    };
    let mut pipe = Pipe::new(&broker, "none");
    pipe.sink.bulk_bytes = None;
    let large = serde_json::json!({"text": "x".repeat(30_000)});
    let small = serde_json::json!({"text": "y".repeat(3_000)});
    let mut changes: Vec<_> = (0..40)
        .map(|at| (format!("k{at}"), Some(small.clone())))
        .collect();
    changes.insert(20, ("large".to_owned(), Some(large)));
    pipe.add(&changes);
    let missing = pipe.once().unwrap_err().to_string();
    assert!(missing.contains("has no topic \"cars\""), "{missing}");
    let config = ["--config", "max.message.bytes=20000"];
    broker.topics(
        &[
            &["--create", "--topic", TOPIC, "--partitions", "1"],
            &config[..],
        ]
        .concat(),
    );

    let end = pipe.once().unwrap();
    assert_eq!((end.changes, end.dead_letters), (41, 1));
    let there = documents(&broker);
    assert_eq!(there.len(), 40);
    assert!(there.values().all(|document| *document == small));
    let dead = read(&pipe.folder.path().join("state/topic.dead.ndjson"));
    assert!(dead.contains("\"key\":\"large\""), "{dead}");

    broker.topics(&["--alter", "--topic", TOPIC, "--partitions", "2"]);
    let more = pipe.once().unwrap_err().to_string();
    assert!(more.contains("has 2 partitions and had 1"), "{more}");
}
