//! The ids of all documents with a value, after one of a hundred documents was updated.
//!
//! Each document has one value in one field: one of four that a fifth, a fiftieth, a
//! five-thousandth and a 500,000th of the documents have, or one of 1,000 others. Of five million
//! documents these are a million, 100,000, 1,000 and ten. All engines give the same ids; Tantivy
//! its own numbers of documents, so that counts alone are compared.

use super::quire::{BATCH, Quire, key, process_cpu_nanos};
use super::{Engine, Report, Setup};
use crate::Result;
use crate::adverts::mix;
use quire_query::{Found, Leaf, Path, Shard, Test};
use quiredb::query::{Options, field, find};
use quiredb::{Document, Write};
use std::process::Command;
use std::time::{Duration, Instant};

/// The values that are executed for, and one of how many documents has each.
pub(super) const VALUES: [(&str, u64); 4] = [("m", 5), ("c", 50), ("k", 5_000), ("x", 500_000)];

/// The value of a document that has none of these.
const OTHERS: u64 = 1_000;

/// How long a question is executed again and again.
const TIME: Duration = Duration::from_millis(1500);

/// A document's value: at first, or after its update.
pub(super) fn value(number: u64, count: u64, is_updated: bool) -> String {
    let mut left = mix(number ^ if is_updated { 0x55 } else { 0 }) % count;
    for (value, part) in VALUES {
        let documents = share(count, part);
        if left < documents {
            return value.to_owned();
        }
        left -= documents;
    }
    format!("o{}", left % OTHERS)
}

/// How many documents are to have a value that one of `part` has.
fn share(count: u64, part: u64) -> u64 {
    (count / part).max(10)
}

/// The documents that are updated; some are named twice.
pub(super) fn updated(count: u64) -> impl Iterator<Item = u64> {
    (0..count / 100).map(move |number| mix(number ^ 0x1dea) % count)
}

/// A question executed many times: CPU and wall microseconds, the medians of slices.
pub(super) fn timed(mut execute: impl FnMut() -> Result<u64>) -> Result<(f64, f64)> {
    let once = Instant::now();
    let answer = execute()?;
    let each = (TIME.as_nanos() / 15 / once.elapsed().as_nanos().max(1)).clamp(1, 100_000) as u64;
    let begun = Instant::now();
    let mut slices = Vec::new();
    while begun.elapsed() < TIME || slices.len() < 3 {
        let (cpu, wall) = (process_cpu_nanos(), Instant::now());
        for _ in 0..each {
            if std::hint::black_box(execute()?) != answer {
                return Err("an answer changed".into());
            }
        }
        let cpu = (process_cpu_nanos() - cpu) as f64 / each as f64 / 1e3;
        slices.push((cpu, wall.elapsed().as_nanos() as f64 / each as f64 / 1e3));
    }
    let middle =
        |of: fn(&(f64, f64)) -> f64| crate::measure::median(slices.iter().map(of).collect());
    Ok((middle(|slice| slice.0), middle(|slice| slice.1)))
}

/// Adds what executing for a value took.
pub(super) fn report(report: &mut Report, of: &str, times: (f64, f64)) {
    report.add(of, "CPU µs", times.0);
    report.add(format!("{of}, wall"), "µs", times.1);
}

pub(super) fn name(value: &str, count: u64) -> String {
    let part = VALUES.iter().find(|one| one.0 == value);
    let documents = share(count, part.map_or(1, |one| one.1));
    format!("ids of {documents} documents")
}

/// The program that measures RocksDB.
pub(super) fn rocksdb(engine: Engine, setup: &Setup) -> Command {
    let mut command = Command::new(setup.kv_peers.join("ids-rocksdb"));
    command.arg(match engine {
        Engine::RocksdbKeys => "keys",
        _ => "clustered",
    });
    command
        .arg(setup.count.to_string())
        .arg(setup.engine_dir().join("rocksdb"));
    command
}

pub(super) fn run(engine: Engine, setup: &Setup) -> Result<Report> {
    match engine {
        Engine::Quire => quire(setup),
        #[cfg(feature = "peers")]
        Engine::Croaring => croaring(setup),
        #[cfg(feature = "peers")]
        Engine::Tantivy => super::tantivy::ids(setup),
        _ => Err("built without `--features peers`".into()),
    }
}

fn quire(setup: &Setup) -> Result<Report> {
    let quire = Quire::create(setup, 1, r#"{"default":"none","v":"all"}"#)?;
    let write = |numbers: &[u64], is_updated| -> Result<()> {
        let writes = numbers.iter().map(|number| {
            let text = format!("{{\"v\":\"{}\"}}", value(*number, setup.count, is_updated));
            Ok(Write::put(
                key(*number)?,
                Document::from_json(text.as_bytes())?,
            ))
        });
        quire.write(writes.collect::<Result<_>>()?)
    };
    let begun = process_cpu_nanos();
    let all: Vec<u64> = (0..setup.count).collect();
    all.chunks(BATCH)
        .try_for_each(|numbers| write(numbers, false))?;
    quire.settle()?;
    let mut report = Report::default();
    report.add(
        "loaded",
        "CPU s",
        (process_cpu_nanos() - begun) as f64 / 1e9,
    );
    let updated: Vec<u64> = updated(setup.count).collect();
    updated
        .chunks(BATCH)
        .try_for_each(|numbers| write(numbers, true))?;
    quire.settle()?;
    quire.rest()?;
    quire.sizes(&mut report)?;
    for (value, _) in VALUES {
        let query = find(field("v").eq(value)).limit(u64::MAX).prepare()?;
        let counts = find(field("v").eq(value)).limit(0).with_count().prepare()?;
        let options = Options::default();
        let name = name(value, setup.count);
        let execute = || -> Result<(u64, u64)> {
            let answer = quire.documents.view()?.query(&query, &options)?;
            let sum = answer.hits.iter().map(|hit| u64::from(hit.doc)).sum();
            Ok((answer.hits.len() as u64, sum))
        };
        let (count, sum) = execute()?;
        report.answer(format!("count of {value}"), vec![count]);
        report.answer(format!("sum of {value}"), vec![sum]);
        let leaf = Leaf {
            path: Path::new("v"),
            test: Test::Eq(value.into()),
        };
        let view = quire.documents.view()?;
        let partitions = quire_database::engine::view_partitions(&view)?;
        let mut ids = [0; 256];
        let mut execute_set = || -> Result<u64> {
            let mut sum = 0_u64;
            for partition in partitions {
                let shard = partition.search(&query, None)?.ok_or("no index")?;
                let docs = shard.matches(&leaf, Found::default())?;
                let mut left = docs.iter();
                loop {
                    let count = left.next_many(&mut ids);
                    if count == 0 {
                        break;
                    }
                    sum += ids[..count].iter().map(|id| u64::from(*id)).sum::<u64>();
                }
            }
            Ok(sum)
        };
        if execute_set()? != sum {
            return Err("the set has other ids than the hits".into());
        }
        self::report(&mut report, &name, timed(&mut execute_set)?);
        self::report(
            &mut report,
            &format!("{name}, as hits"),
            timed(|| Ok(execute()?.1))?,
        );
        let count = || {
            Ok(quire
                .documents
                .view()?
                .query(&counts, &options)?
                .count
                .unwrap_or(0))
        };
        self::report(&mut report, &format!("{name}, counted"), timed(count)?);
    }
    quire.database.close()?;
    Ok(report)
}

#[cfg(feature = "peers")]
fn croaring(setup: &Setup) -> Result<Report> {
    let mut numbers: Vec<Vec<u32>> = vec![Vec::new(); VALUES.len()];
    let mut is_updated = vec![false; usize::try_from(setup.count)?];
    updated(setup.count).for_each(|number| is_updated[number as usize] = true);
    for (number, is_updated) in (0..).zip(is_updated) {
        let value = value(u64::from(number), setup.count, is_updated);
        if let Some(at) = VALUES.iter().position(|executed| executed.0 == value) {
            numbers[at].push(number);
        }
    }
    let mut report = Report::default();
    for ((value, _), numbers) in VALUES.iter().zip(numbers) {
        let mut bitmap = croaring::Bitmap::of(&numbers);
        bitmap.run_optimize();
        let mut ids = [0; 256];
        let mut execute = || {
            let (mut left, mut sum) = (bitmap.cursor(), 0_u64);
            loop {
                let count = left.read_many(&mut ids);
                if count == 0 {
                    return Ok(sum);
                }
                sum += ids[..count].iter().map(|id| u64::from(*id)).sum::<u64>();
            }
        };
        report.answer(format!("count of {value}"), vec![bitmap.cardinality()]);
        report.answer(format!("sum of {value}"), vec![execute()?]);
        let name = name(value, setup.count);
        self::report(&mut report, &name, timed(&mut execute)?);
    }
    Ok(report)
}
