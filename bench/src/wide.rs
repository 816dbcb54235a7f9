//! Wide documents on throttled disks: what column groups, JBOD, tiers, the I/O manager and
//! coprocessors are worth.
//!
//! Each part is measured by a process of its own, in a cgroup whose memory, the system's cache
//! included, is less than the data. The process makes its disks, loads them without a throttle,
//! and measures both sides of a ratio with it. What is read is compared with what was written.

mod cell;
mod disks;
mod filter;
mod index;
mod jbod;
mod pages;
mod reads;
mod rocksdb;
mod scan;
mod tiers;

use crate::Result;
use crate::group::Group;
use crate::measure::{in_directory, spread};
use crate::results::{Better, Results};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::Stdio;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// The parts
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    parts: Vec<Part>,
    /// Rounds of each
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    #[command(flatten)]
    sizes: Sizes,
}

/// How much of it, and where.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Sizes {
    /// Memory of a process and of the system's cache of its files, in MiB
    #[arg(long, default_value_t = 256)]
    memory: u64,
    /// MiB of user data of a part
    #[arg(long, default_value_t = 400)]
    data: u64,
    /// Rows that coprocessors filter, and that are indexed
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Seconds that clients read or write for
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// Where the disks' images are kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-wide")]
    dir: PathBuf,
    /// Where the programs of peers are
    #[arg(long, default_value = "target/kv-peers")]
    peers: PathBuf,
    /// The `quire` command
    #[arg(long, default_value = "../target/release/quire")]
    quire: PathBuf,
}

/// What is measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// One column by its group, or filtered out of a common group
    Scan,
    /// Random overwrites of three disks: JBOD, RAID0
    Jbod,
    /// Random overwrites of nine disks and of three
    Disks,
    /// Ingest to SSD and HDD with and without a compaction limiter
    Tiers,
    /// Reads beside compactions and a copy, with and without an I/O manager
    Reads,
    /// A small column of large rows
    Cell,
    /// A filter of 1,000,000 rows beside the data, and away from it
    Filter,
    /// Queries by a search index, and reading every row
    Index,
}

impl Part {
    const ALL: [Part; 8] = [
        Part::Scan,
        Part::Jbod,
        Part::Disks,
        Part::Tiers,
        Part::Reads,
        Part::Cell,
        Part::Filter,
        Part::Index,
    ];
}

/// One figure of a round.
#[derive(Debug, Serialize, Deserialize)]
struct Figure {
    name: String,
    unit: String,
    value: f64,
    /// What it is to be, at least if positive, at most if negative.
    aim: Option<f64>,
}

/// The figures of a round, in the order in which they were measured.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Figures(Vec<Figure>);

impl Figures {
    fn add(&mut self, name: &str, unit: &str, value: f64) {
        self.push(name, unit, value, None);
    }

    /// A ratio that is to be at least this.
    fn at_least(&mut self, aim: f64, name: &str, value: f64) {
        self.push(name, "ratio", value, Some(aim));
    }

    /// A ratio that is to be at most this.
    fn at_most(&mut self, aim: f64, name: &str, value: f64) {
        self.push(name, "ratio", value, Some(-aim));
    }

    fn push(&mut self, name: &str, unit: &str, value: f64, aim: Option<f64>) {
        self.0.push(Figure {
            name: name.to_string(),
            unit: unit.to_string(),
            value,
            aim,
        });
    }
}

/// One round of one part.
#[derive(Debug, clap::Args)]
pub(crate) struct Task {
    #[arg(value_enum)]
    part: Part,
    /// The round: what comes first takes turns
    #[arg(long)]
    round: u32,
    #[command(flatten)]
    sizes: Sizes,
}

impl Task {
    pub(crate) fn run(&self) -> Result<()> {
        let figures = match self.part {
            Part::Scan => scan::measure(self)?,
            Part::Jbod => jbod::measure(self)?,
            Part::Disks => jbod::measure_more(self)?,
            Part::Tiers => tiers::measure(self)?,
            Part::Reads => reads::measure(self)?,
            Part::Cell => cell::measure(self)?,
            Part::Filter => filter::measure(self)?,
            Part::Index => index::measure(self)?,
        };
        println!("{}", serde_json::to_string(&figures)?);
        Ok(())
    }

    /// Both sides of a ratio, the other one first in every second round.
    fn in_turns<T>(&self, mut measure: impl FnMut(bool) -> Result<T>) -> Result<(T, T)> {
        if self.round % 2 == 1 {
            let second = measure(false)?;
            return Ok((measure(true)?, second));
        }
        let first = measure(true)?;
        Ok((first, measure(false)?))
    }
}

impl Plan {
    pub(crate) fn run(&self, results: &Results) -> Result<()> {
        println!("| part | figure | unit | median (least to most) | aim |");
        println!("| --- | --- | --- | ---: | ---: |");
        for part in &self.parts {
            let rounds = (0..self.rounds).map(|round| self.round(*part, round));
            report(*part, rounds.collect::<Result<_>>()?, results);
        }
        Ok(())
    }

    fn round(&self, part: Part, round: u32) -> Result<Figures> {
        let sizes = &self.sizes;
        in_directory(&sizes.dir, || {
            let group = Group::new(sizes.memory << 20)?;
            let mut command = group.command(std::env::current_exe()?.as_os_str());
            command.args(["wide-task", &name_of(part)]);
            for (flag, value) in [
                ("--round", u64::from(round)),
                ("--memory", sizes.memory),
                ("--data", sizes.data),
                ("--rows", sizes.rows),
                ("--seconds", sizes.seconds),
            ] {
                command.args([flag, &value.to_string()]);
            }
            for (flag, path) in [
                ("--dir", &sizes.dir),
                ("--peers", &sizes.peers),
                ("--quire", &sizes.quire),
            ] {
                command.arg(flag).arg(path);
            }
            let output = command.stderr(Stdio::inherit()).output()?;
            if !output.status.success() {
                return Err(format!("{part:?} failed: {}", output.status).into());
            }
            Ok(serde_json::from_slice(&output.stdout)?)
        })
    }
}

fn name_of(part: Part) -> String {
    format!("{part:?}").to_lowercase()
}

fn report(part: Part, rounds: Vec<Figures>, results: &Results) {
    let Some(first) = rounds.first() else {
        return;
    };
    for (at, figure) in first.0.iter().enumerate() {
        let values = rounds.iter().filter_map(|round| round.0.get(at));
        let values: Vec<f64> = values.map(|figure| figure.value).collect();
        let better = match figure.aim {
            Some(aim) if aim > 0.0 => Better::More,
            _ => Better::Less,
        };
        results.add(&figure.name, &figure.unit, better, "quire", &values);
        let aim = match figure.aim {
            None => String::new(),
            Some(aim) => {
                results.aim(&figure.name, &figure.unit, better, aim.abs());
                let sign = if aim > 0.0 { "≥" } else { "≤" };
                format!("{sign} {}", aim.abs())
            }
        };
        let (name, unit) = (&figure.name, &figure.unit);
        let part = name_of(part);
        println!("| {part} | {name} | {unit} | {} | {aim} |", spread(values));
    }
}
