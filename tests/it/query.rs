//! Queries over live collections, frozen copies of them, and frozen partitions, compared with
//! answers from the definition.

use quire_env::{Env, SimEnv};
use quire_frozen::{FieldSpec, FrozenBuilder, FrozenFile, FrozenOptions, OpenOptions};
use quire_query::testing::{Case, PATHS, naive};
use quire_query::{Access, Answer, ModelShard, Prepared, Query, Shard};
use quiredb::operations::{FIELDS_MAX, FreezeOptions, FrozenView, freeze, freeze_by_partition};
use quiredb::query::{Hit, Options, field, find, find_all};
use quiredb::{CollectionSettings, Database, Document, Key, View, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The documents of each partition, by docid.
type Partitions = Vec<Vec<(u32, Key, Document)>>;

/// Some documents are deleted, some rewritten, and memtables are flushed in between.
#[test]
fn a_live_collection_answers_as_the_definition_says() {
    for seed in 0..60 {
        let case = Case::from_seed(seed);
        let env = SimEnv::new(seed);
        let database = Database::builder("/db")
            .env(env)
            .options(Default::default())
            .open()
            .unwrap();
        let settings = CollectionSettings {
            partitions: 1 + seed as u32 % 3,
            ..CollectionSettings::default()
        };
        let collection = database.create_collection("c", settings).unwrap();
        let model = write(&collection, &case.documents, seed);
        let view = collection.view().unwrap();
        let frozen = freeze_both(&database, &view);
        let attach = |name, path| database.attach_frozen(name, Path::new(path)).unwrap();
        let attached = [attach("one", "/c.quire"), attach("many", "/c")];
        let beside = [view.clone(), attached[1].view()];
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
            right.each_faceted_hit(&mut |hit| {
                hit.doc = model[hit.shard as usize][hit.doc as usize].0;
            });
            let prepared = query.clone().prepare().unwrap();
            check_beside(&beside, &prepared, &both(&model, &parts, query), &case);
            let answer = view.query(&prepared, &Options::default()).unwrap();
            assert_eq!(answer, right, "seed {seed}: {case}");
            let live = view.documents(&answer.hits).unwrap();
            for attached in &attached {
                let view = attached.view();
                let answer = view.query(&prepared, &Options::default()).unwrap();
                let found = view.documents(&answer.hits).unwrap();
                assert_eq!(found, live, "seed {seed}, attached: {case}");
            }
            let found = view.documents(&answer.hits).unwrap().into_iter();
            let found: Vec<_> = found.map(|found| (found.key, found.document)).collect();
            assert_eq!(found, shown);
            for frozen in &frozen {
                let mut answer = frozen.query(&prepared, &Options::default()).unwrap();
                let found = frozen.documents(&answer.hits).unwrap().into_iter();
                let found: Vec<_> = found
                    .map(|found| (found.origin.unwrap().key, found.document))
                    .collect();
                assert_eq!(found, shown, "seed {seed}, frozen: {case}");
                answer.hits.clone_from(&right.hits);
                // A file numbers its documents anew.
                let mut right = right.clone();
                for answer in [&mut answer, &mut right] {
                    answer.each_faceted_hit(&mut |hit| *hit = Hit { shard: 0, doc: 0 });
                }
                assert_eq!(answer, right, "seed {seed}, frozen: {case}");
            }
        }
    }
}

/// What a collection answers together with frozen files of its partitions, from the definition.
fn both(model: &Partitions, parts: &[&[Document]], query: &Query) -> Answer {
    let mut right = naive::answer(&[parts, parts].concat(), query);
    // A file numbers its documents anew.
    let number = |hit: &mut Hit| {
        if let Some(partition) = model.get(hit.shard as usize) {
            hit.doc = partition[hit.doc as usize].0;
        }
    };
    right.hits.iter_mut().for_each(number);
    right.each_faceted_hit(&mut |hit| number(hit));
    right
}

/// By indexes, and by reading all documents.
fn check_beside(views: &[View], query: &Prepared, right: &Answer, case: &Case) {
    for access in [None, Some(Access::Scan)] {
        let options = Options {
            access,
            ..Options::default()
        };
        let answer = View::query_all(views, query, &options).unwrap();
        assert_eq!(answer, *right, "{access:?}: {case}");
    }
}

/// A view frozen into one file, and into one for each partition, with all its fields.
fn freeze_both(database: &Database, view: &View) -> [FrozenView; 2] {
    let (file, dir) = (Path::new("/c.quire"), Path::new("/c"));
    let options = FreezeOptions::default();
    let one = freeze(view, file, &options, &mut |_| {}).unwrap();
    let many = freeze_by_partition(view, dir, &options, &mut |_| {}).unwrap();
    assert_eq!(
        (one.documents, many.documents),
        (view.count(), view.count())
    );
    assert_eq!(many.files.len(), view.positions().len());
    [file, dir].map(|path| FrozenView::open(database.env(), path).unwrap())
}

/// Writes documents, and returns those that are there at the end.
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
        for result in collection.batch().writes(writes).write() {
            result.unwrap();
        }
        if step == 4 {
            collection.flush().unwrap();
        }
    }
    model
}

#[test]
fn a_frozen_document_keeps_its_key_and_version_and_is_found_by_the_key() {
    let env = SimEnv::new(1);
    let database = Database::builder("/db")
        .env(env)
        .options(Default::default())
        .open()
        .unwrap();
    let collection = database
        .create_collection("c", CollectionSettings::default())
        .unwrap();
    for (key, json) in [
        ("1", "{}"),
        ("a", r#"{"_id":"a","n":1}"#),
        ("b", r#"{"n":2}"#),
    ] {
        let document = Document::from_json(json.as_bytes()).unwrap();
        collection
            .put_at(&Key::parse(key).unwrap(), &document)
            .unwrap();
    }
    let view = collection.view().unwrap();
    collection.delete(&Key::parse("b").unwrap()).unwrap();
    for frozen in freeze_both(&database, &view) {
        for (id, key) in [("1", "1"), ("a", "a"), ("b", "b")] {
            let query = find(field("_id").eq(id)).prepare().unwrap();
            let hits = frozen.query(&query, &Options::default()).unwrap().hits;
            let found = frozen.documents(&hits).unwrap();
            let expected = view.get(&Key::parse(key).unwrap()).unwrap().unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].document, expected.document);
            let origin = found[0].origin.clone().unwrap();
            assert_eq!(
                (origin.key, origin.version, origin.partition),
                (expected.key, expected.version, expected.partition)
            );
        }
    }
}

/// A database with a collection `c` of these documents, frozen into `/c.quire` with these fields.
fn frozen_cars(documents: &[(&str, &str)], fields: Option<Vec<FieldSpec>>) -> Database {
    let database = Database::builder("/db")
        .env(SimEnv::new(1))
        .options(Default::default())
        .open()
        .unwrap();
    let cars = database
        .create_collection("c", CollectionSettings::default())
        .unwrap();
    for (key, json) in documents {
        let document = Document::from_json(json.as_bytes()).unwrap();
        cars.put_at(&Key::parse(key).unwrap(), &document).unwrap();
    }
    let options = FreezeOptions {
        fields,
        ..FreezeOptions::default()
    };
    let (view, path) = (cars.view().unwrap(), Path::new("/c.quire"));
    freeze(&view, path, &options, &mut |_| {}).unwrap();
    database
}

#[test]
fn an_attached_file_gives_documents_by_key_and_is_not_written() {
    use quiredb::{Alias, AliasChange, ErrorKind};
    let cars = [
        ("1", "{}"),
        ("a", r#"{"_id":"a","n":1}"#),
        ("b", r#"{"n":2}"#),
    ];
    let database = frozen_cars(&cars, None);
    let live = database.collection("c").unwrap().view().unwrap();
    let old = database
        .attach_frozen("old", Path::new("/c.quire"))
        .unwrap();
    let keys = ["1", "a", "b", "x"].map(|key| Key::parse(key).unwrap());
    let view = old.view();
    for key in &keys {
        assert_eq!(view.get(key).unwrap(), live.get(key).unwrap());
    }
    assert_eq!(view.get_many(&keys).unwrap(), live.get_many(&keys).unwrap());
    assert_eq!((view.count(), view.collection_name()), (3, "old"));
    let fields = view
        .fields(&mut |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    let paths: Vec<&str> = fields.fields.iter().map(|field| &*field.path).collect();
    assert_eq!(paths, ["_id", "n"]);

    let kind = |error: quiredb::Error| {
        assert!(error.to_string().contains("old is frozen: "), "{error}");
        error.kind()
    };
    let settings = CollectionSettings::default;
    let alias = |collection: &str, alias: &str| AliasChange::Add {
        collection: collection.into(),
        alias: alias.into(),
        options: Alias::default(),
    };
    for error in [
        database.collection("old").unwrap_err(),
        database.collection_for_writes("old").unwrap_err(),
        database.create_collection("old", settings()).unwrap_err(),
        database.collection_or_create("old", settings).unwrap_err(),
        database.drop_collection("old").unwrap_err(),
        database.change_settings("old", settings()).unwrap_err(),
        database.change_aliases(&[alias("c", "old")]).unwrap_err(),
        database.change_aliases(&[alias("old", "d")]).unwrap_err(),
    ] {
        assert_eq!(kind(error), ErrorKind::Invalid);
    }
    database.change_aliases(&[alias("c", "d")]).unwrap();
    let attach = |name: &str, path: &str| {
        let attached = database.attach_frozen(name, Path::new(path));
        attached.unwrap_err().kind()
    };
    assert_eq!(attach("old", "/c.quire"), ErrorKind::AlreadyExists);
    assert_eq!(attach("c", "/c.quire"), ErrorKind::AlreadyExists);
    assert_eq!(attach("d", "/c.quire"), ErrorKind::Invalid);
    assert_eq!(attach("a b", "/c.quire"), ErrorKind::Invalid);
    assert_eq!(attach("e", "/none"), ErrorKind::NotFound);
    assert_eq!(attach("e", "/db"), ErrorKind::Invalid);
    let names = database.frozen_collections();
    let names: Vec<&str> = names.iter().map(|one| one.name()).collect();
    assert_eq!(
        (names, database.collections()),
        (vec!["old"], vec!["c".into()])
    );
}

#[test]
fn an_attached_file_whose_field_was_frozen_for_another_use_reads_documents() {
    let cars = [("a", r#"{"n":2,"m":1}"#), ("b", r#"{"n":1,"m":2}"#)];
    let fields = vec![FieldSpec::filterable("n"), FieldSpec::sortable("m")];
    let database = frozen_cars(&cars, Some(fields));
    let old = database
        .attach_frozen("old", Path::new("/c.quire"))
        .unwrap();
    let views = [
        old.view(),
        database.collection("c").unwrap().view().unwrap(),
    ];
    for query in [
        find(field("m").eq(2)),
        find_all().order_by(field("n").ascending()),
    ] {
        let query = query.prepare().unwrap();
        let keys = |views: &[View]| -> Vec<String> {
            let hits = View::query_all(views, &query, &Options::default())
                .unwrap()
                .hits;
            let found = View::documents_of(views, &hits).unwrap().into_iter();
            found.map(|found| found.key.to_string()).collect()
        };
        let live = keys(&views[1..]);
        assert_eq!(live[0], "b");
        assert_eq!(keys(&views[..1]), live);
        let both: Vec<&String> = live.iter().flat_map(|key| [key, key]).collect();
        assert_eq!(keys(&views).iter().collect::<Vec<_>>(), both);
    }
}

#[test]
fn a_refresh_opens_what_is_new_and_views_keep_what_they_have() {
    let database = frozen_cars(&[("a", r#"{"n":1}"#)], None);
    let cars = database.collection("c").unwrap();
    let freeze = |path: &str| {
        let (view, options) = (cars.view().unwrap(), FreezeOptions::default());
        freeze(&view, Path::new(path), &options, &mut |_| {}).unwrap();
    };
    let put = |key: &str, json: &str| {
        let document = Document::from_json(json.as_bytes()).unwrap();
        cars.put_at(&Key::parse(key).unwrap(), &document).unwrap();
    };
    database.env().create_dir_all(Path::new("/days")).unwrap();
    freeze("/days/1.quire");
    let file = database
        .attach_frozen("file", Path::new("/c.quire"))
        .unwrap();
    let days = database.attach_frozen("days", Path::new("/days")).unwrap();
    let before = [file.view(), days.view()];
    put("a", r#"{"n":2}"#);
    put("b", "{}");
    freeze("/c.quire");
    freeze("/days/2.quire");
    assert_eq!([file.count(), days.count()], [1, 1]);
    assert_eq!(file.refresh().unwrap().opened, ["/c.quire"]);
    assert_eq!(days.refresh().unwrap().opened, ["2.quire"]);
    assert!(file.refresh().unwrap().opened.is_empty());
    assert_eq!([file.count(), days.count()], [2, 3]);
    assert_eq!(before.each_ref().map(View::count), [1, 1]);
    // Both files of the folder have it.
    let newest = days.view().get(&Key::parse("a").unwrap()).unwrap().unwrap();
    assert_eq!(newest.document.to_json(), r#"{"n":2}"#);

    let env = database.env();
    env.remove(Path::new("/c.quire")).unwrap();
    env.remove(Path::new("/days/1.quire")).unwrap();
    assert!(file.refresh().is_err());
    assert_eq!(days.refresh().unwrap().dropped, ["1.quire"]);
    assert_eq!([file.count(), days.count()], [2, 2]);
}

#[test]
fn what_can_not_be_frozen_or_opened_is_an_error_and_leaves_nothing() {
    use quiredb::ErrorKind;
    let env = SimEnv::new(1);
    let database = Database::builder("/db")
        .env(Arc::<SimEnv>::clone(&env))
        .options(Default::default())
        .open()
        .unwrap();
    let collection = database
        .create_collection("c", CollectionSettings::default())
        .unwrap();
    let fields: Vec<String> = (0..FIELDS_MAX).map(|n| format!("\"f{n}\":{n}")).collect();
    let wide = format!("{{{}}}", fields.join(","));
    let wide = Document::from_json(wide.as_bytes()).unwrap();
    collection.put_at(&Key::from(1), &wide).unwrap();
    let view = collection.view().unwrap();
    let all = FreezeOptions::default();
    let named = |path: &str| FreezeOptions {
        fields: Some(vec![FieldSpec::sortable(path)]),
        ..FreezeOptions::default()
    };
    let (file, dir, db) = (Path::new("/c.quire"), Path::new("/c"), Path::new("/db"));
    let kind = |outcome: quiredb::Result<_>| outcome.unwrap_err().kind();
    assert_eq!(
        kind(freeze(&view, file, &all, &mut |_| {})),
        ErrorKind::TooLarge
    );
    assert_eq!(
        kind(freeze_by_partition(&view, dir, &named("a..b"), &mut |_| {})),
        ErrorKind::Invalid
    );
    assert_eq!(
        kind(freeze(&view, db, &named("f1"), &mut |_| {})),
        ErrorKind::Invalid
    );
    assert_eq!(
        kind(freeze_by_partition(&view, db, &named("f1"), &mut |_| {})),
        ErrorKind::Invalid
    );
    assert_eq!(env.list(Path::new("/")).unwrap(), ["db"]);

    let open = |path: &Path| FrozenView::open(database.env(), path);
    let kind = |path: &Path| open(path).unwrap_err().kind();
    assert_eq!(kind(file), ErrorKind::NotFound);
    assert_eq!(kind(db), ErrorKind::Invalid);
    assert_eq!(kind(&db.join("CATALOG")), ErrorKind::Invalid);
    let report = freeze(&view, file, &named("f1"), &mut |_| {}).unwrap();
    assert_eq!(report.documents, 1);
    let frozen = open(file).unwrap();
    let query = |name: &str| find(field(name).eq(1));
    let outcome = frozen.query(&query("f1").prepare().unwrap(), &Options::default());
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Invalid);
    let nothing = frozen.query(&query("f2").prepare().unwrap(), &Options::default());
    assert_eq!(nothing.unwrap().hits, []);
    for hit in [Hit { shard: 1, doc: 0 }, Hit { shard: 0, doc: 1 }] {
        assert_eq!(
            frozen.documents(&[hit]).unwrap_err().kind(),
            ErrorKind::Invalid
        );
    }
}

#[test]
fn queries_that_can_not_be_answered_are_errors_and_hits_of_elsewhere_too() {
    use quiredb::ErrorKind;
    let database = Database::builder("/db")
        .env(SimEnv::new(1))
        .options(Default::default())
        .open()
        .unwrap();
    let collection = database
        .create_collection("c", CollectionSettings::default())
        .unwrap();
    for number in 0..2_000 {
        let json = format!(r#"{{"n":{number}}}"#);
        let document = Document::from_json(json.as_bytes()).unwrap();
        collection.put_at(&Key::from(number), &document).unwrap();
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
        collection.put_at(&Key::from(number), &large).unwrap();
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

/// From one file, from many, and from many beside a model; explained and not.
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
