//! What a phase took, the table of medians over the rounds, and how far Quire is from what it aims
//! at.

use super::stream::{KEY_BYTES, VALUE_BYTES};
use crate::Result;
use crate::measure::{median, spread};
use crate::results::{Better, Results};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One engine's phase in one round; a line of JSON.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Measured {
    pub(super) round: usize,
    pub(super) engine: String,
    pub(super) phase: String,
    pub(super) operations: u64,
    pub(super) wall_seconds: f64,
    /// Of all threads, the engine's background threads included.
    pub(super) cpu_seconds: f64,
    pub(super) p50_micros: f64,
    pub(super) p99_micros: f64,
    pub(super) p999_micros: f64,
    pub(super) max_micros: f64,
    pub(super) written_bytes: u64,
    /// Of these, what was deleted before the system had written it to the disk.
    pub(super) cancelled_bytes: u64,
    pub(super) read_bytes: u64,
    /// Of files at the end of the phase.
    pub(super) disk_bytes: u64,
    /// The most resident memory of the phase.
    pub(super) peak_memory_bytes: u64,
    pub(super) checksum: u64,
}

impl Measured {
    pub(super) fn print(&self) -> Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}

/// The phases of one engine in one round, by name.
pub(super) type Run = BTreeMap<String, Measured>;

/// A figure: its title, and its value if the run got so far.
type Figure = (&'static str, fn(&Run) -> Option<f64>);

fn of(run: &Run, phase: &str, value: fn(&Measured) -> f64) -> Option<f64> {
    run.get(phase).map(value)
}

fn wall(measured: &Measured) -> f64 {
    measured.wall_seconds
}

fn cpu(measured: &Measured) -> f64 {
    measured.cpu_seconds
}

/// Of write and settle together.
fn settled(run: &Run, value: fn(&Measured) -> f64) -> Option<f64> {
    Some(of(run, "write", value)? + of(run, "settle", value)?)
}

fn user_bytes(run: &Run) -> Option<f64> {
    of(run, "write", |write| {
        (write.operations * (KEY_BYTES + VALUE_BYTES) as u64) as f64
    })
}

/// The figures, all better when they are less.
const FIGURES: [Figure; 36] = [
    ("write, wall s", |run| of(run, "write", wall)),
    ("write, CPU s", |run| of(run, "write", cpu)),
    ("write, p50 µs", |run| of(run, "write", |m| m.p50_micros)),
    ("write, p99 µs", |run| of(run, "write", |m| m.p99_micros)),
    ("write, p99.9 µs", |run| {
        of(run, "write", |m| m.p999_micros)
    }),
    ("write, longest ms", |run| {
        of(run, "write", |m| m.max_micros / 1e3)
    }),
    ("write, settled, wall s", |run| settled(run, wall)),
    ("write, settled, CPU s", |run| settled(run, cpu)),
    ("bytes written to disk / user bytes", |run| {
        let bytes = |m: &Measured| m.written_bytes as f64 - m.cancelled_bytes as f64;
        Some(settled(run, bytes)? / user_bytes(run)?)
    }),
    ("bytes written to files / user bytes", |run| {
        Some(settled(run, |m| m.written_bytes as f64)? / user_bytes(run)?)
    }),
    ("disk bytes / user bytes", |run| {
        Some(of(run, "settle", |m| m.disk_bytes as f64)? / user_bytes(run)?)
    }),
    ("read, wall s", |run| of(run, "read", wall)),
    ("read, CPU s", |run| of(run, "read", cpu)),
    ("read, p50 µs", |run| of(run, "read", |m| m.p50_micros)),
    ("read, p99 µs", |run| of(run, "read", |m| m.p99_micros)),
    ("read, p99.9 µs", |run| of(run, "read", |m| m.p999_micros)),
    ("read, 2 threads, wall s", |run| {
        of(run, "read, 2 threads", wall)
    }),
    ("read, 2 threads, CPU s", |run| {
        of(run, "read, 2 threads", cpu)
    }),
    ("read, 2 threads, p99 µs", |run| {
        of(run, "read, 2 threads", |m| m.p99_micros)
    }),
    ("missing, wall s", |run| of(run, "missing", wall)),
    ("missing, CPU s", |run| of(run, "missing", cpu)),
    ("missing, p99 µs", |run| {
        of(run, "missing", |m| m.p99_micros)
    }),
    ("scan, wall s", |run| of(run, "scan", wall)),
    ("scan, CPU s", |run| of(run, "scan", cpu)),
    ("mixed, wall s", |run| of(run, "mixed", wall)),
    ("mixed, CPU s", |run| of(run, "mixed", cpu)),
    ("mixed, p99 µs", |run| of(run, "mixed", |m| m.p99_micros)),
    ("mixed, p99.9 µs", |run| {
        of(run, "mixed", |m| m.p999_micros)
    }),
    ("mixed, longest ms", |run| {
        of(run, "mixed", |m| m.max_micros / 1e3)
    }),
    ("cold open, ms", |run| {
        of(run, "cold open", |m| m.wall_seconds * 1e3)
    }),
    ("cold reads, p50 µs", |run| {
        of(run, "cold reads", |m| m.p50_micros)
    }),
    ("cold reads, p99 µs", |run| {
        of(run, "cold reads", |m| m.p99_micros)
    }),
    ("peak memory while writing, MB", |run| {
        let bytes = |phase| of(run, phase, |m| m.peak_memory_bytes as f64 / 1e6);
        Some(bytes("write")?.max(bytes("settle")?))
    }),
    ("peak memory while reading, MB", |run| {
        of(run, "read", |m| m.peak_memory_bytes as f64 / 1e6)
    }),
    ("peak memory of the scan, MB", |run| {
        of(run, "scan", |m| m.peak_memory_bytes as f64 / 1e6)
    }),
    ("peak of the cgroup, MB", |run| {
        of(run, "limit", |m| m.peak_memory_bytes as f64 / 1e6)
    }),
];

/// Which peers a figure is held against.
#[derive(Debug, Clone, Copy)]
enum Against {
    Lsm,
    Lmdb,
    All,
}

impl Against {
    fn has(self, engine: &str) -> bool {
        match self {
            Against::Lsm => ["leveldb", "rocksdb", "fjall"].contains(&engine),
            Against::Lmdb => engine == "lmdb",
            Against::All => ![QUIRE, QUIRE_LOAD].contains(&engine),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Against::Lsm => "the best LSM-tree",
            Against::Lmdb => "LMDB",
            Against::All => "the best peer",
        }
    }
}

const QUIRE: &str = "quire";
const QUIRE_LOAD: &str = "quire-load";

/// How many times better than the best of some peers in the same round.
const TIMES: [(&str, Against, f64); 15] = [
    ("write, wall s", Against::Lsm, 2.0),
    ("write, CPU s", Against::Lsm, 2.0),
    ("write, settled, wall s", Against::Lsm, 2.0),
    ("write, settled, CPU s", Against::Lsm, 2.0),
    ("read, wall s", Against::Lsm, 2.0),
    ("read, CPU s", Against::Lsm, 2.0),
    ("read, 2 threads, wall s", Against::Lsm, 2.0),
    ("read, 2 threads, CPU s", Against::Lsm, 2.0),
    ("read, CPU s", Against::Lmdb, 1.0),
    ("read, wall s", Against::Lmdb, 1.0),
    ("read, 2 threads, wall s", Against::Lmdb, 1.0),
    ("read, 2 threads, CPU s", Against::Lmdb, 1.0),
    ("missing, CPU s", Against::All, 1.5),
    ("scan, wall s", Against::All, 1.0),
    ("scan, CPU s", Against::All, 1.0),
];

/// The most that each may be.
const AT_MOST: [(&str, f64); 4] = [
    ("write, p99.9 µs", 1000.0),
    ("write, longest ms", 100.0),
    ("bytes written to disk / user bytes", 4.0),
    ("disk bytes / user bytes", 1.10),
];

/// With limited memory, reads must be this many times better than an LSM-tree's. They need not be
/// as good as LMDB's.
const READ_TIMES_LIMITED: f64 = 1.5;

/// All runs: by engine, round after round. A run that was killed has only the phases before.
pub(super) struct Report {
    pub(super) engines: Vec<String>,
    pub(super) runs: BTreeMap<String, Vec<Run>>,
    pub(super) limited: bool,
}

impl Report {
    /// Figures of all engines: medians, least and most.
    pub(super) fn figures(&self) -> String {
        let mut out = String::from("| figure |");
        for engine in &self.engines {
            out += &format!(" {engine} |");
        }
        out += "\n| --- |";
        out += &" ---: |".repeat(self.engines.len());
        out += "\n";
        for (title, value) in FIGURES {
            let found: Vec<Vec<f64>> = self
                .engines
                .iter()
                .map(|engine| self.of(engine).iter().filter_map(value).collect())
                .collect();
            if found.iter().all(Vec::is_empty) {
                continue;
            }
            out += &format!("| {title} |");
            for (engine, values) in self.engines.iter().zip(found) {
                let all = values.len() == self.of(engine).len();
                out += &match values.len() {
                    _ if !all => " killed |".to_owned(),
                    1 => format!(" {:.2} |", median(values)),
                    _ => format!(" {} |", spread(values)),
                };
            }
            out += "\n";
        }
        out
    }

    /// What is aimed at, and what was found. Empty if Quire was not measured.
    pub(super) fn aims(&self) -> String {
        if self.of(QUIRE).is_empty() {
            return String::new();
        }
        let mut out = String::from("| Quire | aim | found | met |\n| --- | --- | --- | --- |\n");
        for (title, against, mut times) in TIMES {
            if self.limited && title.starts_with("read") {
                match against {
                    Against::Lsm => times = READ_TIMES_LIMITED,
                    Against::Lmdb | Against::All => continue,
                }
            }
            let ratios = self.ratios(title, against);
            if ratios.is_empty() {
                continue;
            }
            let met = yes(median(ratios.clone()) >= times);
            let than = against.text();
            out += &format!(
                "| {title} | {times} × {than} | {} × | {met} |\n",
                spread(ratios)
            );
        }
        for (title, most) in AT_MOST {
            let found: Vec<f64> = self.values(QUIRE, title).into_iter().flatten().collect();
            if found.is_empty() {
                continue;
            }
            let met = yes(median(found.clone()) <= most);
            out += &format!("| {title} | at most {most} | {} | {met} |\n", spread(found));
        }
        out
    }

    /// Adds every figure, and how many times better Quire is than its peers.
    pub(super) fn add_to(&self, results: &Results) {
        for (title, _) in FIGURES {
            for engine in &self.engines {
                let values: Vec<_> = self.values(engine, title).into_iter().flatten().collect();
                if !values.is_empty() {
                    results.add_titled(title, engine, &values);
                }
            }
        }
        for (title, most) in AT_MOST {
            results.aim_titled(title, most);
        }
        for (title, against, times) in TIMES {
            let ratios = self.ratios(title, against);
            if !ratios.is_empty() {
                let name = format!("{title}: times better than {}", against.text());
                results.add(&name, "ratio", Better::More, QUIRE, &ratios);
                results.aim(&name, "ratio", Better::More, times);
            }
        }
    }

    /// How many times better Quire is than the best of some peers, round by round.
    fn ratios(&self, title: &str, against: Against) -> Vec<f64> {
        let peers: Vec<_> = self
            .engines
            .iter()
            .filter(|engine| against.has(engine))
            .map(|engine| self.values(engine, title))
            .collect();
        let best = |round: usize| {
            peers
                .iter()
                .filter_map(|values| *values.get(round)?)
                .min_by(f64::total_cmp)
        };
        let quire = self.values(QUIRE, title);
        quire
            .iter()
            .enumerate()
            .filter_map(|(round, quire)| Some(best(round)? / (*quire)?))
            .collect()
    }

    /// A figure of an engine, round by round.
    fn values(&self, engine: &str, title: &str) -> Vec<Option<f64>> {
        let figure = FIGURES.iter().find(|(found, _)| *found == title);
        let Some((_, value)) = figure else {
            return Vec::new();
        };
        self.of(engine).iter().map(value).collect()
    }

    fn of(&self, engine: &str) -> &[Run] {
        self.runs.get(engine).map_or(&[], Vec::as_slice)
    }
}

fn yes(met: bool) -> &'static str {
    if met { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(write_cpu: f64) -> Run {
        let phase = |phase: &str| Measured {
            phase: phase.into(),
            operations: 1000,
            wall_seconds: 1.0,
            cpu_seconds: write_cpu,
            written_bytes: 104_000,
            cancelled_bytes: 52_000,
            disk_bytes: 104_000,
            ..Measured::default()
        };
        ["write", "settle"]
            .map(|name| (name.to_owned(), phase(name)))
            .into()
    }

    #[test]
    fn quire_is_held_against_the_best_peer_of_the_same_round() {
        let report = Report {
            engines: ["quire", "leveldb", "rocksdb", "lmdb"]
                .map(String::from)
                .into(),
            runs: [
                ("quire", vec![run(1.0), run(2.0)]),
                ("leveldb", vec![run(3.0), run(10.0)]),
                ("rocksdb", vec![run(4.0), run(6.0)]),
                ("lmdb", vec![run(0.1), Run::new()]),
            ]
            .map(|(engine, runs)| (engine.to_owned(), runs))
            .into(),
            limited: false,
        };
        let aims = report.aims();
        let row = "| write, CPU s | 2 × the best LSM-tree | 3.00 (3.00 to 3.00) × | yes |";
        assert!(aims.lines().any(|line| line == row), "{aims}");
        let row = "| bytes written to disk / user bytes | at most 4 | 1.00 (1.00 to 1.00) | yes |";
        assert!(aims.lines().any(|line| line == row), "{aims}");
        let row = "| write, wall s | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) \
                   | 1.00 (1.00 to 1.00) | killed |";
        assert!(report.figures().lines().any(|line| line == row));
    }

    #[test]
    fn every_aim_has_a_figure() {
        let titles = TIMES.iter().map(|(title, ..)| *title);
        for title in titles.chain(AT_MOST.iter().map(|(title, _)| *title)) {
            assert!(FIGURES.iter().any(|(found, _)| *found == title), "{title}");
        }
    }
}
