//! Metrics of the volumes and of their queues.

use super::exposition::{Exposition, Metric, counter, gauge};
use quiredb::{AdmissionFigures, DatabaseStats};

/// The classes of I/O, as the label `class` says them.
const CLASSES: [&str; 4] = ["read", "log", "compaction", "background"];

const LOST: Metric = gauge(
    "quire_volume_lost",
    "1 if the disk of a volume is not there",
);
const FREE: Metric = gauge("quire_volume_free_bytes", "Free bytes of a volume");
const MERGES: Metric = gauge(
    "quire_volume_compactions",
    "Compactions that write to a disk",
);
const RATE: Metric = gauge(
    "quire_volume_compaction_rate_bytes",
    "Bytes per second that compactions may write to a disk; 0 if that is not limited",
);

type OfClass = (Metric, fn(&AdmissionFigures) -> [f64; 4]);

fn as_float(counts: [u64; 4]) -> [f64; 4] {
    counts.map(|count| count as f64)
}

const QUEUES: [OfClass; 4] = [
    (
        gauge(
            "quire_volume_io_waiting",
            "Reads and writes that wait for a disk",
        ),
        |queue| as_float(queue.waiting),
    ),
    (
        counter(
            "quire_volume_io_waits_total",
            "Reads and writes that had to wait for a disk",
        ),
        |queue| as_float(queue.waits),
    ),
    (
        counter("quire_volume_io_wait_seconds_total", "How long they waited"),
        |queue| as_float(queue.wait_micros).map(|micros| micros / 1e6),
    ),
    (
        counter(
            "quire_volume_io_promotions_total",
            "Reads and writes that went first since they had waited for long",
        ),
        |queue| as_float(queue.promotions),
    ),
];

/// Appends the metrics of the volumes, and of the queues of those that have one.
pub(super) fn render(stats: &DatabaseStats, text: &mut Exposition) {
    text.head(LOST);
    for volume in &stats.volumes {
        text.sample(
            LOST.name,
            &[("volume", &volume.name)],
            u8::from(volume.lost),
        );
    }
    text.head(FREE);
    for volume in &stats.volumes {
        if let Some(bytes) = volume.free_bytes {
            text.sample(FREE.name, &[("volume", &volume.name)], bytes);
        }
    }
    let managed = || {
        let volumes = stats.volumes.iter();
        volumes.filter_map(|volume| Some((volume.name.as_str(), volume.io.as_ref()?)))
    };
    if managed().next().is_none() {
        return;
    }
    text.head(MERGES);
    for (name, io) in managed() {
        text.sample(MERGES.name, &[("volume", name)], io.merges);
    }
    text.head(RATE);
    for (name, io) in managed() {
        text.sample(
            RATE.name,
            &[("volume", name)],
            io.merge_rate_bytes.unwrap_or(0),
        );
    }
    for (metric, value) in QUEUES {
        text.head(metric);
        for (name, io) in managed() {
            for (class, value) in CLASSES.iter().zip(value(&io.queue)) {
                text.sample(metric.name, &[("volume", name), ("class", class)], value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiredb::{Database, Medium, SimEnv};

    #[test]
    fn each_volume_and_each_class_of_its_queue_has_samples() {
        let database = Database::builder("/ssd")
            .volume("cold", "/hdd", Medium::Hdd)
            .env(SimEnv::new(1))
            .open()
            .unwrap();
        let mut text = Exposition::default();
        render(&database.stats().unwrap(), &mut text);
        let text = text.text();
        for volume in ["first", "cold"] {
            for name in [LOST.name, MERGES.name, RATE.name] {
                let line = format!("{name}{{volume=\"{volume}\"}} 0");
                assert!(text.lines().any(|found| found == line), "{line} in {text}");
            }
            for (class, (metric, _)) in CLASSES
                .iter()
                .flat_map(|class| QUEUES.iter().map(move |queue| (class, queue)))
            {
                let name = metric.name;
                let sample = format!("{name}{{volume=\"{volume}\",class=\"{class}\"}} ");
                assert!(text.contains(&sample), "{sample} in {text}");
            }
        }
        assert_eq!(text.matches("# TYPE ").count(), 4 + QUEUES.len());
        database.close().unwrap();

        let one = Database::builder("/one")
            .env(SimEnv::new(2))
            .open()
            .unwrap();
        let mut text = Exposition::default();
        render(&one.stats().unwrap(), &mut text);
        let text = text.text();
        assert!(
            text.contains("quire_volume_lost{volume=\"first\"} 0\n"),
            "{text}"
        );
        assert!(
            text.contains("quire_volume_free_bytes{volume=\"first\"} "),
            "{text}"
        );
        assert_eq!(text.matches("# TYPE ").count(), 2, "it has no queue");

        let one = Database::builder("/hdd")
            .medium(Medium::Hdd)
            .env(SimEnv::new(3))
            .open()
            .unwrap();
        let mut text = Exposition::default();
        render(&one.stats().unwrap(), &mut text);
        let sample = "quire_volume_io_waiting{volume=\"first\",class=\"read\"} 0";
        assert!(text.text().contains(sample));
    }
}
