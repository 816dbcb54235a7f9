//! Values that documents have in several forms are searched, sorted, counted and shown by the type
//! that the mapping gives their field; documents stay as they were sent.

use serde_json::{Value as Json, json};

use crate::site::{Reply, Site};

/// A collection with these types and documents, which have the ids `a`, `b`, `c`, ….
async fn site(properties: Json, settings: Json, documents: &[Json]) -> Site {
    let site = Site::new();
    let body = json!({"mappings": {"properties": properties}, "settings": settings});
    site.call("PUT /t", body.to_string()).await.done(200);
    for (id, document) in ('a'..='z').zip(documents) {
        let path = format!("PUT /t/_doc/{id}");
        site.call(&path, document.to_string()).await.done(201);
    }
    site
}

async fn search(site: &Site, body: Json) -> Reply {
    site.call("POST /t/_search", body.to_string()).await
}

/// The hits of a search: the id of each, and one member of it.
async fn hits(site: &Site, body: Json, member: &str) -> Vec<(String, Json)> {
    let reply = search(site, body.clone()).await;
    assert_eq!(reply.status, 200, "{body}: {}", reply.text);
    let reply = reply.json();
    let hits = reply["hits"]["hits"].as_array().unwrap().iter();
    let id = |hit: &Json| hit["_id"].as_str().unwrap_or_default().to_owned();
    hits.map(|hit| (id(hit), hit[member].clone())).collect()
}

async fn ids(site: &Site, body: Json) -> String {
    let hits = hits(site, body, "_id").await;
    hits.into_iter().map(|(id, _)| id).collect()
}

/// Each page of one hit after the one before gives the documents of one page of all.
async fn check_pages(site: &Site, sort: Json) {
    let all = ids(site, json!({"sort": sort})).await;
    let (mut paged, mut after) = (String::new(), None);
    for _ in 0..=all.len() {
        let mut body = json!({"sort": sort, "size": 1});
        if let Some(after) = after {
            body["search_after"] = after;
        }
        let page = hits(site, body, "sort").await;
        let Some((id, place)) = page.into_iter().next() else {
            break;
        };
        paged.push_str(&id);
        after = Some(place);
    }
    assert_eq!(paged, all, "{sort}");
}

#[tokio::test]
async fn a_type_is_compared_with_many_values_of_a_field() {
    let site = Site::new();
    for first in (0..60_000).step_by(20_000) {
        let line = |n: u64| {
            let half = f64::from(u32::try_from(n % 40_000).unwrap()) + 0.5;
            // One of many values, in one of many documents.
            let (late, name) = match n {
                59_990 => (json!("x"), json!({"first": "b"})),
                n => (json!(n.to_string()), json!(format!("t{n}"))),
            };
            let few = if n == 59_991 {
                json!(2.5)
            } else {
                json!(n % 7)
            };
            let document = json!({
                "half": half, "late": late, "few": few, "name": name, "n": n,
                "word": format!("t{n}"),
            });
            format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{document}\n")
        };
        let lines: String = (first..first + 20_000).map(line).collect();
        let done = site.call("POST /t/_bulk?refresh", lines).await.done(200);
        assert_eq!(done["errors"], false);
    }
    let put = async |field: &str, kind: &str| {
        let body = json!({"properties": {field: {"type": kind}}}).to_string();
        site.call("PUT /t/_mapping", body).await
    };
    for (field, kind, found) in [
        ("half", "long", ".5]: Value ["),
        (
            "late",
            "long",
            "the document with id '59990' has [x]: For input string",
        ),
        (
            "few",
            "byte",
            "the document with id '59991' has [2.5]: Value [2.5] is not a whole",
        ),
        (
            "name",
            "keyword",
            "the document with id '59990' has [{\"first\":\"b\"}]",
        ),
        ("word", "binary", "]: the value is not text of base64"),
        ("n", "short", "is out of range for a short"),
    ] {
        let refused = put(field, kind).await;
        assert_eq!(refused.status, 400, "{field} {kind}: {}", refused.text);
        let reason = refused.json()["error"]["reason"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(reason.contains(found), "{field} {kind}: {reason}");
    }
    for (field, kind) in [
        ("half", "double"),
        ("late", "text"),
        ("few", "float"),
        ("n", "date"),
    ] {
        let added = put(field, kind).await;
        assert_eq!(added.status, 200, "{field} {kind}: {}", added.text);
    }
}

#[tokio::test]
async fn null_is_sorted_as_a_missing_field() {
    let documents = [
        json!({"n": 2, "k": 1}),
        json!({"n": null, "k": 2}),
        json!({"k": 3}),
        json!({"n": [null, 1], "k": 4}),
    ];
    let site = site(json!({}), json!({}), &documents).await;
    for (how, expected) in [
        (json!("asc"), "dabc"),
        (json!("desc"), "adbc"),
        (json!({"missing": "_last"}), "dabc"),
        (json!({"missing": "_first"}), "bcda"),
        (json!({"order": "desc", "missing": "_first"}), "bcad"),
    ] {
        let sort = json!([{"n": how}, "k"]);
        assert_eq!(ids(&site, json!({"sort": sort})).await, expected, "{how}");
        check_pages(&site, sort).await;
    }
}

#[tokio::test]
async fn text_of_a_number_is_a_number_and_the_document_keeps_it() {
    let documents = [
        json!({"n": "10", "k": 200, "b": "true"}),
        json!({"n": 9, "k": "200", "b": false}),
        json!({"n": "9.0", "k": "40", "b": true}),
    ];
    let properties = json!({
        "n": {"type": "long"}, "k": {"type": "keyword"}, "b": {"type": "boolean"},
        "s": {"type": "long", "coerce": false},
    });
    let site = site(properties, json!({}), &documents).await;
    for (query, expected) in [
        (json!({"term": {"n": 9}}), "bc"),
        (json!({"term": {"n": "10"}}), "a"),
        (json!({"terms": {"n": [9, 10]}}), "abc"),
        (json!({"range": {"n": {"gt": 9}}}), "a"),
        (json!({"range": {"n": {"lte": "9"}}}), "bc"),
        (json!({"term": {"k": 200}}), "ab"),
        (json!({"range": {"k": {"lt": 300}}}), "ab"),
        (json!({"prefix": {"k": "20"}}), "ab"),
        (json!({"term": {"b": true}}), "ac"),
        (json!({"term": {"b": "false"}}), "b"),
    ] {
        assert_eq!(
            ids(&site, json!({"query": query})).await,
            expected,
            "{query}"
        );
    }
    let sorted = hits(
        &site,
        json!({"sort": [{"n": "desc"}, {"k": "asc"}]}),
        "sort",
    )
    .await;
    let places: Vec<Json> = sorted.into_iter().map(|(_, sort)| sort).collect();
    assert_eq!(
        places,
        [json!([10, "200"]), json!([9, "200"]), json!([9, "40"])]
    );
    check_pages(&site, json!([{"n": "desc"}, {"k": "asc"}])).await;
    check_pages(&site, json!([{"b": "desc"}, {"k": "asc"}, {"n": "asc"}])).await;
    let body = json!({"size": 0, "aggs": {
        "sum": {"sum": {"field": "n"}},
        "terms": {"terms": {"field": "k"}},
        "numbers": {"terms": {"field": "n"}, "aggs": {"max": {"max": {"field": "n"}}}},
    }});
    let said = search(&site, body).await.json()["aggregations"].clone();
    assert_eq!(said["sum"]["value"], 28.0);
    assert_eq!(
        said["terms"]["buckets"][0],
        json!({"key": "200", "doc_count": 2})
    );
    assert_eq!(
        said["numbers"]["buckets"][0],
        json!({"key": 9, "doc_count": 2, "max": {"value": 9.0}})
    );
    let kept = site.call("GET /t/_source/a", "").await;
    assert_eq!(kept.json(), documents[0]);
    for refused in [r#"{"n":"5.5"}"#, r#"{"n":"x"}"#, r#"{"s":"5"}"#] {
        assert_eq!(
            site.call("PUT /t/_doc/z", refused).await.status,
            400,
            "{refused}"
        );
    }
}

#[tokio::test]
async fn dates_are_sorted_and_measured_by_time_in_every_spelling() {
    let documents = [
        json!({"d": "2026-01-01T00:30:00+02:00"}),
        json!({"d": 1_767_222_000_000_i64}),
        json!({"d": "2026-01-01"}),
        json!({}),
        json!({"d": "2025-12-31T22:00:00Z"}),
    ];
    let site = site(json!({"d": {"type": "date"}}), json!({}), &documents).await;
    let sorted = hits(&site, json!({"sort": [{"d": "asc"}, "_id"]}), "sort").await;
    let shown: Vec<_> = sorted
        .iter()
        .map(|(id, sort)| (id.as_str(), &sort[0]))
        .collect();
    assert_eq!(
        shown,
        [
            ("e", &json!(1_767_218_400_000_i64)),
            ("a", &json!(1_767_220_200_000_i64)),
            ("b", &json!(1_767_222_000_000_i64)),
            ("c", &json!(1_767_225_600_000_i64)),
            ("d", &json!(null)),
        ]
    );
    check_pages(&site, json!([{"d": "asc"}])).await;
    check_pages(
        &site,
        json!([{"d": {"order": "desc", "missing": "_first"}}]),
    )
    .await;
    let body = json!({"size": 0, "aggs": {
        "min": {"min": {"field": "d"}}, "max": {"max": {"field": "d"}},
    }});
    let said = search(&site, body).await.json()["aggregations"].clone();
    let of = |millis: f64, text: &str| json!({"value": millis, "value_as_string": text});
    assert_eq!(
        said["min"],
        of(1_767_218_400_000.0, "2025-12-31T22:00:00.000Z")
    );
    assert_eq!(
        said["max"],
        of(1_767_225_600_000.0, "2026-01-01T00:00:00.000Z")
    );
}

#[tokio::test]
async fn addresses_are_sorted_as_addresses() {
    let documents = [
        json!({"ip": "10.0.0.10"}),
        json!({"ip": "10.0.0.9"}),
        json!({"ip": "2001:0db8::1"}),
        json!({"ip": "::ffff:9.0.0.1"}),
    ];
    let site = site(json!({"ip": {"type": "ip"}}), json!({}), &documents).await;
    let sorted = hits(&site, json!({"sort": ["ip"]}), "sort").await;
    let shown: Vec<_> = sorted
        .iter()
        .map(|(id, sort)| (id.as_str(), &sort[0]))
        .collect();
    assert_eq!(
        shown,
        [
            ("d", &json!("9.0.0.1")),
            ("b", &json!("10.0.0.9")),
            ("a", &json!("10.0.0.10")),
            ("c", &json!("2001:db8::1")),
        ]
    );
    check_pages(&site, json!([{"ip": "desc"}])).await;
}

#[tokio::test]
async fn a_sub_field_is_the_field() {
    let properties = json!({"x": {"type": "text", "fields": {"raw": {"type": "keyword"}}}});
    let documents = [json!({"x": "two words"}), json!({"x": "one"})];
    let site = site(properties, json!({}), &documents).await;
    for (query, expected) in [
        (json!({"term": {"x.raw": "two words"}}), "a"),
        (json!({"match": {"x.raw": "one"}}), "b"),
        (json!({"exists": {"field": "x.raw"}}), "ab"),
    ] {
        assert_eq!(
            ids(&site, json!({"query": query})).await,
            expected,
            "{query}"
        );
    }
    assert_eq!(ids(&site, json!({"sort": ["x.raw"]})).await, "ba");
    let body = json!({"size": 0, "aggs": {"t": {"terms": {"field": "x.raw"}}}});
    let said = search(&site, body).await.json();
    assert_eq!(said["aggregations"]["t"]["buckets"][0]["key"], "one");
}

#[tokio::test]
async fn fields_are_shown_by_their_types_and_formats() {
    let properties = json!({
        "n": {"type": "long"}, "d": {"type": "date"},
        "x": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
    });
    let documents = [
        json!({"n": ["6", 5, 6], "d": "2026-01-31T12:00:00+01:00", "x": ["y", "x", "y"],
                "o": {"p": 1.5}}),
    ];
    let site = site(properties, json!({}), &documents).await;
    let body = json!({
        "_source": false,
        "docvalue_fields": ["n", {"field": "d", "format": "yyyy-MM-dd"}, "nowhere"],
        "fields": ["x.raw", "o.*"],
    });
    let shown = hits(&site, body, "fields").await;
    let expected =
        json!({"n": [5, 6, 6], "d": ["2026-01-31"], "x.raw": ["y", "x", "y"], "o.p": [1.5]});
    assert_eq!(shown, [("a".to_owned(), expected)]);
    // Sorted, texts once; the order of the document, where both name a field.
    let body = json!({"docvalue_fields": ["n", "x.raw"], "fields": ["n"]});
    let shown = hits(&site, body, "fields").await;
    assert_eq!(shown[0].1, json!({"n": [6, 5, 6], "x.raw": ["x", "y"]}));
    let shown = hits(&site, json!({"fields": ["d"]}), "fields").await;
    assert_eq!(shown[0].1, json!({"d": ["2026-01-31T11:00:00.000Z"]}));
    for refused in [
        json!({"fields": [{"field": "n", "format": "yyyy"}]}),
        json!({"docvalue_fields": [{"field": "d", "format": "qq"}]}),
        json!({"fields": [5]}),
    ] {
        assert_eq!(
            search(&site, refused.clone()).await.status,
            400,
            "{refused}"
        );
    }
}

#[tokio::test]
async fn filters_of_aggregations_match_the_texts_of_keywords() {
    let properties = json!({"k": {"type": "keyword"}, "x": {"type": "text"}});
    let documents = [
        json!({"k": "New York", "x": "y"}),
        json!({"k": "York", "x": "y"}),
    ];
    let site = site(properties, json!({}), &documents).await;
    let of = |query: Json| {
        json!({"size": 0, "aggs": {
            "one": {"filter": query.clone()},
            "some": {"filters": {"filters": {"a": query.clone()}}},
            "pairs": {"adjacency_matrix": {"filters": {"a": query}}},
        }})
    };
    for query in [
        json!({"match": {"k": "New York"}}),
        json!({"query_string": {"query": "k:(New York)"}}),
    ] {
        let found = search(&site, of(query.clone())).await.done(200);
        let found = &found["aggregations"];
        let counts = [
            &found["one"],
            &found["some"]["buckets"]["a"],
            &found["pairs"]["buckets"][0],
        ];
        assert_eq!(counts.map(|one| &one["doc_count"]), [1, 1, 1], "{query}");
    }
    let refused = search(&site, of(json!({"match": {"x": "y"}}))).await;
    assert_eq!(refused.status, 400);
}

#[tokio::test]
async fn stored_fields_hide_the_document() {
    let site = site(json!({}), json!({}), &[json!({"x": 1})]).await;
    for (stored, has_id, has_source) in [
        (json!([]), true, false),
        (json!("_none_"), false, false),
        (json!(null), true, true),
    ] {
        let reply = search(&site, json!({"stored_fields": stored})).await.json();
        let hit = &reply["hits"]["hits"][0];
        assert_eq!(hit.get("_id").is_some(), has_id, "{stored}");
        assert_eq!(hit.get("_source").is_some(), has_source, "{stored}");
    }
    let both = json!({"stored_fields": [], "_source": true});
    assert_eq!(hits(&site, both, "_source").await[0].1, json!({"x": 1}));
    for refused in [
        json!({"stored_fields": "_none_", "_source": true}),
        json!({"stored_fields": ["x"]}),
    ] {
        assert_eq!(
            search(&site, refused.clone()).await.status,
            400,
            "{refused}"
        );
    }
}

#[tokio::test]
async fn limits_of_a_collection_are_applied() {
    let settings = json!({
        "index.max_result_window": 2, "index.max_terms_count": 2,
        "index.max_docvalue_fields_search": 1,
    });
    let site = site(json!({}), settings, &[json!({"x": 1})]).await;
    for (allowed, refused, named) in [
        (
            json!({"size": 2}),
            json!({"size": 1, "from": 2}),
            "max_result_window",
        ),
        (
            json!({"size": 1, "query": {"terms": {"x": [1, 2]}}}),
            json!({"size": 1, "query": {"terms": {"x": [1, 2, 3]}}}),
            "max_terms_count",
        ),
        (
            json!({"size": 1, "docvalue_fields": ["x"]}),
            json!({"size": 1, "docvalue_fields": ["x", "y"]}),
            "max_docvalue_fields_search",
        ),
    ] {
        assert_eq!(
            search(&site, allowed.clone()).await.status,
            200,
            "{allowed}"
        );
        let reply = search(&site, refused).await;
        assert_eq!(reply.status, 400, "{}", reply.text);
        assert!(reply.text.contains(named), "{}", reply.text);
    }
    let wrong = r#"{"settings":{"index.max_terms_count":"many"}}"#;
    assert_eq!(site.call("PUT /u", wrong).await.status, 400);
}

#[tokio::test]
async fn addresses_are_counted_by_ranges_and_blocks() {
    let documents = [
        json!({"ip": "10.0.0.10"}),
        json!({"ip": ["10.0.0.9", "::ffff:10.0.0.200"]}),
        json!({"ip": "2001:0db8::1"}),
        json!({"other": 1}),
    ];
    let site = site(json!({"ip": {"type": "ip"}}), json!({}), &documents).await;
    let buckets = async |aggregation: Json| {
        let body = json!({"size": 0, "aggs": {"a": {"ip_range": aggregation}}});
        search(&site, body).await.done(200)["aggregations"]["a"]["buckets"].clone()
    };
    let ranges = json!([
        {"from": "10.0.0.10"}, {"mask": "2001:db8::/32", "key": "six"}, {"mask": "10.0.0.7/25"},
        {"to": "10.0.0.10"}, {"from": "10.0.0.9", "to": "10.0.0.10"}, {},
    ]);
    let expected = json!([
        {"key": "*-10.0.0.10", "to": "10.0.0.10", "doc_count": 1},
        {"key": "*-*", "doc_count": 3},
        {"key": "10.0.0.7/25", "from": "10.0.0.0", "to": "10.0.0.128", "doc_count": 2},
        {"key": "10.0.0.9-10.0.0.10", "from": "10.0.0.9", "to": "10.0.0.10", "doc_count": 1},
        {"key": "10.0.0.10-*", "from": "10.0.0.10", "doc_count": 3},
        {"key": "six", "from": "2001:db8::", "to": "2001:db9::", "doc_count": 1},
    ]);
    assert_eq!(
        buckets(json!({"field": "ip", "ranges": ranges})).await,
        expected
    );
    let keyed = json!({
        "field": "ip", "keyed": true, "missing": "9.0.0.1", "ranges": [{"to": "10.0.0.0"}],
    });
    let expected = json!({"*-10.0.0.0": {"to": "10.0.0.0", "doc_count": 1}});
    assert_eq!(buckets(keyed).await, expected);
    for (ranges, reason) in [
        (json!([{"from": "10.0.0"}]), "no IP address"),
        (json!([{"mask": "10.0.0.0/33"}]), "no block"),
        (
            json!([{"mask": "10.0.0.0/8", "to": "10.0.0.1"}]),
            "either [mask]",
        ),
        (json!([]), "[ranges]"),
    ] {
        let aggregation = json!({"ip_range": {"field": "ip", "ranges": ranges}});
        let reply = search(&site, json!({"aggs": {"a": aggregation}})).await;
        assert_eq!(reply.status, 400, "{ranges}: {}", reply.text);
        assert!(reply.text.contains(reason), "{ranges}: {}", reply.text);
    }
}
