//! The plan of a run: which task for which engine, in which order.

use crate::corpus::{self, Size};
use crate::engine::Name;
use crate::measure::in_directory;
use crate::report::{Figures, add_to, table};
use crate::results::Results;
use crate::task::Job;
use crate::{Error, Result};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What to measure, how often.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// How many documents
    #[arg(long, default_value_t = 200_000)]
    count: u64,
    /// Documents of this file (NDJSON, keys in `_id`) instead of generated ones
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How often everything is measured; the order of the engines is turned round each time
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Which engines
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_values_t = [Name::Quire, Name::Sqlite, Name::Fjall]
    )]
    engines: Vec<Name>,
    /// Memory for each engine in MiB: half for cached blocks or pages, a quarter for memtables
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory_mib: u64,
    /// Documents loaded with a sync after each batch, at most
    #[arg(long, default_value_t = 200_000)]
    durable_count: u64,
    /// Documents put one by one, each durable before the next
    #[arg(long, default_value_t = 1000)]
    lone_puts: u64,
    /// Documents in a batch
    #[arg(long, default_value_t = 1000)]
    batch: usize,
    /// Where documents and databases are kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-data")]
    dir: PathBuf,
}

impl Plan {
    /// Measures everything and prints the table.
    pub(crate) fn run(&self, results: &Results) -> Result<()> {
        let measured = in_directory(&self.dir, || self.measure())?;
        println!("\n{}", table(&measured, &self.engines));
        add_to(results, &measured);
        Ok(())
    }

    fn measure(&self) -> Result<Vec<Figures>> {
        let corpus = self.dir.join("corpus.ndjson");
        let size = match &self.file {
            Some(file) => corpus::copy(file, self.count, &corpus)?,
            None => corpus::generate(self.count, &corpus)?,
        };
        let Some(mean) = size.bytes.checked_div(size.documents) else {
            return Err("no documents".into());
        };
        eprintln!("{} documents, {mean} bytes each on average", size.documents);

        let mut all = Vec::new();
        for round in 1..=self.rounds {
            let mut engines = self.engines.clone();
            if round % 2 == 0 {
                engines.reverse();
            }
            for job in [Work::Load, Work::LoadByTwo, Work::Durable] {
                for engine in &engines {
                    let dir = self.dir.join(engine.text());
                    remove(&dir)?;
                    all.extend(self.task(job, *engine, round, &corpus, &dir, size)?);
                    if job == Work::Load {
                        all.extend(self.task(Work::Get, *engine, round, &corpus, &dir, size)?);
                    }
                    remove(&dir)?;
                }
            }
        }
        Ok(all)
    }

    /// Runs a task in a process of its own and gives what it measured.
    fn task(
        &self,
        work: Work,
        engine: Name,
        round: u32,
        corpus: &Path,
        dir: &Path,
        size: Size,
    ) -> Result<Vec<Figures>> {
        // What earlier tasks wrote is on disk before this one is timed.
        Command::new("sync").status()?;
        let lone_puts = self.lone_puts.min(size.documents / 2);
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("task").arg(match work {
            Work::Load | Work::LoadByTwo => text(Job::Load),
            Work::Durable => text(Job::Durable),
            Work::Get => text(Job::Get),
        });
        let documents = match work {
            Work::Durable => self.durable_count.min(size.documents - lone_puts),
            _ => size.documents,
        };
        command.arg("--corpus").arg(corpus).arg("--dir").arg(dir);
        for (name, value) in [
            ("--engine", engine.text().to_owned()),
            ("--round", round.to_string()),
            ("--documents", documents.to_string()),
            ("--memory-bytes", (self.memory_mib << 20).to_string()),
            ("--batch", self.batch.to_string()),
            ("--lone-puts", lone_puts.to_string()),
            (
                "--threads",
                if work == Work::LoadByTwo { "2" } else { "1" }.to_owned(),
            ),
        ] {
            command.args([name, &value]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut figures = Vec::new();
        for line in child
            .stdout
            .take()
            .map(BufReader::new)
            .into_iter()
            .flat_map(BufRead::lines)
        {
            let line = line?;
            println!("{line}");
            figures.push(serde_json::from_str(&line)?);
        }
        match child.wait()? {
            status if status.success() => Ok(figures),
            status => Err(Error::from(format!(
                "{} failed in {work:?}: {status}",
                engine.text()
            ))),
        }
    }
}

/// The tasks of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Load,
    LoadByTwo,
    Durable,
    Get,
}

/// A job as an argument.
fn text(job: Job) -> &'static str {
    match job {
        Job::Load => "load",
        Job::Durable => "durable",
        Job::Get => "get",
    }
}

fn remove(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
