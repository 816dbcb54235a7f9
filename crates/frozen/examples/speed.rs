//! How long building, opening and querying take: `cargo run --release -p quire-frozen --example
//! speed [DOCUMENTS]`.
//!
//! A million documents of a few fields, in a file of the temporary directory. Each line is the mean
//! of many calls on one thread, with everything in memory.

use quire_env::{Env, OsEnv};
use quire_frozen::{Access, FieldSpec, FrozenBuilder, FrozenFile, FrozenOptions, OpenOptions};
use quire_index::DocSet;
use quire_model::ValueRef;
use quire_query::{End, Found, Leaf, Path as FieldPath, Shard, TermRange, Test, Value};
use std::error::Error;
use std::hint::black_box;
use std::ops::Bound;
use std::sync::Arc;

/// A number that looks random.
fn random(n: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(31)
        .wrapping_mul(0xD6E8_FEB8_6659_FD93)
        >> 20
}

/// A value such as a digest in hexadecimal digits.
fn digest(n: u64) -> String {
    format!("{:016x}{:016x}", random(n), random(n + 77))
}

fn main() -> Result<(), Box<dyn Error>> {
    let documents: u32 = std::env::args()
        .nth(1)
        .map_or(Ok(1_000_000), |count| count.parse())?;
    let env: Arc<dyn Env> = OsEnv::new()?;
    let path = std::env::temp_dir().join(format!("quire-speed-{}.quire", std::process::id()));
    let fields = [
        FieldSpec::full("f"),
        FieldSpec::full("g"),
        FieldSpec::full("price"),
        FieldSpec::full("id"),
        FieldSpec::full("day"),
    ];

    let start = env.monotonic();
    let options = FrozenOptions {
        documents: false,
        ..FrozenOptions::default()
    };
    let mut builder = FrozenBuilder::create(Arc::clone(&env), &path, &fields, options)?;
    for n in 0..u64::from(documents) {
        builder.set(0, ValueRef::String(&digest(n % 10)))?;
        builder.set(1, ValueRef::String(&digest(random(n) % 7)))?;
        builder.set(2, ValueRef::Int((random(n + 5) % 50_000) as i64))?;
        builder.set(
            3,
            ValueRef::String(&format!("{:012}", random(n) % 1_000_000_000_000)),
        )?;
        builder.set(4, ValueRef::Int((n / 1000) as i64))?;
        builder.end(b"")?;
    }
    let bytes = builder.finish()?;
    println!(
        "built {documents} documents, {bytes} bytes, in {:?}",
        env.monotonic() - start
    );

    for access in [Access::Read, Access::Map] {
        let open = || {
            FrozenFile::open(
                &*env,
                &path,
                OpenOptions {
                    access,
                    verify: false,
                },
            )
        };
        time(&*env, &format!("{access:?}: open"), || open().map(drop))?;
        let file = open()?;
        query(&*env, &file, documents)?;
    }
    for field in FrozenFile::open(&*env, &path, OpenOptions::default())?
        .inspect()?
        .fields
    {
        println!(
            "{} {:?} sets {} clusters {:?} blocks {:?} {:?}",
            field.path, field.encoding, field.sets, field.clusters, field.blocks, field.sections
        );
    }
    env.remove(&path)?;
    Ok(())
}

fn leaf(path: &str, test: Test) -> Leaf {
    Leaf {
        path: FieldPath::new(path),
        test,
    }
}

fn between(lower: Value, upper: Value) -> Test {
    Test::Range(TermRange {
        lower: Bound::Included(lower.term().into()),
        upper: Bound::Excluded(upper.term().into()),
    })
}

fn query(env: &dyn Env, file: &FrozenFile, documents: u32) -> Result<(), Box<dyn Error>> {
    let f = leaf("f", Test::Eq(digest(3).as_str().into()));
    let g = leaf("g", Test::Eq(digest(4).as_str().into()));
    let id = leaf(
        "id",
        Test::Eq(
            format!("{:012}", random(7) % 1_000_000_000_000)
                .as_str()
                .into(),
        ),
    );
    let narrow = leaf("price", between(10_000.into(), 10_500.into()));
    let wide = leaf("price", between(10_000.into(), 40_000.into()));
    let days = leaf("day", between(100.into(), 300.into()));
    let tenth = file.matches(&f, Found::default())?;
    println!(
        "f: {}, g: {}",
        file.count(&[&f])?.unwrap_or(0),
        file.count(&[&g])?.unwrap_or(0)
    );
    time(env, "count f =", || {
        file.count(&[&f]).map(|count| {
            black_box(count);
        })
    })?;
    time(env, "count id =", || {
        file.count(&[&id]).map(|count| {
            black_box(count);
        })
    })?;
    time(env, "count f = and g =", || {
        file.count(&[&f, &g]).map(|count| {
            black_box(count);
        })
    })?;
    time(env, "count of a range of prices", || {
        file.count(&[&wide]).map(|count| {
            black_box(count);
        })
    })?;
    for (name, leaf) in [
        ("f =", &f),
        ("1 % of prices", &narrow),
        ("60 % of prices", &wide),
        ("20 % of days", &days),
    ] {
        time(env, &format!("set of {name}"), || {
            file.matches(leaf, Found::default())
                .map(|set| drop(black_box(set)))
        })?;
        time(env, &format!("f = and {name}, by retain"), || {
            let mut set = tenth.clone();
            file.retain(leaf, Found::default(), &mut set)?;
            black_box(set);
            Ok::<_, quire_query::Error>(())
        })?;
    }
    let docs: Vec<u32> = (0..documents).collect();
    let odd: DocSet = (0..documents).step_by(3).collect();
    let odd: Vec<u32> = odd.iter().collect();
    for path in ["price", "day", "f"] {
        let column = file.column(&FieldPath::new(path))?.ok_or("no column")?;
        for (name, docs) in [("all", &docs), ("every third", &odd)] {
            let mut out = Vec::new();
            time(env, &format!("ordinals of {path}, {name}"), || {
                docs.chunks(1024).try_for_each(|docs| {
                    column.ends(docs, End::Smallest, &mut out)?;
                    black_box(&out);
                    Ok::<_, quire_query::Error>(())
                })
            })?;
        }
    }
    Ok(())
}

/// Prints the mean time of a call, of as many as fit some tenths of a second.
fn time<E>(env: &dyn Env, what: &str, mut call: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    call()?;
    let (start, mut calls) = (env.monotonic(), 0);
    while (env.monotonic() - start).as_millis() < 200 {
        for _ in 0..8 {
            call()?;
        }
        calls += 8;
    }
    println!(
        "{what:32} {:12.3} us",
        (env.monotonic() - start).as_secs_f64() * 1e6 / f64::from(calls)
    );
    Ok(())
}
