//! Metrics of column groups with two tiers.

use super::exposition::{Exposition, Metric, counter, gauge};
use quiredb::{DatabaseStats, TierStats};

type OfTiers = (Metric, fn(&TierStats) -> f64);

const METRICS: [OfTiers; 8] = [
    (
        gauge(
            "quire_tier_rows_cold",
            "Rows whose cells are in the cold tier",
        ),
        |tiers| tiers.rows_cold as f64,
    ),
    (
        counter(
            "quire_tier_moved_cold_total",
            "Rows whose cells have moved to the cold tier",
        ),
        |tiers| tiers.moved_cold as f64,
    ),
    (
        counter(
            "quire_tier_moved_hot_total",
            "Rows whose cells have come back from the cold tier",
        ),
        |tiers| tiers.moved_hot as f64,
    ),
    (
        counter(
            "quire_tier_moved_bytes_total",
            "Bytes of cells that have moved between tiers",
        ),
        |tiers| tiers.bytes_moved as f64,
    ),
    (
        gauge(
            "quire_tier_rows_too_large",
            "Rows that the last pass left, as they have too many bytes of cells",
        ),
        |tiers| tiers.too_large as f64,
    ),
    (
        gauge(
            "quire_tier_lag_seconds",
            "By how long the row that was due first was overdue in the last pass",
        ),
        |tiers| tiers.lag_micros as f64 / 1e6,
    ),
    (
        counter(
            "quire_tier_pauses_total",
            "Times that moves of the collection waited for disks or memory",
        ),
        |tiers| tiers.pauses as f64,
    ),
    (
        gauge(
            "quire_tier_stopped",
            "1 if cells of the collection do not move, as a disk is full",
        ),
        |tiers| f64::from(u8::from(tiers.stopped.is_some())),
    ),
];

/// Appends the metrics of the groups that have two tiers, if there are any.
pub(super) fn render(stats: &DatabaseStats, text: &mut Exposition) {
    let mut groups = Vec::new();
    for collection in &stats.collections {
        for group in &collection.groups {
            let tiers = group.tiers.iter();
            groups.extend(tiers.map(|tiers| (&*collection.name, &*group.name, tiers)));
        }
    }
    if groups.is_empty() {
        return;
    }
    for (metric, value) in METRICS {
        text.head(metric);
        for (collection, group, tiers) in &groups {
            let labels = [("collection", *collection), ("group", *group)];
            text.sample(metric.name, &labels, value(tiers));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiredb::wide::Schema;
    use quiredb::{Database, Medium, SimEnv};

    #[test]
    fn each_group_with_two_tiers_has_samples() {
        let database = Database::builder("/ssd")
            .volume("cold", "/hdd", Medium::Hdd)
            .env(SimEnv::new(1))
            .open()
            .unwrap();
        let render = || {
            let mut text = Exposition::default();
            render(&database.stats().unwrap(), &mut text);
            text.text()
        };
        let schema = br#"{
            "properties": {"title": {"type": "string"}, "html": {"type": "string", "group": "h"}},
            "groups": {"h": {"tiers": {"hot": "ssd", "cold": "hdd", "after": "1d"}}}
        }"#;
        assert_eq!(render(), "");
        let schema = Schema::from_json(schema).unwrap();
        let created = database.create_wide_collection("pages", schema, Default::default());
        created.unwrap();
        let text = render();
        for (metric, _) in METRICS {
            let line = format!("{}{{collection=\"pages\",group=\"h\"}} 0", metric.name);
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        database.close().unwrap();
    }
}
