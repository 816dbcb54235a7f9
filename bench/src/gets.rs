//! Gets by key: from memory, by several threads; and with more data than memory, how many reads of
//! the disk each takes.
//!
//! Generated documents are loaded and the database is opened again, so that nothing is in a
//! memtable. Every document is got once and compared with what was written; then random keys are
//! got at full rate for some seconds, slice by slice. Reported are the medians of the slices and
//! their spread.

use crate::measure::{Watch, in_directory, spread};
use crate::results::{Better, Results};
use crate::{Result, adverts};
use quiredb::{
    Collection, CollectionSettings, Database, DatabaseBuilder, DatabaseOptions, Document,
    Durability, IndexedFields, Key, Volumes, Write,
};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Documents in a batch of the load.
const BATCH: u64 = 1000;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Documents, all of which fit in memory
    #[arg(long, default_value_t = 200_000)]
    count: u64,
    /// Memory for them, in MiB: half of it is the cache
    #[arg(long, default_value_t = 1024)]
    memory: u64,
    /// Memory where documents do not fit, in MiB: as many are loaded as have 4 times as many bytes
    /// of JSON
    #[arg(long, default_value_t = 128)]
    memory_short: u64,
    /// Threads that get
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Keys in a multi-get
    #[arg(long, default_value_t = 20)]
    keys: u64,
    /// Slices of each kind
    #[arg(long, default_value_t = 7)]
    slices: u32,
    /// Seconds of a slice
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Where the database is kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-gets")]
    dir: PathBuf,
}

/// What a get is made with.
#[derive(Debug, Clone, Copy)]
enum Call {
    One,
    Many(u64),
}

/// One slice.
#[derive(Debug, Clone, Copy)]
struct Slice {
    per_second: f64,
    cpu_micros: f64,
    reads: f64,
}

impl Plan {
    pub(crate) fn run(&self, results: &Results) -> Result<()> {
        println!("| gets | threads | documents a second | CPU µs each | reads of the disk each |");
        println!("| --- | ---: | ---: | ---: | ---: |");
        in_directory(&self.dir, || {
            let database = self.load(self.count, self.memory << 20)?;
            let documents = database.collection("adverts")?;
            for threads in [1, self.threads] {
                self.slices(
                    results,
                    "data in memory",
                    &database,
                    &documents,
                    threads,
                    Call::One,
                )?;
            }
            let call = Call::Many(self.keys);
            self.slices(
                results,
                "data in memory, multi-get",
                &database,
                &documents,
                self.threads,
                call,
            )?;
            drop(documents);
            Ok(database.close()?)
        })?;
        in_directory(&self.dir, || {
            let database = self.load(
                self.count_of((4 * self.memory_short) << 20),
                self.memory_short << 20,
            )?;
            let documents = database.collection("adverts")?;
            self.slices(
                results,
                "data 4 × memory",
                &database,
                &documents,
                self.threads,
                Call::One,
            )?;
            drop(documents);
            Ok(database.close()?)
        })
    }

    /// The number of documents that have this many bytes of JSON.
    fn count_of(&self, bytes: u64) -> u64 {
        let (mut json, mut count) = (String::new(), 0);
        let mut total = 0;
        while total < bytes {
            json.clear();
            adverts::write(count, &mut json);
            total += json.len() as u64;
            count += 1;
        }
        count
    }

    /// A database of this many documents, of which each was read once and compared.
    fn load(&self, count: u64, memory_bytes: u64) -> Result<Database> {
        let open = || -> Result<Database> {
            let options = DatabaseOptions {
                memory_bytes,
                ..DatabaseOptions::default()
            };
            let volumes = Volumes::single(self.dir.join("db"));
            Ok(DatabaseBuilder::on(&volumes).options(options).open()?)
        };
        let database = open()?;
        let settings = CollectionSettings {
            index: IndexedFields::none(),
            ..CollectionSettings::default()
        };
        let documents = database.create_collection("adverts", settings)?;
        for from in (0..count).step_by(BATCH as usize) {
            let put = |number| Ok(Write::put(key(number)?, document(number)?));
            let writes = (from..(from + BATCH).min(count)).map(put);
            for result in documents
                .batch()
                .writes(writes.collect::<Result<Vec<_>>>()?)
                .durability(Durability::None)
                .write()
            {
                result?;
            }
        }
        drop(documents);
        database.close()?;
        drop(database);
        let database = open()?;
        let documents = database.collection("adverts")?;
        for number in 0..count {
            let found = documents.get(&key(number)?)?.map(|found| found.document);
            if found != Some(document(number)?) {
                return Err(format!("document {number} is not what was written").into());
            }
        }
        eprintln!("loaded and compared: {count} documents");
        Ok(database)
    }

    fn slices(
        &self,
        results: &Results,
        what: &str,
        database: &Database,
        documents: &Collection,
        threads: u64,
        call: Call,
    ) -> Result<()> {
        let slices = (0..=self.slices)
            .map(|seed| self.slice(database, documents, threads, call, seed.into()));
        // The first finds the caches as the one before left them: it is not counted.
        let slices: Vec<_> = slices.skip(1).collect::<Result<_>>()?;
        let name = match threads {
            1 => format!("{what}, 1 thread"),
            _ => format!("{what}, {threads} threads"),
        };
        let add = |unit, better, of: fn(&Slice) -> f64| {
            let values: Vec<_> = slices.iter().map(of).collect();
            results.add(&name, unit, better, "quire", &values);
        };
        add("documents/s", Better::More, |slice| slice.per_second);
        add("CPU µs each", Better::Less, |slice| slice.cpu_micros);
        add("disk reads each", Better::Less, |slice| slice.reads);
        let figure = |of: fn(&Slice) -> f64| spread(slices.iter().map(of).collect());
        println!(
            "| {what} | {threads} | {} | {} | {} |",
            figure(|slice| slice.per_second),
            figure(|slice| slice.cpu_micros),
            figure(|slice| slice.reads)
        );
        Ok(())
    }

    fn slice(
        &self,
        database: &Database,
        documents: &Collection,
        threads: u64,
        call: Call,
        seed: u64,
    ) -> Result<Slice> {
        let count = documents.count()?;
        let misses = database.stats()?.cache_misses;
        let watch = Watch::start()?;
        let begun = Instant::now();
        let end = Duration::from_secs(self.seconds);
        let got = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|thread| {
                    let mut random = adverts::Random::new(seed << 8 | thread);
                    scope.spawn(move || -> Result<u64> {
                        let mut got = 0;
                        while begun.elapsed() < end {
                            // The clock is looked at once for many.
                            for _ in 0..100 {
                                got += get(documents, call, || random.below(count))?;
                            }
                        }
                        Ok(got)
                    })
                })
                .collect();
            let got = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a thread panicked")?);
            got.sum::<Result<u64>>()
        })? as f64;
        let (wall, cpu) = watch.stop()?;
        Ok(Slice {
            per_second: got / wall,
            cpu_micros: cpu * 1e6 / got,
            reads: (database.stats()?.cache_misses - misses) as f64 / got,
        })
    }
}

/// Gets once, and returns how many documents that gave.
fn get(documents: &Collection, call: Call, mut number: impl FnMut() -> u64) -> Result<u64> {
    match call {
        Call::One => {
            let key = key(number())?;
            let found = documents.get(&key)?;
            match found.filter(|found| found.key == key) {
                Some(_) => Ok(1),
                None => Err(format!("{key} is not there").into()),
            }
        }
        Call::Many(keys) => {
            let keys: Vec<Key> = (0..keys).map(|_| key(number())).collect::<Result<_>>()?;
            let found = documents.get_many(&keys)?;
            let right = |(found, key): (&Option<quiredb::Found>, &Key)| {
                found.as_ref().is_some_and(|found| found.key == *key)
            };
            match found.len() == keys.len() && found.iter().zip(&keys).all(right) {
                true => Ok(keys.len() as u64),
                false => Err("a document is not there".into()),
            }
        }
    }
}

fn key(number: u64) -> Result<Key> {
    Ok(Key::parse(&adverts::key(number))?)
}

fn document(number: u64) -> Result<Document> {
    let mut json = String::with_capacity(1200);
    adverts::write(number, &mut json);
    Ok(Document::from_json(json.as_bytes())?)
}
