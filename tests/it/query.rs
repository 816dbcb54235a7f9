//! Queries over live collections and frozen partitions, against answers by definition.

use quire_env::{Env, SimEnv};
use quire_frozen::{FieldSpec, FrozenBuilder, FrozenFile, FrozenOptions, OpenOptions};
use quire_query::testing::{Case, PATHS, naive};
use quire_query::{ModelShard, Shard};
use quiredb::query::{Hit, Options};
use quiredb::{CollectionSettings, Database, Document, Key, Volumes, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The documents of each partition, by docid.
type Partitions = Vec<Vec<(u32, Key, Document)>>;

/// Some documents are deleted, some written again, and tables are written out on the way.
#[test]
fn a_live_collection_answers_as_the_definition_says() {
    for seed in 0..60 {
        let case = Case::from_seed(seed);
        let env = SimEnv::new(seed);
        let database =
            Database::open_with(env, Volumes::single("/db"), Default::default()).unwrap();
        let settings = CollectionSettings {
            partitions: 1 + seed as u32 % 3,
            ..CollectionSettings::default()
        };
        let collection = database.create_collection("c", settings).unwrap();
        let model = write(&collection, &case.documents, seed);
        let view = collection.view().unwrap();
        let documents = |part: &Vec<(u32, Key, Document)>| -> Vec<Document> {
            part.iter().map(|(.., document)| document.clone()).collect()
        };
        let parts: Vec<Vec<Document>> = model.iter().map(documents).collect();
        let parts: Vec<&[Document]> = parts.iter().map(Vec::as_slice).collect();
        for query in &case.queries {
            let mut right = naive::answer(&parts, query);
            let mut shown = Vec::new();
            for hit in &mut right.hits {
                let (docid, key, document) = &model[hit.shard as usize][hit.doc as usize];
                *hit = Hit {
                    doc: *docid,
                    ..*hit
                };
                shown.push((key.clone(), document.clone()));
            }
            let prepared = query.clone().prepare().unwrap();
            let answer = view.query(&prepared, &Options::default()).unwrap();
            assert_eq!(answer, right, "seed {seed}: {case}");
            let found = view.documents(&answer.hits).unwrap().into_iter();
            let found: Vec<_> = found.map(|found| (found.key, found.document)).collect();
            assert_eq!(found, shown);
        }
    }
}

/// Writes documents, and gives those that are there in the end.
fn write(collection: &quiredb::Collection, documents: &[Document], seed: u64) -> Partitions {
    let partitions = collection.settings().partitions as usize;
    let mut model: Partitions = vec![Vec::new(); partitions];
    let mut docids = vec![0; partitions];
    for (number, document) in (0_u64..).zip(documents) {
        let key = Key::from(number);
        let partition = collection.partition_of(&key) as usize;
        let mut writes = vec![Write::put(key.clone(), document.clone())];
        let step = (number * number + seed) % 12;
        if step < 3 {
            let other = Document::from_json(b"{}").unwrap();
            writes.insert(0, Write::put(key.clone(), other));
        }
        if step == 3 {
            writes.push(Write::delete(key));
        } else {
            model[partition].push((docids[partition], key, document.clone()));
        }
        docids[partition] += 1;
        for result in collection.write_batch(writes, None) {
            result.unwrap();
        }
        if step == 4 {
            collection.flush().unwrap();
        }
    }
    model
}

#[test]
fn queries_that_can_not_be_answered_are_errors_and_hits_of_elsewhere_too() {
    use quiredb::ErrorKind;
    use quiredb::query::{field, find, find_all};
    let database =
        Database::open_with(SimEnv::new(1), Volumes::single("/db"), Default::default()).unwrap();
    let collection = database
        .create_collection("c", CollectionSettings::default())
        .unwrap();
    for number in 0..2_000 {
        let json = format!(r#"{{"n":{number}}}"#);
        let document = Document::from_json(json.as_bytes()).unwrap();
        collection.put(&Key::from(number), &document).unwrap();
    }
    let refused = collection.query(find(field("a..b").eq(1))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let view = collection.view().unwrap();
    let little = Options {
        memory_bytes_max: 4_000,
        ..Options::default()
    };
    for query in [find_all(), find_all().order_by(field("n").descending())] {
        let error = view.query(&query.prepare().unwrap(), &little).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    }
    let page = find_all().skip(1_500).limit(100).prepare().unwrap();
    assert_eq!(view.query(&page, &little).unwrap().hits.len(), 100);
    let large = format!(r#"{{"large":"{}"}}"#, "x".repeat(1 << 20));
    let large = Document::from_json(large.as_bytes()).unwrap();
    for number in 0..70 {
        collection.put(&Key::from(number), &large).unwrap();
    }
    let all = find(field("large").exists());
    let error = collection.query(all.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    let page = collection.query(all.limit(50).with_count()).unwrap();
    assert_eq!((page.documents.len(), page.count), (50, Some(70)));
    let stopped = Options {
        stop: Some(&|| true),
        ..Options::default()
    };
    let all = find_all().prepare().unwrap();
    let error = view.query(&all, &stopped).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    let elsewhere = Hit {
        shard: 1_000,
        doc: 0,
    };
    assert_eq!(
        view.documents(&[elsewhere]).unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

/// Documents in a file of their own, all fields indexed.
fn frozen(env: &Arc<dyn Env>, path: &Path, documents: &[Document]) -> FrozenFile {
    let fields = PATHS.map(FieldSpec::full);
    let options = FrozenOptions::default();
    let mut builder = FrozenBuilder::create(env.clone(), path, &fields, options).unwrap();
    for document in documents {
        builder.add(document, b"").unwrap();
    }
    builder.finish().unwrap();
    FrozenFile::open(&**env, path, OpenOptions::default()).unwrap()
}

/// In one file, in many, and in many beside a model; explained and not.
#[test]
fn frozen_partitions_answer_as_the_definition_says() {
    for seed in 0..800 {
        let case = Case::from_seed(1_000 + seed);
        let env: Arc<dyn Env> = SimEnv::new(seed);
        env.create_dir_all(Path::new("/d")).unwrap();
        let parts = 1 + seed as usize % 5 * 2;
        let size = case.documents.len().div_ceil(parts).max(1);
        let documents: Vec<&[Document]> = case.documents.chunks(size).collect();
        let mut shards: Vec<Box<dyn Shard>> = Vec::new();
        for (number, part) in documents.iter().enumerate() {
            let path = format!("/d/{number}.quire");
            shards.push(match (seed + number as u64) % 4 {
                0 if parts > 1 => Box::new(part.iter().cloned().collect::<ModelShard>()),
                _ => Box::new(frozen(&env, Path::new(&path), part)),
            });
        }
        let shards: Vec<&dyn Shard> = shards.iter().map(|shard| &**shard).collect();
        let clock = || Duration::ZERO;
        for (number, query) in case.queries.iter().enumerate() {
            let options = Options {
                clock: if number % 3 == 0 { Some(&clock) } else { None },
                ..Options::default()
            };
            let mut answer = query
                .clone()
                .prepare()
                .unwrap()
                .answer(&shards, &options)
                .unwrap();
            answer.explain = None;
            let text = Case {
                queries: vec![query.clone()],
                ..case.clone()
            };
            assert_eq!(
                answer,
                naive::answer(&documents, query),
                "seed {seed} in {parts}:\n{text}"
            );
            for hit in &answer.hits {
                let document = shards[hit.shard as usize]
                    .document(hit.doc)
                    .unwrap()
                    .unwrap();
                assert_eq!(document, documents[hit.shard as usize][hit.doc as usize]);
            }
        }
    }
}
