//! Measures Quire beside its peers: the same documents, one run, one process for each measurement.
//!
//! ```text
//! quire-bench documents --count 1000000 --rounds 3
//! ```
//! The parent writes the documents to a file, then starts itself again as a *task* for each engine,
//! phase and round, so that the peak memory of one is not that of another. A task prints one line
//! of JSON for each phase; the parent repeats them on standard output and ends with a table of
//! medians.

mod adverts;
mod backup;
mod cache;
mod codecs;
mod converged;
mod corpus;
mod docstore;
mod engine;
mod follow;
mod gets;
mod group;
mod http;
mod kv;
mod measure;
mod memcached;
mod overwrites;
mod plan;
mod report;
mod results;
mod server;
mod snapshot;
mod split;
mod task;
mod wide;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use results::Results;
use std::process::ExitCode;

/// The allocator of the `quire` command, for all engines written in Rust. SQLite, in C, keeps the
/// system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What went wrong; a benchmark can only say so.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
/// A result of the benchmark.
pub(crate) type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Parser)]
#[command(about = "Quire and its peers, measured side by side")]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Also write what was measured to this file, as JSON: `docs/results/` keeps such files
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<std::path::PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Load and get JSON documents: Quire, SQLite, fjall
    Documents(plan::Plan),
    /// Write at full rate with and without a backup running
    Backup(backup::Plan),
    /// Get documents over the memcached protocol: Quire, memcached
    Memcached(memcached::Plan),
    /// Load documents by the command, then update them while they are read
    Docstore(docstore::Plan),
    /// Get documents by key: from memory, and from disk where they do not fit
    Gets(gets::Plan),
    /// Overwrite documents: the room that the log takes, and reads with and without its compaction
    Overwrites(overwrites::Plan),
    /// Load and get documents under each codec: disk and CPU
    Codecs(codecs::Plan),
    /// Follow a leader that is written at a fixed rate: the lag, and how fast a follower catches up
    Follow(follow::Plan),
    /// Find, load and update documents in a live index: Quire, Lucene, Tantivy, RocksDB, OpenSearch
    Converged(converged::Plan),
    /// Measure one engine of `converged` once
    #[command(hide = true)]
    ConvergedTask(converged::Task),
    /// Write and read keys and values: Quire, LevelDB, RocksDB, fjall, LMDB, redb, Kyoto Cabinet
    Kv(kv::Plan),
    /// Measure one engine of `kv` once
    #[command(hide = true)]
    KvTask(kv::Task),
    /// Count documents by value: a frozen partition, Lucene, SQLite, H2
    Snapshot(snapshot::Plan),
    /// Find car adverts: a folder of frozen partitions, Lucene
    SnapshotCars(snapshot::market::Plan),
    /// Build one frozen file of many rows of short fields
    SnapshotFlat(snapshot::flat::Plan),
    /// Split a partition while it is written and read
    Split(split::Plan),
    /// Codecs of payloads: bytes against the time of reading one
    SnapshotRows(snapshot::rows::Plan),
    /// Measure Quire in `snapshot-cars` once
    #[command(hide = true)]
    SnapshotCarsTask(snapshot::market::Task),
    /// Measure one engine of `snapshot` once
    #[command(hide = true)]
    SnapshotTask(snapshot::Task),
    /// Wide documents on throttled disks: column groups, JBOD, tiers, I/O by priority, coprocessors
    Wide(wide::Plan),
    /// Measure one part of `wide` once
    #[command(hide = true)]
    WideTask(wide::Task),
    /// Measure one engine once (started by the other commands)
    #[command(hide = true)]
    Task(task::Task),
}

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let benchmark = matches.subcommand_name().unwrap_or_default().to_owned();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match cli.run(&benchmark) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quire-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Cli {
    fn run(self, benchmark: &str) -> Result<()> {
        let results = Results::default();
        match self.command {
            Command::Documents(plan) => plan.run(&results)?,
            Command::Backup(plan) => plan.run(&results)?,
            Command::Memcached(plan) => plan.run(&results)?,
            Command::Docstore(plan) => plan.run(&results)?,
            Command::Gets(plan) => plan.run(&results)?,
            Command::Overwrites(plan) => plan.run(&results)?,
            Command::Codecs(plan) => plan.run(&results)?,
            Command::Follow(plan) => plan.run(&results)?,
            Command::Converged(plan) => plan.run(&results)?,
            Command::ConvergedTask(task) => task.run()?,
            Command::Kv(plan) => plan.run(&results)?,
            Command::KvTask(task) => task.run()?,
            Command::Snapshot(plan) => plan.run(&results)?,
            Command::SnapshotCars(plan) => plan.run(&results)?,
            Command::SnapshotCarsTask(task) => task.run()?,
            Command::Split(plan) => plan.run(&results)?,
            Command::SnapshotFlat(plan) => plan.run()?,
            Command::SnapshotRows(plan) => plan.run()?,
            Command::SnapshotTask(task) => task.run()?,
            Command::Wide(plan) => plan.run(&results)?,
            Command::WideTask(task) => task.run()?,
            Command::Task(task) => task.run()?,
        }
        match self.json {
            Some(path) => results.write(benchmark, &path),
            None => Ok(()),
        }
    }
}
