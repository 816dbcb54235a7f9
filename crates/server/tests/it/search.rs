//! Searches and counts with a query.

use quire_query::testing::{Case, naive};
use quiredb::Document;
use quiredb::query::{Filter, Path, Value};
use serde_json::{Value as Json, json};
use std::ops::Bound;

use crate::site::{Reply, Site};

/// Four cars, one of them in a collection of its own.
async fn cars() -> Site {
    let site = Site::new();
    let put = [
        (
            "cars",
            "1",
            r#"{"mark":"audi","price":12,"at":{"city":"Ulm"},"tags":["new","red"],"sold":false}"#,
        ),
        (
            "cars",
            "2",
            r#"{"mark":"fiat","price":7.5,"at":{"city":"Bonn"},"tags":["old"],"sold":true}"#,
        ),
        (
            "cars",
            "c",
            r#"{"mark":"audi","price":30,"tags":[],"note":null}"#,
        ),
        ("vans", "4", r#"{"mark":"ford","price":21}"#),
    ];
    for (collection, id, document) in put {
        let path = format!("PUT /{collection}/_doc/{id}");
        site.call(&path, document).await.done(201);
    }
    site
}

pub(crate) fn ids(reply: &Json) -> Vec<&str> {
    let hits = reply["hits"]["hits"].as_array().unwrap();
    hits.iter()
        .map(|hit| hit["_id"].as_str().unwrap())
        .collect()
}

/// The reason of a refusal with status 400.
#[track_caller]
pub(crate) fn refusal(reply: &Reply) -> String {
    assert_eq!(reply.status, 400, "{}", reply.text);
    reply.json()["error"]["reason"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn queries_match_the_right_documents() {
    let site = cars().await;
    for (query, expected) in [
        (json!({"match_all": {}}), &["1", "2", "c"][..]),
        (json!({"match_none": {}}), &[]),
        (json!({"term": {"mark": "audi"}}), &["1", "c"]),
        (json!({"term": {"price": {"value": 7.5}}}), &["2"]),
        (json!({"term": {"sold": true}}), &["2"]),
        (json!({"term": {"tags": "red"}}), &["1"]),
        (json!({"term": {"at.city": "Ulm"}}), &["1"]),
        (json!({"term": {"price": "12"}}), &["1"]),
        (json!({"terms": {"mark": ["fiat", "ford", 7]}}), &["2"]),
        (
            json!({"range": {"price": {"gt": 7.5, "lte": 30}}}),
            &["1", "c"],
        ),
        (
            json!({"range": {"price": {"gte": 7.5, "lt": 12.0}}}),
            &["2"],
        ),
        (json!({"range": {"mark": {"gte": "b"}}}), &["2"]),
        (json!({"range": {"price": {}}}), &["1", "2", "c"]),
        (json!({"exists": {"field": "at"}}), &["1", "2"]),
        (json!({"exists": {"field": "at.city"}}), &["1", "2"]),
        (json!({"exists": {"field": "note"}}), &[]),
        (json!({"prefix": {"at.city": "B"}}), &["2"]),
        (json!({"prefix": {"mark": {"value": "au"}}}), &["1", "c"]),
        (json!({"ids": {"values": ["1", "c", "x"]}}), &["1", "c"]),
        (json!({"term": {"_id": "2"}}), &["2"]),
        (
            json!({"constant_score": {"filter": {"term": {"mark": "fiat"}}}}),
            &["2"],
        ),
        (json!({"bool": {}}), &["1", "2", "c"]),
        (
            json!({"bool": {"filter": [
                {"term": {"mark": "audi"}}, {"range": {"price": {"lt": 20}}}
            ]}}),
            &["1"],
        ),
        (
            json!({"bool": {
                "must": {"term": {"mark": "audi"}}, "must_not": {"exists": {"field": "sold"}}
            }}),
            &["c"],
        ),
        (
            json!({"bool": {"should": [{"term": {"mark": "fiat"}}, {"term": {"tags": "new"}}]}}),
            &["1", "2"],
        ),
        (
            json!({"bool": {"filter": {"match_all": {}}, "should": {"term": {"mark": "fiat"}}}}),
            &["1", "2", "c"],
        ),
        (
            json!({"bool": {
                "filter": {"match_all": {}}, "should": {"term": {"mark": "fiat"}},
                "minimum_should_match": "1"
            }}),
            &["2"],
        ),
        // Without a clause that is required, one of the others must match.
        (
            json!({"bool": {"should": {"term": {"mark": "fiat"}}, "minimum_should_match": 0}}),
            &["2"],
        ),
        (
            json!({"bool": {
                "should": [
                    {"term": {"mark": "audi"}}, {"range": {"price": {"lt": 20}}},
                    {"term": {"mark": "fiat"}}
                ],
                "minimum_should_match": 2
            }}),
            &["1", "2"],
        ),
        (
            json!({"bool": {"should": {"match_all": {}}, "minimum_should_match": 2}}),
            &[],
        ),
    ] {
        let body = json!({"query": query, "sort": "_id"}).to_string();
        let reply = site.call("POST /cars/_search", body).await.done(200);
        assert_eq!(ids(&reply), expected, "{query}");
        assert_eq!(
            reply["hits"]["total"],
            json!({"value": expected.len(), "relation": "eq"})
        );
        let body = json!({"query": query}).to_string();
        let count = site.call("POST /cars/_count", body).await.done(200);
        assert_eq!(count["count"], expected.len(), "{query}");
        assert_eq!(count["_shards"]["failed"], 0);
    }
}

#[tokio::test]
async fn aggregations_see_what_a_post_filter_leaves_out() {
    let site = cars().await;
    let body = json!({
        "query": {"exists": {"field": "mark"}}, "post_filter": {"term": {"mark": "audi"}},
        "aggs": {"marks": {"terms": {"field": "mark"}}}, "sort": "_id"
    });
    let reply = site.call("POST /cars/_search", body.to_string()).await;
    let reply = reply.done(200);
    assert_eq!(ids(&reply), ["1", "c"]);
    assert_eq!(reply["hits"]["total"]["value"], 2);
    let buckets = json!([{"key": "audi", "doc_count": 2}, {"key": "fiat", "doc_count": 1}]);
    assert_eq!(reply["aggregations"]["marks"]["buckets"], buckets);
    // A page that goes on, and one that is read in pieces.
    let after = json!({"search_after": ["1"]});
    let after = merged(&body, &after);
    let reply = site.call("POST /cars/_search", after).await.done(200);
    assert_eq!(ids(&reply), ["c"]);
    assert_eq!(reply["hits"]["total"]["value"], 2);
    assert_eq!(reply["aggregations"]["marks"]["buckets"], buckets);
    for sort in [json!("_id"), json!(null)] {
        let body = merged(&body, &json!({"size": 1, "sort": sort}));
        let reply = site.call("POST /cars/_search?scroll=1m", body).await;
        let reply = reply.done(200);
        assert_eq!(ids(&reply), ["1"]);
        assert_eq!(reply["aggregations"]["marks"]["buckets"], buckets);
        let next = json!({"scroll_id": reply["_scroll_id"]}).to_string();
        let reply = site.call("POST /_search/scroll", next).await.done(200);
        assert_eq!(ids(&reply), ["c"]);
    }
    let refused = json!({"post_filter": {"more_like_this": {"mark": "a"}}}).to_string();
    let refused = site.call("POST /cars/_search", refused).await;
    assert_eq!(refused.status, 400);
}

/// A body with other members.
fn merged(body: &Json, other: &Json) -> String {
    let mut body = body.clone();
    for (name, value) in other.as_object().unwrap() {
        body[name] = value.clone();
    }
    body.to_string()
}

#[tokio::test]
async fn a_page_is_sorted_cut_and_shown_as_requested() {
    let site = cars().await;
    let body = r#"{"sort":[{"price":{"order":"desc"}}],"from":1,"size":2,"_source":["mark","at"]}"#;
    let mut reply = site.call("GET /cars,vans/_search", body).await.done(200);
    let took = reply.as_object_mut().unwrap().remove("took");
    assert!(took.unwrap().is_u64());
    assert_eq!(
        reply["hits"],
        json!({"total": {"value": 4, "relation": "eq"}, "max_score": null, "hits": [
            {"_index": "vans", "_id": "4", "_score": null,
                "_source": {"mark": "ford"}, "sort": [21]},
            {"_index": "cars", "_id": "1", "_score": null,
                "_source": {"mark": "audi", "at": {"city": "Ulm"}}, "sort": [12]},
        ]})
    );
    assert_eq!(reply["timed_out"], false);
    let shards = &reply["_shards"];
    assert_eq!(
        (&shards["successful"], &shards["skipped"]),
        (&shards["total"], &json!(0))
    );

    let of = |uri: &'static str| async { site.get(uri).await.done(200) };
    let sorted = of("/cars/_search?sort=mark,price:desc&_source=false").await;
    assert_eq!(ids(&sorted), ["c", "1", "2"]);
    assert_eq!(
        sorted["hits"]["hits"][0],
        json!({"_index": "cars", "_id": "c", "_score": null, "sort": ["audi", 30]})
    );
    // Documents without the field come last, both ways.
    assert_eq!(
        ids(&of("/cars/_search?sort=at.city").await),
        ["2", "1", "c"]
    );
    assert_eq!(
        ids(&of("/cars/_search?sort=at.city:desc").await),
        ["1", "2", "c"]
    );
    let unsorted = of("/_search?size=1&track_total_hits=false").await;
    assert_eq!(unsorted["hits"]["max_score"], 1.0);
    assert_eq!(unsorted["hits"]["hits"][0]["_score"], 1.0);
    assert!(unsorted["hits"].get("total").is_none());
    assert_eq!(of("/cars/_search?from=7").await["hits"]["hits"], json!([]));
    let filtered = of("/cars/_search?sort=price&size=1&filter_path=hits.hits._id,-took").await;
    assert_eq!(filtered, json!({"hits": {"hits": [{"_id": "2"}]}}));
    site.get("/boats/_search")
        .await
        .refused(404, "index_not_found_exception");
}

#[tokio::test]
async fn aggregations_are_about_all_that_match() {
    let site = cars().await;
    let body = json!({"size": 0, "aggs": {
        "marks": {"terms": {"field": "mark", "size": 1}},
        "sold": {"terms": {"field": "sold"}},
        "least": {"min": {"field": "price"}}, "most": {"max": {"field": "price"}},
        "mean": {"avg": {"field": "price"}}, "all": {"sum": {"field": "price"}},
        "none": {"avg": {"field": "nowhere"}},
        "tags": {"cardinality": {"field": "tags"}},
        "tens": {"histogram": {"field": "price", "interval": 10}},
        "full": {"histogram": {"field": "price", "interval": 10, "min_doc_count": 1}},
    }});
    let reply = site
        .call("POST /cars/_search", body.to_string())
        .await
        .done(200);
    assert_eq!(
        reply["hits"],
        json!({"total": {"value": 3, "relation": "eq"}, "max_score": null, "hits": []})
    );
    let bucket = |key: f64, count: u64| json!({"key": key, "doc_count": count});
    assert_eq!(
        reply["aggregations"],
        json!({
            "marks": {"doc_count_error_upper_bound": 0, "sum_other_doc_count": 1,
                "buckets": [{"key": "audi", "doc_count": 2}]},
            "sold": {"doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": [
                {"key": 0, "key_as_string": "false", "doc_count": 1},
                {"key": 1, "key_as_string": "true", "doc_count": 1}]},
            "least": {"value": 7.5}, "most": {"value": 30.0},
            "mean": {"value": 16.5}, "all": {"value": 49.5},
            "none": {"value": null},
            "tags": {"value": 3},
            "tens": {"buckets": [
                bucket(0.0, 1), bucket(10.0, 1), bucket(20.0, 0), bucket(30.0, 1)]},
            "full": {"buckets": [bucket(0.0, 1), bucket(10.0, 1), bucket(30.0, 1)]},
        })
    );
}

#[tokio::test]
async fn what_is_unknown_is_refused_by_name() {
    let site = cars().await;
    for (body, name) in [
        (r#"{"query":{"match":{"mark":"audi"}}}"#, "[match]"),
        (
            r#"{"query":{"bool":{"filter":[{"more_like_this":{"mark":"a"}}]}}}"#,
            "[more_like_this]",
        ),
        (
            r#"{"query":{"bool":{"filter":[],"adjust_pure_negative":false}}}"#,
            "[adjust_pure_negative]",
        ),
        (
            r#"{"query":{"bool":{"should":[],"minimum_should_match":"all"}}}"#,
            "[minimum_should_match]",
        ),
        (
            r#"{"query":{"term":{"mark":{"value":"a","case_insensitive":"yes"}}}}"#,
            "[case_insensitive]",
        ),
        (r#"{"query":{"term":{"mark":null}}}"#, "null"),
        (r#"{"query":{"term":{"mark":["a"]}}}"#, "[term]"),
        (r#"{"query":{"term":{"a":1,"b":2}}}"#, "[b]"),
        (r#"{"query":{"terms":{"mark":["a"],"boost":2}}}"#, "[boost]"),
        (r#"{"query":{"terms":{"mark":{"index":"x"}}}}"#, "[id]"),
        (
            r#"{"query":{"range":{"price":{"gt":1,"format":"qq"}}}}"#,
            "[format]",
        ),
        (
            r#"{"query":{"range":{"added":{"gt":"now-1d/d"}}}}"#,
            "date math",
        ),
        (r#"{"query":{"range":{"price":{"gt":1,"gte":2}}}}"#, "[gte]"),
        (
            r#"{"query":{"range":{"price":{"gt":1,"lt":"z"}}}}"#,
            "For input string",
        ),
        (r#"{"query":{}}"#, "[query] is empty"),
        (r#"{"query":[]}"#, "[query]"),
        (r#"{"highlight":{}}"#, "[highlight]"),
        (r#"{"search_after":[1]}"#, "[search_after]"),
        (r#"{"size":-1}"#, "[size]"),
        (r#"{"sort":[{"price":{"order":"up"}}]}"#, "[up]"),
        (r#"{"sort":[{"price":{"missing":[7]}}]}"#, "[missing]"),
        (r#"{"sort":[{"price":"desc","mark":"asc"}]}"#, "[mark]"),
        (r#"{"track_total_hits":"some"}"#, "[track_total_hits]"),
        (r#"{"_source":7}"#, "[_source]"),
        (r#"{"aggs":{"a":{"min":{"script":"1"}}}}"#, "[script]"),
        (
            r#"{"aggs":{"a":{"histogram":{"field":"price","interval":0}}}}"#,
            "[interval]",
        ),
        (
            r#"{"aggs":{"a":{"histogram":{"field":"price","interval":0.0001}}}}"#,
            "buckets",
        ),
    ] {
        let reason = refusal(&site.call("POST /cars/_search", body).await);
        assert!(reason.contains(name), "{body}: {reason}");
    }
    for (uri, name) in [
        ("/cars/_search?q=mark:audi", "[query_string] on [mark]"),
        ("/cars/_search?scroll=1", "such as [5m]"),
        (
            "/cars/_search?expand_wildcards=ajar",
            "expand wildcard value [ajar]",
        ),
        (
            "/cars/_search?search_type=dfs_query_then_fetch",
            "[search_type]",
        ),
        ("/cars/_search?size=x", "[size]"),
    ] {
        let reason = refusal(&site.get(uri).await);
        assert!(reason.contains(name), "{uri}: {reason}");
    }
    let nested = format!(
        "{}{}{}",
        r#"{"query":"#,
        r#"{"bool":{"filter":"#.repeat(70),
        r#"{"match_all":{}}"#
    );
    let nested = nested + &"}}".repeat(70) + "}";
    // A filter this deep is refused by the JSON parser or by the planner.
    refusal(&site.call("POST /cars/_search", nested).await);
}

/// A filter as the server takes it: a value is found in each form that a document may have it in.
fn in_all_forms(filter: &mut Filter) {
    match filter {
        Filter::And(filters) | Filter::Or(filters) => filters.iter_mut().for_each(in_all_forms),
        Filter::Not(one) => in_all_forms(one),
        Filter::Eq(path, value) => {
            *filter = Filter::In(path.clone(), vec![value.clone()]);
            in_all_forms(filter);
        }
        Filter::In(_, values) => {
            let other = |value: &Value| match value.as_str() {
                Some(text) if *text == *"true" || *text == *"false" => {
                    Some(Value::from(*text == *"true"))
                }
                Some(text) => Value::from_numeral(&text),
                None => Some(Value::from(value.to_string().to_ascii_lowercase())),
            };
            let others: Vec<Value> = values.iter().filter_map(other).collect();
            values.extend(others);
        }
        _ => {}
    }
}

/// A filter in the query DSL; none if the DSL can't express it, or a range is about values of
/// other types too, of which `documents` are.
fn dsl(filter: &Filter, documents: &[Document]) -> Option<Json> {
    let dsl = |filter: &Filter| dsl(filter, documents);
    let has = |filter: Filter| {
        let count = naive::answer(&[documents], &quiredb::query::find(filter).with_count()).count;
        count != Some(0)
    };
    let value = |value: &Value| -> Option<Json> {
        let mut json = Vec::new();
        value.write_json(&mut json);
        let json: Json = serde_json::from_slice(&json).unwrap();
        (!json.is_null()).then_some(json)
    };
    let all = |filters: &[Filter]| filters.iter().map(dsl).collect::<Option<Vec<_>>>();
    // Its paths choose no elements of arrays.
    let name = |path: &Path| (!path.has_elements()).then(|| path.as_str().to_owned());
    Some(match filter {
        Filter::All => json!({"match_all": {}}),
        Filter::Eq(path, of) => json!({"term": {name(path)?: value(of)?}}),
        Filter::In(path, values) => {
            let values: Option<Vec<_>> = values.iter().map(value).collect();
            json!({"terms": {name(path)?: values?}})
        }
        Filter::Range(path, lower, upper) => {
            let texts = Filter::Range(path.clone(), Bound::Included("".into()), Bound::Unbounded);
            let least = Bound::Included(f64::NEG_INFINITY.into());
            let numbers = Filter::Range(path.clone(), least, Bound::Unbounded);
            let is_text = |bound: &Bound<Value>| match bound {
                Bound::Included(of) | Bound::Excluded(of) => of.as_str().is_some(),
                Bound::Unbounded => false,
            };
            match is_text(lower) || is_text(upper) {
                true if has(numbers) => return None,
                false if has(texts) => return None,
                _ => {}
            }
            let mut bounds = serde_json::Map::new();
            for (bound, [open, closed]) in [(lower, ["gt", "gte"]), (upper, ["lt", "lte"])] {
                match bound {
                    Bound::Included(of) => bounds.insert(closed.into(), value(of)?),
                    Bound::Excluded(of) => bounds.insert(open.into(), value(of)?),
                    Bound::Unbounded => None,
                };
            }
            json!({"range": {name(path)?: bounds}})
        }
        Filter::Prefix(path, prefix) => json!({"prefix": {name(path)?: prefix}}),
        // The query DSL has another sign for the letter that escapes.
        Filter::Like(..) => return None,
        // It has no words for these.
        Filter::Cast(..) | Filter::Slice { .. } => return None,
        Filter::Exists(path) => json!({"exists": {"field": name(path)?}}),
        Filter::And(filters) => json!({"bool": {"filter": all(filters)?}}),
        Filter::Or(filters) if filters.is_empty() => json!({"match_none": {}}),
        Filter::Or(filters) => json!({"bool": {"should": all(filters)?}}),
        Filter::Not(filter) => json!({"bool": {"must_not": [dsl(filter)?]}}),
    })
}

#[tokio::test]
async fn counts_of_generated_queries_are_those_of_the_definition() {
    let mut checked = 0;
    for seed in 0..40 {
        let site = Site::new();
        let case = Case::from_seed(seed);
        let mut lines = String::new();
        for (number, document) in case.documents.iter().enumerate() {
            lines += &format!(
                "{{\"index\":{{\"_id\":\"{number}\"}}}}\n{}\n",
                document.to_json()
            );
        }
        if !lines.is_empty() {
            site.call("POST /c/_bulk", lines).await.done(200);
        } else {
            site.call("PUT /c", "").await.done(200);
        }
        let documents: &[Document] = &case.documents;
        for query in &case.queries {
            let Some(filter) = dsl(&query.filter, documents) else {
                continue;
            };
            let mut query = query.clone().with_count();
            in_all_forms(&mut query.filter);
            let right = naive::answer(&[documents], &query).count;
            let body = json!({"query": &filter}).to_string();
            let reply = site.call("POST /c/_count", body).await.done(200);
            assert_eq!(reply["count"].as_u64(), right, "seed {seed}: {filter}");
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked}");
}

#[tokio::test]
async fn a_long_answer_is_whole() {
    let site = Site::new();
    let word = "a kettle of copper, ".repeat(40);
    let mut lines = String::new();
    for number in 0..3_000 {
        lines += &format!(
            "{{\"index\":{{\"_id\":\"{number}\"}}}}\n{{\"n\":{number},\"word\":\"{word}\"}}\n"
        );
    }
    site.call("POST /c/_bulk", lines).await.done(200);
    let reply = site.get("/c/_search?size=5000&sort=n:desc").await.done(200);
    let expected: Vec<String> = (0..3_000)
        .rev()
        .map(|number: u32| number.to_string())
        .collect();
    assert_eq!(ids(&reply), expected);
    assert_eq!(
        reply["hits"]["hits"][7]["_source"],
        json!({"n": 2_992, "word": word})
    );
}

#[tokio::test]
async fn a_search_ends_after_its_time() {
    let site = cars().await;
    let query = r#"{"query":{"range":{"price":{"gt":1}}},"timeout":"0ms"}"#;
    let reply = site.call("POST /cars/_search", query).await;
    assert_eq!(reply.status, 503, "{}", reply.text);
    let partial = "POST /cars/_search?allow_partial_search_results=true";
    assert_eq!(site.call(partial, query).await.done(200)["timed_out"], true);
    let long = r#"{"timeout":"1m"}"#;
    assert_eq!(site.call(partial, long).await.done(200)["timed_out"], false);
    for wrong in [
        r#"{"timeout":5}"#,
        r#"{"timeout":"5"}"#,
        r#"{"timeout":"1y"}"#,
    ] {
        let reason = refusal(&site.call(partial, wrong).await);
        assert!(reason.contains("timeout"), "{reason}");
    }
}

/// A request with a body, also one of JSON.
pub(crate) async fn request(site: &Site, line: &str, body: impl std::fmt::Display) -> Reply {
    site.call(line, body.to_string()).await
}

#[tokio::test]
async fn many_searches_are_answered_each_on_its_own() {
    let site = cars().await;
    let body = concat!(
        "{\"index\":\"cars\"}\n{\"query\":{\"term\":{\"mark\":\"audi\"}},\"size\":1}\n",
        "{\"index\":[\"cars\",\"vans\"]}\n{\"size\":0}\n",
        "{\"index\":\"none\"}\n{}\n",
        "{}\n{\"query\":{\"more_like_this\":{}}}\n",
        "\n{\"size\":0,\"aggs\":{\"m\":{\"terms\":{\"field\":\"mark\"}}}}\n",
    );
    let reply = request(&site, "POST /_msearch?typed_keys=true", body)
        .await
        .json();
    let responses = reply["responses"].as_array().unwrap();
    assert_eq!(responses.len(), 5);
    assert_eq!(responses[0]["hits"]["total"]["value"], 2);
    assert_eq!(
        (&responses[0]["status"], ids(&responses[0]).len()),
        (&json!(200), 1)
    );
    assert_eq!(responses[1]["hits"]["total"]["value"], 4);
    assert_eq!(responses[2]["status"], 404);
    assert_eq!(responses[3]["status"], 400);
    assert_eq!(
        responses[4]["aggregations"]["sterms#m"]["buckets"][0]["key"],
        "audi"
    );
    let cut = request(&site, "POST /cars/_msearch", "{}\n").await;
    assert_eq!(cut.status, 400);
}

#[tokio::test]
async fn what_matches_is_deleted_by_query() {
    let site = cars().await;
    let query = json!({"query": {"term": {"mark": "audi"}}});
    let path = "POST /cars/_delete_by_query?conflicts=proceed&refresh=true";
    let reply = request(&site, path, &query).await.json();
    assert_eq!((&reply["total"], &reply["deleted"]), (&json!(2), &json!(2)));
    assert_eq!(reply["failures"], json!([]));
    assert_eq!(
        request(&site, "GET /cars/_count", "").await.json()["count"],
        1
    );
    let one = json!({"query": {"match_all": {}}, "max_docs": 1});
    let reply = request(&site, "POST /*/_delete_by_query", one).await.json();
    assert_eq!(reply["deleted"], 1);
    let all = request(&site, "POST /cars/_delete_by_query", "{}").await;
    assert!(refusal(&all).contains("query is missing"));
}

#[tokio::test]
async fn a_dotted_name_is_a_path_and_keyword_is_the_field() {
    let site = Site::new();
    for (id, document) in [
        ("1", r#"{"service.name":"web","n":1}"#),
        ("2", r#"{"service":{"name":"web"},"n":2}"#),
        (
            "3",
            r#"{"service":{"name":"api"},"search":{"keyword":"x"}}"#,
        ),
    ] {
        request(&site, &format!("PUT /logs/_doc/{id}"), document)
            .await
            .done(201);
    }
    for index in ["none", "all"] {
        let settings = json!({"quire": {"index": index}});
        request(&site, "PUT /logs/_settings", settings)
            .await
            .done(200);
        for field in ["service.name", "service.name.keyword"] {
            let search = json!({
                "query": {"term": {field: "web"}},
                "sort": [{field: "asc"}, {"n": "asc"}],
                "aggs": {"names": {"terms": {"field": field}}},
            });
            let reply = request(&site, "POST /logs/_search", search).await.json();
            assert_eq!(ids(&reply), ["1", "2"], "{field}");
            assert_eq!(reply["hits"]["hits"][0]["sort"], json!(["web", 1]));
            let buckets = json!([{"key": "web", "doc_count": 2}]);
            assert_eq!(reply["aggregations"]["names"]["buckets"], buckets);
            let exists = json!({"query": {"exists": {"field": field}}});
            let count = request(&site, "POST /logs/_count", exists).await.json();
            assert_eq!(count["count"], 3);
        }
        let search = json!({
            "query": {"term": {"search.keyword": "x"}},
            "sort": ["search.keyword"],
            "aggs": {"x": {"terms": {"field": "search.keyword"}}},
        });
        let reply = request(&site, "POST /logs/_search", search).await.json();
        assert_eq!(ids(&reply), ["3"]);
        assert_eq!(reply["hits"]["hits"][0]["sort"], json!(["x"]));
        assert_eq!(reply["aggregations"]["x"]["buckets"][0]["doc_count"], 1);
    }
}

#[tokio::test]
async fn fields_that_no_document_has_are_refused_by_name() {
    let site = cars().await;
    for name in ["_primary_term", "_seq_no", "_version"] {
        for search in [
            json!({"query": {"term": {name: 1}}}),
            json!({"query": {"terms": {name: [1]}}}),
            json!({"query": {"range": {name: {"gte": 1}}}}),
            json!({"query": {"exists": {"field": name}}}),
            json!({"query": {"prefix": {name: "a"}}}),
            json!({"sort": [name]}),
            json!({"aggs": {"a": {"max": {"field": name}}}}),
        ] {
            let refused = request(&site, "POST /cars/_search", &search).await;
            assert!(refusal(&refused).contains(name), "{search}");
        }
    }
}

#[tokio::test]
async fn what_every_client_sends_is_understood() {
    let site = cars().await;
    let path = "POST /cars/_search?typed_keys=true&rest_total_hits_as_int=true\
        &ignore_unavailable=true&ignore_throttled=true&allow_no_indices=true\
        &expand_wildcards=open,closed,hidden&ccs_minimize_roundtrips=true&error_trace=true";
    let search = json!({
        "query": {"bool": {
            "must": [{"term": {"mark": {"value": "audi", "boost": 1.0}}}],
            "filter": [{"range": {"price": {
                "from": 12, "to": null, "include_lower": true, "include_upper": true, "boost": 1.0,
            }}}],
            "adjust_pure_negative": true, "boost": 1.0,
        }},
        "_source": {"includes": "mark", "excludes": []},
        "stored_fields": null, "version": true, "seq_no_primary_term": true,
        "aggs": {"p": {"max": {"field": "price"}}, "s": {"terms": {"field": "sold"}}},
    });
    let reply = request(&site, path, search).await.json();
    assert_eq!(reply["hits"]["total"], 2);
    assert_eq!(reply["aggregations"]["max#p"]["value"], 30.0);
    assert_eq!(
        reply["aggregations"]["lterms#s"]["buckets"][0]["doc_count"],
        1
    );
    let hit = &reply["hits"]["hits"][0];
    assert_eq!(hit["_source"], json!({"mark": "audi"}));
    assert!(hit["_version"].is_u64() && hit["_seq_no"].is_u64(), "{hit}");
    let none = request(&site, "GET /x*/_search?allow_no_indices=false", "").await;
    assert_eq!(none.status, 404);
    let boosted = json!({"query": {"term": {"mark": {"value": "audi", "boost": 2.0}}}});
    assert!(refusal(&request(&site, "POST /cars/_search", boosted).await).contains("boost"));
    let put = request(&site, "PUT /cars/_doc/9?refresh=true", "{}")
        .await
        .json();
    assert_eq!(put["forced_refresh"], true);
    let bulk = "{\"index\":{\"_id\":\"9\"}}\n{}\n";
    let bulk = request(&site, "POST /cars/_bulk?refresh=true", bulk)
        .await
        .json();
    assert_eq!(bulk["items"][0]["index"]["forced_refresh"], true);
    let info = request(&site, "GET /", "").await.json();
    assert!(info["version"]["build_date"].is_string());
    for (path, status) in [("HEAD /cars/_doc/none", 404), ("HEAD /cars/_doc/1", 200)] {
        let reply = request(&site, path, "").await;
        assert_eq!((reply.status, reply.text.as_str()), (status, ""));
    }
}
