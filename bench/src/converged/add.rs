//! An index of one field added to a collection that is served meanwhile.

use super::documents::Adverts;
use super::quire::{Quire, process_cpu_nanos, settings};
use super::{Report, Setup};
use crate::Result;
use quiredb::query::{field, find};
use std::time::Instant;

pub(super) fn run(setup: &Setup) -> Result<Report> {
    let quire = Quire::create(setup, 2, "\"none\"")?;
    let mut report = Report::default();
    let mut adverts = Adverts::default();
    let cpu = process_cpu_nanos();
    quire.load((0..setup.count).map(|id| Ok(adverts.json(id, 0).to_owned())))?;
    quire.settle()?;
    quire.rest()?;
    report.add(
        "loaded without an index",
        "CPU s",
        (process_cpu_nanos() - cpu) as f64 / 1e9,
    );
    let mut bytes = 0.0;
    for (name, index) in [
        ("one field", r#"{"default":"none","price":"all"}"#),
        (
            "one more field",
            r#"{"default":"none","price":"all","mark":"all"}"#,
        ),
    ] {
        let (cpu, begun) = (process_cpu_nanos(), Instant::now());
        quire
            .database
            .change_settings("documents", settings(2, index)?)?;
        let stats = quire.level()?;
        report.add(name, "wall s", begun.elapsed().as_secs_f64());
        report.add(name, "CPU s", (process_cpu_nanos() - cpu) as f64 / 1e9);
        let now = stats.index.map_or(0.0, |index| index.bytes as f64 / 1e6);
        report.add(format!("{name}, index"), "MB", now - bytes);
        bytes = now;
        let found = find(field("price").gte(0)).limit(0).with_count();
        if quire.documents.query(found)?.count != Some(setup.count) {
            return Err("the index does not have every document".into());
        }
    }
    quire.database.close()?;
    Ok(report)
}
