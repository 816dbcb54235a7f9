//! A frozen partition gives the same answers as a model that reads every document.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use quire_env::{Env, SimEnv};
use quire_index::DocSet;
use quire_model::Document;
use quire_model::ordered::Direction;
use quire_query::testing::{Case, PATHS, naive};
use quire_query::{
    End, Found, Leaf, ModelShard, NO_ORDINAL, Options, Ordinals, Path as FieldPath, Shard,
    TermRange, Test, Value,
};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

mod columns;
mod damage;
mod folder;
mod rows;
mod top;

const FILE: &str = "/d/p.quire";

/// Paths of the documents that are made here, and what each is indexed for; the last is of no
/// document.
fn fields() -> Vec<FieldSpec> {
    vec![
        FieldSpec::full("a"),
        FieldSpec::full("tags"),
        FieldSpec::full("o.x"),
        FieldSpec::filterable("f"),
        FieldSpec::sortable("s"),
        FieldSpec::full("id"),
        FieldSpec::full("nothing"),
    ]
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (-3i64..6).prop_map(|number| number.to_string()),
        1 => (-3i64..6).prop_map(|number| format!("{number}.0")),
        1 => (-9i64..9).prop_map(|number| format!("{}", number as f64 / 4.0)),
        1 => Just("18446744073709551615".to_string()),
        1 => Just("null".to_string()),
        1 => any::<bool>().prop_map(|truth| truth.to_string()),
        3 => "[a-c]{0,3}".prop_map(|text| format!("{text:?}")),
        1 => Just(format!("{:?}", "long ".repeat(20))),
    ]
}

fn document() -> impl Strategy<Value = String> {
    let tags = prop_oneof![
        vec(scalar(), 0..4).prop_map(|tags| format!("[{}]", tags.join(","))),
        scalar(),
        vec(0u32..40, 17..40).prop_map(|tags| format!("{tags:?}")),
    ];
    let maybe = |name: &'static str, value: BoxedStrategy<String>| {
        proptest::option::weighted(0.8, value)
            .prop_map(move |value| Some(format!("{name:?}:{}", value?)))
    };
    let object = scalar().prop_map(|x| format!(r#"[{{"x":{x}}},{{"y":1}},[{{"x":[2,{x}]}}]]"#));
    let number = (0u32..100_000).prop_map(|number| number.to_string());
    (
        maybe("a", scalar().boxed()),
        maybe("tags", tags.boxed()),
        maybe("o", object.boxed()),
        maybe("f", scalar().boxed()),
        maybe("s", scalar().boxed()),
        maybe("id", number.boxed()),
    )
        .prop_map(|(a, tags, o, f, s, id)| {
            let fields: Vec<_> = [a, tags, o, f, s, id].into_iter().flatten().collect();
            format!("{{{}}}", fields.join(","))
        })
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_map(|text| {
        let document = Document::from_json(format!(r#"{{"v":{text}}}"#).as_bytes()).unwrap();
        Value::from_document(document.get("v").unwrap()).unwrap()
    })
}

fn test() -> impl Strategy<Value = Test> {
    let bound = |value: Value, kind: u8| match kind % 3 {
        0 => Bound::Included(Box::from(value.term())),
        1 => Bound::Excluded(Box::from(value.term())),
        // A prefix of a term.
        _ => Bound::Included(Box::from(&value.term()[..1])),
    };
    let range = (value(), value(), any::<[u8; 2]>()).prop_map(move |(a, b, kinds)| {
        let (a, b) = if a < b { (a, b) } else { (b, a) };
        Test::Range(TermRange {
            lower: bound(a, kinds[0]),
            upper: bound(b, kinds[1]),
        })
    });
    let many = vec(value(), 2..9).prop_map(|mut values| {
        values.sort();
        values.dedup();
        match values.as_slice() {
            [one] => Test::Eq(one.clone()),
            _ => Test::In(values),
        }
    });
    prop_oneof![value().prop_map(Test::Eq), many, range, Just(Test::Exists)]
}

fn leaf() -> impl Strategy<Value = Leaf> {
    let path = prop_oneof![
        Just("a"),
        Just("tags"),
        Just("o.x"),
        Just("f"),
        Just("id"),
        Just("nothing"),
        Just("unknown")
    ];
    (path, test()).prop_map(|(path, test)| Leaf {
        path: FieldPath::new(path),
        test,
    })
}

fn codec() -> impl Strategy<Value = Codec> {
    let zstd = |dictionary_bytes| Codec::Zstd {
        level: 1,
        dictionary_bytes,
    };
    prop_oneof![
        Just(Codec::None),
        Just(Codec::Lz4),
        Just(zstd(0)),
        Just(zstd(256))
    ]
}

fn options(codec: Codec, block_bytes: usize) -> FrozenOptions {
    FrozenOptions {
        codec,
        block_bytes: Some(block_bytes),
        ..FrozenOptions::default()
    }
}

/// The file of some documents, gathered in runs of `run` documents; a payload is the docid, and
/// nothing for each third document.
fn freeze(
    env: &Arc<SimEnv>,
    documents: &[Document],
    run: usize,
    options: FrozenOptions,
) -> Result<u64> {
    let env: Arc<dyn Env> = Arc::<SimEnv>::clone(env);
    env.create_dir_all(Path::new("/d"))?;
    let mut builder = FrozenBuilder::create(env, Path::new(FILE), &fields(), options)?;
    builder.forward_max = forward_max(documents.len());
    builder.stored_first = stored_first(documents.len());
    if documents.len().is_multiple_of(2) {
        builder.run_bytes = builder.spools.with_memory(0).spool();
    }
    for (place, document) in documents.iter().enumerate() {
        builder.add(document, payload(place).as_bytes())?;
        if (place + 1) % run == 0 {
            builder.end_run()?;
        }
    }
    builder.finish()
}

/// Files of all sizes leave documents to the columns.
fn stored_first(documents: usize) -> u32 {
    if documents.is_multiple_of(3) { 0 } else { 4 }
}

/// Half of all files are built as if they were large.
fn forward_max(documents: usize) -> u32 {
    if documents.is_multiple_of(2) { 0 } else { 4096 }
}

fn payload(docid: usize) -> String {
    match docid % 3 {
        0 => String::new(),
        _ => format!("payload of {docid}"),
    }
}

fn open(env: &SimEnv, access: Access) -> Result<FrozenFile> {
    FrozenFile::open(
        env,
        Path::new(FILE),
        OpenOptions {
            access,
            verify: false,
        },
    )
}

/// All that a shard says of a field, as text: its values by document, too.
fn column_of(shard: &dyn Shard, path: &str) -> quire_query::Result<Vec<String>> {
    let column = shard.column(&FieldPath::new(path))?.unwrap();
    let docs: Vec<_> = (0..shard.doc_end()).collect();
    let mut out = Vec::new();
    let term = |ordinal: u64| {
        let mut term = Vec::new();
        if ordinal != NO_ORDINAL {
            assert!(ordinal < column.ordinal_end());
            column.term(ordinal, &mut term)?;
            assert_eq!(column.ordinal_of(&term)?, ordinal);
        }
        Ok::<_, quire_query::Error>(format!("{:?}", Value::from_term(&term)))
    };
    for docs in docs.chunks(7) {
        let (mut smallest, mut largest, mut ordinals) =
            (Vec::new(), Vec::new(), Ordinals::default());
        column.ends(docs, End::Smallest, &mut smallest)?;
        column.ends(docs, End::Largest, &mut largest)?;
        column.ordinals(docs, &mut ordinals)?;
        let odd: Vec<_> = docs.iter().copied().filter(|doc| doc % 2 == 1).collect();
        let mut of_odd = Vec::new();
        column.ends(&odd, End::Largest, &mut of_odd)?;
        assert!(
            of_odd.iter().eq(docs
                .iter()
                .zip(&largest)
                .filter(|(doc, _)| *doc % 2 == 1)
                .map(|(_, ordinal)| ordinal))
        );
        for ((low, high), all) in smallest.iter().zip(&largest).zip(ordinals.iter()) {
            let all = all
                .iter()
                .map(|ordinal| term(*ordinal))
                .collect::<quire_query::Result<Vec<_>>>()?;
            out.push(format!("{} {} {all:?}", term(*low)?, term(*high)?));
        }
    }
    Ok(out)
}

/// Compares a frozen partition with a model; the first difference fails, whatever is
/// damaged is an error.
fn compare(
    frozen: &FrozenFile,
    model: &ModelShard,
    leaves: &[Leaf],
    some: &DocSet,
) -> quire_query::Result<()> {
    let docs = model.doc_end();
    assert_eq!(
        (frozen.doc_end(), frozen.doc_count()?, frozen.docs()?),
        (docs, docs.into(), DocSet::full(docs))
    );
    for field in fields() {
        let path = FieldPath::new(&field.path);
        let (found, expected) = (frozen.field(&path)?, model.field(&path)?);
        assert_eq!(found.is_some(), expected.is_some());
        if let Some((found, expected)) = found.zip(expected) {
            assert_eq!(
                (found.filterable, found.sortable),
                (field.filterable, field.sortable)
            );
            assert_eq!(
                (found.many, found.docs, found.distinct),
                (expected.many, expected.docs, expected.distinct)
            );
            let (range, within) = (found.range.unwrap(), expected.range.unwrap());
            assert!(
                range.0 <= within.0
                    && range.1 >= within.1
                    && range.0.len() <= 32
                    && range.1.len() <= 32
            );
            for direction in [Direction::Ascending, Direction::Descending] {
                let path = quire_query::field(path.as_str());
                let order = match direction {
                    Direction::Ascending => path.ascending(),
                    Direction::Descending => path.descending(),
                };
                for wanted in [1, 3, u64::from(docs)] {
                    if let Some(first) = frozen.first(&order, wanted)? {
                        // With many values of a document they may be fewer.
                        let wanted = if expected.many { first.len() } else { wanted };
                        assert_eq!(Some(first), model.first(&order, wanted)?, "{order:?}");
                    }
                }
            }
            if field.sortable {
                assert_eq!(
                    column_of(frozen, &field.path)?,
                    column_of(model, &field.path)?
                );
            } else {
                match frozen.column(&path).map(|_| ()) {
                    Err(quire_query::Error::NotSortable { path }) => assert_eq!(path, field.path),
                    damaged => panic!("{path} is no column: {:?}", damaged?),
                }
            }
        }
    }
    let mut all = DocSet::full(docs);
    for leaf in leaves {
        let expected = model.matches(leaf, Found::default())?;
        assert_eq!(frozen.matches(leaf, Found::default())?, expected, "{leaf}");
        let estimate = frozen.estimate(leaf)?;
        assert_eq!(frozen.matches(leaf, estimate.found)?, expected, "{leaf}");
        assert!(
            (estimate.at_least..=estimate.at_most).contains(&expected.len()),
            "{leaf}: {estimate:?}"
        );
        if let Some(count) = frozen.count(&[leaf])? {
            assert_eq!(count, expected.len(), "{leaf}");
        }
        for start in [some.clone(), DocSet::full(docs), all.clone()] {
            let mut kept = start.clone();
            frozen.retain(leaf, estimate.found, &mut kept)?;
            assert_eq!(kept, &start & &expected, "{leaf}");
        }
        all &= &expected;
    }
    let together: Vec<_> = leaves.iter().collect();
    if let Some(count) = frozen.count(&together)? {
        assert_eq!(count, all.len(), "{leaves:?}");
    }
    for docid in 0..docs + 1 {
        assert_eq!(frozen.document(docid)?, model.document(docid)?);
        let mut found = String::new();
        let shown = frozen.payload(docid, &mut |bytes| {
            found = String::from_utf8_lossy(bytes).into_owned()
        })?;
        let expected = if docid < docs {
            payload(docid as usize)
        } else {
            String::new()
        };
        assert_eq!((shown, &found), (!expected.is_empty(), &expected));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn it_answers_as_the_model_does(
        documents in vec(document(), 0..120),
        leaves in vec(leaf(), 1..12),
        codec in codec(),
        run in 1usize..150,
        some in vec(0u32..120, 0..60),
        map: bool,
        block_bytes in prop_oneof![Just(1usize), Just(300), Just(4096)],
    ) {
        let documents: Vec<_> = documents
            .iter()
            .map(|json| Document::from_json(json.as_bytes()).unwrap())
            .collect();
        let env = SimEnv::new(1);
        let length = freeze(&env, &documents, run, options(codec, block_bytes)).unwrap();
        prop_assert_eq!(env.files(), [Path::new(FILE)], "no temporary file is left");
        prop_assert_eq!(env.read_all(Path::new(FILE)).unwrap().len() as u64, length);
        let frozen = open(&env, if map { Access::Map } else { Access::Read }).unwrap();
        frozen.verify().unwrap();
        let some: DocSet = some
            .into_iter()
            .filter(|docid| (*docid as usize) < documents.len())
            .collect();
        let model: ModelShard = documents.iter().cloned().collect();
        compare(&frozen, &model, &leaves, &some).unwrap();
        let inspection = frozen.inspect().unwrap();
        prop_assert_eq!(
            (inspection.file_bytes, inspection.fields.len()),
            (length, fields().len())
        );
    }
}

/// A file of a part of a case's documents, all fields of which are indexed.
fn freeze_part(env: &Arc<SimEnv>, number: usize, documents: &[Document]) -> FrozenFile {
    let machine: Arc<dyn Env> = Arc::<SimEnv>::clone(env);
    let path = format!("/{number}.quire");
    let fields = PATHS.map(FieldSpec::full);
    let options = options(Codec::None, 100);
    let mut builder = FrozenBuilder::create(machine, Path::new(&path), &fields, options).unwrap();
    builder.forward_max = forward_max(number);
    for document in documents {
        builder.add(document, b"").unwrap();
    }
    builder.finish().unwrap();
    FrozenFile::open(&**env, Path::new(&path), OpenOptions::default()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test] // some 1,800 queries
    fn queries_of_one_file_and_of_many_are_answered_as_the_definition_says(
        seed: u64,
        size in 1usize..40,
    ) {
        let case = Case::from_seed(seed);
        let env = SimEnv::new(1);
        let parts: Vec<_> = case.documents.chunks(size).collect();
        let files: Vec<_> = parts
            .iter()
            .enumerate()
            .map(|(number, part)| freeze_part(&env, number, part))
            .collect();
        let shards: Vec<_> = files.iter().map(|file| file as &dyn Shard).collect();
        for query in &case.queries {
            let found = query
                .clone()
                .prepare()
                .unwrap()
                .answer(&shards, &Options::default())
                .unwrap();
            prop_assert_eq!(found, naive::answer(&parts, query), "{}", case);
        }
    }
}

/// Values by docid that make every encoding: few values, many, one for each, sorted, missing.
fn large_document(docid: u32) -> Document {
    let random = u64::from(docid).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    let tags: Vec<_> = (0..docid % 3)
        .map(|tag| random % 50 + u64::from(tag))
        .collect();
    let f = if random.is_multiple_of(997) {
        "rare"
    } else {
        "usual"
    };
    let rest = format!(r#""f":"{f}","id":"{random:08}-{docid}""#);
    let json = format!(
        r#"{{"a":{},"tags":{tags:?},"o":{{"x":"value {}"}},{rest},"s":{}}}"#,
        random % 8,
        random % 3000,
        docid / 1000,
    );
    Document::from_json(json.as_bytes()).unwrap()
}

#[test]
fn many_documents_in_little_memory_are_the_same_file_as_in_much_and_answer_as_the_model() {
    let documents: Vec<_> = (0..150_000).map(large_document).collect();
    let build = |memory_bytes| {
        let env = SimEnv::new(1);
        let options = FrozenOptions {
            memory_bytes,
            documents: false,
            ..FrozenOptions::default()
        };
        freeze(&env, &documents, usize::MAX, options).unwrap();
        env
    };
    let (little, much) = (build(8 << 20), build(1 << 30));
    let created = |env: &SimEnv| {
        env.trace()
            .iter()
            .filter(|line| line.contains("create"))
            .count()
    };
    assert!(
        created(&little) > created(&much) + 3,
        "there were temporary files"
    );
    assert_eq!(
        little.read_all(Path::new(FILE)).unwrap(),
        much.read_all(Path::new(FILE)).unwrap()
    );

    let frozen = open(&little, Access::Read).unwrap();
    frozen.verify().unwrap();
    let leaf = |path: &str, test: Test| Leaf {
        path: FieldPath::new(path),
        test,
    };
    let range = |lower: Value, upper: Value| {
        Test::Range(TermRange {
            lower: Bound::Included(lower.term().into()),
            upper: Bound::Excluded(upper.term().into()),
        })
    };
    let leaves = [
        leaf("a", Test::Eq(3.into())),
        leaf("a", range(2.into(), 7.into())),
        leaf("tags", range(10.into(), 40.into())),
        leaf("tags", Test::In(vec![3.into(), 4.into(), 17.into()])),
        leaf("o.x", Test::Eq("value 17".into())),
        leaf("o.x", range("value 17".into(), "value 18".into())),
        leaf("o.x", range("value 1".into(), "value 9".into())),
        leaf("f", Test::Eq("rare".into())),
        leaf("f", Test::Eq("usual".into())),
        leaf("id", range("00100000".into(), "00200000".into())),
        leaf("id", Test::Exists),
        leaf("tags", Test::Exists),
    ];
    let expected: Vec<DocSet> = leaves
        .iter()
        .map(|leaf| {
            let accepts = |(docid, document): (u32, &Document)| {
                let mut accepted = false;
                let _ = leaf.path.visit(document.root(), &mut |value| {
                    let mut term = Vec::new();
                    accepted |=
                        quire_index::term::encode(value, &mut term) && leaf.test.accepts(&term);
                    std::ops::ControlFlow::Continue(())
                });
                accepted.then_some(docid)
            };
            (0..).zip(&documents).filter_map(accepts).collect()
        })
        .collect();
    for (leaf, own) in leaves.iter().zip(&expected) {
        assert_eq!(
            &frozen.matches(leaf, Found::default()).unwrap(),
            own,
            "{leaf}"
        );
        let few: DocSet = (0..150_000).step_by(701).collect();
        for start in [few, DocSet::full(150_000)] {
            let mut kept = start.clone();
            frozen.retain(leaf, Found::default(), &mut kept).unwrap();
            assert_eq!(kept, &start & own, "{leaf}");
        }
        for (other, of_other) in leaves.iter().zip(&expected) {
            if let Some(count) = frozen.count(&[leaf, other]).unwrap() {
                assert_eq!(count, own.intersection_len(of_other), "{leaf} and {other}");
            }
        }
    }
    let inspection = frozen.inspect().unwrap();
    let field = |path: &str| {
        inspection
            .fields
            .iter()
            .find(|field| field.path == path)
            .unwrap()
    };
    assert!(field("s").blocks[2] > 0, "sorted values are runs");
    assert!(field("a").sets == 8 && field("id").sets == 0);
    assert!(inspection.document_rows.is_none() && inspection.payload_rows.is_some());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let env: Arc<dyn Env> = SimEnv::new(1);
    let create = |fields: &[FieldSpec], options| {
        FrozenBuilder::create(Arc::clone(&env), Path::new("/p"), fields, options)
    };
    let twice = [FieldSpec::full("a"), FieldSpec::sortable("a")];
    let refused = [
        create(&twice, FrozenOptions::default()),
        create(&[FieldSpec::full("a..b")], FrozenOptions::default()),
        create(
            &[],
            FrozenOptions {
                block_bytes: Some(0),
                ..FrozenOptions::default()
            },
        ),
        create(
            &[],
            FrozenOptions {
                memory_bytes: 0,
                ..FrozenOptions::default()
            },
        ),
        create(
            &[],
            options(
                Codec::Zstd {
                    level: 0,
                    dictionary_bytes: 0,
                },
                1,
            ),
        ),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let mut builder = create(&[], FrozenOptions::default()).unwrap();
    assert!(builder.set(0, quire_model::ValueRef::Int(1)).is_err());
    drop(builder);
    assert!(
        !env.exists(Path::new("/p.tmp")).unwrap(),
        "nothing is left of a build that was given up"
    );
}
