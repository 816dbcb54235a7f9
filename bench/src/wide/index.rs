//! A search index of rows beside large columns: what it costs to load and to build, and queries by
//! it, beside queries that read every row, and the same documents in a plain collection.

use super::pages::{self, Random};
use super::{Figures, Task};
use crate::Result;
use crate::measure::Watch;
use quiredb::query::{Access, Options, Query, field, find, find_all};
use quiredb::wide::{ColumnType, Schema, WideCollection};
use quiredb::{
    Collection, CollectionSettings, Database, Document, Durability, IndexedFields, View, Write,
};
use std::fmt::Write as _;
use std::time::Duration;

const BATCH_ROWS: u64 = 1_000;
/// Bytes of the column that no query is about.
const HTML_BYTES: usize = 1_500;
const HOSTS: u64 = 5_000;
/// CPU seconds, at least, of a measurement: they are counted in steps of 10 ms.
const CPU_SECONDS: f64 = 0.5;

pub(super) fn measure(task: &Task) -> Result<Figures> {
    let dir = task.sizes.dir.join("db");
    let database = Database::builder(&dir).scrub_every(None).open()?;
    let rows = task.sizes.rows;
    let mut figures = Figures::default();
    let micros = |cpu: f64, of: u64| cpu * 1e6 / of as f64;

    let bare = create(&database, "bare", IndexedFields::none())?;
    let indexed = create(&database, "indexed", fields())?;
    let (with, without) = task.in_turns(|indexed_first| {
        let pages = if indexed_first { &indexed } else { &bare };
        load(rows, |document, row| {
            let key = pages::key(row)?;
            pages.put(&key, document)?;
            Ok(())
        })
        .and_then(|cpu| wait(pages).map(|waited| cpu + waited))
    })?;
    figures.add("index: a put without one", "CPU µs", micros(without, rows));
    figures.add("index: a put with one", "CPU µs", micros(with, rows));
    let watch = Watch::start()?;
    let built = database.set_wide_index("bare", fields())?;
    wait(&built)?;
    figures.add(
        "index: a row that is there",
        "CPU µs",
        micros(watch.stop()?.1, rows),
    );

    let settings = CollectionSettings {
        durability: Durability::None,
        index: fields(),
        ..CollectionSettings::default()
    };
    let plain = database.create_collection("plain", settings)?;
    let mut batch = Vec::new();
    let write_all = |plain: &Collection, batch: &mut Vec<Write>| -> Result<()> {
        for written in plain.batch().writes(std::mem::take(batch)).write() {
            written?;
        }
        Ok(())
    };
    load(rows, |document, row| {
        batch.push(Write::put(pages::key(row)?, document.clone()));
        match batch.len() as u64 >= BATCH_ROWS {
            true => write_all(&plain, &mut batch),
            false => Ok(()),
        }
    })?;
    write_all(&plain, &mut batch)?;
    for name in ["bare", "indexed"] {
        database.wide_collection(name)?.compact()?;
    }
    plain.compact()?;
    while !plain.stats()?.index.is_some_and(|index| index.complete) {
        std::thread::park_timeout(Duration::from_millis(50));
    }

    let (rows_view, documents_view) = (indexed.view()?, plain.view()?);
    for (name, query) in queries(rows) {
        let scanned = run(&rows_view, &query, Some(Access::Scan))?;
        let (found, plain) = task.in_turns(|rows_first| {
            let view = if rows_first {
                &rows_view
            } else {
                &documents_view
            };
            run(view, &query, None)
        })?;
        if found.1 != scanned.1 || found.1 != plain.1 {
            return Err(format!(
                "{name}: {} rows, and {} and {}",
                found.1, scanned.1, plain.1
            )
            .into());
        }
        figures.add(&format!("index: {name}, by it"), "CPU µs", found.0);
        figures.add(
            &format!("index: {name}, reading rows / by it"),
            "ratio",
            scanned.0 / found.0,
        );
        figures.at_most(
            1.5,
            &format!("index: {name}, rows / documents"),
            found.0 / plain.0,
        );
    }
    Ok(figures)
}

fn fields() -> IndexedFields {
    let fields = ["host", "fetched", "title"].into_iter();
    fields.fold(IndexedFields::none(), |fields, name| {
        fields.with(name, true)
    })
}

fn create(database: &Database, name: &str, index: IndexedFields) -> Result<WideCollection> {
    let schema = Schema::new()
        .with_column("host", ColumnType::String, "meta")?
        .with_column("title", ColumnType::String, "meta")?
        .with_column("fetched", ColumnType::Int, "meta")?
        .with_column("html", ColumnType::String, "content")?;
    let pages = pages::create(database, name, schema, 2)?;
    match index.is_none() {
        true => Ok(pages),
        false => Ok(database.set_wide_index(name, index)?),
    }
}

/// Shows each row to `put`; CPU seconds.
fn load(rows: u64, mut put: impl FnMut(&Document, u64) -> Result<()>) -> Result<f64> {
    let mut random = Random::new(5);
    let watch = Watch::start()?;
    for row in 0..rows {
        let (host, fetched) = (random.below(HOSTS), random.below(rows));
        let mut json = format!(
            r#"{{"host":"host-{host}","title":"Page {row} of {host}","fetched":{fetched},"html":""#
        );
        while json.len() < HTML_BYTES {
            write!(json, "<p>{}</p>", random.next())?;
        }
        json.push_str("\"}");
        put(&Document::from_json(json.as_bytes())?, row)?;
    }
    Ok(watch.stop()?.1)
}

/// Waits until the index, if there is one, is level; CPU seconds.
fn wait(pages: &WideCollection) -> Result<f64> {
    let watch = Watch::start()?;
    pages.sync()?;
    let is_level = |pages: &WideCollection| -> Result<bool> {
        let index = pages.stats()?.index;
        Ok(index.is_none_or(|index| index.complete && index.lag_records == 0))
    };
    while !is_level(pages)? {
        std::thread::park_timeout(Duration::from_millis(50));
    }
    Ok(watch.stop()?.1)
}

fn queries(rows: u64) -> [(&'static str, Query); 4] {
    let host = || field("host").eq("host-17");
    let tenth = i64::try_from(rows / 10).unwrap_or(i64::MAX);
    [
        ("count of a host", find(host()).with_count().limit(0)),
        (
            "count of a host and a range",
            find(host().and(field("fetched").lt(tenth)))
                .with_count()
                .limit(0),
        ),
        (
            "newest 10",
            find_all().order_by(field("fetched").descending()).limit(10),
        ),
        (
            "newest 10 of a range",
            find(field("fetched").lt(tenth))
                .order_by(field("fetched").descending())
                .limit(10),
        ),
    ]
}

/// CPU µs of an answer, and what it says.
fn run(view: &View, query: &Query, access: Option<Access>) -> Result<(f64, u64)> {
    let query = query.clone().prepare()?;
    let options = Options {
        access,
        ..Options::default()
    };
    // The first finds the caches cold: it is not counted.
    let mut said = view.query(&query, &options)?;
    let (watch, mut turns, mut next) = (Watch::start()?, 0_u64, 1);
    let cpu = loop {
        for _ in 0..next {
            said = view.query(&query, &options)?;
        }
        turns += next;
        next = turns;
        let cpu = watch.stop()?.1;
        if cpu >= CPU_SECONDS {
            break cpu;
        }
    };
    let said = said.count.unwrap_or(said.hits.len() as u64);
    Ok((cpu * 1e6 / turns as f64, said))
}
