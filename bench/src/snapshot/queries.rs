//! Measures the queries of one engine, in the same way as those of the peers on the JVM: every
//! query once for its answer, then to warm up, then timed. Queries are prepared before they are
//! executed; one kind is also prepared again each time.

use super::{Documents, Engine, Measured};
use crate::Result;
use crate::measure::{Watch, disk_bytes, thread_cpu_nanos};
use std::path::Path;
use std::time::{Duration, Instant};

/// Times kept at most.
const QUERIES_MAX: usize = 5_000_000;

/// Builds an engine and measures each kind of query.
pub(super) fn measure<E: Engine>(
    name: &str,
    dir: &Path,
    documents: &Documents,
    seconds: f64,
) -> Result<Vec<Measured>> {
    std::fs::create_dir_all(dir)?;
    let watch = Watch::start()?;
    let engine = E::build(dir, documents)?;
    let (_, build_cpu_seconds) = watch.stop()?;
    let disk_bytes = disk_bytes(dir)?;
    let Documents { f, g, .. } = documents;
    let value = |values: &[String], number: usize| values[number % values.len()].clone();
    let question = |(f, g): &(String, Option<String>)| E::question(f, g.as_deref());
    let one: Vec<_> = (0..f.len()).map(|at| (value(f, at), None)).collect();
    let two = (0..f.len() * g.len()).map(|at| (value(f, at), Some(value(g, at))));
    let two: Vec<_> = two.collect();
    let mut all = Vec::new();
    for (query, values, is_made_anew) in [
        ("one field", &one, false),
        ("one field, made anew", &one, true),
        ("two fields", &two, false),
    ] {
        let ready: Vec<E::Question> = values.iter().map(question).collect::<Result<_>>()?;
        let execute = |at: usize| match is_made_anew {
            true => engine.count(&question(&values[at])?),
            false => engine.count(&ready[at]),
        };
        let answers: Vec<u64> = (0..values.len()).map(execute).collect::<Result<_>>()?;
        timed(&execute, &answers, seconds)?;
        let cpu_nanos = thread_cpu_nanos();
        let mut nanos = timed(&execute, &answers, seconds)?;
        let cpu_nanos = thread_cpu_nanos() - cpu_nanos;
        let queries = nanos.len().max(1);
        let mean = nanos.iter().map(|nanos| u64::from(*nanos)).sum::<u64>() as f64 / queries as f64;
        nanos.sort_unstable();
        let micros = |part: f64| {
            let at = (queries as f64 * part) as usize;
            nanos
                .get(at)
                .map_or(f64::NAN, |nanos| f64::from(*nanos) / 1e3)
        };
        all.push(Measured {
            engine: name.to_owned(),
            query: query.to_owned(),
            queries: queries as u64,
            mean_micros: mean / 1e3,
            cpu_micros: cpu_nanos as f64 / 1e3 / queries as f64,
            p50_micros: micros(0.5),
            p99_micros: micros(0.99),
            build_cpu_seconds,
            disk_bytes,
            answers,
        });
    }
    Ok(all)
}

/// Executes queries for `seconds`; returns the nanoseconds of each.
fn timed(
    execute: &impl Fn(usize) -> Result<u64>,
    answers: &[u64],
    seconds: f64,
) -> Result<Vec<u32>> {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut nanos = Vec::with_capacity(QUERIES_MAX);
    let mut before = Instant::now();
    while before < end && nanos.len() < QUERIES_MAX {
        let at = nanos.len() % answers.len();
        let answer = execute(at)?;
        let after = Instant::now();
        if answer != answers[at] {
            return Err("an answer changed".into());
        }
        nanos.push(u32::try_from((after - before).as_nanos()).unwrap_or(u32::MAX));
        before = after;
    }
    Ok(nanos)
}
