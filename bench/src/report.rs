//! Figures of one phase, and the table of medians over all rounds.

use crate::engine::Name;
use crate::measure::Latencies;
use crate::results::{Better, Results};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one phase took.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) engine: Option<Name>,
    pub(crate) round: u32,
    pub(crate) phase: String,
    /// The number of documents written or read.
    pub(crate) documents: u64,
    /// Bytes of their text, where they were written.
    pub(crate) bytes: u64,
    pub(crate) wall_seconds: f64,
    /// Of all threads, the engine's background threads included.
    pub(crate) cpu_seconds: f64,
    pub(crate) per_second: f64,
    /// Of one call: a get, a put, or the write of a batch.
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
    pub(crate) p999_micros: f64,
    pub(crate) max_micros: f64,
    /// Blocks allocated on disk after the engine was closed.
    pub(crate) disk_bytes: u64,
    /// The most resident memory, less what the process held before the engine was opened.
    pub(crate) memory_bytes: u64,
}

impl Figures {
    /// Of `documents` operations in `elapsed` (wall, CPU) seconds.
    pub(crate) fn of(
        phase: &str,
        documents: u64,
        elapsed: (f64, f64),
        latencies: Latencies,
    ) -> Figures {
        let [p50_micros, p99_micros, p999_micros, max_micros] =
            latencies.micros([0.5, 0.99, 0.999, 1.0]);
        Figures {
            phase: phase.to_owned(),
            documents,
            wall_seconds: elapsed.0,
            cpu_seconds: elapsed.1,
            per_second: documents as f64 / elapsed.0,
            p50_micros,
            p99_micros,
            p999_micros,
            max_micros,
            ..Figures::default()
        }
    }
}

/// A figure that the table shows: its title, its value, whether a greater one is better.
type Column = (&'static str, fn(&Figures) -> f64, bool);

const RATE: Column = ("per second", |figures| figures.per_second, true);
const CPU: Column = (
    "CPU µs each",
    |figures| figures.cpu_seconds * 1e6 / figures.documents as f64,
    false,
);
const P50: Column = ("p50 µs", |figures| figures.p50_micros, false);
const P99: Column = ("p99 µs", |figures| figures.p99_micros, false);
const WORST: Column = ("longest ms", |figures| figures.max_micros / 1e3, false);
const MEMORY: Column = (
    "peak memory MB",
    |figures| figures.memory_bytes as f64 / 1e6,
    false,
);
const DISK: Column = (
    "disk / JSON bytes",
    |figures| figures.disk_bytes as f64 / figures.bytes as f64,
    false,
);

/// Which figures matter in which phase, in the order of the table.
const PHASES: [(&str, &[Column]); 8] = [
    ("load", &[RATE, CPU, WORST, MEMORY, DISK]),
    ("load, 2 threads", &[RATE, CPU, WORST, MEMORY]),
    ("load, durable", &[RATE, CPU, P50, P99, WORST]),
    ("put, durable", &[RATE, P50, P99, WORST]),
    (
        "open",
        &[("ms", |figures| figures.wall_seconds * 1e3, false)],
    ),
    ("get", &[RATE, CPU, P50, P99, MEMORY]),
    ("get, 2 threads", &[RATE, CPU, P50, P99]),
    ("get of missing keys", &[RATE, CPU, P50, P99]),
];

/// A table in Markdown: medians, least and most over the rounds, and how many times better Quire is
/// than each peer.
pub(crate) fn table(all: &[Figures], engines: &[Name]) -> String {
    let mut out = String::from("| phase | figure |");
    for engine in engines {
        out += &format!(" {} |", engine.text());
    }
    let peers: Vec<Name> = engines
        .iter()
        .copied()
        .filter(|engine| *engine != Name::Quire)
        .collect();
    for peer in &peers {
        out += &format!(" Quire is better than {} by |", peer.text());
    }
    out += "\n|";
    out += &" --- |".repeat(2 + engines.len() + peers.len());
    out += "\n";
    for (phase, columns) in PHASES {
        for (title, value, more_is_better) in columns {
            let mut rows: BTreeMap<Name, Vec<f64>> = BTreeMap::new();
            for figures in all.iter().filter(|figures| figures.phase == phase) {
                if let Some(engine) = figures.engine {
                    rows.entry(engine).or_default().push(value(figures));
                }
            }
            if rows.is_empty() {
                continue;
            }
            let spreads: BTreeMap<Name, Spread> = rows
                .into_iter()
                .map(|(engine, row)| (engine, Spread::of(row)))
                .collect();
            out += &format!("| {phase} | {title} |");
            for engine in engines {
                out += &spreads
                    .get(engine)
                    .map_or(" |".to_owned(), |spread| format!(" {spread} |"));
            }
            for peer in &peers {
                let both = spreads.get(&Name::Quire).zip(spreads.get(peer));
                let ratio = both.map(|(quire, peer)| match more_is_better {
                    true => quire.median / peer.median,
                    false => peer.median / quire.median,
                });
                out += &ratio.map_or(" |".to_owned(), |ratio| format!(" {ratio:.2} × |"));
            }
            out += "\n";
        }
    }
    out
}

/// Adds every figure that the table shows.
pub(crate) fn add_to(results: &Results, all: &[Figures]) {
    for (phase, columns) in PHASES {
        for (title, value, more_is_better) in columns {
            let better = match more_is_better {
                true => Better::More,
                false => Better::Less,
            };
            for engine in [Name::Quire, Name::Sqlite, Name::Fjall] {
                let rounds = all
                    .iter()
                    .filter(|figures| figures.phase == phase && figures.engine == Some(engine));
                let values: Vec<_> = rounds.map(value).collect();
                if !values.is_empty() {
                    results.add(phase, title, better, engine.text(), &values);
                }
            }
        }
    }
}

/// The middle of some values, and their ends.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let (middle, last) = (values.len() / 2, values.len().saturating_sub(1));
        let median = if values.len() % 2 == 1 {
            at(middle)
        } else {
            f64::midpoint(at(middle - 1), at(middle))
        };
        Spread {
            median,
            least: at(0),
            most: at(last),
        }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} ({} to {})",
            short(self.median),
            short(self.least),
            short(self.most)
        )
    }
}

/// Three digits are what a measurement is good for.
fn short(value: f64) -> String {
    let text = match value {
        value if value >= 100.0 => format!("{:.0}", value),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    };
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios_are_those_of_the_rounds() {
        let figures = |engine, per_second| Figures {
            engine: Some(engine),
            phase: "open".into(),
            wall_seconds: 1.0 / per_second,
            ..Figures::default()
        };
        let all = [
            figures(Name::Quire, 10.0),
            figures(Name::Quire, 20.0),
            figures(Name::Quire, 40.0),
            figures(Name::Fjall, 5.0),
        ];
        let table = table(&all, &[Name::Quire, Name::Fjall]);
        let row = "| open | ms | 50.0 (25.0 to 100) | 200 (200 to 200) | 4.00 × |";
        assert_eq!(table.lines().nth(2), Some(row));
        assert_eq!(Spread::of(vec![1.0, 3.0]).median, 2.0);
        assert_eq!(
            [short(1_234_567.8), short(12.34), short(0.5)],
            ["1,234,568", "12.3", "0.50"]
        );
    }
}
