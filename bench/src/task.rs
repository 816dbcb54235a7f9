//! One measurement: one engine, one job, in a process of its own.

use crate::corpus::{Batch, Expected, Reader as CorpusReader};
use crate::engine::{Engine, Fjall, Name, Quire, Reader, Sqlite};
use crate::measure::{Latencies, Watch, disk_bytes, memory_bytes};
use crate::report::Figures;
use crate::{Result, adverts};
use std::path::PathBuf;
use std::sync::Mutex;
use xxhash_rust::xxh3::xxh3_64;

/// After a durable load, this many documents are read back and compared.
const SAMPLE: usize = 1000;

/// What to measure. Made by the plan.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Task {
    /// What to do
    #[arg(value_enum)]
    pub(crate) job: Job,
    /// The engine
    #[arg(long, value_enum)]
    pub(crate) engine: Name,
    /// The round, for the report
    #[arg(long)]
    pub(crate) round: u32,
    /// The documents
    #[arg(long)]
    pub(crate) corpus: PathBuf,
    /// The database's directory
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// How many of the documents
    #[arg(long)]
    pub(crate) documents: u64,
    /// Memory for the engine's caches and memtables
    #[arg(long)]
    pub(crate) memory_bytes: u64,
    /// Documents written together
    #[arg(long)]
    pub(crate) batch: usize,
    /// Documents written alone, each durable before the next
    #[arg(long, default_value_t = 0)]
    pub(crate) lone_puts: usize,
    /// Threads that load
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: u64,
}

/// The jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Job {
    /// Load in bulk: one sync, at the end
    Load,
    /// Load with a sync after each batch, then put single documents
    Durable,
    /// Open what was loaded and get documents
    Get,
}

impl Task {
    /// Does it and prints its figures, a line for each phase.
    pub(crate) fn run(&self) -> Result<()> {
        match self.engine {
            Name::Quire => self.run_on::<Quire>(),
            Name::Sqlite => self.run_on::<Sqlite>(),
            Name::Fjall => self.run_on::<Fjall>(),
        }
    }

    fn run_on<E: Engine>(&self) -> Result<()> {
        match self.job {
            Job::Load => self.load::<E>(),
            Job::Durable => self.durable::<E>(),
            Job::Get => self.get::<E>(),
        }
    }

    fn load<E: Engine>(&self) -> Result<()> {
        let corpus = Mutex::new(CorpusReader::open(&self.corpus, self.documents)?);
        let before = memory_bytes("VmRSS")?;
        let watch = Watch::start()?;
        let engine = E::open(&self.dir, self.memory_bytes)?;
        let (bytes, latencies) = self.write_all(&engine, &corpus, false)?;
        engine.sync()?;
        let elapsed = watch.stop()?;
        engine.close()?;
        let phase = if self.threads == 1 {
            "load"
        } else {
            "load, 2 threads"
        };
        self.print(Figures {
            bytes,
            disk_bytes: disk_bytes(&self.dir)?,
            memory_bytes: memory_bytes("VmHWM")?.saturating_sub(before),
            ..Figures::of(phase, self.documents, elapsed, latencies)
        })
    }

    /// Writes the corpus in batches, by all threads; gives its bytes and how long each batch took.
    fn write_all<E: Engine>(
        &self,
        engine: &E,
        corpus: &Mutex<CorpusReader>,
        durable: bool,
    ) -> Result<(u64, Latencies)> {
        let work = || -> Result<(u64, Latencies)> {
            let (mut batch, mut bytes, mut latencies) = (Batch::default(), 0, Latencies::default());
            while corpus
                .lock()
                .map_err(|_| "another thread failed")?
                .next(self.batch, &mut batch)?
            {
                latencies.time(|| engine.write(&batch, durable))?;
                bytes += batch
                    .documents()
                    .map(|document| document.len() as u64)
                    .sum::<u64>();
            }
            Ok((bytes, latencies))
        };
        on_threads(self.threads, |_| work())
    }

    fn durable<E: Engine>(&self) -> Result<()> {
        let corpus = Mutex::new(CorpusReader::open(
            &self.corpus,
            self.documents + self.lone_puts as u64,
        )?);
        let engine = E::open(&self.dir, self.memory_bytes)?;
        let (watch, mut bytes) = (Watch::start()?, 0);
        let (mut batch, mut latencies) = (Batch::default(), Latencies::default());
        let mut corpus = corpus.into_inner().map_err(|_| "another thread failed")?;
        let mut left = self.documents as usize;
        while left > 0 && corpus.next(self.batch.min(left), &mut batch)? {
            left -= batch.len();
            latencies.time(|| engine.write(&batch, true))?;
            bytes += batch
                .documents()
                .map(|document| document.len() as u64)
                .sum::<u64>();
        }
        let loaded = Figures {
            bytes,
            ..Figures::of("load, durable", self.documents, watch.stop()?, latencies)
        };
        self.print(loaded)?;

        let (watch, mut latencies) = (Watch::start()?, Latencies::default());
        while corpus.next(1, &mut batch)? {
            latencies.time(|| engine.write(&batch, true))?;
        }
        self.print(Figures::of(
            "put, durable",
            self.lone_puts as u64,
            watch.stop()?,
            latencies,
        ))?;

        let expected = Expected::read(&self.corpus, self.documents + self.lone_puts as u64)?;
        let mut reader = engine.reader(1)?;
        let step = (expected.len() / SAMPLE).max(1);
        let sample = (0..expected.len())
            .step_by(step)
            .chain(self.documents as usize..expected.len());
        for index in sample {
            check(&mut reader, &expected, index)?;
        }
        drop(reader);
        engine.close()
    }

    fn get<E: Engine>(&self) -> Result<()> {
        let expected = Expected::read(&self.corpus, self.documents)?;
        let order = shuffled(expected.len());
        let before = memory_bytes("VmRSS")?;

        let (watch, mut latencies) = (Watch::start()?, Latencies::default());
        let engine = latencies.time(|| E::open(&self.dir, self.memory_bytes))?;
        self.print(Figures::of("open", 1, watch.stop()?, latencies))?;

        for threads in [1, 2] {
            let watch = Watch::start()?;
            let ((), latencies) = on_threads(threads, |thread| {
                let mut reader = engine.reader(threads)?;
                let mut latencies = Latencies::with_capacity(order.len());
                for index in order.iter().skip(thread as usize).step_by(threads as usize) {
                    latencies.time(|| check(&mut reader, &expected, *index as usize))?;
                }
                Ok(((), latencies))
            })?;
            let phase = if threads == 1 {
                "get"
            } else {
                "get, 2 threads"
            };
            let elapsed = watch.stop()?;
            self.print(Figures {
                // The timings themselves take 4 bytes an operation.
                memory_bytes: memory_bytes("VmHWM")?.saturating_sub(before + 4 * self.documents),
                ..Figures::of(phase, self.documents, elapsed, latencies)
            })?;
        }

        let mut latencies = Latencies::with_capacity(expected.len());
        let mut reader = engine.reader(1)?;
        let watch = Watch::start()?;
        for number in 0..self.documents {
            // Adverts have numbers below 2^63, so these keys are no advert's.
            let key = adverts::key(number | 1 << 63);
            if latencies.time(|| reader.get(&key, &mut |_| {}))? {
                return Err(format!("{key} was found, and was never written").into());
            }
        }
        self.print(Figures::of(
            "get of missing keys",
            self.documents,
            watch.stop()?,
            latencies,
        ))?;
        drop(reader);
        engine.close()
    }

    fn print(&self, figures: Figures) -> Result<()> {
        println!(
            "{}",
            serde_json::to_string(&Figures {
                engine: Some(self.engine),
                round: self.round,
                ..figures
            })?
        );
        Ok(())
    }
}

/// Gets a document and compares it with what was written.
fn check(reader: &mut impl Reader, expected: &Expected, index: usize) -> Result<()> {
    let (key, hash) = expected.at(index);
    let mut found = 0;
    if !reader.get(key, &mut |text| found = xxh3_64(text))? {
        return Err(format!("{key} was written and is not found").into());
    }
    if found != hash {
        return Err(format!("{key} comes back as something else").into());
    }
    Ok(())
}

/// Runs `work` on each of `threads` threads, by its number; adds up what they counted.
fn on_threads<T: Sum + Send>(
    threads: u64,
    work: impl Fn(u64) -> Result<(T, Latencies)> + Sync,
) -> Result<(T, Latencies)> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn({
                    let work = &work;
                    move || work(thread)
                })
            })
            .collect();
        let (mut total, mut all) = (T::default(), Latencies::default());
        for thread in running {
            let (count, latencies) = thread.join().map_err(|_| "a thread panicked")??;
            total.add(count);
            all.append(latencies);
        }
        Ok((total, all))
    })
}

/// What threads count.
trait Sum: Default {
    fn add(&mut self, other: Self);
}

impl Sum for u64 {
    fn add(&mut self, other: u64) {
        *self += other;
    }
}

impl Sum for () {
    fn add(&mut self, (): ()) {}
}

/// The numbers below `count` in an order that is always the same and has none (Fisher, Yates 1938).
fn shuffled(count: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    let mut state = 0x0bad_5eed_u64;
    for last in (1..count).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, ((state >> 33) % (last as u64 + 1)) as usize);
    }
    order
}
