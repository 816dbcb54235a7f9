//! What a run measured, as a file of JSON: `--json FILE`.
//!
//! `docs/results/` keeps such files, and `scripts/plots.py` draws plots and tables from them.

use crate::Result;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Units that a title may end with: `write, p50 µs` is the phase `write, p50`, in µs.
const UNITS: [&str; 5] = ["wall s", "CPU s", "µs", "ms", "MB"];

/// Which values of a figure are good.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Less,
    More,
}

/// A median, and the least and the most of all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        Some(Spread {
            median: match sorted.len() % 2 {
                0 => f64::midpoint(*sorted.get(middle.checked_sub(1)?)?, *sorted.get(middle)?),
                _ => *sorted.get(middle)?,
            },
            least: *sorted.first()?,
            most: *sorted.last()?,
        })
    }
}

/// One figure: of Quire, and of its peers.
#[derive(Debug, Serialize)]
struct Phase {
    name: String,
    unit: String,
    better: Better,
    #[serde(flatten)]
    subject: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aim: Option<f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    peers: BTreeMap<String, Spread>,
}

/// All figures of a run, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Results(RefCell<Vec<Phase>>);

impl Results {
    /// Adds what `engine` measured in the rounds of a phase; `quire` is the subject, others are
    /// its peers.
    pub(crate) fn add(&self, name: &str, unit: &str, better: Better, engine: &str, values: &[f64]) {
        self.with(name, unit, better, |phase| match engine {
            "quire" => phase.subject = Spread::of(values),
            peer => phase
                .peers
                .extend(Spread::of(values).map(|spread| (peer.to_owned(), spread))),
        });
    }

    /// Adds a figure whose title ends with its unit; less is better.
    pub(crate) fn add_titled(&self, title: &str, engine: &str, values: &[f64]) {
        let (name, unit) = split(title);
        self.add(name, unit, Better::Less, engine, values);
    }

    /// States what a figure is to be, at least or at most.
    pub(crate) fn aim(&self, name: &str, unit: &str, better: Better, aim: f64) {
        self.with(name, unit, better, |phase| phase.aim = Some(aim));
    }

    /// States what a titled figure is to be at most.
    pub(crate) fn aim_titled(&self, title: &str, most: f64) {
        let (name, unit) = split(title);
        self.aim(name, unit, Better::Less, most);
    }

    fn with(&self, name: &str, unit: &str, better: Better, change: impl FnOnce(&mut Phase)) {
        let mut phases = self.0.borrow_mut();
        let known = phases
            .iter()
            .position(|phase| phase.name == name && phase.unit == unit);
        let at = known.unwrap_or_else(|| {
            phases.push(Phase {
                name: name.to_owned(),
                unit: unit.to_owned(),
                better,
                subject: None,
                aim: None,
                peers: BTreeMap::new(),
            });
            phases.len() - 1
        });
        if let Some(phase) = phases.get_mut(at) {
            change(phase);
        }
    }

    /// Writes the file: when, on what, by which command, and one phase a line.
    pub(crate) fn write(&self, benchmark: &str, path: &Path) -> Result<()> {
        let command: Vec<_> = std::env::args().skip(1).collect();
        let head = [
            ("benchmark", benchmark.to_owned()),
            ("date", date(SystemTime::now())?),
            ("machine", machine()?),
            ("conditions", load()?),
            ("subject", "Quire".to_owned()),
        ];
        let mut out = String::from("{\n");
        for (name, value) in head {
            out += &format!(" {name:?}: {},\n", serde_json::to_string(&value)?);
        }
        let commands = [format!("quire-bench {}", command.join(" "))];
        out += &format!(
            " \"commands\": {},\n \"phases\": [\n",
            serde_json::to_string(&commands)?
        );
        let phases = self.0.borrow();
        let lines: Vec<_> = phases
            .iter()
            .map(|phase| Ok(format!("  {}", serde_json::to_string(phase)?)))
            .collect::<Result<_>>()?;
        out += &lines.join(",\n");
        out += "\n ]\n}\n";
        Ok(std::fs::write(path, out)?)
    }
}

/// A title without its unit, and the unit; what has none is a ratio.
fn split(title: &str) -> (&str, &str) {
    UNITS
        .iter()
        .find_map(|unit| {
            Some((
                title.strip_suffix(unit)?.trim_end_matches([' ', ',']),
                *unit,
            ))
        })
        .unwrap_or((title, "ratio"))
}

/// The day in UTC, as `2026-11-22`.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn date(now: SystemTime) -> Result<String> {
    let days = now.duration_since(UNIX_EPOCH)?.as_secs() / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    Ok(format!("{year}-{month:02}-{day:02}"))
}

/// Processor, cores, memory and kernel.
fn machine() -> Result<String> {
    let field = |text: &str, name: &str| -> String {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':'));
        value.map_or_else(String::new, |(_, value)| value.trim().to_owned())
    };
    let processor = field(&std::fs::read_to_string("/proc/cpuinfo")?, "model name");
    let memory = field(&std::fs::read_to_string("/proc/meminfo")?, "MemTotal");
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let cores = std::thread::available_parallelism()?;
    let kernel = kernel.trim();
    Ok(format!(
        "{cores} cores of {processor}, {memory} of memory, Linux {kernel}"
    ))
}

/// How busy the machine is at the end, the benchmark included.
fn load() -> Result<String> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    let minutes = text.split_whitespace().nth(1).unwrap_or_default();
    Ok(format!(
        "load average {minutes} over the last 5 minutes, the benchmark included"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn titles_end_with_their_units() {
        assert_eq!(
            split("write, settled, wall s"),
            ("write, settled", "wall s")
        );
        assert_eq!(split("cold reads, p50 µs"), ("cold reads, p50", "µs"));
        assert_eq!(split("cold open, ms"), ("cold open", "ms"));
        assert_eq!(
            split("disk bytes / user bytes"),
            ("disk bytes / user bytes", "ratio")
        );
    }

    #[test]
    fn days_have_their_dates() {
        let of = |days: u64| date(UNIX_EPOCH + Duration::from_secs(days * 86_400)).unwrap();
        assert_eq!(
            [of(0), of(11_016), of(20_779)],
            ["1970-01-01", "2000-02-29", "2026-11-22"]
        );
    }

    #[test]
    fn a_phase_has_the_subject_and_its_peers() {
        let results = Results::default();
        results.add_titled("read, CPU s", "quire", &[3.0, 1.0]);
        results.add_titled("read, CPU s", "lmdb", &[5.0]);
        results.aim_titled("read, CPU s", 4.0);
        let text = serde_json::to_string(&*results.0.borrow()).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"[{"name":"read","unit":"CPU s","better":"less","#,
                r#""median":2.0,"least":1.0,"most":3.0,"aim":4.0,"#,
                r#""peers":{"lmdb":{"median":5.0,"least":5.0,"most":5.0}}}]"#
            )
        );
    }
}
