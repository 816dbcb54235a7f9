//! What querying partitions by all cores gives: counts and aggregates of a live collection of many
//! partitions and of a frozen folder of the same documents, by one thread and by all, by turns.
//! Wall time: of each the least and the median.
//!
//! ```text
//! cargo run --release --example partitions -- 400000 16
//! ```

use quire_query::Workers;
use quiredb::operations::{FreezeOptions, FrozenView, freeze_by_partition};
use quiredb::query::{Aggregate, Answer, Options, Prepared, Query, field, find, find_all};
use quiredb::{CollectionSettings, Database, Document, Env};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How often each query is executed in each way.
const ROUNDS: usize = 400;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn json(id: u64) -> String {
    let mut seed = mix(id);
    let mut below = |end: u64| {
        seed = mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
        seed % end
    };
    format!(
        "{{\"_id\":\"{id:08}\",\"mark\":\"mark{}\",\"company\":\"company{}\",\
         \"price\":{},\"year\":{},\"lat\":{}.{:06}}}",
        below(60),
        below(5000),
        500 + below(60_000),
        1990 + below(36),
        40 + below(20),
        below(1_000_000),
    )
}

fn queries() -> Vec<(&'static str, Query)> {
    let aggregate = |what| find_all().limit(0).aggregate("a", what);
    let half = || field("price").gte(30_000);
    let counted = |query: Query| query.limit(0).with_count();
    vec![
        ("count of a mark", counted(find(field("mark").eq("mark7")))),
        ("count of half the prices", counted(find(half()))),
        (
            "count of a mark and half the prices",
            counted(find(field("mark").eq("mark7").and(half()))),
        ),
        ("marks (60)", aggregate(Aggregate::terms("mark", 10))),
        (
            "companies (5,000)",
            aggregate(Aggregate::terms("company", 10)),
        ),
        ("sum of prices", aggregate(Aggregate::sum("price"))),
        ("average of six decimals", aggregate(Aggregate::avg("lat"))),
        (
            "histogram of prices",
            aggregate(Aggregate::histogram("price", 5000.0)),
        ),
    ]
}

fn compare(
    what: &str,
    env: &dyn Env,
    execute: &dyn Fn(&Prepared, &Options<'_>) -> Result<Answer>,
) -> Result<()> {
    println!(
        "| {what}, ms | one thread, least, median | all, least, median | ratio of the least |"
    );
    println!("| --- | ---: | ---: | ---: |");
    let one_by_one = |count: usize, part: &(dyn Fn(usize) + Sync)| (0..count).for_each(part);
    let at_once = |count: usize, part: &(dyn Fn(usize) + Sync)| env.run_all(count, part);
    for (name, query) in queries() {
        let prepared = query.prepare()?;
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..2 * ROUNDS {
            let is_shared = round % 2 == 1;
            let workers = match is_shared {
                true => Workers::new(env.cores(), &at_once),
                false => Workers::new(2, &one_by_one),
            };
            let options = Options {
                workers,
                ..Options::default()
            };
            let begun = Instant::now();
            execute(&prepared, &options)?;
            times[usize::from(is_shared)].push(begun.elapsed());
        }
        let [one, all] = times.map(|mut times: Vec<Duration>| {
            times.sort();
            let millis = |time: Duration| time.as_secs_f64() * 1e3;
            (millis(times[0]), millis(times[ROUNDS / 2]))
        });
        println!(
            "| {name} | {:.2}, {:.2} | {:.2}, {:.2} | {:.2} |",
            one.0,
            one.1,
            all.0,
            all.1,
            one.0 / all.0
        );
    }
    println!();
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (count, partitions) = (number(400_000)?, number(16)?);
    let dir = std::path::PathBuf::from("target/partitions");
    let _ = std::fs::remove_dir_all(&dir);
    let database = Database::open(&dir.join("database"))?;
    let settings = CollectionSettings::from_json(
        format!(r#"{{"partitions":{partitions},"index":"all"}}"#).as_bytes(),
    )?;
    let collection = database.create_collection("adverts", settings)?;
    for first in (0..count).step_by(1000) {
        let mut batch = collection.batch();
        for id in first..count.min(first + 1000) {
            batch.put(&Document::from_json(json(id).as_bytes())?)?;
        }
        for written in batch.write() {
            written?;
        }
    }
    collection.compact()?;
    let view = collection.view()?;
    let folder = dir.join("frozen");
    freeze_by_partition(&view, &folder, &FreezeOptions::default(), &mut |_| {})?;
    let frozen = FrozenView::open(database.env(), &folder)?;
    println!("{count} documents in {partitions} partitions\n");
    // Each query reads anew: queries of one view share what they found.
    compare("live", &**database.env(), &|query, options| {
        Ok(collection.view()?.query(query, options)?)
    })?;
    compare("frozen", &**database.env(), &|query, options| {
        Ok(frozen.query(query, options)?)
    })?;
    drop((view, frozen, collection));
    database.close()?;
    let _ = std::fs::remove_dir_all(&dir);
    Ok(())
}
