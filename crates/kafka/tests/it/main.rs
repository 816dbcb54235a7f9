//! A topic of a real Kafka, which the tests start, read and written by `ship`; they are skipped,
//! saying so, where there is none.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests read and write files of their own, and panic when they fail"
)]

mod broker;
#[path = "../../../ship/tests/it/free_port.rs"]
mod free_port;
mod sink;

use broker::{Broker, certified};
use quire_env::{Env, OsEnv};
use quire_kafka::{KafkaOptions, KafkaSink, KafkaSinkOptions, KafkaSource};
use quire_ship::{
    Change, Error, FileSink, Progress, ShipOptions, Sink, SinkConfig, SourceConfig, Target,
    Verdict, ship,
};
use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const TOPIC: &str = "cars";

type Documents = BTreeMap<String, Value>;

/// What writes to the topic.
struct Producer {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Producer {
    fn new(broker: &Broker) -> Producer {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let brokers = vec![format!("127.0.0.1:{}", broker.port)];
        let client = runtime
            .block_on(ClientBuilder::new(brokers).build())
            .unwrap();
        Producer { runtime, client }
    }

    fn create(&self, partitions: i32) {
        let controller = self.client.controller_client().unwrap();
        let create = controller.create_topic(TOPIC, partitions, 1, 20_000);
        self.runtime.block_on(create).unwrap();
    }

    /// Appends records to a partition: a key, and a value or none.
    fn send(&self, partition: i32, records: &[(&str, Option<&str>)], compression: Compression) {
        let records = records.iter().map(|(key, value)| Record {
            key: Some(key.as_bytes().to_vec()),
            value: value.map(|value| value.as_bytes().to_vec()),
            headers: BTreeMap::new(),
            timestamp: "2026-11-23T01:02:03Z".parse().unwrap(),
        });
        let records = records.collect();
        self.runtime.block_on(async {
            let handling = UnknownTopicHandling::Retry;
            let topic = self.client.partition_client(TOPIC, partition, handling);
            let topic = topic.await.unwrap();
            topic.produce(records, compression).await.unwrap();
        });
    }

    /// What comes before an offset goes, as retention has it.
    fn delete_before(&self, partition: i32, offset: i64) {
        self.runtime.block_on(async {
            let handling = UnknownTopicHandling::Retry;
            let topic = self.client.partition_client(TOPIC, partition, handling);
            let topic = topic.await.unwrap();
            topic.delete_records(offset, 10_000).await.unwrap();
        });
    }
}

/// A pipe from the topic into files of a folder.
struct Pipe {
    env: Arc<dyn Env>,
    folder: TempDir,
    source: SourceConfig,
}

impl Pipe {
    fn new(broker: &Broker) -> Pipe {
        Pipe {
            env: OsEnv::new().unwrap(),
            folder: TempDir::new().unwrap(),
            source: SourceConfig {
                kind: Some("kafka".to_owned()),
                url: Some(format!("kafka://127.0.0.1:{}", broker.port)),
                topic: Some(TOPIC.to_owned()),
                ..SourceConfig::default()
            },
        }
    }

    fn run(&self, once: bool, stop: &AtomicBool) -> Result<Progress, Error> {
        let source = KafkaSource::new(KafkaOptions::new(&*self.env, &self.source)?);
        let sink = FileSink::lines(
            Arc::clone(&self.env),
            self.folder.path().join("out"),
            1 << 30,
        );
        let target = Target {
            name: "files".into(),
            sink: Arc::new(sink),
            bulk_bytes: None,
            concurrency: None,
            dead_letters_max: 0,
        };
        let options = ShipOptions {
            state: self.folder.path().join("state"),
            once,
            report_every: Duration::from_secs(1),
        };
        let is_stopped = || stop.load(Ordering::Relaxed);
        let mut ends = ship(
            &self.env,
            &source,
            &[target],
            &options,
            &|_| (),
            &is_stopped,
        )?;
        ends.pop().unwrap()
    }

    fn once(&self) -> Result<Progress, Error> {
        self.run(true, &AtomicBool::new(false))
    }

    /// Writes a document to the topic by a sink that calls the brokers as the source does.
    fn write_to_topic(&self, key: &str) {
        let sink = SinkConfig {
            name: "topic".to_owned(),
            url: self.source.url.clone(),
            topic: self.source.topic.clone(),
            sasl: self.source.sasl.clone(),
            user: self.source.user.clone(),
            password_file: self.source.password_file.clone(),
            ca: self.source.ca.clone(),
            ..SinkConfig::default()
        };
        let options = KafkaSinkOptions::new(&*self.env, &sink).unwrap();
        let sink = KafkaSink::new(Arc::clone(&self.env), options).unwrap();
        sink.begin(None).unwrap();
        let change = Change {
            partition: 0,
            position: 1,
            time_micros: 0,
            key: key.into(),
            document: Some("{}".into()),
        };
        assert_eq!(sink.send(&[&change]).unwrap(), [Verdict::Done]);
    }

    /// The documents that the files end with.
    fn documents(&self) -> Documents {
        let mut documents = Documents::new();
        let path = self.folder.path().join("out/changes-00000001.ndjson");
        for line in read(&path).lines() {
            // The last line may be on its way.
            let Ok(mut change) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let key = change["key"].as_str().unwrap().to_owned();
            match change["document"].take() {
                Value::Null => documents.remove(&key),
                document => documents.insert(key, document),
            };
        }
        documents
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

const COMPRESSIONS: [Compression; 5] = [
    Compression::NoCompression,
    Compression::Gzip,
    Compression::Lz4,
    Compression::Snappy,
    Compression::Zstd,
];

/// Writes each key of a round to its partition, and to `right` what it is then.
fn write_round(producer: &Producer, partitions: usize, round: usize, right: &mut Documents) {
    for partition in 0..partitions {
        let keys = (0..40).filter(|key| key % partitions == partition);
        let records: Vec<(String, Option<String>)> = keys
            .map(|key| {
                let is_gone = (key + round).is_multiple_of(7);
                let value = format!("{{\"round\":{round},\n\"text\":\"é{key}\"}}");
                (format!("k{key}"), (!is_gone).then_some(value))
            })
            .collect();
        for (key, value) in &records {
            match value {
                Some(value) => right.insert(key.clone(), serde_json::from_str(value).unwrap()),
                None => right.remove(key),
            };
        }
        let records: Vec<(&str, Option<&str>)> = records
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_deref()))
            .collect();
        let compression = COMPRESSIONS[round % COMPRESSIONS.len()];
        producer.send(partition as i32, &records, compression);
    }
}

#[test]
fn a_topic_is_followed_over_stops_and_kills_of_the_broker_and_each_record_comes_once() {
    let Some(mut broker) = Broker::start() else {
        return;
    };
    let producer = Producer::new(&broker);
    producer.create(3);
    let pipe = Pipe::new(&broker);
    let mut right = Documents::new();
    for round in 0..7 {
        write_round(&producer, 3, round, &mut right);
        assert_eq!(pipe.once().unwrap().changes, 40);
        assert_eq!(pipe.documents(), right);
    }
    // A broker that is away is waited for.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let following = std::thread::Builder::new();
        let following = following.spawn_scoped(scope, || pipe.run(false, &stop));
        let following = following.unwrap();
        for round in 7..10 {
            broker.kill();
            broker.run();
            write_round(&Producer::new(&broker), 3, round, &mut right);
        }
        while pipe.documents() != right && !following.is_finished() {
            std::thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Relaxed);
        let end = following.join().unwrap();
        assert!(matches!(end, Err(Error::Stopped)), "{end:?}");
    });
    assert_eq!((pipe.once().unwrap().changes, pipe.documents()), (0, right));
}

#[test]
fn what_retention_took_and_what_is_no_document_stops_the_run_with_its_place() {
    let Some(broker) = Broker::start() else {
        return;
    };
    let producer = Producer::new(&broker);
    let mut pipe = Pipe::new(&broker);
    let missing = pipe.once().unwrap_err().to_string();
    assert!(missing.contains("has no topic \"cars\""), "{missing}");
    producer.create(1);
    let plain = Compression::NoCompression;
    // A reader that begins takes what is left.
    producer.send(0, &[("a", Some("{}")), ("b", Some("{}"))], plain);
    producer.delete_before(0, 1);
    pipe.once().unwrap();
    assert_eq!(pipe.documents().keys().collect::<Vec<_>>(), ["b"]);
    // One that comes too late stops, or goes on by option.
    producer.send(0, &[("c", Some("{}")), ("d", Some("{}"))], plain);
    producer.delete_before(0, 3);
    let lost = pipe.once().unwrap_err().to_string();
    assert!(
        lost.contains("partition 0 begins at offset 3, not at 2"),
        "{lost}"
    );
    assert!(lost.contains("on_lost_position"), "{lost}");
    pipe.source.on_lost_position = Some("snapshot".to_owned());
    pipe.once().unwrap();
    assert_eq!(pipe.documents().keys().collect::<Vec<_>>(), ["b", "d"]);
    // A value that is no document is named.
    producer.send(
        0,
        &[("e", Some("{}")), ("f", Some("[]")), ("g", Some("{}"))],
        plain,
    );
    let wrong = pipe.once().unwrap_err().to_string();
    let named = "record 5 of partition 0 of topic cars: its value is no JSON object";
    assert!(wrong.contains(named), "{wrong}");
    // More partitions move keys.
    broker.topics(&["--alter", "--topic", TOPIC, "--partitions", "2"]);
    let more = pipe.once().unwrap_err().to_string();
    assert!(more.contains("has 2 partitions and had 1"), "{more}");
    // A topic made anew ends before the stored position.
    broker.topics(&["--delete", "--topic", TOPIC]);
    producer.create(1);
    let anew = pipe.once().unwrap_err().to_string();
    assert!(anew.contains("it was made anew"), "{anew}");
}

#[test]
fn a_user_logs_in_and_one_that_is_refused_ends_the_run() {
    let Some(broker) = Broker::start() else {
        return;
    };
    let producer = Producer::new(&broker);
    producer.create(1);
    producer.send(0, &[("a", Some("{}"))], Compression::NoCompression);
    let mut pipe = Pipe::new(&broker);
    let password = pipe.folder.path().join("password");
    std::fs::write(&password, "secret\n").unwrap();
    pipe.source.url = Some(format!("kafka://127.0.0.1:{}", broker.login_port));
    pipe.source.user = Some("quire".to_owned());
    pipe.source.password_file = Some(password.clone());
    for (mechanism, key) in [
        (None, "b"),
        (Some("scram-sha-256"), "c"),
        (Some("plain"), "d"),
    ] {
        pipe.source.sasl = mechanism.map(str::to_owned);
        // Changes of the topic are written by a user too.
        pipe.write_to_topic(key);
        pipe.once().unwrap();
        assert!(pipe.documents().contains_key(key), "{mechanism:?}");
    }
    std::fs::write(&password, "wrong").unwrap();
    for mechanism in ["scram-sha-512", "plain"] {
        pipe.source.sasl = Some(mechanism.to_owned());
        let error = pipe.once().unwrap_err().to_string();
        assert!(
            error.contains("SaslAuthenticationFailed"),
            "{mechanism}: {error}"
        );
    }
}

#[test]
fn brokers_are_called_over_tls_and_only_those_whose_certificate_is_trusted() {
    let Some(broker) = Broker::start() else {
        return;
    };
    let producer = Producer::new(&broker);
    producer.create(1);
    producer.send(0, &[("a", Some("{}"))], Compression::NoCompression);
    let mut pipe = Pipe::new(&broker);
    let password = pipe.folder.path().join("password");
    std::fs::write(&password, "secret\n").unwrap();
    pipe.source.url = Some(format!("kafka://127.0.0.1:{}", broker.tls_port));
    pipe.source.sasl = Some("plain".to_owned());
    pipe.source.user = Some("quire".to_owned());
    pipe.source.password_file = Some(password);
    pipe.source.ca = Some(broker.certificate());
    pipe.once().unwrap();
    assert_eq!(pipe.documents().keys().collect::<Vec<_>>(), ["a"]);

    pipe.write_to_topic("b");
    pipe.once().unwrap();
    assert!(pipe.documents().contains_key("b"));

    // Another certificate of the same address is not trusted.
    certified(pipe.folder.path(), "127.0.0.1");
    pipe.source.ca = Some(pipe.folder.path().join("127.0.0.1.pem"));
    let error = pipe.once().unwrap_err().to_string();
    assert!(error.contains("invalid peer certificate"), "{error}");
}
