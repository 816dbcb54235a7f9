//! The planner's choice: generated queries, each executed as it chooses and in every way that can
//! be forced. All give one answer.
//!
//! Three collections have the same fields. The values of *uniform* documents are independent, and
//! all as frequent; those of *skewed* ones are independent, the lower the more frequent; all values
//! of a *correlated* document follow from one number. One of a hundred documents was updated.
//!
//! A way that takes longer than the best known one by a fifth is stopped where it can be, so that a
//! scan of all documents is not waited for each time; its time is then no longer needed. Every 25th
//! query executes all ways to their end.

use super::quire::{BATCH, Quire, key};
use super::{Report, Setup};
use crate::Result;
use crate::adverts::mix;
use crate::measure::thread_cpu_nanos;
use quiredb::query::{Access, Aggregate, Answer, Filter, Options, Prepared, Query, field, find};
use quiredb::{Document, View, Write};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Queries of each kind of data.
const QUERIES: usize = 500;

/// Single predicates of each kind of data, whose estimated cost is compared with what they take.
const PREDICATES: usize = 200;

/// Which queries execute all ways to their end.
const WHOLE: usize = 25;

/// A query is executed until it took this long in all, this often at most. The least time counts.
const NANOS: u64 = 3_000_000;
const RUNS_MAX: u32 = 40;
const RUNS_MIN: u32 = 3;

const KINDS: [&str; 3] = ["uniform", "skewed", "correlated"];

/// Integers are below this.
const WIDE: u64 = 1_000_000;

/// How often the worst are shown.
const WORST: usize = 10;

/// Random numbers of a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// From 0 to 1.
    fn part(&mut self) -> f64 {
        self.below(1 << 40) as f64 / (1u64 << 40) as f64
    }

    /// From `least` to 1, each magnitude as often.
    fn share(&mut self, least: f64) -> f64 {
        least.powf(self.part())
    }
}

/// A document of a kind.
fn document(kind: usize, number: u64, version: u64) -> String {
    let mut random = Random(mix(number ^ version << 40 ^ (kind as u64) << 56));
    let hidden = random.part();
    let mut part = || match kind {
        0 => random.part(),
        1 => random.part().powi(4),
        _ => (hidden + random.part() / 100.0).min(0.999_999),
    };
    let few = (part() * 10.0) as u64;
    let many = (part() * 1_000.0) as u64;
    let wide = (part() * WIDE as f64) as u64;
    let real = part() * 100.0;
    let (one, other) = ((part() * 50.0) as u64, (part() * 50.0) as u64);
    let mut text = format!(
        "{{\"few\":{few},\"many\":\"m{many:03}\",\"wide\":{wide},\"real\":{real:.3},\
         \"when\":{},\"tags\":[{one},{other}]",
        1_700_000_000_000 + number * 1_009
    );
    if part() < 0.7 {
        text.push_str(&format!(",\"some\":\"s{}\"", (part() * 5.0) as u64));
    }
    if part() < 0.01 {
        text.push_str(",\"rare\":true");
    }
    text.push_str(&format!(",\"note\":\"{:0120}\"}}", mix(number)));
    text
}

/// A predicate on one field.
fn predicate(random: &mut Random, count: u64) -> Filter {
    let at = |random: &mut Random, end: u64| {
        // The lower half of values is looked for more often: skewed data has most there.
        let part = random.part();
        (if random.below(2) == 0 {
            part
        } else {
            part * part
        } * end as f64) as u64
    };
    let between = |name: &str, random: &mut Random, first: u64, end: u64| {
        let width = (random.share(0.000_01) * end as f64) as u64;
        let from = first + at(random, end.saturating_sub(width));
        field(name).between(from, from + width)
    };
    let several = |random: &mut Random, most: u64| 2 + random.below(most) as usize;
    match random.below(14) {
        0 => field("few").eq(at(random, 10)),
        1 => field("many").eq(format!("m{:03}", at(random, 1_000))),
        2 => field("wide").eq(at(random, WIDE)),
        3 => {
            let values = several(random, 4);
            field("few").is_in((0..values).map(|_| at(random, 10)))
        }
        4 => {
            let values = several(random, 100);
            field("many").is_in((0..values).map(|_| format!("m{:03}", at(random, 1_000))))
        }
        5 | 6 => between("wide", random, 0, WIDE),
        7 => between("when", random, 1_700_000_000_000, count * 1_009),
        8 => {
            let width = random.share(0.000_1) * 100.0;
            let from = at(random, 1_000_000) as f64 / 10_000.0;
            field("real").between(from, from + width)
        }
        9 => field("tags").eq(at(random, 50)),
        10 => field("some").exists(),
        11 => field("rare").exists(),
        12 => field("some").eq(format!("s{}", at(random, 5))),
        _ => field("many").starts_with(format!("m{}", at(random, 10))),
    }
}

fn query(random: &mut Random, count: u64) -> Query {
    let mut parts: Vec<Filter> = Vec::new();
    for _ in 0..=random.below(4) {
        let one = predicate(random, count);
        parts.push(if random.below(7) == 0 { !one } else { one });
    }
    let filter = match random.below(4) {
        0 => Filter::Or(parts),
        1 if parts.len() > 2 => {
            let rest = parts.split_off(2);
            Filter::Or(parts).and(Filter::And(rest))
        }
        _ => Filter::And(parts),
    };
    match random.below(6) {
        0 | 1 => find(filter).limit(0).with_count(),
        2 => find(filter).order_by(field("wide").descending()).limit(10),
        3 => {
            let order = field("when").descending();
            find(filter).order_by(order).limit(10).with_count()
        }
        4 => {
            let all = find(filter).limit(0).with_count();
            let all = all.aggregate("terms", Aggregate::terms("few", 10));
            all.aggregate("avg", Aggregate::avg("wide"))
        }
        _ => find(filter).limit(10),
    }
}

/// What a way took in CPU nanoseconds, and its answer; none if it was stopped.
type Executed = Option<(u64, Answer)>;

fn execute(
    view: &View,
    query: &Prepared,
    access: Option<Access>,
    nanos_max: u64,
) -> Result<Executed> {
    let (mut best, mut answer, mut all, mut runs) = (u64::MAX, None, 0, 0);
    while runs < RUNS_MIN || runs < RUNS_MAX && all < NANOS {
        let start = thread_cpu_nanos();
        let stop = || thread_cpu_nanos() - start > nanos_max;
        let options = Options {
            access,
            stop: Some(&stop),
            ..Options::default()
        };
        let given = match view.query(query, &options) {
            Err(_) if stop() => return Ok(None),
            given => given?,
        };
        let nanos = thread_cpu_nanos() - start;
        best = best.min(nanos);
        (all, runs) = (all + nanos, runs + 1);
        answer = Some(given);
        if nanos > 20 * NANOS {
            break;
        }
    }
    Ok(answer.map(|answer| (best, answer)))
}

/// How a query was executed as it was chosen, and in the best way.
struct Chosen {
    ratio: f64,
    nanos: u64,
    text: String,
}

fn choose(view: &View, query: Query, is_whole: bool) -> Result<Chosen> {
    let shown = format!("{query:?}");
    let query = query.prepare()?;
    let Some((nanos, expected)) = execute(view, &query, None, u64::MAX)? else {
        return Err("a query was stopped".into());
    };
    let (mut best, mut by) = (nanos, None);
    let mut text = String::new();
    let ways = [
        Access::Postings,
        Access::Column,
        Access::Documents,
        Access::Scan,
    ];
    for access in ways {
        let nanos_max = match is_whole {
            true => u64::MAX,
            false => best + best / 5,
        };
        let Some((nanos, answer)) = execute(view, &query, Some(access), nanos_max)? else {
            continue;
        };
        if answer != expected {
            let what = format!("{shown}: {access} gives {answer:?}, not {expected:?}");
            return Err(what.into());
        }
        text.push_str(&format!("{access} {:.1} µs, ", nanos as f64 / 1e3));
        if nanos < best {
            (best, by) = (nanos, Some(access));
        }
    }
    // What a forced way read is shared: it serves the chosen one too.
    let again = execute(view, &query, None, u64::MAX)?;
    let nanos = again.map_or(nanos, |(again, _)| again.min(nanos));
    best = best.min(nanos);
    let ratio = nanos as f64 / best as f64;
    let explained = [None, by].map(|access| {
        let begun = Instant::now();
        let clock = || -> Duration { begun.elapsed() };
        let options = Options {
            clock: Some(&clock),
            access,
            ..Options::default()
        };
        let answer = view.query(&query, &options);
        let explain = answer.map(|answer| answer.explain.map(|explain| explain.to_string()));
        explain.ok().flatten().unwrap_or_default().to_string()
    });
    let text = format!(
        "{ratio:.2} ×: chosen {:.1} µs, {text}\n{:.600}\n{}best:\n{}",
        nanos as f64 / 1e3,
        shown,
        explained[0],
        explained[1]
    );
    Ok(Chosen { ratio, nanos, text })
}

/// What a predicate was estimated to cost and what it took, in nanoseconds, by its kind and the
/// way in which it was executed.
type Costs = BTreeMap<String, Vec<(f64, f64)>>;

/// Executes a predicate in the ways that read an index.
fn cost(view: &View, one: Filter, costs: &mut Costs) -> Result<()> {
    let shown = format!("{one:?}");
    let kind = shown.split('(').next().unwrap_or_default();
    let query = find(one).limit(0).with_count().prepare()?;
    for access in [Access::Postings, Access::Column] {
        let clock = || Duration::ZERO;
        let options = Options {
            clock: Some(&clock),
            access: Some(access),
            ..Options::default()
        };
        let Some(explain) = view.query(&query, &options)?.explain else {
            continue;
        };
        let trace = &explain.filter;
        if !trace.accesses.contains_key(&access) {
            continue;
        }
        let Some((nanos, _)) = execute(view, &query, Some(access), u64::MAX)? else {
            continue;
        };
        let pair = (trace.cost.as_nanos() as f64, nanos as f64);
        let name = format!("{kind} by {access}");
        costs.entry(name).or_default().push(pair);
    }
    Ok(())
}

/// Adds by how much estimates of costs are off.
fn state_costs(report: &mut Report, costs: Costs) {
    for (name, pairs) in costs {
        let mut ratios: Vec<f64> = pairs.iter().map(|(cost, taken)| cost / taken).collect();
        ratios.sort_by(f64::total_cmp);
        for (of, at) in [("a tenth", 0.1), ("the median", 0.5), ("nine tenths", 0.9)] {
            let at = (ratios.len() as f64 * at) as usize;
            let ratio = ratios.get(at).copied().unwrap_or(f64::NAN);
            report.add(format!("{name}: estimated / taken, {of}"), "×", ratio);
        }
    }
}

pub(super) fn run(setup: &Setup) -> Result<Report> {
    let mut report = Report::default();
    let (mut all, mut times, mut costs) = (Vec::new(), 0, Costs::new());
    for (kind, name) in KINDS.iter().enumerate() {
        let quire = load(kind, setup)?;
        let view = quire.documents.view()?;
        let mut random = Random(mix(setup.seed ^ (kind as u64) << 32));
        let mut chosen = Vec::with_capacity(QUERIES);
        for number in 0..QUERIES {
            let query = query(&mut random, setup.count);
            chosen.push(choose(&view, query, number % WHOLE == 0)?);
        }
        times += chosen.iter().map(|one| one.nanos).sum::<u64>();
        state(&mut report, name, &chosen);
        chosen.sort_by(|one, other| other.ratio.total_cmp(&one.ratio));
        for worst in chosen.iter().take(WORST) {
            eprintln!("{name}, {}", worst.text);
        }
        all.extend(chosen);
        for _ in 0..PREDICATES {
            cost(&view, predicate(&mut random, setup.count), &mut costs)?;
        }
        drop(view);
        quire.database.close()?;
        std::fs::remove_dir_all(setup.engine_dir())?;
        std::fs::create_dir_all(setup.engine_dir())?;
    }
    state(&mut report, "all", &all);
    state_costs(&mut report, costs);
    report.add("all queries, once", "CPU ms", times as f64 / 1e6);
    Ok(report)
}

/// Adds how many of some queries were executed about as fast as could be.
fn state(report: &mut Report, of: &str, chosen: &[Chosen]) {
    let part = |most: f64| {
        let within = chosen.iter().filter(|one| one.ratio <= most).count();
        100.0 * within as f64 / chosen.len().max(1) as f64
    };
    report.add(
        format!("{of}: within 1.5 × of the best way"),
        "%",
        part(1.5),
    );
    report.add(format!("{of}: within 3 ×"), "%", part(3.0));
    let worst = chosen.iter().map(|one| one.ratio).fold(1.0, f64::max);
    report.add(format!("{of}: the worst"), "×", worst);
}

fn load(kind: usize, setup: &Setup) -> Result<Quire> {
    let quire = Quire::create(setup, 1, r#"{"default":"all","note":"none"}"#)?;
    let write = |numbers: &[u64], version: u64| -> Result<()> {
        let writes = numbers.iter().map(|number| {
            let text = document(kind, *number, version);
            let document = Document::from_json(text.as_bytes())?;
            Ok(Write::put(key(*number)?, document))
        });
        quire.write(writes.collect::<Result<_>>()?)
    };
    let all: Vec<u64> = (0..setup.count).collect();
    for numbers in all.chunks(BATCH) {
        write(numbers, 0)?;
    }
    quire.settle()?;
    let updated: Vec<u64> = super::ids::updated(setup.count).collect();
    for numbers in updated.chunks(BATCH) {
        write(numbers, 1)?;
    }
    quire.settle()?;
    quire.rest()?;
    Ok(quire)
}
