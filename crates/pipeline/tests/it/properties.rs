//! Any input, cut in any way, under any options: the same documents in the same order of each key,
//! and a position that never runs ahead of what is durable.

use proptest::collection::vec;
use proptest::prelude::*;
use quire_pipeline::{
    CellType, ColumnTypes, CsvOptions, Error, Event, Format, Input, OnBad, Options, Progress,
    SourcePosition, load,
};
use quiredb::Key;
use quiredb::{Collection, CollectionSettings, Database, Durability, Position, SimEnv};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

/// A line of an input.
#[derive(Debug, Clone)]
enum Line {
    /// A document of this key, with this much padding.
    Good(u8, usize),
    Bad,
    Blank,
}

fn any_line() -> impl Strategy<Value = Line> {
    prop_oneof![
        12 => (0..12_u8, 0..60_usize).prop_map(|(key, padding)| Line::Good(key, padding)),
        1 => Just(Line::Bad),
        1 => Just(Line::Blank),
    ]
}

/// Inputs as text, and what they hold.
#[derive(Debug, Clone, Default)]
struct Inputs {
    texts: Vec<(Format, String)>,
    /// In order: the input, the key, and a value that no other document has. None is a bad one.
    documents: Vec<(usize, Option<(u8, u64)>)>,
}

/// Values that look like numbers stay what they are in NDJSON.
fn strings() -> CsvOptions {
    CsvOptions {
        types: ColumnTypes {
            others: Some(CellType::String),
            ..ColumnTypes::default()
        },
        ..CsvOptions::default()
    }
}

fn any_inputs() -> impl Strategy<Value = Inputs> {
    vec((any::<bool>(), vec(any_line(), 0..40)), 1..4).prop_map(|all| {
        let mut inputs = Inputs::default();
        for (index, (is_csv, lines)) in all.into_iter().enumerate() {
            let (format, mut text) = match is_csv {
                true => (Format::Csv(strings()), "_id,v,p\n".to_owned()),
                false => (Format::Ndjson, String::new()),
            };
            for line in lines {
                let value = inputs.documents.len() as u64;
                let document = match line {
                    Line::Good(key, padding) => {
                        let padding = "p".repeat(padding);
                        text += &match is_csv {
                            true => format!("{key},{value},\"{padding}\n\"\n"),
                            false => {
                                format!(
                                    "{{\"_id\":{key},\"v\":\"{value}\",\"p\":\"{padding}\"}}\r\n"
                                )
                            }
                        };
                        Some((key, value))
                    }
                    Line::Bad => {
                        text += "{\"_id\"\n";
                        None
                    }
                    Line::Blank => {
                        text += "\n";
                        continue;
                    }
                };
                inputs.documents.push((index, document));
            }
            inputs.texts.push((format, text));
        }
        inputs
    })
}

impl Inputs {
    /// The inputs, which give pieces of these sizes.
    fn open(&self, pieces: &[usize]) -> Vec<Input> {
        let inputs = self.texts.iter().enumerate();
        let inputs = inputs.map(|(index, (format, text))| {
            let pieces = Pieces {
                text: text.clone().into_bytes(),
                at: 0,
                sizes: pieces.to_vec(),
                turn: 0,
            };
            Input::new(index.to_string(), format.clone(), || Ok(Box::new(pieces)))
        });
        inputs.collect()
    }

    /// The values of each key, in order, of the documents before a position.
    fn before(&self, position: SourcePosition) -> BTreeMap<u8, Vec<u64>> {
        let mut counts = BTreeMap::new();
        let mut values: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
        for (input, document) in &self.documents {
            let count = counts.entry(*input).or_insert(0);
            *count += 1;
            if (*input, *count) <= (position.input, position.documents)
                && let Some((key, value)) = document
            {
                values.entry(*key).or_default().push(*value);
            }
        }
        values
    }

    fn all(&self) -> BTreeMap<u8, Vec<u64>> {
        self.before(SourcePosition {
            input: usize::MAX,
            ..SourcePosition::default()
        })
    }
}

/// Bytes in pieces of given sizes, in turn.
struct Pieces {
    text: Vec<u8>,
    at: usize,
    sizes: Vec<usize>,
    turn: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes[self.turn % self.sizes.len()];
        self.turn += 1;
        let rest = &self.text[self.at..];
        let count = size.min(rest.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

fn any_options() -> impl Strategy<Value = Options> {
    (
        1..400_usize,
        1..12_usize,
        1..4_000_usize,
        1..4_usize,
        1..4_usize,
        prop::bool::ANY,
    )
        .prop_map(
            |(bytes, documents, in_flight, parsers, writers, is_sync)| Options {
                made_keys: None,
                durability: Some(match is_sync {
                    true => Durability::Sync,
                    false => Durability::None,
                }),
                on_bad: OnBad::Skip { max: u64::MAX },
                batch_bytes: bytes,
                batch_documents: documents,
                in_flight_bytes_max: in_flight,
                parsers,
                writers_max: writers,
                from: SourcePosition::default(),
            },
        )
}

fn open(env: &Arc<SimEnv>, partitions: u32) -> (Database, Collection) {
    let database = Database::builder("/db").env(env.clone()).open().unwrap();
    let settings = || CollectionSettings {
        partitions,
        ..CollectionSettings::default()
    };
    let collection = database.collection_or_create("c", settings).unwrap();
    (database, collection)
}

fn value_of(document: &quiredb::Document) -> u64 {
    let json: serde_json::Value = serde_json::from_str(&document.to_json()).unwrap();
    json["v"].as_str().unwrap().parse().unwrap()
}

/// The values that each key was given, in order.
fn written(collection: &Collection) -> BTreeMap<u8, Vec<u64>> {
    let mut values: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
    for change in collection.tail(Position(1)).unwrap() {
        let change = change.unwrap();
        let key = change.key.to_string().parse().unwrap();
        let value = value_of(&change.document.unwrap());
        values.entry(key).or_default().push(value);
    }
    values
}

/// The value of each key.
fn newest(collection: &Collection) -> BTreeMap<u8, u64> {
    let keys = (0..12_u8).map(|key| (key, collection.get(&Key::from(i64::from(key))).unwrap()));
    keys.filter_map(|(key, found)| Some((key, value_of(&found?.document))))
        .collect()
}

fn last(values: &BTreeMap<u8, Vec<u64>>) -> BTreeMap<u8, u64> {
    let last = values
        .iter()
        .map(|(key, values)| (*key, values[values.len() - 1]));
    last.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_good_document_is_written_in_the_order_of_its_key(
        inputs in any_inputs(),
        pieces in vec(1..50_usize, 1..5),
        options in any_options(),
        partitions in 1..6_u32,
    ) {
        let env = SimEnv::new(1);
        let (_database, collection) = open(&env, partitions);
        let mut events = Vec::new();
        let summary = load(&collection, &*env, inputs.open(&pieces), &options, &mut |event| {
            if let Event::Acknowledged(progress) = event {
                events.push(**progress);
            }
            Ok(())
        });
        prop_assert!(summary.stopped.is_none(), "{:?}", summary.stopped);
        prop_assert_eq!(written(&collection), inputs.all());
        let bad = inputs.documents.iter().filter(|(_, document)| document.is_none()).count();
        prop_assert_eq!(summary.progress.bad, bad as u64);
        let count = summary.progress.documents + summary.progress.bad;
        prop_assert_eq!(count, inputs.documents.len() as u64);
        let order = |progress: &Progress| (progress.position.input, progress.position.documents);
        prop_assert!(events.is_sorted_by_key(order));
        for event in &events {
            let count: usize = inputs.before(event.position).values().map(Vec::len).sum();
            prop_assert_eq!(event.documents, count as u64);
        }
    }

    #[test]
    fn a_crash_loses_nothing_before_the_position_and_resuming_loads_the_rest(
        inputs in any_inputs(),
        pieces in vec(1..50_usize, 1..5),
        options in any_options(),
        partitions in 1..6_u32,
        crash_at in 0..12_usize,
        seed in any::<u64>(),
    ) {
        let env = SimEnv::new(1);
        let (_database, collection) = open(&env, partitions);
        let mut crash: Option<(Arc<SimEnv>, SourcePosition)> = None;
        let mut count = 0;
        let is_synced = options.durability == Some(Durability::Sync);
        let summary = load(&collection, &*env, inputs.open(&pieces), &options, &mut |event| {
            if let Event::Acknowledged(progress) = event {
                if count == crash_at {
                    if !is_synced {
                        collection.sync().unwrap();
                    }
                    crash = Some((env.after_crash(seed), progress.position));
                }
                count += 1;
            }
            Ok(())
        });
        prop_assert!(summary.stopped.is_none(), "{:?}", summary.stopped);
        let at_end = || (env.after_crash(seed), summary.progress.position);
        let (env, from) = crash.unwrap_or_else(at_end);
        let (_database, collection) = open(&env, partitions);
        let found = newest(&collection);
        for (key, value) in last(&inputs.before(from)) {
            // A later document of the key may be durable too.
            prop_assert!(found.get(&key).is_some_and(|found| *found >= value), "{key}: {found:?}");
        }
        let options = Options { from, ..options };
        let summary = load(&collection, &*env, inputs.open(&pieces), &options, &mut |_| Ok(()));
        prop_assert!(summary.stopped.is_none(), "{:?}", summary.stopped);
        prop_assert_eq!(newest(&collection), last(&inputs.all()));
    }

    #[test]
    fn a_pipeline_that_stops_at_a_bad_document_has_written_all_before_it(
        inputs in any_inputs(),
        pieces in vec(1..50_usize, 1..5),
        options in any_options(),
        partitions in 1..6_u32,
    ) {
        let options = Options { on_bad: OnBad::Stop, ..options };
        let env = SimEnv::new(1);
        let (_database, collection) = open(&env, partitions);
        let summary = load(&collection, &*env, inputs.open(&pieces), &options, &mut |_| Ok(()));
        let good = inputs.documents.iter().take_while(|(_, document)| document.is_some());
        let good: Vec<_> = good.filter_map(|(_, document)| *document).collect();
        prop_assert_eq!(
            matches!(summary.stopped, Some(Error::Bad(_))),
            good.len() < inputs.documents.len()
        );
        prop_assert_eq!(summary.progress.documents, good.len() as u64);
        let mut values: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
        for (key, value) in good {
            values.entry(key).or_default().push(value);
        }
        prop_assert_eq!(written(&collection), values);
    }
}
