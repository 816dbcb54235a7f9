//! A day of a document store: loading it whole, and a day's updates while it is read.
//!
//! 1. The rate at which the disk takes a file written from front to back, and the rate of updates
//!    in place, as the first docstore made them: one of many segment files is read, one document in
//!    it is replaced, it is written anew and synced.
//! 2. `quire load --durability none` of a file of generated documents, the last sync and the
//!    closing included.
//! 3. Replacing documents of that database, 1.5 times each on average, by two threads, as durable
//!    as `async(100)` makes them, while a third gets random documents at a fixed rate; timed to the
//!    moment when all is durable.
//!
//! In the end random documents are compared with what was written, and the documents are counted.

use crate::Result;
use crate::adverts::{self, Random};
use crate::corpus;
use crate::measure::{Latencies, Watch, disk_bytes, in_directory, spread};
use crate::results::{Better, Results};
use quiredb::{
    Collection, DatabaseBuilder, DatabaseOptions, Document, Durability, Key, Volumes, Write,
};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Bytes of the file that is written to measure the disk.
const DISK_BYTES: u64 = 2 << 30;
/// Segments that are updated in place: documents in each, and whether the system's memory holds
/// them. The first docstore had far more data than memory.
const SEGMENTS: [(u64, bool); 4] = [
    (1_000, true),
    (1_000, false),
    (10_000, true),
    (10_000, false),
];
/// Documents in all those segments.
const IN_PLACE_DOCUMENTS: u64 = 500_000;
/// Updates in place.
const IN_PLACE_UPDATES: u64 = 500;
/// Threads that update.
const WRITERS: u64 = 2;
/// Updates in a batch.
const BATCH: u64 = 500;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Documents
    #[arg(long, default_value_t = 10_000_000)]
    count: u64,
    /// Times that they are loaded
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Updates, as a part of the documents
    #[arg(long, default_value_t = 0.26)]
    updates: f64,
    /// Gets in a second beside them
    #[arg(long, default_value_t = 2_000)]
    gets: u64,
    /// Memory of the database, in MiB
    #[arg(long, default_value_t = 1024)]
    memory: u64,
    /// The `quire` command
    #[arg(long, default_value = "../target/release/quire")]
    quire: PathBuf,
    /// Where files are kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-docstore")]
    dir: PathBuf,
}

/// The last line of `quire load --json`.
#[derive(Debug, serde::Deserialize)]
struct Loaded {
    documents: u64,
    seconds: f64,
}

impl Plan {
    pub(crate) fn run(&self, results: &Results) -> Result<()> {
        in_directory(&self.dir, || {
            let input = self.dir.join("adverts.ndjson");
            let size = corpus::generate(self.count, &input)?;
            eprintln!("{} documents, {} bytes", size.documents, size.bytes);
            let (mut disk, mut rates, mut megabytes, mut cpu) = (vec![], vec![], vec![], vec![]);
            for round in 0..self.rounds {
                disk.push(self.disk()?);
                if round > 0 {
                    std::fs::remove_dir_all(self.dir.join("db"))?;
                }
                let (loaded, cpu_seconds) = self.load(&input)?;
                eprintln!(
                    "round {round}: disk {:.0} MB/s, {loaded:?}, {cpu_seconds} s of CPU",
                    disk[round as usize]
                );
                let wall = loaded.seconds;
                rates.push(loaded.documents as f64 / wall);
                megabytes.push(size.bytes as f64 / 1e6 / wall);
                cpu.push(cpu_seconds * 1e6 / loaded.documents as f64);
            }
            println!(
                "| loading {} documents of {} bytes on average | |\n| --- | ---: |",
                size.documents,
                size.bytes / size.documents.max(1)
            );
            let add = |name: &str, unit, better, values: &[f64]| {
                results.add(name, unit, better, "quire", values);
            };
            add("load", "MB of JSON/s", Better::More, &megabytes);
            add("load", "documents/s", Better::More, &rates);
            add("load", "CPU µs each", Better::Less, &cpu);
            add("disk written in order", "MB/s", Better::More, &disk);
            println!("| MB of JSON a second | {} |", spread(megabytes));
            println!("| documents a second | {} |", spread(rates.clone()));
            println!("| CPU µs each | {} |", spread(cpu));
            println!(
                "| MB a second that the disk takes, written in order | {} |",
                spread(disk)
            );
            for (documents, cached) in SEGMENTS {
                let in_place = self.in_place(documents, cached)?;
                let times: Vec<_> = rates.iter().map(|rate| rate / in_place).collect();
                let place = if cached { "in memory" } else { "on disk" };
                let name = format!("{documents} documents a segment, {place}");
                add(&name, "loading, times as fast", Better::More, &times);
                results.aim(&name, "loading, times as fast", Better::More, 300.0);
                println!(
                    "| times as fast as updates in segments of {documents} documents, {} \
                     ({in_place:.0} a second) | {} |",
                    if cached { "in memory" } else { "not in memory" },
                    spread(times)
                );
            }
            let ratio = disk_bytes(&self.dir.join("db"))? as f64 / size.bytes as f64;
            println!("| disk bytes / JSON bytes | {ratio:.2} |\n");
            add("load, disk / JSON bytes", "ratio", Better::Less, &[ratio]);
            std::fs::remove_file(&input)?;
            self.update(results)
        })
    }

    /// MB a second of a file that is written in order and synced.
    fn disk(&self) -> Result<f64> {
        let path = self.dir.join("disk");
        let mut random = Random::new(1);
        // Nothing that a clever disk could leave out.
        let piece: Vec<u8> = (0..1 << 20).map(|_| random.below(256) as u8).collect();
        let begun = Instant::now();
        let mut file = File::create(&path)?;
        for _ in 0..DISK_BYTES / piece.len() as u64 {
            file.write_all(&piece)?;
        }
        file.sync_all()?;
        let seconds = begun.elapsed().as_secs_f64();
        std::fs::remove_file(&path)?;
        Ok(DISK_BYTES as f64 / 1e6 / seconds)
    }

    /// Updates a second. Each reads a segment of `documents` documents, writes it again in its
    /// place and syncs it.
    fn in_place(&self, documents: u64, cached: bool) -> Result<f64> {
        let dir = self.dir.join("segments");
        let path = |segment: u64| dir.join(segment.to_string());
        let segments = IN_PLACE_DOCUMENTS / documents;
        std::fs::create_dir_all(&dir)?;
        let mut text = String::new();
        for segment in 0..segments {
            text.clear();
            for number in segment * documents..(segment + 1) * documents {
                adverts::write(number, &mut text);
                text.push('\n');
            }
            let mut file = File::create(path(segment))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
        }
        let mut random = Random::new(2);
        let begun = Instant::now();
        for update in 0..IN_PLACE_UPDATES {
            let path = path(random.below(segments));
            if !cached {
                fadvise(File::open(&path)?, 0, None, Advice::DontNeed)?;
            }
            let text = std::fs::read_to_string(&path)?;
            let wanted = random.below(documents);
            let mut anew = String::with_capacity(text.len() + 100);
            for (number, line) in text.lines().enumerate() {
                match number as u64 == wanted {
                    true => adverts::write(update, &mut anew),
                    false => anew.push_str(line),
                }
                anew.push('\n');
            }
            let file = File::options().write(true).open(&path)?;
            file.write_all_at(anew.as_bytes(), 0)?;
            file.set_len(anew.len() as u64)?;
            file.sync_data()?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        std::fs::remove_dir_all(&dir)?;
        Ok(IN_PLACE_UPDATES as f64 / seconds)
    }

    /// Loads the file by the command, which times itself; also the seconds of CPU that took.
    fn load(&self, input: &std::path::Path) -> Result<(Loaded, f64)> {
        let watch = Watch::start_of_children()?;
        let output = Command::new(&self.quire)
            .arg("load")
            .arg(self.dir.join("db"))
            .arg("adverts")
            .arg(input)
            .args([
                "--durability",
                "none",
                "--index",
                "none",
                "--json",
                "--memory",
            ])
            .arg(format!("{}MiB", self.memory))
            .output()?;
        let (_, cpu) = watch.stop()?;
        let text = String::from_utf8(output.stdout)?;
        match text.lines().last().map(serde_json::from_str) {
            Some(Ok(loaded)) if output.status.success() => Ok((loaded, cpu)),
            _ => Err(format!("quire load: {}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    }

    fn update(&self, results: &Results) -> Result<()> {
        let options = DatabaseOptions {
            memory_bytes: self.memory << 20,
            ..DatabaseOptions::default()
        };
        let volumes = Volumes::single(self.dir.join("db"));
        let database = DatabaseBuilder::on(&volumes).options(options).open()?;
        let documents = database.collection("adverts")?;
        let updates =
            (self.count as f64 * self.updates) as u64 / (WRITERS * BATCH) * (WRITERS * BATCH);
        // One and a half versions of each that is updated at all.
        let updated = (updates * 2 / 3).max(WRITERS);
        let versions: Vec<AtomicU8> = (0..updated).map(|_| AtomicU8::new(0)).collect();
        let stop = AtomicBool::new(false);
        let watch = Watch::start()?;
        let (mut latencies, wall) = std::thread::scope(|scope| -> Result<_> {
            let reader = scope.spawn(|| self.read(&documents, &stop));
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (documents, versions) = (&documents, &versions);
                    scope.spawn(move || self.write(documents, versions, writer, updates / WRITERS))
                })
                .collect();
            let mut done = Ok(());
            for writer in writers {
                done = writer.join().map_err(|_| "a writer panicked")?.and(done);
            }
            let synced = documents.sync();
            let wall = watch.stop()?.0;
            stop.store(true, Ordering::Relaxed);
            let latencies = reader.join().map_err(|_| "the reader panicked")??;
            done?;
            synced?;
            Ok((latencies, wall))
        })?;
        let cpu = watch.stop()?.1;
        let gets = latencies.len() as f64;
        let [p50, p99, p999] = std::mem::take(&mut latencies).micros([0.5, 0.99, 0.999]);
        let stats = documents.stats()?;
        println!(
            "| {updates} updates of {updated} documents among {} | |\n| --- | ---: |",
            self.count
        );
        let add = |name: &str, unit, better, value: f64| {
            results.add(name, unit, better, "quire", &[value]);
        };
        add("update", "updates/s", Better::More, updates as f64 / wall);
        let cpu_each = cpu * 1e6 / updates as f64;
        add(
            "update, gets included",
            "CPU µs each",
            Better::Less,
            cpu_each,
        );
        for (name, micros) in [("p50", p50), ("p99", p99), ("p99.9", p999)] {
            add(
                &format!("get beside updates, {name}"),
                "µs",
                Better::Less,
                micros,
            );
        }
        println!("| seconds | {wall:.1} |");
        println!("| updates a second | {:.0} |", updates as f64 / wall);
        println!(
            "| CPU µs for each, gets included | {:.1} |",
            cpu * 1e6 / updates as f64
        );
        println!("| gets a second beside them | {:.0} |", gets / wall);
        println!("| get, p50 and p99 and p99.9, µs | {p50:.0} and {p99:.0} and {p999:.0} |");
        println!(
            "| longest stall of a writer, ms | {:.1} |",
            stats.write_stall_micros_max as f64 / 1e3
        );
        println!(
            "| log segments compacted | {} |",
            stats.log_segments_compacted
        );
        self.check(&documents, &versions)?;
        drop(documents);
        Ok(database.close()?)
    }

    /// Replaces documents: each writer has every second of those to be updated.
    fn write(
        &self,
        documents: &Collection,
        versions: &[AtomicU8],
        writer: u64,
        count: u64,
    ) -> Result<()> {
        let mut random = Random::new(100 + writer);
        for _ in 0..count / BATCH {
            let mut writes = Vec::with_capacity(BATCH as usize);
            for _ in 0..BATCH {
                let index = random.below(versions.len() as u64 / WRITERS) * WRITERS + writer;
                let version = versions[index as usize].fetch_add(1, Ordering::Relaxed) + 1;
                let number = self.number(index, versions.len() as u64);
                writes.push(Write::put(key(number)?, document(number, version)?));
            }
            let durability = Durability::Async(Duration::from_millis(100));
            for result in documents
                .batch()
                .writes(writes)
                .durability(durability)
                .write()
            {
                result?;
            }
        }
        Ok(())
    }

    /// The document that is the `index`th of those to be updated: they lie evenly among all.
    fn number(&self, index: u64, updated: u64) -> u64 {
        index * self.count / updated
    }

    /// Gets random documents at the given rate until `stop` is set.
    fn read(&self, documents: &Collection, stop: &AtomicBool) -> Result<Latencies> {
        let (mut latencies, mut random) = (Latencies::default(), Random::new(7));
        let begun = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let key = key(random.below(self.count))?;
            if latencies
                .time(|| documents.get(&key))?
                .is_none_or(|found| found.key != key)
            {
                return Err(format!("{key} is not there").into());
            }
            let due = Duration::from_secs_f64(latencies.len() as f64 / self.gets as f64);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        Ok(latencies)
    }

    fn check(&self, documents: &Collection, versions: &[AtomicU8]) -> Result<()> {
        let found = documents.count()?;
        if found != self.count {
            return Err(format!("{found} documents, and there should be {}", self.count).into());
        }
        let updated = versions.len() as u64;
        let mut random = Random::new(8);
        let compared = self.count.min(100_000);
        for turn in 0..compared {
            let (number, version) = match turn % 2 {
                0 => {
                    let index = random.below(updated);
                    let version = versions[index as usize].load(Ordering::Relaxed);
                    (self.number(index, updated), version)
                }
                _ => {
                    let number = random.below(self.count);
                    // The one updated that lies nearest at or before it is this one, or it was not
                    // updated.
                    let index = (number * updated).div_ceil(self.count).min(updated - 1);
                    match self.number(index, updated) == number {
                        true => (number, versions[index as usize].load(Ordering::Relaxed)),
                        false => (number, 0),
                    }
                }
            };
            let found = documents.get(&key(number)?)?.map(|found| found.document);
            if found != Some(document(number, version)?) {
                return Err(format!("document {number} is not what was written").into());
            }
        }
        println!("\ncompared: {compared} documents");
        Ok(())
    }
}

fn key(number: u64) -> Result<Key> {
    Ok(Key::parse(&adverts::key(number))?)
}

/// A document after `version` updates.
fn document(number: u64, version: u8) -> Result<Document> {
    let mut json = String::with_capacity(1200);
    match version {
        0 => adverts::write(number, &mut json),
        _ => {
            adverts::write(number ^ u64::from(version) << 40, &mut json);
            json = json.replacen(
                &adverts::key(number ^ u64::from(version) << 40),
                &adverts::key(number),
                1,
            );
        }
    }
    Ok(Document::from_json(json.as_bytes())?)
}
