//! Keys and values: Quire beside LevelDB, RocksDB, fjall, LMDB, redb and Kyoto Cabinet, on one
//! stream of keys.
//!
//! Random 8-byte keys with values of 96 bytes are written in random order, read in another order,
//! looked up where they do not exist, scanned, overwritten, and opened from a cold disk. Each
//! engine is measured by a process of its own, in a cgroup of its own if memory is limited: those
//! in Rust by this program, the others by a program each (`bench/peers/kv`). A round has every
//! engine; the next has them in the other order.

mod engine;
mod histogram;
mod machine;
mod phases;
mod report;
mod stream;

use crate::Result;
use crate::cache::evict_files;
use crate::group::Group;
use crate::measure::in_directory;
use crate::results::Results;
use engine::{Fjall, Quire, QuireLoad, Redb, Sizes};
use phases::Phases;
use report::{Measured, Report, Run};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Quire first: it is held against the others.
const ENGINES: [&str; 7] = [
    "quire",
    "leveldb",
    "rocksdb",
    "fjall",
    "lmdb",
    "redb",
    "kyotocabinet",
];

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Keys
    #[arg(long, default_value_t = 1_000_000)]
    count: u64,
    /// Keys that a phase of reads gets, and twice the operations of the mixed phase; by default the
    /// number of keys
    #[arg(long)]
    reads: Option<u64>,
    /// Rounds, every other with the engines in the other order
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Only these engines; quire-load is Quire with a bulk load in place of writes
    #[arg(long, value_delimiter = ',', default_values_t = ENGINES.map(String::from))]
    engines: Vec<String>,
    /// A memtable, in MiB
    #[arg(long, default_value_t = 64)]
    memtable: u64,
    /// The cache of blocks or pages, in MiB
    #[arg(long, default_value_t = 256)]
    cache: u64,
    /// Each engine with its own defaults instead: sizes, filters, compression
    #[arg(long)]
    defaults: bool,
    /// Memory of each engine, in MiB, the system's cache of its files included
    #[arg(long)]
    limit: Option<u64>,
    /// The peers in C and C++, as bench/peers/kv/Makefile built them
    #[arg(long, default_value = "target/kv-peers")]
    peers: PathBuf,
    /// Where files are kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-kv")]
    dir: PathBuf,
}

/// One engine, measured once by this process. The other peers take the same arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Task {
    engine: String,
    /// `run`, or `open` for the phases that begin with a cold disk
    work: String,
    dir: PathBuf,
    count: u64,
    reads: u64,
    /// Sizes in MiB; without them, the engine's defaults
    #[arg(requires = "cache")]
    memtable: Option<u64>,
    cache: Option<u64>,
}

impl Task {
    pub(crate) fn run(&self) -> Result<()> {
        std::fs::create_dir_all(&self.dir)?;
        match self.engine.as_str() {
            "quire" => self.phases::<Quire>(),
            "quire-load" => self.phases::<QuireLoad>(),
            "fjall" => self.phases::<Fjall>(),
            "redb" => self.phases::<Redb>(),
            other => Err(format!("no engine {other}").into()),
        }
    }

    fn phases<E: engine::Engine>(&self) -> Result<()> {
        let sizes = self.memtable.zip(self.cache);
        let phases = Phases {
            name: &self.engine,
            dir: &self.dir,
            count: self.count,
            reads: self.reads,
            sizes: sizes.map(|(memtable, cache)| Sizes {
                memtable_bytes: memtable << 20,
                cache_bytes: cache << 20,
            }),
        };
        match self.work.as_str() {
            "open" => phases.open::<E>(),
            _ => phases.run::<E>(),
        }
    }
}

impl Plan {
    pub(crate) fn run(&self, results: &Results) -> Result<()> {
        in_directory(&self.dir, || self.measure(results))
    }

    fn measure(&self, results: &Results) -> Result<()> {
        let rows = stream::checksum_of_rows(self.count);
        let expected = BTreeMap::from([
            ("stream", stream::checksum_of_stream(self.count)),
            ("scan", rows),
        ]);
        let mut runs: BTreeMap<String, Vec<Run>> = BTreeMap::new();
        for round in 0..self.rounds {
            let mut engines = self.engines.clone();
            if round % 2 == 1 {
                engines.reverse();
            }
            for engine in engines {
                eprintln!("round {round}: {engine}");
                let run = self.engine(&engine, round)?;
                for (phase, checksum) in &expected {
                    let found = run.get(*phase);
                    if found.is_some_and(|found| found.checksum != *checksum) {
                        return Err(format!("{engine}: {phase}: another checksum").into());
                    }
                }
                runs.entry(engine).or_default().push(run);
            }
        }
        let report = Report {
            engines: self.engines.clone(),
            runs,
            limited: self.limit.is_some(),
        };
        println!("\n{}", self.heading());
        println!("{}", report.figures());
        println!("{}", report.aims());
        report.add_to(results);
        Ok(())
    }

    fn reads(&self) -> u64 {
        self.reads.unwrap_or(self.count).min(self.count)
    }

    fn heading(&self) -> String {
        let sizes = match self.defaults {
            true => "each engine's defaults".to_owned(),
            false => format!(
                "memtables of {} MiB, caches of {} MiB",
                self.memtable, self.cache
            ),
        };
        let limit = self
            .limit
            .map_or(String::new(), |mib| format!(", within {mib} MiB of memory"));
        let (count, reads, rounds) = (self.count, self.reads(), self.rounds);
        format!(
            "{count} keys, {reads} reads, {rounds} rounds, {sizes}{limit}; all answers are right.\n"
        )
    }

    /// Measures an engine once, by processes of its own, and removes its files.
    fn engine(&self, engine: &str, round: usize) -> Result<Run> {
        let dir = self.dir.join(engine);
        let mut run = Run::new();
        for work in ["run", "open"] {
            let group = self.limit.map(|mib| Group::new(mib << 20)).transpose()?;
            let status = self.process(engine, work, &dir, group.as_ref(), |measured| {
                let measured = Measured { round, ..measured };
                measured.print()?;
                run.insert(measured.phase.clone(), measured);
                Ok(())
            })?;
            if work == "run"
                && let Some(group) = &group
            {
                let measured = Measured {
                    round,
                    engine: engine.to_owned(),
                    phase: "limit".to_owned(),
                    peak_memory_bytes: group.peak_bytes()?,
                    ..Measured::default()
                };
                measured.print()?;
                run.insert(measured.phase.clone(), measured);
            }
            // To be killed for its memory is a result, if it is limited.
            match (status.success(), self.limit) {
                (true, _) => evict_files(&dir)?,
                (false, Some(_)) if status.code().is_none() => {
                    eprintln!("{engine}: {status}");
                    break;
                }
                _ => return Err(format!("{engine}: {status}").into()),
            }
        }
        std::fs::remove_dir_all(&dir)?;
        Ok(run)
    }

    fn process(
        &self,
        engine: &str,
        work: &str,
        dir: &Path,
        group: Option<&Group>,
        mut each: impl FnMut(Measured) -> Result<()>,
    ) -> Result<ExitStatus> {
        let ours = ["quire", "quire-load", "fjall", "redb"].contains(&engine);
        let program = match ours {
            true => std::env::current_exe()?,
            false => self.peers.join(format!("kv-{engine}")),
        };
        let mut command = match group {
            Some(group) => group.command(program.as_os_str()),
            None => Command::new(&program),
        };
        if ours {
            command.args(["kv-task", engine]);
        }
        command.arg(work).arg(dir);
        command.args([self.count, self.reads()].map(|count| count.to_string()));
        if !self.defaults {
            command.args([self.memtable, self.cache].map(|mib| mib.to_string()));
        }
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let lines = child.stdout.take().ok_or("no output")?;
        for line in BufReader::new(lines).lines() {
            each(serde_json::from_str(&line?)?)?;
        }
        Ok(child.wait()?)
    }
}
