//! Frozen partitions: a file is placed on a simulated machine, and gets all queries.

use super::files::{file, of_input, place};
use super::{Target, Way, is_below_checksums};
use quire_env::{Env, SimEnv};
use quire_frozen::{Codec, FieldSpec, FrozenBuilder, FrozenFile, FrozenOptions, OpenOptions};
use quire_query::{
    End, Filter, Found, Leaf, Options, Ordinals, Path as FieldPath, Shard, TermRange, Test, Value,
    field, find,
};
use quiredb::Document;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A frozen partition.
pub(super) const FROZEN: Target = Target {
    name: "frozen",
    run: frozen,
    seeds: || files().iter().map(|bytes| file(bytes)).collect(),
    has_checksums: true,
    bytes_max: 256 << 20,
};

const PATH: &str = "/d/p.quire";
const FIELDS: [&str; 4] = ["n", "tags", "text", "nothing"];
/// A file may claim any number of documents, and a set of all of them takes a bit each.
const DOCUMENTS_MAX: u32 = 1 << 20;
const READ_MAX: u32 = 100;

fn document(n: u32) -> Document {
    let tags: Vec<_> = (0..n % 4).map(|tag| tag * n % 5).collect();
    let json = match n % 9 {
        0 => format!(r#"{{"tags":{tags:?},"text":null}}"#),
        _ => format!(
            r#"{{"n":{},"tags":{tags:?},"text":"value {}"}}"#,
            n / 3,
            n * 7 % 40
        ),
    };
    Document::from_json(json.as_bytes()).unwrap()
}

/// Whole files: in each packing, of few documents and of more than a block of a column has.
fn files() -> &'static [Vec<u8>] {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let zstd = |dictionary_bytes| Codec::Zstd {
        level: 1,
        dictionary_bytes,
    };
    let made = || {
        let kinds = [
            (0, Codec::None),
            (40, Codec::None),
            (40, Codec::Lz4),
            (300, zstd(256)),
            (5_000, zstd(0)),
        ];
        kinds
            .into_iter()
            .map(|(documents, codec)| build(documents, codec))
            .collect()
    };
    FILES.get_or_init(made)
}

fn build(documents: u32, codec: Codec) -> Vec<u8> {
    let env = SimEnv::new(1);
    env.create_dir_all(Path::new("/d")).unwrap();
    let fields = [
        FieldSpec::full("n"),
        FieldSpec::full("tags"),
        FieldSpec::filterable("text"),
        FieldSpec::sortable("nothing"),
    ];
    let options = FrozenOptions {
        codec,
        block_bytes: Some(300),
        documents: documents < 1_000,
        ..FrozenOptions::default()
    };
    let machine: Arc<dyn Env> = Arc::<SimEnv>::clone(&env);
    let mut builder = FrozenBuilder::create(machine, Path::new(PATH), &fields, options).unwrap();
    for n in 0..documents {
        let payload = if n < 100 {
            format!("payload {}", n % 7)
        } else {
            String::new()
        };
        builder.add(&document(n), payload.as_bytes()).unwrap();
    }
    builder.finish().unwrap();
    env.read_all(Path::new(PATH)).unwrap()
}

fn leaves() -> Vec<Leaf> {
    let range = |lower: Value| {
        Test::Range(TermRange {
            lower: Bound::Included(lower.term().into()),
            upper: Bound::Excluded(Box::from([0x97])),
        })
    };
    let tests = [
        Test::Eq(3.into()),
        Test::Eq("value 7".into()),
        Test::In(vec![0.into(), 2.into(), "value 21".into()]),
        range(2.into()),
        Test::Exists,
    ];
    let of_field = |name| {
        let path = FieldPath::new(name);
        tests.iter().map(move |test| Leaf {
            path: path.clone(),
            test: test.clone(),
        })
    };
    ["n", "tags", "text", "unknown"]
        .into_iter()
        .flat_map(of_field)
        .collect()
}

/// Opens, verifies and queries the file: if verification finds no damage, it is what was written,
/// and the answers are right.
fn frozen(input: &[u8]) -> Way {
    let env = SimEnv::new(1);
    let bytes = of_input(input);
    place(&*env, PATH, bytes);
    let opened = FrozenFile::open(&*env, Path::new(PATH), OpenOptions::default());
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => return Way::of(&error.to_string()),
    };
    let inspected = opened
        .inspect()
        .map(|inspection| inspection.fields.len() as u64);
    let verified = opened.verify().map(|()| 1);
    let outcome = query(&opened);
    if !is_below_checksums(input) {
        let is_whole = files().iter().any(|whole| whole == bytes);
        assert_eq!(verified.is_ok(), is_whole, "{verified:?}");
        assert!(
            verified.is_err() || (outcome.is_ok() && inspected.is_ok()),
            "{outcome:?}"
        );
    }
    Way::of_result(&outcome)
        .and(Way::of_result(&verified))
        .and(Way::of_result(&inspected))
}

/// The number of documents that all queries match.
fn query(opened: &FrozenFile) -> quire_query::Result<u64> {
    let documents = opened.documents();
    if documents > DOCUMENTS_MAX {
        return Ok(0);
    }
    let leaves = leaves();
    let (mut found, mut failed) = (0u64, None);
    let mut note = |outcome: quire_query::Result<u64>| match outcome {
        Ok(count) => found = found.wrapping_add(count),
        Err(error) => failed = Some(error),
    };
    for leaf in &leaves {
        note(
            opened
                .matches(leaf, Found::default())
                .map(|docs| docs.len()),
        );
        note(opened.estimate(leaf).map(|estimate| estimate.at_least));
        for start in [opened.docs()?, (0..documents).step_by(7).collect()] {
            let mut docs = start;
            note(
                opened
                    .retain(leaf, Found::default(), &mut docs)
                    .map(|()| docs.len()),
            );
        }
        for other in &leaves {
            note(opened.count(&[leaf, other]).map(Option::unwrap_or_default));
        }
    }
    let docs: Vec<_> = (0..documents.min(READ_MAX)).collect();
    for name in FIELDS {
        let path = FieldPath::new(name);
        let read = || {
            let column = match opened.column(&path) {
                // A condition that only filters.
                Err(quire_query::Error::NotSortable { .. }) if name == "text" => return Ok(0),
                column => column?,
            };
            let Some(column) = column else {
                return Ok(0);
            };
            let (mut ends, mut ordinals, mut term) = (Vec::new(), Ordinals::default(), Vec::new());
            column.ends(&docs, End::Largest, &mut ends)?;
            column.ordinals(&docs, &mut ordinals)?;
            for ordinal in ends
                .iter()
                .filter(|ordinal| **ordinal < column.ordinal_end())
                .take(50)
            {
                term.clear();
                column.term(*ordinal, &mut term)?;
                column.ordinal_of(&term)?;
            }
            Ok(ordinals.ordinals.len() as u64)
        };
        note(
            opened
                .field(&path)
                .map(|info| info.map_or(0, |info| info.docs)),
        );
        note(read());
    }
    for doc in docs {
        note(
            opened
                .document(doc)
                .map(|document| u64::from(document.is_some())),
        );
        note(opened.payload(doc, &mut |_| ()).map(u64::from));
    }
    let queries = [
        find(field("n").gt(3).and(field("tags").eq(2))).order_by(field("n").descending()),
        find(Filter::All)
            .order_by(field("tags").ascending())
            .skip(2),
    ];
    for query in queries {
        let answer = query
            .limit(20)
            .prepare()?
            .answer(&[opened as &dyn Shard], &Options::default());
        note(answer.map(|_| 0));
    }
    failed.map_or(Ok(found), Err)
}
