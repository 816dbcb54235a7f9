//! A filter of all rows: a WebAssembly module beside the data, the same predicate in Rust there,
//! and the same by a client that has the rows shipped over HTTP.

use super::pages::{self, Random};
use super::{Figures, Task};
use crate::Result;
use crate::http::Client;
use crate::measure::Watch;
use crate::server::Server;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quiredb::coprocessor::{Code, Kind, RunOptions};
use quiredb::{
    Collection, CollectionSettings, Database, Document, Durability, IndexedFields, ValueRef, Write,
};
use serde_json::Value;
use std::io::{BufRead, Cursor};
use std::path::Path;
use std::process::Command;

/// The module of the page "Coprocessors": it keeps rows with `fetched + period <= now`.
const RECRAWL: &str = concat!(
    "AGFzbQEAAAABFANgBH9/f38Bf2ADf39/AX5gAAF/AhMBB3F1aXJlXzEHZ2V0X2k2NAAAAwMCAQIFAwEAAQcbAgZtZW1v",
    "cnkCAA5xdWlyZV8xX2ZpbHRlcgACCjsCHABBwABCADcDACAAIAEgAkHAABAAGkHAACkDAAscAEEAQQBBBxABQQBBB0EG",
    "EAF8QQJBDUEDEAFXCwsWAQBBAAsQZmV0Y2hlZHBlcmlvZG5vdwAvBG5hbWUBDgIAA2dldAEGbnVtYmVyAhgBAQMABnNv",
    "dXJjZQEEcGF0aAIFYnl0ZXM=",
);
const NOW: i64 = 1_000_000;
/// Rows that a client fetches by one request.
const PAGE_ROWS: u64 = 20_000;
const BATCH_ROWS: u64 = 1_000;

pub(super) fn measure(task: &Task) -> Result<Figures> {
    let (dir, rows) = (task.sizes.dir.join("db"), task.sizes.rows);
    let expected = load(&dir, rows)?;
    let database = Database::builder(&dir).scrub_every(None).open()?;
    let pages = database.collection("pages")?;
    let module = Code::wasm("recrawl", &STANDARD.decode(RECRAWL)?)?;
    let native = Code::filter("recrawl", |row| Ok(is_due(row.document)));
    // The first run finds the caches cold: it is not counted.
    run(&pages, &native, expected)?;
    let (module, native) = task.in_turns(|module_first| {
        let code = if module_first { &module } else { &native };
        run(&pages, code, expected)
    })?;
    drop(pages);
    database.close()?;
    drop(database);
    let shipped = ship(task, &dir, expected)?;
    let mut figures = Figures::default();
    figures.add("filter, module", "CPU s", module);
    figures.add("filter, native predicate", "CPU s", native);
    figures.add("filter, rows over HTTP", "CPU s", shipped);
    figures.at_most(3.0, "filter: module / native", module / native);
    figures.at_least(5.0, "filter: rows over HTTP / module", shipped / module);
    Ok(figures)
}

fn is_due(document: &Document) -> bool {
    let int = |field| match document.get(field) {
        Some(ValueRef::Int(number)) => number,
        _ => 0,
    };
    int("fetched") + int("period") <= NOW
}

/// Loads the rows; gives how many are due.
fn load(dir: &Path, rows: u64) -> Result<u64> {
    let database = Database::builder(dir).scrub_every(None).open()?;
    let settings = CollectionSettings {
        index: IndexedFields::none(),
        durability: Durability::None,
        ..CollectionSettings::default()
    };
    let pages = database.create_collection("pages", settings)?;
    let (mut random, mut due) = (Random::new(3), 0);
    for from in (0..rows).step_by(BATCH_ROWS as usize) {
        let mut writes = Vec::with_capacity(BATCH_ROWS as usize);
        for row in from..(from + BATCH_ROWS).min(rows) {
            // One row in a hundred is due.
            let (fetched, period) = (random.below(NOW as u64), NOW as u64 / 100 * 99);
            due += u64::from(fetched + period <= NOW as u64);
            let title = format!("The title of a page of row {row}");
            let key = pages::key(row)?;
            let json = format!(
                r#"{{"_id":"{key}","title":"{title}","fetched":{fetched},"period":{period}}}"#
            );
            writes.push(Write::put(key, Document::from_json(json.as_bytes())?));
        }
        for written in pages.batch().writes(writes).write() {
            written?;
        }
    }
    pages.compact()?;
    drop(pages);
    database.close()?;
    Ok(due)
}

/// CPU seconds of a run, of all threads.
fn run(pages: &Collection, code: &Code, expected: u64) -> Result<f64> {
    let options = RunOptions {
        argument: Some(Document::from_json(
            format!(r#"{{"now":{NOW}}}"#).as_bytes(),
        )?),
        ..RunOptions::of(Kind::Filter)
    };
    let watch = Watch::start()?;
    let mut kept = 0;
    for produced in pages.view()?.run_code(code, options)? {
        produced?;
        kept += 1;
    }
    let (_, cpu) = watch.stop()?;
    same(kept, expected)?;
    Ok(cpu)
}

/// CPU seconds of a client that filters all rows, and of its server.
fn ship(task: &Task, dir: &Path, expected: u64) -> Result<f64> {
    let mut command = Command::new(&task.sizes.quire);
    command.arg("serve").arg(dir);
    let server = Server::start_quire(&mut command, "listening")?;
    let mut client = Client::connect(server.address)?;
    let before = server.cpu_seconds()?;
    let (watch, mut kept) = (Watch::start()?, 0);
    for from in (0..task.sizes.rows).step_by(PAGE_ROWS as usize) {
        let key = pages::key(from)?;
        let path = format!("/pages/_quire/scan?from={key}&limit={PAGE_ROWS}");
        let (status, body) = client.request("GET", &path, b"")?;
        if status != 200 {
            return Err(format!("{path}: {status}").into());
        }
        for line in Cursor::new(body).lines() {
            let line: Value = serde_json::from_str(&line?)?;
            let Some(row) = line["row"].get(3) else {
                continue;
            };
            let int = |field: &str| row[field].as_i64().unwrap_or_default();
            kept += u64::from(int("fetched") + int("period") <= NOW);
        }
    }
    let cpu = watch.stop()?.1 + server.cpu_seconds()? - before;
    server.stop()?;
    same(kept, expected)?;
    Ok(cpu)
}

fn same(kept: u64, expected: u64) -> Result<()> {
    match kept == expected {
        true => Ok(()),
        false => Err(format!("{kept} rows are kept, and {expected} are due").into()),
    }
}
