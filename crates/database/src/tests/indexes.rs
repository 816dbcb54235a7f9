//! Queries by search indexes, compared with answers from the definition: at any lag, while indexes
//! are added, changed and dropped, and after crashes.

use crate::{
    Collection, CollectionSettings, Database, DatabaseOptions, IndexedFields, Result, View,
};
use quire_collection::Write;
use quire_env::SimEnv;
use quire_model::{Document, Key, ValueRef};
use quire_query::testing::{Case, PATHS, naive};
use quire_query::{Access, Aggregate, Hit, Options, Path, Prepared, Query, Workers, field, find};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Numbers from a seed (Vigna's splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end.max(1) as u64) as usize
    }
}

/// What the documents are: of each partition, by docid.
#[derive(Debug, Clone, Default)]
struct Model {
    partitions: Vec<Vec<Option<Document>>>,
    places: BTreeMap<Key, (usize, usize)>,
}

impl Model {
    fn get(&self, key: &Key) -> Option<Document> {
        let (partition, docid) = self.places.get(key)?;
        self.partitions[*partition][*docid].clone()
    }

    fn put(&mut self, partition: usize, key: &Key, document: Document) {
        let docids = &mut self.partitions[partition];
        let (_, docid) = *self.places.entry(key.clone()).or_insert_with(|| {
            docids.push(None);
            (partition, docids.len() - 1)
        });
        docids[docid] = Some(document);
    }

    fn delete(&mut self, key: &Key) {
        if let Some((partition, docid)) = self.places.remove(key) {
            self.partitions[partition][docid] = None;
        }
    }

    /// The documents that a view has.
    fn of_view(view: &View) -> Model {
        let mut model = Model::default();
        for partition in view.partitions().unwrap() {
            let mut rows = partition.rows().unwrap();
            let mut docids = Vec::new();
            loop {
                let batch = rows.next_batch().unwrap();
                if batch.is_empty() {
                    break;
                }
                for (docid, found) in batch {
                    docids.resize(docid.0 as usize + 1, None);
                    docids[docid.0 as usize] = Some(with_key(&found.key, &found.document));
                }
            }
            model.partitions.push(docids);
        }
        model
    }

    /// Compares what a view says of fields with the documents.
    fn check_fields(&self, view: &View, what: &dyn Fn() -> String) {
        let mut right: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
        let documents = self.partitions.iter().flatten().flatten();
        for (number, document) in documents.enumerate() {
            Path::each_value_in(document.root(), &mut |path: &str, value| {
                // Numbers are compared by value.
                let text = match value {
                    ValueRef::Int(number) => number.to_string(),
                    ValueRef::UInt(number) => number.to_string(),
                    ValueRef::Float(number) => match number.value() {
                        whole if whole as i64 as f64 == whole && whole < 1e18 => {
                            (whole as i64).to_string()
                        }
                        number => number.to_string(),
                    },
                    value => format!("{value:?}"),
                };
                let of_path = right.entry(path.to_string()).or_default();
                of_path.push((number, text));
            });
        }
        let found = view.fields(&mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(found.documents, view.count());
        let paths: Vec<&String> = found.fields.iter().map(|field| &field.path).collect();
        assert_eq!(paths, right.keys().collect::<Vec<_>>(), "{}", what());
        for (field, pairs) in found.fields.iter().zip(right.values()) {
            let pairs: BTreeSet<_> = pairs.iter().collect();
            let documents: BTreeSet<usize> = pairs.iter().map(|(number, _)| *number).collect();
            let values: BTreeSet<&str> = pairs.iter().map(|(_, value)| value.as_str()).collect();
            assert_eq!(
                field.documents,
                documents.len() as u64,
                "{field:?}\n{}",
                what()
            );
            let (some, all) = (field.values, values.len() as u64);
            assert!(
                some == all || field.estimated,
                "{field:?} {all}\n{}",
                what()
            );
            let is_json = |text: &String| serde_json::from_str::<serde_json::Value>(text).is_ok();
            assert!(field.examples.iter().all(is_json) && !field.types.is_empty());
        }
    }

    fn check(&self, view: &View, query: &Query, what: &dyn Fn() -> String) {
        self.check_fields(view, what);
        let there = |docids: &Vec<Option<Document>>| -> (Vec<u32>, Vec<Document>) {
            let there = (0..).zip(docids);
            there
                .filter_map(|(docid, one)| Some((docid, one.clone()?)))
                .unzip()
        };
        let there: Vec<_> = self.partitions.iter().map(there).collect();
        let documents: Vec<&[Document]> = there.iter().map(|(_, all)| all.as_slice()).collect();
        let mut right = naive::answer(&documents, query);
        for hit in &mut right.hits {
            let doc = there[hit.shard as usize].0[hit.doc as usize];
            *hit = Hit { doc, ..*hit };
        }
        right.each_faceted_hit(&mut |hit| {
            hit.doc = there[hit.shard as usize].0[hit.doc as usize];
        });
        let prepared = query.clone().prepare().unwrap();
        let forced = [
            Access::Postings,
            Access::Column,
            Access::Documents,
            Access::Scan,
        ];
        for access in forced.map(Some).into_iter().chain([None]) {
            let options = Options {
                access,
                ..Options::default()
            };
            let answer = view.query(&prepared, &options).unwrap();
            assert_eq!(answer, right, "{access:?} {query:?}\n{}", what());
            // So do tasks that share the partitions.
            let run_all = |count: usize, part: &(dyn Fn(usize) + Sync)| (0..count).for_each(part);
            let workers = Workers::new(2, &run_all).map(Workers::always);
            let options = Options { workers, ..options };
            let answer = view.query(&prepared, &options).unwrap();
            assert_eq!(answer, right, "shared, {access:?} {query:?}\n{}", what());
        }
    }
}

/// Writes a document whatever key it names, as versions did that had no rule about it.
fn copy(collection: &Collection, write: Write) -> Result<()> {
    let mut results = crate::batch::copies(collection).writes([write]).write();
    results.pop().unwrap().map(drop)
}

/// The document as queries see it: `_id` is its key, an integer if the key is one.
fn with_key(key: &Key, document: &Document) -> Document {
    let id = match key.as_integer() {
        Some(integer) => format!(r#"{{"_id":{integer}}}"#),
        None => format!(r#"{{"_id":"{key}"}}"#),
    };
    let id = Document::from_json(id.as_bytes()).unwrap();
    document.merge_patch(&id).unwrap()
}

fn is_indexed(view: &View, query: &Prepared) -> bool {
    let mut partitions = view.partitions().unwrap().iter();
    partitions.all(|partition| partition.search(query, None).unwrap().is_some())
}

fn open(env: &Arc<SimEnv>) -> crate::Result<Database> {
    let options = DatabaseOptions {
        segment_bytes: 10_000,
        // It would never let the machine be idle.
        scrub_period: None,
        ..DatabaseOptions::default()
    };
    Database::builder("/db")
        .env(env.clone())
        .options(options)
        .open()
}

/// Which fields are indexed: all, none, or some.
fn fields(numbers: &mut Numbers) -> IndexedFields {
    let path = PATHS[numbers.below(PATHS.len())];
    match numbers.below(6) {
        0 => IndexedFields::none(),
        1 => IndexedFields::none().with(path, true),
        2 => IndexedFields::all().with(path, false),
        3 => IndexedFields::all().with("at", false).with("at.geo", true),
        _ => IndexedFields::all(),
    }
}

fn query(case: &Case, numbers: &mut Numbers) -> Query {
    let id = numbers.below(30);
    match numbers.below(8) {
        // Counted at once, where the postings are known.
        0 if id.is_multiple_of(2) => find(field("_id").eq(id as i64)).with_count().limit(0),
        0 if id.is_multiple_of(3) => find(field("tags").exists()).with_count().limit(0),
        0 => find(field("_id").eq(id as i64)).with_count(),
        1 => find(!field("_id").lt(id.to_string())).order_by(field("_id").descending()),
        2 => find(field("_id").exists()).aggregate("ids", Aggregate::terms("_id", 3)),
        _ => case.queries[numbers.below(case.queries.len())].clone(),
    }
}

/// A collection and what it should be, with views from before.
struct Run {
    env: Arc<SimEnv>,
    database: Database,
    collection: Collection,
    model: Model,
    kept: Vec<(View, Model)>,
    /// How many queries an index answered, and how many none did.
    indexed: usize,
    scanned: usize,
}

impl Run {
    fn new(env: &Arc<SimEnv>, numbers: &mut Numbers) -> crate::Result<Run> {
        let database = open(env)?;
        let settings = CollectionSettings {
            partitions: 1 + numbers.below(3) as u32,
            index: fields(numbers),
            ..CollectionSettings::default()
        };
        let collection = database.collection_or_create("c", || settings)?;
        let partitions = collection.settings().partitions as usize;
        Ok(Run {
            env: env.clone(),
            database,
            collection,
            model: Model {
                partitions: vec![Vec::new(); partitions],
                ..Model::default()
            },
            kept: Vec::new(),
            indexed: 0,
            scanned: 0,
        })
    }

    fn step(&mut self, case: &Case, numbers: &mut Numbers) -> crate::Result<()> {
        let key = Key::from(numbers.below(30) as u32);
        let partition = self.collection.partition_of(&key) as usize;
        let document = |numbers: &mut Numbers| {
            let one = case.documents.get(numbers.below(case.documents.len()));
            let one = one.cloned();
            let one = one.unwrap_or_else(|| Document::from_json(br#"{"mark":1}"#).unwrap());
            let without = Document::from_json(br#"{"_id":null}"#).unwrap();
            match numbers.below(3) {
                0 => one,
                _ => one.merge_patch(&without).unwrap(),
            }
        };
        match numbers.below(20) {
            0..6 => {
                let document = document(numbers);
                copy(&self.collection, Write::put(key.clone(), document.clone()))?;
                self.model.put(partition, &key, with_key(&key, &document));
            }
            6..8 => {
                let patch = document(numbers);
                if let Some(before) = self.model.get(&key) {
                    copy(&self.collection, Write::patch(key.clone(), patch.clone()))?;
                    let after = before.merge_patch(&patch).unwrap();
                    self.model.put(partition, &key, with_key(&key, &after));
                }
            }
            8 => {
                self.collection.delete(&key)?;
                self.model.delete(&key);
            }
            9 => self.collection.flush()?,
            10 => self.collection.compact()?,
            11..13 => drop(self.env.run_due()),
            13 => {
                self.env.advance(Duration::from_millis(30));
                self.env.run_due();
            }
            14 => settle(&self.env),
            15 if numbers.below(2) == 0 => {
                self.kept.clear();
                self.database.close()?;
                self.database = open(&self.env)?;
                self.collection = self.database.collection("c")?;
            }
            16 => {
                let settings = CollectionSettings {
                    index: fields(numbers),
                    ..CollectionSettings::clone(&self.collection.settings())
                };
                self.database.change_settings("c", settings)?;
            }
            17 => {
                self.kept.truncate(3);
                self.kept
                    .push((self.collection.view()?, self.model.clone()));
            }
            _ => {}
        }
        Ok(())
    }

    fn query(&mut self, case: &Case, numbers: &mut Numbers, what: &dyn Fn() -> String) {
        let query = query(case, numbers);
        let view = self.collection.view().unwrap();
        self.model.check(&view, &query, what);
        match is_indexed(&view, &query.clone().prepare().unwrap()) {
            true => self.indexed += 1,
            false => self.scanned += 1,
        }
        for (view, model) in &self.kept {
            model.check(view, &query, what);
        }
    }
}

/// Has background work done, as far as it ends within seconds.
fn settle(env: &SimEnv) {
    for _ in 0..20 {
        env.advance(Duration::from_millis(100));
        env.run_due();
    }
}

fn check_partitions(collection: &Collection, what: &dyn Fn() -> String) {
    for partition in collection.partitions().iter() {
        let problem = &mut |found| panic!("{found:?}\n{}", what());
        partition.check(problem).unwrap();
    }
}

fn run(seed: u64) -> (usize, usize) {
    let case = Case::from_seed(seed);
    let numbers = &mut Numbers(seed);
    let env = SimEnv::new(seed);
    let mut run = Run::new(&env, numbers).unwrap();
    for step in 0..80 {
        let what = || format!("seed {seed}, step {step}: {case}");
        run.step(&case, numbers).unwrap();
        run.query(&case, numbers, &what);
        if numbers.below(20) == 0 {
            check_partitions(&run.collection, &what);
        }
    }
    settle(&env);
    check_partitions(&run.collection, &|| format!("seed {seed}, at the end"));
    (run.indexed, run.scanned)
}

#[test]
fn queries_are_right_whatever_the_index_is_and_however_far_behind() {
    let counts = (0..150).map(run);
    let (indexed, scanned) = counts.fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    assert!(indexed > 3000 && scanned > 1000, "{indexed}, {scanned}");
}

/// After a crash the index agrees with the documents that there are.
#[test]
fn an_index_is_right_after_a_crash_at_any_step() {
    for seed in 0..150 {
        let case = Case::from_seed(seed);
        let numbers = &mut Numbers(seed);
        let env = SimEnv::new(seed);
        env.crash_at(100 + numbers.below(1500) as u64);
        if let Ok(mut run) = Run::new(&env, numbers) {
            for _ in 0..200 {
                if run.step(&case, numbers).is_err() {
                    break;
                }
            }
        }
        let env = env.after_crash(seed);
        let Ok(collection) = open(&env).unwrap().collection("c") else {
            continue;
        };
        for step in 0..30 {
            let what = || format!("seed {seed}, query {step} after the crash: {case}");
            let view = collection.view().unwrap();
            let query = query(&case, numbers);
            Model::of_view(&view).check(&view, &query, &what);
            match step % 3 {
                0 => drop(env.run_due()),
                1 => {
                    let document = case.documents.get(numbers.below(case.documents.len()));
                    let key = Key::from(numbers.below(30) as u32);
                    let put = document.map(|document| Write::put(key, document.clone()));
                    if let Some(put) = put {
                        copy(&collection, put).unwrap();
                    }
                }
                _ => {}
            }
            check_partitions(&collection, &what);
        }
    }
}

#[test]
fn a_changed_index_replaces_the_one_before_and_no_index_leaves_no_files() {
    let env = SimEnv::new(1);
    let database = open(&env).unwrap();
    let settings = |index: IndexedFields| CollectionSettings {
        partitions: 2,
        index,
        ..CollectionSettings::default()
    };
    let made = settings(IndexedFields::none());
    let collection = database.create_collection("c", made.clone()).unwrap();
    let documents = |range: std::ops::Range<u32>| {
        for id in range {
            let json = format!(r#"{{"price":{},"mark":"m{}"}}"#, id % 7, id % 3);
            let document = Document::from_json(json.as_bytes()).unwrap();
            collection.put_at(&Key::from(id), &document).unwrap();
        }
    };
    let prices = find(field("price").eq(3))
        .with_count()
        .limit(0)
        .prepare()
        .unwrap();
    let marks = find(field("mark").eq("m1"))
        .with_count()
        .limit(0)
        .prepare()
        .unwrap();
    let state = || {
        let view = collection.view().unwrap();
        let count = |query| view.query(query, &Options::default()).unwrap().count;
        let indexed = (is_indexed(&view, &prices), is_indexed(&view, &marks));
        ((count(&prices), count(&marks)), indexed)
    };
    documents(0..700);
    let counts = (Some(100), Some(233));
    assert_eq!(state(), (counts, (false, false)));
    let all = settings(IndexedFields::all());
    database.change_settings("c", all.clone()).unwrap();
    assert_eq!(state(), (counts, (false, false)), "it is being built");
    let index = || collection.stats().unwrap().index.unwrap();
    assert!(!index().complete && index().documents == 0);
    settle(&env);
    assert_eq!(index().documents, 700);
    assert_eq!(index().trees.values().sum::<u64>(), index().bytes);
    assert_eq!(state(), (counts, (true, true)));
    assert!(index().complete && index().lag_records == 0 && index().bytes > 0);
    documents(700..1400);
    assert_eq!(state(), ((Some(200), Some(467)), (true, true)), "at once");
    assert!(index().lag_records > 0);
    env.advance(Duration::from_millis(60));
    assert!(index().lag_micros >= 60_000);
    env.run_due();
    assert_eq!((index().lag_records, index().lag_micros), (0, 0), "soon");
    assert_eq!(index().records, 700);
    let some = settings(IndexedFields::all().with("mark", false));
    database.change_settings("c", some).unwrap();
    let counts = (Some(200), Some(467));
    assert_eq!(state(), (counts, (true, true)), "by the one before");
    settle(&env);
    // The view that finds the new one complete has both.
    assert_eq!(state(), (counts, (true, true)));
    assert_eq!(state(), (counts, (true, false)));
    settle(&env);
    let trees = |collection: &Collection| {
        let partitions = collection.partitions();
        let trees = partitions.iter().map(|one| one.stats().trees.len());
        trees.collect::<Vec<_>>()
    };
    // Of the index a search tree and its columns, beside three of the documents.
    assert_eq!(trees(&collection), [5, 5], "the old one is gone");
    database.change_settings("c", made).unwrap();
    settle(&env);
    assert_eq!(trees(&collection), [3, 3]);
    assert_eq!(state(), (counts, (false, false)));
    assert_eq!(collection.stats().unwrap().index, None);

    // An id of a tree is not used again.
    database.change_settings("c", all).unwrap();
    settle(&env);
    assert_eq!(state(), (counts, (true, true)));
    database.close().unwrap();
    drop((database, collection));
    let collection = open(&env).unwrap().collection("c").unwrap();
    let view = collection.view().unwrap();
    assert!(is_indexed(&view, &prices), "it need not be built again");
    assert!(
        env.files()
            .iter()
            .any(|path| path.starts_with(std::path::Path::new("/db")))
    );
}

#[test]
fn all_documents_are_counted_without_reading_one_where_a_plan_is_wanted() {
    let env = SimEnv::new(1);
    let database = open(&env).unwrap();
    let settings = CollectionSettings {
        index: IndexedFields::none(),
        ..CollectionSettings::default()
    };
    let collection = database.create_collection("c", settings).unwrap();
    for number in 0..3 {
        let document = format!(r#"{{"_id":{number}}}"#);
        let document = Document::from_json(document.as_bytes()).unwrap();
        collection.put(&document).unwrap();
    }
    let options = Options {
        clock: Some(&|| Duration::ZERO),
        ..Options::default()
    };
    let query = quire_query::find_all().limit(0).with_count().prepare();
    let answer = collection.view().unwrap().query(&query.unwrap(), &options);
    let answer = answer.unwrap();
    let explain = answer.explain.unwrap();
    assert_eq!((answer.count, explain.documents), (Some(3), 3));
    assert!(explain.filter.accesses.is_empty(), "{explain}");
}

/// A predicate on few documents first, and the others on these; every way gives the same.
#[test]
fn the_cheapest_way_is_taken_and_said() {
    let env = SimEnv::new(1);
    let database = open(&env).unwrap();
    let settings = CollectionSettings {
        partitions: 1,
        ..CollectionSettings::default()
    };
    let collection = database.create_collection("c", settings).unwrap();
    let mut batch = collection.batch();
    for id in 0..3000 {
        let text = format!(r#"{{"n":{id},"word":"w{id}","_id":{id}}}"#);
        let document = Document::from_json(text.as_bytes()).unwrap();
        batch.put(&document).unwrap();
    }
    batch
        .write()
        .into_iter()
        .for_each(|result| _ = result.unwrap());
    settle(&env);
    let view = collection.view().unwrap();
    let explain = |query: Query| {
        let prepared = query.prepare().unwrap();
        let options = Options {
            clock: Some(&|| Duration::ZERO),
            ..Options::default()
        };
        let answer = view.query(&prepared, &options).unwrap();
        (answer.hits.len(), *answer.explain.unwrap())
    };
    let both = field("n").gte(30).and(field("word").eq("w77"));
    let (found, explained) = explain(find(both).with_count());
    assert_eq!(found, 1);
    let [range, one] = explained.filter.parts.as_slice() else {
        panic!("{explained}");
    };
    assert_eq!((range.expected, range.at_most), (2970, 3000), "{explained}");
    assert_eq!((one.expected, one.at_least, one.at_most), (1, 1, 1));
    assert!(one.accesses.contains_key(&Access::Postings), "{explained}");
    // The estimate of the range has read a sample of the column, which is there since.
    assert!(range.accesses.contains_key(&Access::Column), "{explained}");
    assert!(range.cost > Duration::ZERO && explained.to_string().contains("column scan"));

    // What is stopped is an error, or what was found until then.
    let all = find(field("n").gte(0)).with_count().prepare().unwrap();
    for access in [None, Some(Access::Documents), Some(Access::Scan)] {
        let mut options = Options {
            stop: Some(&|| true),
            access,
            ..Options::default()
        };
        assert!(view.query(&all, &options).is_err());
        options.partial = true;
        let answer = view.query(&all, &options).unwrap();
        assert!(answer.is_partial && answer.count < Some(3000));
    }
}

/// Where any few of many matches are wanted, documents are read until there are enough.
#[test]
fn a_page_of_many_matches_reads_few_documents() {
    let env = SimEnv::new(1);
    let database = open(&env).unwrap();
    let settings = CollectionSettings {
        partitions: 1,
        ..CollectionSettings::default()
    };
    let collection = database.create_collection("c", settings).unwrap();
    let long = "x".repeat(300);
    let mut batch = collection.batch();
    for id in 0..2000 {
        let text = format!(r#"{{"_id":{id},"text":"{long}{id}"}}"#);
        let document = Document::from_json(text.as_bytes()).unwrap();
        batch.put(&document).unwrap();
    }
    batch
        .write()
        .into_iter()
        .for_each(|result| _ = result.unwrap());
    settle(&env);
    let view = collection.view().unwrap();
    let options = Options {
        clock: Some(&|| Duration::ZERO),
        ..Options::default()
    };
    let documents = |query: Query| {
        let answer = view.query(&query.prepare().unwrap(), &options).unwrap();
        (answer.hits.len(), answer.explain.unwrap().documents)
    };
    let texts = || find(field("text").starts_with("xx")).limit(10);
    let (hits, read) = documents(texts());
    assert!(hits == 10 && read < 1000, "{read}");
    // To count them all the index is not cheaper either, as it has only hashes of long values.
    assert_eq!(documents(texts().with_count()), (10, 2000));
}

#[test]
fn ranges_of_numbers_that_queries_repeat_follow_each_write() {
    const DOCUMENTS: u32 = 2_000;
    let env = SimEnv::new(1);
    let database = open(&env).unwrap();
    let settings = CollectionSettings {
        partitions: 1,
        index: IndexedFields::all(),
        ..CollectionSettings::default()
    };
    let collection = database.create_collection("c", settings).unwrap();
    let mut prices: Vec<u32> = (0..DOCUMENTS).map(|id| id * 37 % 1_000).collect();
    let put = |id: u32, price: u32| {
        let json = format!(r#"{{"price":{price},"mark":"m{}"}}"#, id % 40);
        let document = Document::from_json(json.as_bytes()).unwrap();
        collection.put_at(&Key::from(id), &document).unwrap();
    };
    (0..DOCUMENTS).for_each(|id| put(id, prices[id as usize]));
    settle(&env);
    let ranges = [(100, 400), (0, 999), (990, 2_000), (5_000, 9_000)];
    let query = |(from, to): (u32, u32)| {
        let mark = field("mark").eq("m3");
        let query = find(mark.and(field("price").between(from, to)));
        let query = query.order_by(field("price").descending());
        query.limit(10).with_count().prepare().unwrap()
    };
    for round in 0..12 {
        // Fields of numbers are in memory after some queries, and what is in a range is known after
        // some more of the same position.
        for _ in 0..40 {
            for range in ranges {
                let is_in = |id: &u32| {
                    let price = prices[*id as usize];
                    id % 40 == 3 && range.0 <= price && price <= range.1
                };
                let expected = (0..DOCUMENTS).filter(is_in).count() as u64;
                let view = collection.view().unwrap();
                let found = view.query(&query(range), &Options::default()).unwrap();
                assert_eq!(found.count, Some(expected), "{range:?}, round {round}");
            }
        }
        let id = round * 40 + 3;
        prices[id as usize] = [7_000, 200, 995][round as usize % 3];
        put(id, prices[id as usize]);
        if round % 4 == 3 {
            settle(&env);
        }
    }
}
