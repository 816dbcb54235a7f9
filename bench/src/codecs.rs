//! What each codec takes of the disk and of the CPU: the same documents, loaded and got, under one
//! setting after another.
//!
//! Each setting has rounds of its own, in an order that turns. Reported are medians and the spread:
//! bytes of the log for each byte of JSON, and the CPU time of a load and of a get that finds its
//! block on the disk. Gets choose documents evenly; the memory of the database is the least there
//! can be, so that the most of them decompress a block.

use crate::corpus::KEY_FIELD;
use crate::measure::{Watch, in_directory, spread};
use crate::results::{Better, Results};
use crate::{Result, adverts};
use quiredb::{
    Collection, CollectionSettings, Database, DatabaseOptions, Document, Durability, IndexedFields,
    Key, Write,
};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

/// The least memory that a database works in.
const MEMORY_BYTES: u64 = 16 << 20;
/// What is measured: codec, bytes of a block, bytes of a dictionary.
const SETTINGS: [(&str, u32, u32); 9] = [
    ("none", 16 << 10, 0),
    ("lz4", 16 << 10, 0),
    ("zstd(1)", 16 << 10, 0),
    ("zstd", 16 << 10, 0),
    ("zstd", 16 << 10, 64 << 10),
    ("lz4", 4 << 10, 0),
    ("zstd", 4 << 10, 0),
    ("zstd", 4 << 10, 64 << 10),
    ("zstd", 64 << 10, 0),
];

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// NDJSON, each document with its key in `_id`; generated adverts without
    #[arg(long)]
    file: Option<PathBuf>,
    /// Documents, at most
    #[arg(long, default_value_t = 150_000)]
    count: usize,
    /// Documents got
    #[arg(long, default_value_t = 50_000)]
    gets: usize,
    /// Rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Bytes at which a segment of the log is sealed: fewer than by default, so that few documents
    /// make many segments
    #[arg(long, default_value_t = 8 << 20)]
    segment_bytes: u64,
    /// Where the database is kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-codecs")]
    dir: PathBuf,
}

/// What one round of one setting gave.
#[derive(Debug, Clone, Copy)]
struct Round {
    log_bytes: f64,
    load_micros: f64,
    get_micros: f64,
}

impl Plan {
    pub(crate) fn run(&self, results: &Results) -> Result<()> {
        in_directory(&self.dir, || self.measure(results))
    }

    fn documents(&self) -> Result<Vec<(Key, Document)>> {
        let keyed = |json: &str| -> Result<(Key, Document)> {
            let document = Document::from_json(json.as_bytes())?;
            let key = document.get(KEY_FIELD).ok_or("a document without a key")?;
            Ok((Key::from_value(key)?, document))
        };
        match &self.file {
            Some(path) => BufReader::new(File::open(path)?)
                .lines()
                .take(self.count)
                .map(|line| keyed(&line?))
                .collect(),
            None => {
                let mut json = String::new();
                let numbers = 0..self.count as u64;
                numbers
                    .map(|number| {
                        json.clear();
                        adverts::write(number, &mut json);
                        keyed(&json)
                    })
                    .collect()
            }
        }
    }

    fn measure(&self, results: &Results) -> Result<()> {
        let documents = self.documents()?;
        let json_bytes: usize = documents
            .iter()
            .map(|(_, document)| document.to_json().len())
            .sum();
        let mut rounds = vec![Vec::new(); SETTINGS.len()];
        for round in 0..self.rounds {
            for at in 0..SETTINGS.len() {
                let at = (at + round * 4) % SETTINGS.len();
                rounds[at].push(self.round(SETTINGS[at], &documents)?);
            }
        }
        println!(
            "{} documents, {} bytes of JSON each",
            documents.len(),
            json_bytes / documents.len().max(1)
        );
        println!(
            "| codec | block | dictionary | log / JSON bytes | load, CPU µs each \
             | get, CPU µs each |"
        );
        println!("| --- | --- | --- | --- | --- | --- |");
        for ((codec, block_bytes, dictionary_bytes), rounds) in SETTINGS.iter().zip(&rounds) {
            let figure = |of: fn(&Round) -> f64, scale: f64| {
                spread(rounds.iter().map(|round| of(round) / scale).collect())
            };
            let block = format!("{codec}, {} KiB", block_bytes >> 10);
            let name = match dictionary_bytes {
                0 => block,
                bytes => format!("{block}, dictionary {} KiB", bytes >> 10),
            };
            let add = |unit, of: fn(&Round) -> f64, scale: f64| {
                let values: Vec<_> = rounds.iter().map(|round| of(round) / scale).collect();
                results.add(&name, unit, Better::Less, "quire", &values);
            };
            add(
                "log / JSON bytes",
                |round| round.log_bytes,
                json_bytes as f64,
            );
            add("load, CPU µs each", |round| round.load_micros, 1.0);
            add("get, CPU µs each", |round| round.get_micros, 1.0);
            println!(
                "| {codec} | {} KiB | {} | {} | {} | {} |",
                block_bytes >> 10,
                match dictionary_bytes {
                    0 => "–".to_string(),
                    bytes => format!("{} KiB", bytes >> 10),
                },
                figure(|round| round.log_bytes, json_bytes as f64),
                figure(|round| round.load_micros, 1.0),
                figure(|round| round.get_micros, 1.0),
            );
        }
        Ok(())
    }

    fn round(
        &self,
        (codec, block_bytes, dictionary_bytes): (&str, u32, u32),
        documents: &[(Key, Document)],
    ) -> Result<Round> {
        let path = self.dir.join("db");
        let options = DatabaseOptions {
            memory_bytes: MEMORY_BYTES,
            segment_bytes: self.segment_bytes,
            scrub_period: None,
            ..DatabaseOptions::default()
        };
        let database = Database::builder(&path).options(options).open()?;
        let settings = CollectionSettings {
            partitions: 1,
            durability: Durability::None,
            codec: codec.parse()?,
            block_bytes,
            dictionary_bytes,
            index: IndexedFields::none(),
            ..CollectionSettings::default()
        };
        let collection = database.create_collection("documents", settings)?;
        let watch = Watch::start()?;
        for batch in documents.chunks(500) {
            let writes = batch.iter().cloned();
            let writes = writes.map(|(key, document)| Write::put(key, document));
            for result in collection.batch().writes(writes).write() {
                result?;
            }
        }
        collection.flush()?;
        let load_seconds = watch.stop()?.1;
        let log_bytes = collection.stats()?.log_bytes as f64;
        let get_seconds = self.get(&collection, documents)?;
        database.close()?;
        fs::remove_dir_all(&path)?;
        Ok(Round {
            log_bytes,
            load_micros: load_seconds * 1e6 / documents.len().max(1) as f64,
            get_micros: get_seconds * 1e6 / self.gets.max(1) as f64,
        })
    }

    fn get(&self, collection: &Collection, documents: &[(Key, Document)]) -> Result<f64> {
        let mut state = 1_u64;
        let watch = Watch::start()?;
        for _ in 0..self.gets {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = (state % documents.len().max(1) as u64) as usize;
            let Some((key, document)) = documents.get(at) else {
                continue;
            };
            let found = collection.get(key)?;
            if found.map(|found| found.document).as_ref() != Some(document) {
                return Err("a get gives another document than was put".into());
            }
        }
        Ok(watch.stop()?.1)
    }
}
