//! What overwriting costs: the room that the log takes, and how reads do beside its compaction.
//!
//! A database of generated documents is loaded first. Then
//!
//! 1. documents are replaced at full rate, chosen evenly, several times as many as there are, and
//!    the bytes of the log are looked at all the while;
//! 2. documents are replaced at a fixed rate and read at full rate, in slices of some seconds: one
//!    with the compaction of the log off, one with it on, which also finds what piled up in the one
//!    before; and so on in pairs, the order turned round each time. A pair gives one ratio;
//!    reported are the medians and the spread.
//!
//! In the end every document is compared.

use crate::measure::{Latencies, Watch, in_directory, median, spread};
use crate::results::{Better, Results};
use crate::{Result, adverts};
use quiredb::{
    Collection, CollectionSettings, Database, DatabaseBuilder, DatabaseOptions, Document,
    Durability, IndexedFields, Key, Volumes, Write,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the bytes of the log are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Documents in the database
    #[arg(long, default_value_t = 200_000)]
    count: u64,
    /// How many times as many are replaced at full rate
    #[arg(long, default_value_t = 6)]
    times: u64,
    /// Pairs of slices
    #[arg(long, default_value_t = 5)]
    pairs: u32,
    /// Seconds of a slice
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// Documents replaced in a second of a slice
    #[arg(long, default_value_t = 10_000)]
    rate: u64,
    /// Documents in a batch
    #[arg(long, default_value_t = 500)]
    batch: u64,
    /// Bytes at which a segment of the log is sealed: fewer than by default, so that few documents
    /// make many segments
    #[arg(long, default_value_t = 16 << 20)]
    segment_bytes: u64,
    /// Where the database is kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-overwrites")]
    dir: PathBuf,
}

/// One slice.
#[derive(Debug, Clone, Copy)]
struct Slice {
    gets_per_second: f64,
    p50_micros: f64,
    p99_micros: f64,
    written_per_second: f64,
    compacted: u64,
}

/// The documents as they should be, and which comes next.
struct Documents {
    /// How often each was replaced.
    versions: Vec<u64>,
    state: u64,
}

impl Documents {
    fn new(count: u64) -> Documents {
        Documents {
            versions: vec![0; count as usize],
            state: 1,
        }
    }

    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % self.versions.len().max(1) as u64
    }

    fn document(&self, number: u64) -> Result<Document> {
        let version = self.versions.get(number as usize).copied();
        let mut json = String::with_capacity(1200);
        adverts::write(number | version.unwrap_or_default() << 40, &mut json);
        Ok(Document::from_json(json.as_bytes())?)
    }

    fn put(&self, number: u64) -> Result<Write> {
        Ok(Write::put(key(number)?, self.document(number)?))
    }

    /// Replaces `batch` documents, chosen evenly.
    fn replace(&mut self, adverts: &Collection, batch: u64) -> Result<()> {
        let mut writes = Vec::with_capacity(batch as usize);
        for _ in 0..batch {
            let number = self.random();
            if let Some(version) = self.versions.get_mut(number as usize) {
                *version += 1;
            }
            writes.push(self.put(number)?);
        }
        write(adverts, writes)
    }
}

fn key(number: u64) -> Result<Key> {
    Ok(Key::parse(&adverts::key(number))?)
}

fn write(adverts: &Collection, writes: Vec<Write>) -> Result<()> {
    for result in adverts
        .batch()
        .writes(writes)
        .durability(Durability::None)
        .write()
    {
        result?;
    }
    Ok(())
}

impl Plan {
    pub(crate) fn run(&self, results: &Results) -> Result<()> {
        in_directory(&self.dir, || self.measure(results))
    }

    fn open(&self, compaction: bool) -> Result<Database> {
        let volumes = Volumes::single(self.dir.join("db"));
        let mut options = DatabaseOptions {
            segment_bytes: self.segment_bytes,
            ..DatabaseOptions::default()
        };
        if !compaction {
            options.log_live_percent = 0;
        }
        Ok(DatabaseBuilder::on(&volumes).options(options).open()?)
    }

    fn measure(&self, results: &Results) -> Result<()> {
        let mut documents = Documents::new(self.count);
        let database = self.open(true)?;
        let settings = CollectionSettings {
            index: IndexedFields::none(),
            ..CollectionSettings::default()
        };
        let adverts = database.create_collection("adverts", settings)?;
        for from in (0..self.count).step_by(self.batch.max(1) as usize) {
            let to = (from + self.batch).min(self.count);
            let writes = (from..to).map(|number| documents.put(number));
            write(&adverts, writes.collect::<Result<_>>()?)?;
        }
        adverts.compact()?;
        self.space(results, &adverts, &mut documents)?;
        drop(adverts);
        database.close()?;
        drop(database);
        self.pairs(results, &mut documents)?;
        self.check(&documents)
    }

    /// Overwrites at full rate.
    fn space(
        &self,
        results: &Results,
        adverts: &Collection,
        documents: &mut Documents,
    ) -> Result<()> {
        // Nothing is dead yet.
        let live = adverts.stats()?.log_bytes as f64;
        let batches = self.count * self.times / self.batch.max(1);
        let (mut looks, mut looked) = (Vec::new(), Instant::now());
        let watch = Watch::start()?;
        for _ in 0..batches {
            documents.replace(adverts, self.batch)?;
            if looked.elapsed() >= LOOK {
                looks.push(adverts.stats()?.log_bytes as f64 / live);
                looked = Instant::now();
            }
        }
        let (wall, cpu) = watch.stop()?;
        let stats = adverts.stats()?;
        let written = (batches * self.batch) as f64;
        // At first the log grows to the size that it keeps.
        let steady = looks.split_off(looks.len() / 2);
        let add = |name, unit, better, values: &[f64]| {
            results.add(name, unit, better, "quire", values);
        };
        add("overwrite", "documents/s", Better::More, &[written / wall]);
        add(
            "overwrite",
            "CPU µs each",
            Better::Less,
            &[cpu * 1e6 / written],
        );
        add("log bytes / live bytes", "ratio", Better::Less, &steady);
        results.aim("log bytes / live bytes", "ratio", Better::Less, 1.5);
        println!("| overwrites at full rate | |\n| --- | ---: |");
        println!("| documents | {} |", self.count);
        println!("| overwritten a second | {:.0} |", written / wall);
        println!("| CPU µs each | {:.1} |", cpu * 1e6 / written);
        println!(
            "| log bytes / live bytes, the second half | {} |",
            spread(steady)
        );
        println!("| segments compacted | {} |", stats.log_segments_compacted);
        println!(
            "| given back, MB | {:.0} |\n",
            stats.log_reclaimed_bytes as f64 / 1e6
        );
        Ok(())
    }

    fn pairs(&self, results: &Results, documents: &mut Documents) -> Result<()> {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        // The first slice finds the caches cold: it is not counted.
        self.slice(documents, false)?;
        for pair in 0..self.pairs {
            for turn in 0..2 {
                let compaction = (pair + turn) % 2 == 1;
                let slice = self.slice(documents, compaction)?;
                eprintln!("pair {pair}, compaction {compaction}: {slice:?}");
                match compaction {
                    true => with.push(slice),
                    false => without.push(slice),
                }
            }
        }
        let add = |name, unit, better, of: fn(&Slice) -> f64| {
            for (engine, slices) in [("quire", &with), ("no compaction", &without)] {
                let values: Vec<_> = slices.iter().map(of).collect();
                results.add(name, unit, better, engine, &values);
            }
        };
        let (less, more) = (Better::Less, Better::More);
        add("get beside overwrites", "gets/s", more, |slice| {
            slice.gets_per_second
        });
        add("get beside overwrites, p50", "µs", less, |slice| {
            slice.p50_micros
        });
        add("get beside overwrites, p99", "µs", less, |slice| {
            slice.p99_micros
        });
        let name = "get beside overwrites, p99, of that without";
        let pairs = without.iter().zip(&with);
        let ratios: Vec<_> = pairs
            .map(|(without, with)| with.p99_micros / without.p99_micros)
            .collect();
        results.add(name, "ratio", less, "quire", &ratios);
        results.aim(name, "ratio", less, 2.0);
        let row = |what: &str, of: fn(&Slice) -> f64| {
            let median_of = |slices: &[Slice]| median(slices.iter().map(of).collect());
            let pairs = without.iter().zip(&with);
            let ratios = pairs
                .map(|(without, with)| of(with) / of(without))
                .collect();
            println!(
                "| {what} | {:.1} | {:.1} | {} |",
                median_of(&without),
                median_of(&with),
                spread(ratios)
            );
        };
        println!(
            "| {} gets beside {} overwrites a second | without | with compaction \
             | ratio, median (least to most) |",
            self.pairs, self.rate
        );
        println!("| --- | ---: | ---: | ---: |");
        row("gets a second", |slice| slice.gets_per_second);
        row("p50, µs", |slice| slice.p50_micros);
        row("p99, µs", |slice| slice.p99_micros);
        row("overwritten a second", |slice| slice.written_per_second);
        let compacted = with.iter().map(|slice| slice.compacted as f64).collect();
        println!("\nsegments compacted in a slice: {}", spread(compacted));
        Ok(())
    }

    /// Gets at full rate beside overwrites at a fixed one.
    fn slice(&self, documents: &mut Documents, compaction: bool) -> Result<Slice> {
        let database = self.open(compaction)?;
        let adverts = database.collection("adverts")?;
        let before = adverts.stats()?.log_segments_compacted;
        let stop = AtomicBool::new(false);
        let (mut latencies, mut written) = (Latencies::default(), 0);
        let begun = Instant::now();
        let end = Duration::from_secs(self.seconds);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| -> Result<()> {
                while !stop.load(Ordering::Relaxed) {
                    documents.replace(&adverts, self.batch)?;
                    written += self.batch;
                    let due = Duration::from_secs_f64(written as f64 / self.rate as f64);
                    std::thread::sleep(due.saturating_sub(begun.elapsed()));
                }
                Ok(())
            });
            let mut numbers = Documents::new(self.count);
            let read = (|| -> Result<()> {
                while begun.elapsed() < end {
                    let key = key(numbers.random())?;
                    let found = latencies.time(|| adverts.get(&key))?;
                    if found.is_none_or(|found| found.key != key) {
                        return Err(format!("{key} is not there").into());
                    }
                }
                Ok(())
            })();
            stop.store(true, Ordering::Relaxed);
            writer.join().map_err(|_| "the writer panicked")?.and(read)
        })?;
        let wall = begun.elapsed().as_secs_f64();
        let compacted = adverts.stats()?.log_segments_compacted - before;
        let gets = latencies.len() as f64;
        let [p50_micros, p99_micros] = latencies.micros([0.5, 0.99]);
        drop(adverts);
        database.close()?;
        Ok(Slice {
            gets_per_second: gets / wall,
            p50_micros,
            p99_micros,
            written_per_second: written as f64 / wall,
            compacted,
        })
    }

    fn check(&self, documents: &Documents) -> Result<()> {
        let database = self.open(true)?;
        let adverts = database.collection("adverts")?;
        if adverts.count()? != self.count {
            return Err("the database has another number of documents".into());
        }
        for number in 0..self.count {
            let found = adverts.get(&key(number)?)?.map(|found| found.document);
            if found != Some(documents.document(number)?) {
                return Err(format!("document {number} is not what was written").into());
            }
        }
        println!("compared: {} documents", self.count);
        drop(adverts);
        Ok(database.close()?)
    }
}
