//! Partitions are split or merged while they are written and read: how long writers are held, and
//! what gets take beside it.
//!
//! One partition, or several, hold generated adverts: documents, or rows of a wide collection with
//! two column groups. A writer replaces documents at a fixed rate, one at a time, and a reader gets
//! random ones: at first alone, then while the partitions are split or merged. In the end each
//! document is compared with what was written last.

use crate::measure::{Latencies, Watch, in_directory};
use crate::results::{Better, Results};
use crate::{Result, adverts};
use quiredb::wide::{ColumnType, Schema, WideCollection};
use quiredb::{
    Collection, CollectionSettings, Database, Document, Durability, Found, IndexedFields, Key,
    Write,
};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Documents of a batch, while the partition is loaded.
const BATCH: u64 = 1000;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Documents in all partitions
    #[arg(long, default_value_t = 1_000_000)]
    count: u64,
    /// How many partitions there are at first
    #[arg(long, default_value_t = 1)]
    from: u32,
    /// How many partitions there are then: with fewer than at first they are merged
    #[arg(long, default_value_t = 2)]
    partitions: u32,
    /// Documents replaced in a second
    #[arg(long, default_value_t = 2_000)]
    rate: u64,
    /// Seconds that are measured before it
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Index every field
    #[arg(long, conflicts_with = "wide")]
    index: bool,
    /// Rows of a wide collection
    #[arg(long)]
    wide: bool,
    /// Memory of the database, in MiB
    #[arg(long, default_value_t = 256)]
    memory: u64,
    /// Where the database is kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-split")]
    dir: PathBuf,
}

/// What writers and readers saw in some time.
#[derive(Default)]
struct Seen {
    puts: Latencies,
    gets: Latencies,
}

fn key(number: u64) -> Result<Key> {
    Ok(Key::parse(&adverts::key(number))?)
}

/// How durable the writer's documents are.
const DURABILITY: Durability = Durability::Async(Duration::from_millis(100));

/// The adverts of a partition.
enum Adverts {
    Plain(Collection),
    Wide(WideCollection),
}

impl Adverts {
    fn create(database: &Database, plan: &Plan) -> Result<Adverts> {
        let settings = CollectionSettings {
            partitions: plan.from,
            durability: DURABILITY,
            index: match plan.index {
                true => IndexedFields::all(),
                false => IndexedFields::none(),
            },
            ..CollectionSettings::default()
        };
        if !plan.wide {
            let made = database.create_collection("adverts", settings)?;
            return Ok(Adverts::Plain(made));
        }
        let schema = Schema::new()
            .with_column("version", ColumnType::Int, "meta")?
            .with_column("advert", ColumnType::Json, "content")?;
        let made = database.create_wide_collection("adverts", schema, settings)?;
        Ok(Adverts::Wide(made))
    }

    /// A document, in its `version`.
    fn document(&self, number: u64, version: u64) -> Result<Document> {
        let mut json = String::new();
        adverts::write(number, &mut json);
        let json = match self {
            Adverts::Plain(_) => {
                let open = json.strip_suffix('}').ok_or("an advert is an object")?;
                format!("{open},\"version\":{version}}}")
            }
            Adverts::Wide(_) => format!("{{\"version\":{version},\"advert\":{json}}}"),
        };
        Ok(Document::from_json(json.as_bytes())?)
    }

    /// Puts many, in version 0.
    fn load(&self, numbers: std::ops::Range<u64>) -> Result<()> {
        match self {
            Adverts::Plain(plain) => {
                let write = |number| Ok(Write::put(key(number)?, self.document(number, 0)?));
                let writes = numbers.map(write).collect::<Result<Vec<_>>>()?;
                let batch = plain.batch().durability(Durability::None).writes(writes);
                for written in batch.write() {
                    written?;
                }
            }
            Adverts::Wide(wide) => {
                let row = |number| Ok((key(number)?, self.document(number, 0)?));
                let rows = numbers.map(row).collect::<Result<Vec<_>>>()?;
                let writes = rows.iter().map(|(key, row)| wide.put_write(key, row));
                for written in wide.write_all(writes, Some(Durability::None)) {
                    written?;
                }
            }
        }
        Ok(())
    }

    fn put(&self, key: &Key, document: &Document) -> quiredb::Result<()> {
        match self {
            Adverts::Plain(plain) => plain.put_at(key, document).map(drop),
            Adverts::Wide(wide) => wide.put(key, document).map(drop),
        }
    }

    fn get(&self, key: &Key) -> quiredb::Result<Option<Found>> {
        match self {
            Adverts::Plain(plain) => plain.get(key),
            Adverts::Wide(wide) => wide.get(key),
        }
    }

    /// Bytes on disk, once all is there.
    fn bytes(&self) -> Result<u64> {
        Ok(match self {
            Adverts::Plain(plain) => {
                plain.flush()?;
                plain.stats()?.log_bytes
            }
            Adverts::Wide(wide) => {
                wide.compact()?;
                wide.stats()?.disk_bytes
            }
        })
    }

    /// Whether a document that was found is this one. A row has its key too.
    fn is(&self, found: &Document, expected: &Document) -> bool {
        match self {
            Adverts::Plain(_) => found == expected,
            Adverts::Wide(_) => ["version", "advert"]
                .iter()
                .all(|name| found.get(name) == expected.get(name)),
        }
    }
}

impl Plan {
    pub(crate) fn run(&self, results: &Results) -> Result<()> {
        in_directory(&self.dir, || self.measure(results))
    }

    fn measure(&self, results: &Results) -> Result<()> {
        let options = quiredb::DatabaseOptions {
            memory_bytes: self.memory << 20,
            ..quiredb::DatabaseOptions::default()
        };
        let database = Database::builder(self.dir.join("db"))
            .options(options)
            .open()?;
        let songs = Adverts::create(&database, self)?;
        for from in (0..self.count).step_by(BATCH as usize) {
            songs.load(from..(from + BATCH).min(self.count))?;
        }
        let bytes = songs.bytes()?;
        let versions = Mutex::new(vec![0; usize::try_from(self.count)?]);
        let (alone, ()) = self.beside(&songs, &versions, || {
            std::thread::sleep(Duration::from_secs(self.seconds));
            Ok(())
        })?;
        let (beside, (wall, cpu)) = self.beside(&songs, &versions, || {
            let watch = Watch::start()?;
            match self.partitions < self.from {
                true => database.merge_collection("adverts", self.partitions, &|_| true)?,
                false => database.split_collection("adverts", self.partitions, &|_| true)?,
            }
            watch.stop()
        })?;
        self.check(&songs, &versions)?;
        let (what, name) = match self.partitions < self.from {
            true => ("merged", "merge"),
            false => ("split", "split"),
        };
        let beside_name = format!("beside the {name}");
        println!(
            "{} {}, {:.0} MB, {} partitions {what} into {} in {wall:.1} s ({cpu:.1} CPU s)",
            self.count,
            if self.wide { "rows" } else { "documents" },
            bytes as f64 / 1e6,
            self.from,
            self.partitions
        );
        println!("| µs | p50 | p99 | longest |\n| --- | ---: | ---: | ---: |");
        let mut gets = Vec::new();
        for (name, seen) in [("alone", alone), (beside_name.as_str(), beside)] {
            for (what, latencies) in [("put", seen.puts), ("get", seen.gets)] {
                let [p50, p99, longest] = latencies.micros([0.5, 0.99, 1.0]);
                println!("| {what}, {name} | {p50:.1} | {p99:.1} | {longest:.0} |");
                if what == "get" {
                    gets.push(p99);
                } else {
                    let name = format!("longest put, {name}");
                    results.add(&name, "ms", Better::Less, "quire", &[longest / 1e3]);
                }
            }
        }
        results.add(name, "s", Better::Less, "quire", &[wall]);
        let longest = format!("longest put, {beside_name}");
        results.aim(&longest, "ms", Better::Less, 100.0);
        if let [alone, beside] = gets[..] {
            println!("gets at p99: {:.2} times those alone", beside / alone);
            let ratio = [beside / alone];
            results.add("get, p99", "of that alone", Better::Less, "quire", &ratio);
            results.aim("get, p99", "of that alone", Better::Less, 1.5);
        }
        drop(songs);
        Ok(database.close()?)
    }

    /// Does `work` while documents are put and gotten.
    fn beside<T>(
        &self,
        adverts: &Adverts,
        versions: &Mutex<Vec<u64>>,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<(Seen, T)> {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| self.put(adverts, versions, &stop));
            let reader = scope.spawn(|| self.get(adverts, &stop));
            let worked = work();
            stop.store(true, Ordering::Relaxed);
            let puts = writer.join().map_err(|_| "the writer panicked")??;
            let gets = reader.join().map_err(|_| "the reader panicked")??;
            Ok((Seen { puts, gets }, worked?))
        })
    }

    fn put(
        &self,
        adverts: &Adverts,
        versions: &Mutex<Vec<u64>>,
        stop: &AtomicBool,
    ) -> Result<Latencies> {
        let mut latencies = Latencies::default();
        let mut versions = versions.lock().map_err(|_| "a writer panicked")?;
        let begun = Instant::now();
        let mut random = adverts::Random::new(begun.elapsed().as_nanos() as u64 + 7);
        for done in 0_u64.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let number = random.below(self.count);
            let version = &mut versions[usize::try_from(number)?];
            *version += 1;
            let (key, document) = (key(number)?, adverts.document(number, *version)?);
            latencies.time(|| adverts.put(&key, &document))?;
            let due = Duration::from_secs_f64(done as f64 / self.rate as f64);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        Ok(latencies)
    }

    fn get(&self, adverts: &Adverts, stop: &AtomicBool) -> Result<Latencies> {
        let mut latencies = Latencies::default();
        let mut random = adverts::Random::new(11);
        while !stop.load(Ordering::Relaxed) {
            let key = key(random.below(self.count))?;
            let found = latencies.time(|| adverts.get(&key))?;
            found.ok_or("a document is missing")?;
            // One of many clients: a core is left for the others.
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(latencies)
    }

    fn check(&self, adverts: &Adverts, versions: &Mutex<Vec<u64>>) -> Result<()> {
        let versions = versions.lock().map_err(|_| "a writer panicked")?;
        for (number, version) in (0..).zip(versions.iter()) {
            let found = adverts.get(&key(number)?)?.ok_or("a document is lost")?;
            if !adverts.is(&found.document, &adverts.document(number, *version)?) {
                return Err(format!("document {number} is not what was written last").into());
            }
        }
        Ok(())
    }
}
