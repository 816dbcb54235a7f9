//! What is known of the ways to all sinks: the last progress of each, as metrics and as health.

use parking_lot::Mutex;
use quire_ship::Progress;
use serde_json::{Value, json};
use std::fmt::Write;

/// The last progress of each sink, in the order of the file.
pub(super) struct Lanes(Mutex<Vec<Progress>>);

/// A metric's name, its type and its meaning, and its value of a sink, if that is known.
type Metric = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Progress) -> Option<f64>,
);

const METRICS: [Metric; 12] = [
    (
        "changes_total",
        "counter",
        "Changes that the sink settled.",
        |lane| Some(lane.changes as f64),
    ),
    (
        "bytes_total",
        "counter",
        "Bytes of the settled changes.",
        |lane| Some(lane.bytes as f64),
    ),
    (
        "retries_total",
        "counter",
        "Requests that were sent again.",
        |lane| Some(lane.retries as f64),
    ),
    (
        "had_total",
        "counter",
        "Changes that the sink had already.",
        |lane| Some(lane.had as f64),
    ),
    (
        "dead_letters_total",
        "counter",
        "Changes that the sink refused.",
        |lane| Some(lane.dead_letters as f64),
    ),
    (
        "lag_changes",
        "gauge",
        "Changes that the sink is behind the source.",
        |lane| lane.lag_changes.map(|changes| changes as f64),
    ),
    (
        "lag_seconds",
        "gauge",
        "Age of the newest change at the sink; 0 when level.",
        |lane| lane.lag_seconds,
    ),
    (
        "level",
        "gauge",
        "Whether the sink has all that the source has.",
        |lane| Some(f64::from(u8::from(lane.is_level))),
    ),
    (
        "waiting",
        "gauge",
        "Whether the sink or the source does not answer.",
        |lane| Some(f64::from(u8::from(lane.waiting_for.is_some()))),
    ),
    (
        "failed",
        "gauge",
        "Whether shipping to the sink ended by an error.",
        |lane| Some(f64::from(u8::from(lane.failed.is_some()))),
    ),
    ("bulk_bytes", "gauge", "Bytes of a bulk.", |lane| {
        Some(lane.bulk_bytes as f64)
    }),
    ("concurrency", "gauge", "Bulks at once.", |lane| {
        Some(lane.concurrency as f64)
    }),
];

impl Lanes {
    /// Sinks of which nothing is known yet.
    pub(super) fn new<'n>(sinks: impl Iterator<Item = &'n str>) -> Lanes {
        let begun = sinks.map(|sink| Progress {
            sink: sink.to_owned(),
            ..Progress::default()
        });
        Lanes(Mutex::new(begun.collect()))
    }

    /// Takes the last progress of a sink.
    pub(super) fn set(&self, progress: &Progress) {
        let mut lanes = self.0.lock();
        if let Some(lane) = lanes.iter_mut().find(|lane| lane.sink == progress.sink) {
            lane.clone_from(progress);
        }
    }

    /// Whether it is known that shipping to a sink failed.
    pub(super) fn has_failed(&self, sink: &str) -> bool {
        let lanes = self.0.lock();
        lanes
            .iter()
            .any(|lane| lane.sink == sink && lane.failed.is_some())
    }

    /// All of it in the text format of Prometheus.
    pub(super) fn metrics(&self) -> String {
        let (lanes, mut text) = (self.0.lock(), String::new());
        for (name, kind, help, value) in METRICS {
            head(&mut text, name, kind, help);
            for lane in lanes.iter() {
                if let Some(value) = value(lane) {
                    let _ = writeln!(text, "quire_pipe_{name}{{sink=\"{}\"}} {value}", lane.sink);
                }
            }
        }
        let help = "Seconds from the commit at the source until the sink acknowledged it.";
        head(&mut text, "delay_seconds", "histogram", help);
        for lane in lanes.iter() {
            let (sink, delays) = (&lane.sink, &lane.delays);
            let name = "quire_pipe_delay_seconds";
            for (bound, below) in delays.cumulative() {
                let labels = format!("sink=\"{sink}\",le=\"{bound}\"");
                let _ = writeln!(text, "{name}_bucket{{{labels}}} {below}");
            }
            let (count, sum) = (delays.count(), delays.sum_seconds());
            let _ = writeln!(text, "{name}_bucket{{sink=\"{sink}\",le=\"+Inf\"}} {count}");
            let _ = writeln!(text, "{name}_sum{{sink=\"{sink}\"}} {sum}");
            let _ = writeln!(text, "{name}_count{{sink=\"{sink}\"}} {count}");
        }
        text
    }

    /// Whether all sinks are shipped to and answer, and what each one does.
    pub(super) fn health(&self) -> (bool, Value) {
        let lanes = self.0.lock();
        let state = |lane: &Progress| match (&lane.failed, &lane.waiting_for) {
            (Some(why), _) => ("failed", Some(why.clone())),
            (None, Some(why)) => ("waiting", Some(why.clone())),
            (None, None) => ("ok", None),
        };
        let is_well = lanes.iter().all(|lane| state(lane).0 == "ok");
        let sinks = lanes.iter().map(|lane| {
            let (state, why) = state(lane);
            let (is_level, lag) = (lane.is_level, lane.lag_seconds);
            json!({"sink": lane.sink, "state": state, "why": why, "is_level": is_level,
                "lag_seconds": lag})
        });
        let sinks: Vec<Value> = sinks.collect();
        (is_well, json!({"ok": is_well, "sinks": sinks}))
    }
}

/// The lines before a metric's samples. Writing to a `String` can't fail.
fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP quire_pipe_{name} {help}");
    let _ = writeln!(text, "# TYPE quire_pipe_{name} {kind}");
}
