//! Sorting and aggregates of a live collection of 25 fields, with the index level and with updates
//! in between: CPU time of the thread that asks, the median of several.
//!
//! ```text
//! cargo run --release --example live_columns -- 1000000
//! ```

use quiredb::query::{Aggregate, Options, Query, field, find, find_all};
use quiredb::{CollectionSettings, Database, Document, IndexedFields};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn json(id: u64, version: u64) -> String {
    let mut seed = mix(id.wrapping_mul(31).wrapping_add(version));
    let mut below = |end: u64| {
        seed = mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
        seed % end
    };
    let skewed = {
        let one = below(1000);
        one * one * one / 1_000_000
    };
    let tags: Vec<String> = (0..below(5)).map(|_| format!("\"tag{}\"", below(300))).collect();
    format!(
        "{{\"_id\":\"{id:08}\",\"title\":\"Advert number {} of {}\",\"company\":\"company{}\",\
         \"city\":\"city{}\",\"region\":\"region{}\",\"price\":{},\"year\":{},\"mileage\":{},\
         \"created\":{},\"updated\":{},\"lat\":{}.{:06},\"lon\":{}.{:06},\"score\":{}.{:02},\
         \"colour\":\"colour{}\",\"fuel\":\"fuel{}\",\"gearbox\":\"gear{}\",\"doors\":{},\
         \"power\":{},\"sold\":{},\"dealer\":{},\"views\":{},\"model\":\"model{skewed}\",\
         \"mark\":\"mark{}\",\"body\":\"body{}\",\"posted\":\"2026-{:02}-{:02}T{:02}:{:02}:00Z\",\
         \"tags\":[{}]}}",
        below(100_000), below(1000), below(5000), below(200), below(30), 500 + below(60_000),
        1990 + below(36), below(300_000), 1_700_000_000_000 + id * 1000 + below(1000),
        1_700_000_000_000 + below(10_000_000_000), 40 + below(20), below(1_000_000), below(30),
        below(1_000_000), below(10), below(100), below(12), below(5), below(3), 2 + below(4),
        50 + below(300), below(2) == 0, below(4) == 0, below(20_000), below(60), below(9),
        1 + below(12), 1 + below(28), below(24), below(60), tags.join(","),
    )
}

fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn process_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn queries() -> Vec<(&'static str, Query)> {
    let terms = |path: &str| find_all().limit(0).aggregate("a", Aggregate::terms(path, 10));
    let half = || field("price").gte(30_000);
    vec![
        ("terms mark (60)", terms("mark")),
        ("terms company (5000)", terms("company")),
        ("terms tags (300, several)", terms("tags")),
        ("terms year (36)", terms("year")),
        ("sum price", find_all().limit(0).aggregate("a", Aggregate::sum("price"))),
        ("sum score (decimals)", find_all().limit(0).aggregate("a", Aggregate::sum("score"))),
        ("avg lat (6 digits)", find_all().limit(0).aggregate("a", Aggregate::avg("lat"))),
        ("max updated", find_all().limit(0).aggregate("a", Aggregate::max("updated"))),
        ("histogram price", find_all().limit(0).aggregate("a", Aggregate::histogram("price", 5000.0))),
        ("newest 10", find_all().order_by(field("created").descending()).limit(10)),
        ("newest 10 of a mark, counted", find(field("mark").eq("mark7")).order_by(field("created").descending()).limit(10).with_count()),
        ("dearest 10 of half, counted", find(half()).order_by(field("price").descending()).limit(10).with_count()),
        ("by company, 10 of a mark", find(field("mark").eq("mark7")).order_by(field("company").ascending()).order_by(field("price").ascending()).limit(10)),
        ("count price half", find(half()).limit(0).with_count()),
        ("count updated half", find(field("updated").gte(1_705_000_000_000i64)).limit(0).with_count()),
        ("count mark and price", find(field("mark").eq("mark7").and(half())).limit(0).with_count()),
        ("sum price of a mark", find(field("mark").eq("mark7")).limit(0).aggregate("a", Aggregate::sum("price"))),
    ]
}

fn main() -> Result<()> {
    let count: u64 = std::env::args().nth(1).map_or(Ok(1_000_000), |count| count.parse())?;
    let dir = std::path::PathBuf::from("target/live-columns");
    let _ = std::fs::remove_dir_all(&dir);
    let database = Database::open(&dir)?;
    let index = match std::env::var("NO_INDEX") {
        Ok(_) => IndexedFields::none(),
        Err(_) => IndexedFields::all(),
    };
    let settings = CollectionSettings { index, partitions: 1, ..CollectionSettings::default() };
    let collection = database.create_collection("adverts", settings)?;
    let documents: Vec<Document> = (0..count).map(|id| Document::from_json(json(id, 0).as_bytes())).collect::<std::result::Result<_, _>>()?;
    let begun = process_cpu();
    for documents in documents.chunks(1000) {
        let mut batch = collection.batch();
        for document in documents {
            batch.put(document)?;
        }
        for written in batch.write() {
            written?;
        }
    }
    let level = || -> Result<()> {
        loop {
            let stats = collection.stats()?;
            match stats.index {
                Some(index) if index.lag_records > 0 => std::thread::sleep(Duration::from_millis(5)),
                _ => return Ok(()),
            }
        }
    };
    level()?;
    let loaded = process_cpu();
    database.flush()?;
    std::thread::sleep(Duration::from_secs(1));
    let flushed = process_cpu();
    collection.compact()?;
    println!(
        "load {:.2} us a document, flush {:.2}, compact {:.2}",
        (loaded - begun).as_secs_f64() * 1e6 / count as f64,
        (flushed - loaded).as_secs_f64() * 1e6 / count as f64,
        (process_cpu() - flushed).as_secs_f64() * 1e6 / count as f64,
    );
    let index = collection.stats()?.index.map_or(0, |index| index.bytes);
    println!("index {index} bytes, {:.1} a document", index as f64 / count as f64);
    if std::env::var("NO_INDEX").is_ok() {
        return Ok(());
    }
    let mut version = 1;
    for (what, updates) in [("level", 0u64), ("100 updates between", 100)] {
        println!("{what}");
        for (name, query) in queries() {
            let prepared = query.prepare()?;
            let mut times = Vec::new();
            let mut answer = None;
            for _ in 0..15 {
                for _ in 0..updates {
                    version += 1;
                    let id = mix(version) % count;
                    collection.put(&Document::from_json(json(id, version).as_bytes())?)?;
                }
                if updates > 0 {
                    level()?;
                }
                let view = collection.view()?;
                let begun = (thread_cpu(), Instant::now());
                answer = Some(view.query(&prepared, &Options::default())?);
                times.push(thread_cpu() - begun.0);
            }
            times.sort();
            let answer = answer.map(|answer| (answer.hits.len(), answer.count)).unwrap_or_default();
            println!("  {name:32} p50 {:10.1} us, least {:10.1}, most {:10.1}   {answer:?}", times[7].as_secs_f64() * 1e6, times[0].as_secs_f64() * 1e6, times[14].as_secs_f64() * 1e6);
        }
    }
    drop(collection);
    database.close()?;
    let _ = std::fs::remove_dir_all(&dir);
    Ok(())
}
