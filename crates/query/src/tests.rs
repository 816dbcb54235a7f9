//! Answers of the executor, over shards of any size, against answers by definition.

use crate::testing::{Case, naive};
use crate::{
    Answer, Constant, ErrorKind, Filter, Hit, ModelShard, Options, Order, Prepared, Query, Shard,
    UnknownFields, WithConstant, Workers, field, find, find_all,
};
use proptest::prelude::*;
use quire_model::Document;
use std::ops::ControlFlow;
use std::time::Duration;

/// Memory that some queries do with in passes, and others do not do with.
const LITTLE: usize = 2_000;

fn prepared(query: &Query) -> Prepared {
    query.clone().prepare().unwrap()
}

fn answer(shards: &[ModelShard], query: &Query, options: &Options<'_>) -> crate::Result<Answer> {
    let shards: Vec<&dyn Shard> = shards.iter().map(|shard| shard as &dyn Shard).collect();
    prepared(query).answer(&shards, options)
}

/// Threads of a scope.
fn run_all(count: usize, task: &(dyn Fn(usize) + Sync)) {
    std::thread::scope(|scope| {
        for at in 0..count {
            std::thread::Builder::new()
                .spawn_scoped(scope, move || task(at))
                .unwrap();
        }
    });
}

fn workers(count: usize) -> Option<Workers<'static>> {
    Workers::new(count, &run_all).map(Workers::always)
}

fn split(documents: &[Document], sizes: &[usize]) -> Vec<Vec<Document>> {
    let mut rest = documents;
    let mut shards = Vec::new();
    for size in sizes {
        let (shard, others) = rest.split_at((*size).min(rest.len()));
        shards.push(shard.to_vec());
        rest = others;
    }
    shards.push(rest.to_vec());
    shards
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn shards_with_a_constant_answer_as_documents_that_have_it(
        seed: u64,
        sizes in proptest::collection::vec(0_usize..30, 1..4),
        // One that documents have too, which it hides, and one that none has.
        name in proptest::sample::select(vec!["mark", "nowhere"]),
    ) {
        let case = Case::from_seed(seed);
        let texts = ["a", "abc", "b", "10", "2026-02-01"];
        let constants: Vec<Constant> = texts
            .iter()
            .map(|text| Constant::new(name, text).unwrap())
            .collect();
        let parts = split(&case.documents, &sizes);
        let shards: Vec<ModelShard> = parts
            .iter()
            .map(|part| part.iter().cloned().collect())
            .collect();
        let with_it = parts.iter().zip(&constants).map(|(part, constant)| {
            let documents = part.iter().map(|document| constant.added_to(document).unwrap());
            documents.collect::<Vec<Document>>()
        });
        let with_it: Vec<Vec<Document>> = with_it.collect();
        let with_it: Vec<&[Document]> = with_it.iter().map(Vec::as_slice).collect();
        let shards = shards.iter().zip(&constants);
        let shards: Vec<WithConstant<'_>> = shards
            .map(|(shard, constant)| WithConstant::new(shard, constant))
            .collect();
        let shards: Vec<&dyn Shard> = shards.iter().map(|shard| shard as &dyn Shard).collect();
        for query in &case.queries {
            let found = prepared(query).answer(&shards, &Options::default()).unwrap();
            let right = naive::answer(&with_it, query);
            prop_assert_eq!(&found, &right, "{} {:?}", case, query);
        }
    }

    #[test] // some 5,000 queries
    fn shards_of_any_size_answer_as_the_definition_says(
        seed: u64,
        sizes in proptest::collection::vec(0_usize..30, 0..6),
        explained: bool,
    ) {
        let case = Case::from_seed(seed);
        let parts = split(&case.documents, &sizes);
        let shards: Vec<ModelShard> = parts
            .iter()
            .map(|part| part.iter().cloned().collect())
            .collect();
        let parts: Vec<&[Document]> = parts.iter().map(Vec::as_slice).collect();
        let clock = || Duration::from_nanos(1);
        let options = Options {
            clock: if explained { Some(&clock) } else { None },
            ..Options::default()
        };
        for query in &case.queries {
            let right = naive::answer(&parts, query);
            let mut found = answer(&shards, query, &options).unwrap();
            let explain = found.explain.take();
            prop_assert_eq!(explain.is_some(), explained);
            let text = Case {
                queries: vec![query.clone()],
                ..case.clone()
            };
            prop_assert_eq!(&found, &right, "{}", text);
            // So do threads that share the shards, as far as they have room, and explain the same.
            for (threads, memory_bytes_max) in [(2, 64 << 20), (3, 64 << 20), (2, LITTLE)] {
                let options = Options { workers: workers(threads), memory_bytes_max, ..options };
                let alone = Options { workers: None, ..options };
                let expected = match memory_bytes_max {
                    LITTLE => answer(&shards, query, &alone),
                    _ => Ok(right.clone()),
                };
                let mut shared = answer(&shards, query, &options);
                if let (Ok(shared), Some(alone)) = (&mut shared, &explain) {
                    let shared = shared.explain.take().unwrap();
                    // Passes execute parts of the query, which may need fewer figures.
                    if shared.passes == 0 {
                        prop_assert_eq!(
                            (shared.pruned, shared.filter.expected),
                            (alone.pruned, alone.filter.expected)
                        );
                    }
                }
                match (shared, expected) {
                    (Ok(mut shared), Ok(mut expected)) => {
                        (shared.explain, expected.explain) = (None, None);
                        prop_assert_eq!(shared, expected, "{}", text);
                    }
                    // Without sharing there is not room enough either.
                    (shared, expected) => prop_assert!(
                        shared.is_err() && expected.is_err(),
                        "{:?} {:?} {}", shared, expected, text
                    ),
                }
            }
            // Documents without a shard give the same.
            let scanner = prepared(query);
            let mut joined = scanner.scan(&Options::default());
            for (shard, documents) in (0..).zip(&parts) {
                let mut scan = scanner.scan(&Options::default());
                for (doc, document) in (0..).zip(*documents) {
                    scan.see(Hit { shard, doc }, document).unwrap();
                }
                joined.join(scan).unwrap();
            }
            if !scanner.is_paged_in_place() {
                prop_assert_eq!(&joined.finish().unwrap(), &right, "{}", text);
            }
            let mut scan = scanner.scan(&Options::default());
            let mut hits = Vec::new();
            for (shard, documents) in (0..).zip(&parts) {
                for (doc, document) in (0..).zip(*documents) {
                    let hit = Hit { shard, doc };
                    if !scan.is_done() && scan.see(hit, document).unwrap() {
                        hits.push(hit);
                    }
                }
            }
            let mut scanned = scan.finish().unwrap();
            scanned.hits.extend(hits);
            prop_assert_eq!(&scanned, &right, "{}", text);
            // One who stops early has seen the same hits until then.
            let stop_after = right.hits.len() / 2;
            let mut seen = Vec::new();
            let references: Vec<&dyn Shard> =
                shards.iter().map(|shard| shard as &dyn Shard).collect();
            let rest = prepared(query)
                .for_each(&references, &Options::default(), &mut |hit| {
                    if seen.len() == stop_after {
                        return ControlFlow::Break(());
                    }
                    seen.push(hit);
                    ControlFlow::Continue(())
                })
                .unwrap();
            prop_assert_eq!(seen.as_slice(), &right.hits[..stop_after]);
            prop_assert_eq!(rest.count, right.count);
            prop_assert_eq!(&rest.aggregates, &right.aggregates);
            prop_assert_eq!(&rest.facets, &right.facets);
        }
    }

    #[test]
    fn places_without_a_document_are_in_no_answer(
        seed: u64,
        holes in proptest::collection::vec(any::<bool>(), 80),
    ) {
        let case = Case::from_seed(seed);
        let holed: ModelShard = case
            .documents
            .iter()
            .zip(&holes)
            .map(|(document, hole)| (!hole).then(|| document.clone()))
            .collect();
        let left: Vec<u32> = (0..)
            .zip(&holes)
            .take(case.documents.len())
            .filter(|(_, hole)| !**hole)
            .map(|(doc, _)| doc)
            .collect();
        let documents: Vec<Document> = left
            .iter()
            .map(|doc| case.documents[*doc as usize].clone())
            .collect();
        for query in &case.queries {
            let mut right = naive::answer(&[&documents], query);
            for hit in &mut right.hits {
                hit.doc = left[hit.doc as usize];
            }
            right.each_faceted_hit(&mut |hit| hit.doc = left[hit.doc as usize]);
            prop_assert_eq!(
                answer(std::slice::from_ref(&holed), query, &Options::default()).unwrap(),
                right
            );
        }
    }

    #[test]
    fn text_reads_as_what_it_was_written_from(seed: u64) {
        let case = Case::from_seed(seed);
        let text = case.to_string();
        let read = Case::parse(&text).unwrap();
        prop_assert_eq!(read.to_string(), text);
        for (query, again) in case.queries.iter().zip(&read.queries) {
            prop_assert_eq!(
                naive::answer(&[&case.documents], &without_facets(query)),
                naive::answer(&[&read.documents], again)
            );
        }
    }
}

/// What the text of a query has.
fn without_facets(query: &Query) -> Query {
    Query {
        facets: Vec::new(),
        ..query.clone()
    }
}

fn cars() -> [ModelShard; 2] {
    let shard = |json: &[&str]| {
        let documents = json
            .iter()
            .map(|json| Document::from_json(json.as_bytes()).unwrap());
        documents.collect::<ModelShard>()
    };
    [
        shard(&[
            r#"{"mark":"audi","price":9}"#,
            r#"{"mark":"fiat","price":5}"#,
        ]),
        shard(&[r#"{"mark":"audi","sold":true}"#]),
    ]
}

#[test]
fn a_field_that_no_shard_has_is_an_error_only_by_option() {
    let refuse = Options {
        unknown_fields: UnknownFields::Refuse,
        ..Options::default()
    };
    let known = [
        find(field("price").gt(1).and(field("sold").exists())),
        find_all().order_by(field("sold").ascending()),
        find(Filter::All).select(["nowhere"]),
    ];
    for query in known {
        assert!(answer(&cars(), &query, &refuse).is_ok());
    }
    let unknown = [
        find(!field("prise").gt(1)),
        find_all().order_by(field("prise").ascending()),
        find_all().aggregate("a", crate::Aggregate::max("prise")),
        find_all().aggregate("a", crate::Aggregate::count().among(field("prise").eq(1))),
    ];
    for query in unknown {
        let error = answer(&cars(), &query, &refuse).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownField, "{error}");
        assert!(error.to_string().contains("prise"));
        assert!(answer(&cars(), &query, &Options::default()).is_ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn with_little_memory_a_query_is_answered_as_with_much_or_not_at_all(
        seed: u64,
        sizes in proptest::collection::vec(0_usize..30, 0..6),
        memory_bytes_max in 2_000_usize..20_000,
        threads in 1_usize..3,
    ) {
        let case = Case::from_seed(seed);
        let parts = split(&case.documents, &sizes);
        let shards: Vec<ModelShard> = parts
            .iter()
            .map(|part| part.iter().cloned().collect())
            .collect();
        let parts: Vec<&[Document]> = parts.iter().map(Vec::as_slice).collect();
        let options = Options {
            memory_bytes_max,
            workers: workers(threads).filter(|_| threads > 1),
            ..Options::default()
        };
        for query in &case.queries {
            match answer(&shards, query, &options) {
                Ok(found) => prop_assert_eq!(found, naive::answer(&parts, query), "{:?}", query),
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::TooLarge),
            }
        }
    }
}

#[test]
fn groups_and_values_that_do_not_fit_are_gathered_in_passes() {
    use crate::{Aggregate, Grouping};
    let documents = (0..1_500).map(|id: u64| {
        let (name, tag) = (id * 7_919 % 751, id % 3);
        let json = format!(r#"{{"id":{id},"name":"name {name}","tags":["t{tag}","t{name}"]}}"#);
        Document::from_json(json.as_bytes()).unwrap()
    });
    let documents: Vec<_> = documents.collect();
    let shards: Vec<ModelShard> = documents
        .chunks(600)
        .map(|part| part.iter().cloned().collect())
        .collect();
    let groups = "group(name, tags: count() as n, max(id), distinct(tags) having n > 1 \
                  order by n desc, name limit 20)";
    let query = find(field("id").gte(5))
        .limit(3)
        .skip(594)
        .with_count()
        .aggregate("first", Aggregate::max("id"))
        .aggregate("names", Aggregate::distinct("name"))
        .aggregate("tags", Aggregate::terms("tags", 10))
        .aggregate("groups", Aggregate::parse(groups).unwrap())
        .aggregate(
            "last",
            Aggregate::group(Grouping::by(["tags"]).limit(4)).among(field("id").lt(9)),
        );
    let clock = || Duration::ZERO;
    let much = answer(&shards, &query, &Options::default()).unwrap();
    for workers in [None, workers(2)] {
        let little = Options {
            memory_bytes_max: 20_000,
            clock: Some(&clock),
            workers,
            ..Options::default()
        };
        let mut found = answer(&shards, &query, &little).unwrap();
        let passes = found.explain.take().unwrap().passes;
        assert!((24..600).contains(&passes), "{passes}");
        assert_eq!(found, much);
    }
    // A query that is stopped in the midst of its passes says that it is partial.
    let calls = std::sync::atomic::AtomicU32::new(0);
    let stop = || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 60;
    let stopped = Options {
        memory_bytes_max: 20_000,
        stop: Some(&stop),
        partial: true,
        ..Options::default()
    };
    assert!(answer(&shards, &query, &stopped).unwrap().is_partial);
}

#[test]
fn a_query_that_would_hold_too_much_is_an_error() {
    let documents = (0..2_000).map(|id| {
        Document::from_json(
            format!(r#"{{"id":{id},"name":"a name of some length {id}"}}"#).as_bytes(),
        )
        .unwrap()
    });
    let shard = [documents.collect::<ModelShard>()];
    let little = Options {
        memory_bytes_max: 10_000,
        ..Options::default()
    };
    for query in [
        find_all().order_by(field("name").ascending()),
        find_all(),
        find_all()
            .limit(0)
            .aggregate("a", crate::Aggregate::histogram("id", 1.0)),
        // The result alone is larger.
        find_all()
            .limit(0)
            .aggregate("a", crate::Aggregate::terms("name", 2_000)),
        find_all()
            .limit(0)
            .aggregate("a", crate::Aggregate::group(crate::Grouping::by(["name"]))),
    ] {
        let error = answer(&shard, &query, &little).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{query:?}");
    }
    let few = find_all()
        .order_by(field("name").descending())
        .skip(5)
        .limit(20)
        .with_count();
    assert_eq!(answer(&shard, &few, &little).unwrap().hits.len(), 20);
    // Hits that are shown one by one are not held.
    let mut seen = 0;
    let all = prepared(&find_all());
    all.for_each(&[&shard[0]], &little, &mut |_| {
        seen += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(seen, 2_000);
}

#[test]
fn a_query_that_is_stopped_is_an_error_and_executes_no_more() {
    let checks = std::sync::atomic::AtomicU32::new(0);
    let stop = || checks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1;
    let options = Options {
        stop: Some(&stop),
        ..Options::default()
    };
    let [one, other] = cars();
    let shards = [one.clone(), other, one];
    let error = answer(&shards, &find_all(), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stopped);
    assert_eq!(checks.into_inner(), 2);
}

#[test]
fn an_explanation_says_what_was_executed_and_what_was_not() {
    let clock = || Duration::from_micros(7);
    let options = Options {
        clock: Some(&clock),
        ..Options::default()
    };
    let filter = Filter::parse("price > 1 AND (mark = 'audi' OR mark = 'fiat')").unwrap();
    let query = Query {
        order: Order::parse_list("price desc").unwrap(),
        ..find(filter).limit(1).with_count()
    };
    let explain = answer(&cars(), &query, &options).unwrap().explain.unwrap();
    assert_eq!(
        (explain.shards, explain.pruned, explain.documents),
        (2, 1, 3)
    );
    let text = explain.to_string();
    assert!(text.contains("mark IN ('audi', 'fiat')"), "{text}");
    assert!(
        text.starts_with("3 documents in 2 shards; 1 pruned"),
        "{text}"
    );
}

#[test]
fn the_first_hits_are_found_among_the_first_documents_if_they_are_there() {
    let documents = (0..1000).map(|n| {
        let (even, late) = (n % 2 == 0, n < 500);
        let json = format!(r#"{{"n":{},"even":{even},"late":{late}}}"#, n / 3);
        Document::from_json(json.as_bytes()).unwrap()
    });
    let shards = [documents.collect::<ModelShard>()];
    let clock = || Duration::from_micros(7);
    let options = Options {
        clock: Some(&clock),
        ..Options::default()
    };
    let newest = |filter: &str| {
        let query = find(Filter::parse(filter).unwrap()).limit(4);
        let query = query.order_by(field("n").descending());
        let answer = answer(&shards, &query, &options).unwrap();
        let docs: Vec<_> = answer.hits.iter().map(|hit| hit.doc).collect();
        (docs, answer.explain.unwrap().first)
    };
    // Half of the first are expected to match; ties are tested together, and ordered by docid.
    assert_eq!(newest("even = true"), (vec![996, 998, 994, 990], 19));
    // Half of all match, and none among the first.
    assert_eq!(newest("late = true"), (vec![498, 499, 495, 496], 0));
    // Too few match for testing the first ones to pay.
    assert_eq!(newest("n = 100"), (vec![300, 301, 302], 0));
}

#[test]
fn a_page_past_the_end_or_of_nothing_is_empty_and_still_counted() {
    for query in [
        find_all().limit(0),
        find_all().skip(u64::MAX),
        find_all().skip(3).limit(u64::MAX),
    ] {
        for query in [query.clone(), query.order_by(field("price").ascending())] {
            let answer = answer(&cars(), &query.with_count(), &Options::default()).unwrap();
            assert_eq!((answer.hits, answer.count), (vec![], Some(3)));
        }
    }
}

#[test]
fn an_error_of_memory_names_the_limit_of_the_query() {
    let documents = (0..3_000).map(|n| format!(r#"{{"a":"value {n}"}}"#));
    let shard: ModelShard = documents
        .map(|json| Document::from_json(json.as_bytes()).unwrap())
        .collect();
    let terms = crate::Aggregate::terms("a", 3_000);
    let query = find_all().limit(0).aggregate("a", terms);
    let shards = [shard];
    for memory_bytes_max in [5 * LITTLE, 10 * LITTLE, 20 * LITTLE] {
        let options = Options {
            memory_bytes_max,
            ..Options::default()
        };
        let error = answer(&shards, &query, &options).map(drop).unwrap_err();
        let crate::Error::TooLarge { bytes_max, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(bytes_max, memory_bytes_max);
    }
}
