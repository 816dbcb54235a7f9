//! The text format of Prometheus, as it is written.

use std::fmt::{Display, Write};

/// What is known of a metric: its name, what it means, and its type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) kind: MetricKind,
    pub(crate) help: &'static str,
}

/// A metric's type.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MetricKind {
    /// It only grows.
    Counter,
    Gauge,
    Histogram,
}

/// A metric that only grows.
pub(crate) const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind: MetricKind::Counter,
        help,
    }
}

/// A metric that grows and shrinks.
pub(crate) const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind: MetricKind::Gauge,
        help,
    }
}

/// A metric that counts values by their size.
pub(crate) const fn histogram(name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind: MetricKind::Histogram,
        help,
    }
}

/// The sample of a histogram.
pub(crate) struct Histogram<'a> {
    /// Upper bounds, in seconds.
    pub(crate) bounds: &'a [f64],
    /// The number of values by bucket: at most the bound, and above the bound before it.
    pub(crate) counts: &'a [u64],
    /// The number of all values, those above the last bound included.
    pub(crate) all: u64,
    /// The sum of all values.
    pub(crate) seconds: f64,
}

/// The text as it grows.
#[derive(Default)]
pub(crate) struct Exposition(String);

impl Exposition {
    pub(crate) fn text(self) -> String {
        self.0
    }

    /// The lines before a metric's samples.
    pub(crate) fn head(&mut self, metric: Metric) {
        let Metric { name, kind, help } = metric;
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        // Writing to a String can't fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A metric that has one sample.
    pub(crate) fn one(&mut self, metric: Metric, value: impl Display) {
        self.head(metric);
        self.sample(metric.name, &[], value);
    }

    /// One sample. Values of labels are names of collections and patterns of routes, which hold no
    /// character that would have to be escaped.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            debug_assert!(
                !text.contains(['"', '\\', '\n']),
                "a label's value needs no escape"
            );
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{text}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// The samples of a histogram.
    pub(crate) fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        histogram: &Histogram<'_>,
    ) {
        let mut count = 0;
        for (bound, bucket) in histogram.bounds.iter().zip(histogram.counts) {
            count += bucket;
            let bound = bound.to_string();
            let labels = [labels, &[("le", &bound)]].concat();
            self.sample(&format!("{name}_bucket"), &labels, count);
        }
        let infinite = [labels, &[("le", "+Inf")]].concat();
        self.sample(&format!("{name}_bucket"), &infinite, histogram.all);
        self.sample(&format!("{name}_sum"), labels, histogram.seconds);
        self.sample(&format!("{name}_count"), labels, histogram.all);
    }

    /// The samples of a histogram of [`quiredb::Delays`].
    pub(crate) fn delays(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        counts: &[u64],
        micros: u64,
    ) {
        let bounds = quiredb::DELAY_BOUNDS_MICROS.iter();
        let bounds: Vec<f64> = bounds.map(|micros| *micros as f64 / 1e6).collect();
        let histogram = Histogram {
            bounds: &bounds,
            counts,
            all: counts.iter().sum(),
            seconds: micros as f64 / 1e6,
        };
        self.histogram(name, labels, &histogram);
    }
}
