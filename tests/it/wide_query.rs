//! Queries of wide collections: the answers are those of a plain collection with the same
//! documents.

use quiredb::query::{Access, Aggregate, Explain, Filter, Grouping, Options, Query, field, find};
use quiredb::wide::{ColumnType, Schema, WideCollection};
use quiredb::{Collection, CollectionSettings, Database, Document, IndexedFields, Key, Page};

type Tested = Result<(), Box<dyn std::error::Error>>;

/// The same rows in a wide and in a plain collection give the same answers.
#[test]
fn queries_of_a_wide_collection_answer_as_those_of_a_plain_one() -> Tested {
    let dir = tempfile::tempdir()?;
    let database = Database::open(dir.path())?;
    let schema = Schema::new()
        .with_column("kind", ColumnType::String, "meta")?
        .with_column("price", ColumnType::Int, "meta")?
        .with_column("html", ColumnType::String, "content")?
        .with_column("dotted.name", ColumnType::Int, "content")?
        .with_column("tree", ColumnType::Json, "trees")?
        .with_family("links", ColumnType::Int, "links")?
        .keep_undeclared(true);
    let settings = || CollectionSettings {
        partitions: 3,
        ..CollectionSettings::default()
    };
    let wide = database.create_wide_collection("wide", schema, settings())?;
    let plain = database.create_collection("plain", settings())?;
    for number in 0..200_u32 {
        let kind = ["a", "b", "c"][number as usize % 3];
        let mut row = serde_json::json!({
            "kind": kind,
            "html": "x".repeat(number as usize % 40),
            "links": {"one": number % 7, "http://two.org/": number},
            "tree": {"leaf": [number % 4, {"deep": number % 5}]},
        });
        if number % 4 != 0 {
            row["price"] = (number * 37 % 91).into();
        }
        if number % 5 == 0 {
            row["dotted.name"] = number.into();
            row["undeclared"] = serde_json::json!({"a": number % 6});
        }
        let (key, row) = (
            Key::from(number),
            Document::from_json(row.to_string().as_bytes())?,
        );
        wide.put(&key, &row)?;
        plain.put_at(&key, &row)?;
    }
    for key in (0..200_u32).step_by(11).map(Key::from) {
        wide.delete(&key)?;
        plain.delete(&key)?;
    }
    answers_agree(&wide, &plain)?;

    // By indexes, of all columns and of some; families and what no index has are read of rows.
    for index in [
        IndexedFields::all(),
        IndexedFields::none().with("price", true).with("tree", true),
    ] {
        let wide = database.set_wide_index("wide", index)?;
        answers_agree(&wide, &plain)?;
        wait_for_index(&wide)?;
        answers_agree(&wide, &plain)?;
        assert!(is_by_index(&wide)?);
        // The index is behind.
        for number in 0..50_u32 {
            let key = Key::from(number * 3);
            let patch = format!(r#"{{"price": {}, "kind": "d"}}"#, number % 13);
            let patch = Document::from_json(patch.as_bytes())?;
            if wide.get(&key)?.is_some() {
                wide.patch(&key, &patch)?;
                plain.patch(&key, &patch)?;
            }
        }
        answers_agree(&wide, &plain)?;
    }
    let stats = wide.stats()?;
    assert!(stats.index.is_some_and(|index| index.bytes > 0));

    // Partitions that are split and merged have an index too, from the moment they are there.
    let watch = &|_| true;
    database.split_collection("wide", 6, watch)?;
    let index = wide.stats()?.index;
    assert!(index.is_some_and(|index| index.complete && index.documents == 181));
    answers_agree(&wide, &plain)?;
    database.merge_collection("wide", 2, watch)?;
    let index = wide.stats()?.index;
    assert!(index.is_some_and(|index| index.complete && index.documents == 181));
    answers_agree(&wide, &plain)?;
    Ok(())
}

fn wait_for_index(wide: &WideCollection) -> Tested {
    let is_complete = || -> Result<bool, quiredb::Error> {
        Ok(wide.stats()?.index.is_some_and(|index| index.complete))
    };
    while !is_complete()? {
        std::thread::park_timeout(std::time::Duration::from_millis(2));
    }
    Ok(())
}

/// Whether a query is answered by the index, if it is to be.
fn is_by_index(wide: &WideCollection) -> Result<bool, quiredb::Error> {
    let clock = || std::time::Duration::ZERO;
    let options = Options {
        clock: Some(&clock),
        access: Some(Access::Postings),
        ..Options::default()
    };
    let query = find(field("price").gte(40)).with_count().prepare()?;
    let explain = wide.view()?.query(&query, &options)?.explain;
    let is_scan = |explain: &Explain| explain.filter.accesses.contains_key(&Access::Scan);
    Ok(explain.is_some_and(|explain| !is_scan(&explain)))
}

/// The same queries of the two give the same.
fn answers_agree(wide: &WideCollection, plain: &Collection) -> Tested {
    let filters: [fn() -> Filter; 10] = [
        || Filter::All,
        || field("kind").eq("b"),
        || field("price").gte(40).and(field("kind").is_in(["a", "c"])),
        || !field("price").exists(),
        || field("links.one").eq(3),
        || field("tree.leaf.deep").between(1, 2),
        || field("dotted.name").gt(50).or(field("undeclared.a").eq(2)),
        || field("_id").eq(17),
        || field("nothing").exists(),
        || {
            field("html")
                .starts_with("xx")
                .and(field("links.http://two.org/").lt(90))
        },
    ];
    let ordered = |query: Query| query.order_by(field("price").descending());
    for (at, filter) in filters.iter().enumerate() {
        let query = || find(filter()).with_count();
        let by_kind = Aggregate::group(Grouping::by(["kind"]));
        let aggregated = query().limit(0).aggregate("kinds", by_kind);
        let aggregated = aggregated.aggregate("sum", Aggregate::sum("price"));
        let (ours, theirs) = (wide.query(aggregated.clone())?, plain.query(aggregated)?);
        assert_eq!(ours.count, theirs.count, "filter {at}");
        assert_eq!(
            format!("{:?}", ours.aggregates),
            format!("{:?}", theirs.aggregates),
            "filter {at}"
        );
        let rows = |page: Page| {
            let documents = page.documents.into_iter();
            let mut rows: Vec<_> = documents
                .map(|found| {
                    let mut row: serde_json::Value =
                        serde_json::from_str(&found.document.to_json()).unwrap();
                    row.as_object_mut().unwrap().remove("_id");
                    (found.key, row)
                })
                .collect();
            rows.sort_by(|(one, _), (other, _)| one.cmp(other));
            rows
        };
        assert_eq!(
            rows(wide.query(query())?),
            rows(plain.query(query())?),
            "filter {at}"
        );
        let prices = |page: Page| {
            let prices = page.documents.iter();
            prices
                .map(|found| {
                    found
                        .document
                        .get("price")
                        .map(|price| format!("{price:?}"))
                })
                .collect::<Vec<_>>()
        };
        let page = || ordered(query()).skip(3).limit(20);
        assert_eq!(
            prices(wide.query(page())?),
            prices(plain.query(page())?),
            "filter {at}"
        );
    }
    Ok(())
}
