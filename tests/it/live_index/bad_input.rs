//! Documents that are hard on an index: each field is indexed, or refused by name; the document is
//! there, and queries are right.

use super::world::{Model, index_stats, open, settle, verify};
use quire_query::{Aggregate, Query, field, find};
use quiredb::operations::verify_open;
use quiredb::{
    Collection, CollectionSettings, Database, Document, Durability, IndexStats, IndexedFields, Key,
    SimEnv, Write,
};
use std::ops::ControlFlow::Continue;
use std::sync::Arc;

struct Live {
    env: Arc<SimEnv>,
    database: Database,
    collection: Collection,
}

impl Live {
    fn new() -> Live {
        let env = SimEnv::new(9);
        let database = open(&env, "/db").unwrap();
        let settings = CollectionSettings {
            partitions: 1,
            index: IndexedFields::all(),
            ..CollectionSettings::default()
        };
        let collection = database.create_collection("c", settings).unwrap();
        Live {
            env,
            database,
            collection,
        }
    }

    fn put(&self, key: u32, json: &str) {
        let document = Document::from_json(json.as_bytes()).unwrap();
        let write = Write::put(Key::from(key), document);
        let batch = self.collection.batch().writes(vec![write]);
        for written in batch.durability(Durability::None).write() {
            written.unwrap();
        }
    }

    /// Each query is right as long as the index is behind, and when it is level, and after the
    /// database was opened again.
    fn check(mut self, documents: u64, queries: &[Query]) -> (Live, IndexStats) {
        let model = Model::of_view(&self.collection.view().unwrap());
        assert_eq!(model.by_key().len() as u64, documents);
        for state in ["behind", "level", "opened again"] {
            let view = self.collection.view().unwrap();
            queries
                .iter()
                .for_each(|query| model.check(&view, query, state));
            drop(view);
            if state == "level" {
                self.database.close().unwrap();
                self.database = open(&self.env, "/db").unwrap();
                self.collection = self.database.collection("c").unwrap();
            }
            settle(&self.env);
            let index = index_stats(&self.collection).unwrap();
            assert!(index.complete && index.lag_records == 0, "{index:?}");
            assert_eq!(index.rebuilt, 0, "{index:?}");
            verify(&self.database, state);
        }
        let index = index_stats(&self.collection).unwrap();
        (self, index)
    }
}

fn count(query: quire_query::Filter) -> Query {
    find(query).with_count()
}

#[test]
pub(crate) fn documents_with_too_many_values_to_index_are_counted_by_field_and_found() {
    let live = Live::new();
    let numbers = |from: u32| -> String {
        let all: Vec<_> = (from..from + 100_000).map(|n| n.to_string()).collect();
        all.join(",")
    };
    live.put(0, &format!(r#"{{"a":[{}],"b":1}}"#, numbers(0)));
    live.put(1, &format!(r#"{{"a":[{}],"b":2}}"#, numbers(99_990)));
    live.put(2, r#"{"a":5,"b":3}"#);
    live.put(0, &format!(r#"{{"a":[{}],"b":1}}"#, numbers(1)));
    let queries = [
        count(field("a").eq(5)),
        count(field("a").eq(0)),
        count(field("a").eq(99_995)),
        count(field("a").gt(150_000).and(field("b").exists())),
        count(field("a").is_in([7, 199_989, 300_000])),
        count(!field("a").lt(3)),
        count(field("a").eq("text")),
        find(field("b").gt(0)).aggregate("d", Aggregate::distinct("a")),
        find(field("a").exists()).order_by(field("a").descending()),
    ];
    let (live, index) = live.check(3, &queries);
    assert_eq!(index.refused_fields, [""; 0]);
    let of_a = [("a".to_string(), 2)];
    assert_eq!(index.documents_with_many, of_a.clone().into());
    // Fewer values than there may be, and many in several fields that have few each.
    live.put(0, r#"{"a":[5,7],"b":1}"#);
    let several = (0..8_200).map(|n| format!(r#""f{n}":[{n},{}]"#, n + 1));
    let several: Vec<_> = several.collect();
    live.put(3, &format!(r#"{{"a":5,{}}}"#, several.join(",")));
    let mut queries = queries.to_vec();
    queries.push(count(field("f7").eq(8)));
    queries.push(count(field("f8199").gt(8_000)));
    let (live, index) = live.check(4, &queries);
    assert_eq!(index.documents_with_many.len(), 100, "as many as are kept");
    assert_eq!(index.documents_with_many["a"], 1);
    live.put(3, r#"{"a":5}"#);
    live.collection.delete(&Key::from(1)).unwrap();
    let (_, index) = live.check(3, &queries);
    assert_eq!(index.documents_with_many, [].into());
}

#[test]
fn a_value_that_changes_its_type_in_every_document_is_found_by_type() {
    let live = Live::new();
    let values = [
        "1",
        "1.5",
        "\"1\"",
        "true",
        "null",
        "[1,\"1\"]",
        "{\"x\":1}",
        "\"NaN\"",
        "1e308",
    ];
    for n in 0..600 {
        live.put(
            n % 500,
            &format!(r#"{{"v":{}}}"#, values[n as usize % values.len()]),
        );
    }
    let queries = [
        count(field("v").eq(1)),
        count(field("v").eq("1")),
        count(field("v").eq("NaN")),
        count(field("v").gt(1)),
        count(field("v").eq(quire_query::Value::null())),
        count(!field("v").exists()),
        count(field("v.x").eq(1)),
        find(field("v").exists())
            .order_by(field("v").ascending())
            .limit(20),
        find(field("v").exists()).aggregate("t", Aggregate::terms("v", 3)),
    ];
    live.check(500, &queries);
}

#[test]
fn names_and_values_of_any_length_and_depth_do_no_harm() {
    let live = Live::new();
    let name = |bytes: usize| "n".repeat(bytes);
    let deep = |levels: usize, name: &str| {
        format!(r#"{{"{name}":"#).repeat(levels) + "7" + &"}".repeat(levels)
    };
    for (key, bytes) in (0..).zip([1, 1_023, 1_024, 1_025, 1_026, 70_000, 1_000_000]) {
        live.put(
            key,
            &format!(r#"{{"{}":7,"s":"{}"}}"#, name(bytes), name(bytes)),
        );
    }
    live.put(20, &deep(127, "d"));
    live.put(21, &deep(60, "level"));
    live.put(22, &deep(60, &name(20)));
    for (key, bytes) in (30..).zip([255, 256, 257, 65_536, 4 << 20]) {
        live.put(key, &format!(r#"{{"s":"{}"}}"#, "v".repeat(bytes)));
    }
    let path = |levels: usize, name: &str| vec![name; levels].join(".");
    let mut queries = vec![
        count(field(&path(60, "d")).exists()),
        count(field(&path(60, "level")).eq(7)),
        count(field(&path(60, "level")).exists()),
        count(field("s").starts_with("v".repeat(255))),
        count(field("s").gt("v".repeat(256))),
        find(field("s").exists())
            .order_by(field("s").descending())
            .limit(3),
        find(field("s").exists()).aggregate("d", Aggregate::distinct("s")),
    ];
    for bytes in [1, 1_023, 1_024] {
        queries.push(count(field(&name(bytes)).eq(7)));
        queries.push(count(!field(&name(bytes)).exists()));
    }
    for bytes in [1, 1_024, 1_025, 70_000] {
        queries.push(count(field("s").eq(name(bytes))));
    }
    for bytes in [255, 256, 257, 65_536] {
        queries.push(count(field("s").eq("v".repeat(bytes))));
    }
    let (_, index) = live.check(15, &queries);
    // No query can name a path that is longer.
    assert_eq!(index.refused_fields, [""; 0]);
}

#[test]
pub(crate) fn fields_past_the_limit_are_refused_by_name_and_found_all_the_same() {
    let live = Live::new();
    let document = |key: u32| {
        let fields = (0..50).map(|n| format!(r#""f{}":{}"#, key * 50 + n, n % 5));
        format!("{{\"key\":{key},{}}}", fields.collect::<Vec<_>>().join(","))
    };
    for key in 0..220 {
        live.put(key, &document(key));
        if key == 100 {
            settle(&live.env);
        }
    }
    let mut queries = Vec::new();
    for n in [0, 49, 5_050, 9_990, 10_000, 10_060, 10_999, 11_000] {
        let path = format!("f{n}");
        queries.push(count(field(&path).eq(n % 5)));
        queries.push(count(!field(&path).exists()));
        queries.push(find(field(&path).gt(0)).order_by(field(&path).descending()));
    }
    queries.push(find(field("key").gt(5)).aggregate("m", Aggregate::max("f10999")));
    let (live, index) = live.check(220, &queries);
    assert_eq!(index.refused_fields.len(), 100, "as many as are kept");
    assert!(
        index
            .refused_fields
            .iter()
            .all(|name| name.starts_with('f'))
    );
    // What was refused stays so, though there are fewer fields now; documents change all the same.
    for key in 0..100 {
        live.collection.delete(&Key::from(key)).unwrap();
    }
    live.put(300, r#"{"f10999":4,"f0":4,"new":1}"#);
    live.put(219, r#"{"f10999":1,"f10998":3}"#);
    queries.push(count(field("new").exists()));
    let (live, _) = live.check(121, &queries);
    // Where the index is built anew, the fields that there are now come to its list.
    {
        let _seeded = quire_seeded::seed_bug(quire_seeded::Bug::OldValueKept);
        live.put(300, r#"{"f10999":4,"f0":3,"new":1}"#);
        settle(&live.env);
    }
    let report = verify_open(
        &live.database,
        &Default::default(),
        &mut |_, _| Continue(()),
    );
    assert_eq!(report.unwrap().damage.len(), 1);
    settle(&live.env);
    let index = index_stats(&live.collection).unwrap();
    assert!(index.complete && index.rebuilt == 1, "{index:?}");
    assert_eq!(index.refused_fields, [""; 0]);
    let view = live.collection.view().unwrap();
    let model = Model::of_view(&view);
    queries
        .iter()
        .for_each(|query| model.check(&view, query, "built anew"));
    verify(&live.database, "built anew");
}

#[test]
fn documents_that_an_index_is_far_behind_do_not_fill_the_memory() {
    let live = Live::new();
    let text = "t".repeat(1 << 20);
    for key in 0..40 {
        live.put(key, &format!(r#"{{"n":{},"text":"{text}"}}"#, key % 3));
    }
    let view = live.collection.view().unwrap();
    let query = find(field("n").eq(1))
        .with_count()
        .limit(0)
        .prepare()
        .unwrap();
    let answer = view.query(&query, &Default::default()).unwrap();
    assert_eq!(answer.count, Some(13));
    drop(view);
    settle(&live.env);
    let view = live.collection.view().unwrap();
    let answer = view.query(&query, &Default::default()).unwrap();
    assert_eq!(answer.count, Some(13));
    verify(&live.database, "40 MiB");
}
