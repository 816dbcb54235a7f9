//! Aggregations: each kind's answer, nested in one another, and what is refused.

use serde_json::{Value as Json, json};

use crate::site::Site;

/// Sales of three shops; one has no price, one has a date that is none.
async fn sales() -> Site {
    let site = Site::new();
    for (id, sale) in [
        json!({"shop": "Ulm", "item": "pen", "price": 2, "count": 3, "at": "2026-01-30T23:30:00Z"}),
        json!({"shop": "Ulm", "item": "cup", "price": 8.5, "count": 1, "at": "2026-02-01"}),
        json!({"shop": "Bonn", "item": "pen", "price": 3, "count": 7, "at": "2026-02-03T10:00Z"}),
        json!({"shop": "Bonn", "item": ["pen", "cup"], "count": 2, "at": "2026-04-01T00:00:00Z"}),
        json!({"shop": "Köln", "item": "pot", "price": 20, "count": 1, "at": "soon"}),
        json!({"item": "pot", "price": 18, "count": 1, "sold": true}),
    ]
    .iter()
    .enumerate()
    {
        let path = format!("PUT /sales/_doc/{id}");
        site.call(&path, sale.to_string()).await.done(201);
    }
    site
}

/// What aggregations say, by index and by reading all documents; both are the same.
async fn said_with(site: &Site, params: &str, aggs: Json) -> Json {
    let mut said = Vec::new();
    for index in ["all", "none"] {
        let settings = json!({"quire": {"index": index}}).to_string();
        site.call("PUT /sales/_settings", settings).await.done(200);
        let body = json!({"size": 0, "aggs": aggs}).to_string();
        let path = format!("POST /sales/_search{params}");
        let mut reply = site.call(&path, body).await.done(200);
        said.push(reply["aggregations"].take());
    }
    assert_eq!(said[0], said[1], "{aggs}");
    said.remove(0)
}

async fn said(site: &Site, aggs: Json) -> Json {
    said_with(site, "", aggs).await
}

fn with_terms(others: u64, buckets: Json) -> Json {
    json!({
        "doc_count_error_upper_bound": 0, "sum_other_doc_count": others, "buckets": buckets
    })
}

#[tokio::test]
async fn terms_are_nested_ordered_and_selected() {
    let site = sales().await;
    let aggs = json!({"shops": {
        "terms": {"field": "shop", "order": [{"cups>n": "desc"}, {"income.sum": "asc"}]},
        "meta": {"colour": "red"},
        "aggs": {
            "income": {"stats": {"field": "price"}},
            "cups": {
                "filter": {"term": {"item": "cup"}},
                "aggs": {"n": {"value_count": {"field": "item"}}},
            },
            "items": {"terms": {"field": "item.keyword", "size": 1}},
        },
    }});
    let cups = |count: u64, n: u64| json!({"doc_count": count, "n": {"value": n}});
    let expected = json!({"shops": {
        "meta": {"colour": "red"},
        "doc_count_error_upper_bound": 0, "sum_other_doc_count": 0,
        "buckets": [
            {"key": "Bonn", "doc_count": 2, "cups": cups(1, 2),
             "income": {"count": 1, "min": 3.0, "max": 3.0, "avg": 3.0, "sum": 3.0},
             "items": with_terms(1, json!([{"key": "pen", "doc_count": 2}]))},
            {"key": "Ulm", "doc_count": 2, "cups": cups(1, 1),
             "income": {"count": 2, "min": 2.0, "max": 8.5, "avg": 5.25, "sum": 10.5},
             "items": with_terms(1, json!([{"key": "cup", "doc_count": 1}]))},
            {"key": "Köln", "doc_count": 1, "cups": cups(0, 0),
             "income": {"count": 1, "min": 20.0, "max": 20.0, "avg": 20.0, "sum": 20.0},
             "items": with_terms(0, json!([{"key": "pot", "doc_count": 1}]))},
        ],
    }});
    assert_eq!(said(&site, aggs).await, expected);
    for (terms, keys) in [
        (
            json!({"field": "shop", "order": {"_key": "desc"}}),
            json!(["Ulm", "Köln", "Bonn"]),
        ),
        (
            json!({"field": "shop", "min_doc_count": 2}),
            json!(["Bonn", "Ulm"]),
        ),
        (
            json!({"field": "shop", "missing": "?"}),
            json!(["Bonn", "Ulm", "?", "Köln"]),
        ),
        (
            json!({"field": "shop", "include": "[BK].*"}),
            json!(["Bonn", "Köln"]),
        ),
        (
            json!({"field": "shop", "include": ["Ulm", "x"]}),
            json!(["Ulm"]),
        ),
        (
            json!({"field": "shop", "exclude": "U.m|B.*"}),
            json!(["Köln"]),
        ),
        (
            json!({"field": "price", "order": {"_key": "asc"}}),
            json!([2, 3, 8.5, 18, 20]),
        ),
        (json!({"field": "nothing"}), json!([])),
    ] {
        let reply = said(&site, json!({"t": {"terms": terms}})).await;
        let buckets = reply["t"]["buckets"].as_array().unwrap();
        let found: Vec<_> = buckets.iter().map(|bucket| &bucket["key"]).collect();
        assert_eq!(json!(found), keys, "{terms}");
    }
}

#[tokio::test]
async fn dates_are_counted_by_calendar_and_by_zone() {
    let site = sales().await;
    let bucket = |text: &str, key: i64, count: u64| {
        let text = json!(text);
        json!({"key_as_string": text, "key": key, "doc_count": count})
    };
    let month = said(
        &site,
        json!({"m": {"date_histogram": {
            "field": "at", "calendar_interval": "month",
        }}}),
    )
    .await;
    let expected = json!({"m": {"buckets": [
        bucket("2026-01-01T00:00:00.000Z", 1_767_225_600_000, 1),
        bucket("2026-02-01T00:00:00.000Z", 1_769_904_000_000, 2),
        bucket("2026-03-01T00:00:00.000Z", 1_772_323_200_000, 0),
        bucket("2026-04-01T00:00:00.000Z", 1_775_001_600_000, 1),
    ]}});
    assert_eq!(month, expected);
    let berlin = said(
        &site,
        json!({"d": {"date_histogram": {
            "field": "at", "calendar_interval": "1d", "time_zone": "Europe/Berlin",
            "min_doc_count": 1, "format": "dd.MM.yyyy", "keyed": true, "order": {"_key": "desc"},
        }}}),
    )
    .await;
    let days = berlin["d"]["buckets"].as_object().unwrap();
    let days: Vec<_> = days
        .iter()
        .map(|(day, bucket)| (day.as_str(), &bucket["key"]))
        .collect();
    assert_eq!(
        days,
        [
            ("01.04.2026", &json!(1_774_994_400_000_i64)),
            ("03.02.2026", &json!(1_770_073_200_000_i64)),
            ("01.02.2026", &json!(1_769_900_400_000_i64)),
            ("31.01.2026", &json!(1_769_814_000_000_i64)),
        ]
    );
    let fixed = said(
        &site,
        json!({"w": {"date_histogram": {
            "field": "at", "fixed_interval": "7d", "offset": "+1d", "format": "yyyy-MM-dd",
            "extended_bounds": {"min": "2026-01-15", "max": "2026-02-20||-1d"},
            "missing": "2026-01-16",
        }}}),
    )
    .await;
    let weeks = fixed["w"]["buckets"].as_array().unwrap();
    let weeks: Vec<_> = weeks.iter().map(|week| &week["doc_count"]).collect();
    assert_eq!(json!(weeks), json!([0, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1]));
    let ranges = said(&site, json!({"r": {"date_range": {
        "field": "at", "format": "yyyy-MM-dd",
        "ranges": [{"to": "2026-02-01"}, {"from": "2026-02-01||/M", "to": "2026-02-02", "key": "x"},
            {"from": "2100-05-06||+1y/y"}],
    }}}))
    .await;
    let buckets = ranges["r"]["buckets"].as_array().unwrap();
    assert_eq!(
        json!(buckets[..2]),
        json!([
            {"key": "*-2026-02-01", "to": 1_769_904_000_000.0, "to_as_string": "2026-02-01",
             "doc_count": 1},
            {"key": "x", "from": 1_769_904_000_000.0, "from_as_string": "2026-02-01",
             "to": 1_769_990_400_000.0, "to_as_string": "2026-02-02", "doc_count": 1},
        ])
    );
    assert_eq!(buckets[2]["doc_count"], 0);
}

#[tokio::test]
async fn ranges_filters_and_histograms_have_their_empty_buckets() {
    let site = sales().await;
    let aggs = json!({
        "prices": {"range": {"field": "price", "keyed": true, "ranges": [
            {"to": 3}, {"from": 3, "to": 18, "key": "mid"}, {"from": 100},
        ]}},
        "some": {"filters": {"other_bucket_key": "rest", "filters": {
            "ulm": {"term": {"shop": "Ulm"}}, "none": {"term": {"shop": "Rome"}},
        }}},
        "homeless": {"missing": {"field": "shop"}, "aggs": {"sum": {"sum": {"field": "count"}}}},
        "tens": {
            "histogram": {"field": "price", "interval": 5, "offset": 1,
                "extended_bounds": {"min": -3, "max": 2}},
            "aggs": {"mean": {"avg": {"field": "count"}}},
        },
    });
    let tens = |key: f64, count: u64, mean: Json| {
        let mean = json!({ "value": mean });
        json!({"key": key, "doc_count": count, "mean": mean})
    };
    let expected = json!({
        "prices": {"buckets": {
            "*-3.0": {"to": 3.0, "doc_count": 1},
            "mid": {"from": 3.0, "to": 18.0, "doc_count": 2},
            "100.0-*": {"from": 100.0, "doc_count": 0},
        }},
        "some": {"buckets": {
            "ulm": {"doc_count": 2}, "none": {"doc_count": 0}, "rest": {"doc_count": 4},
        }},
        "homeless": {"doc_count": 1, "sum": {"value": 1.0}},
        "tens": {"buckets": [
            tens(-4.0, 0, Json::Null), tens(1.0, 2, json!(5.0)), tens(6.0, 1, json!(1.0)),
            tens(11.0, 0, Json::Null), tens(16.0, 2, json!(1.0)),
        ]},
    });
    assert_eq!(said(&site, aggs).await, expected);
}

#[tokio::test]
async fn metrics_say_what_they_measure() {
    let site = sales().await;
    let aggs = json!({
        "values": {"value_count": {"field": "item"}},
        "about": {"cardinality": {"field": "item", "precision_threshold": 100}},
        "with": {"avg": {"field": "price", "missing": 4.5}},
        "none": {"max": {"field": "nothing"}},
        "last": {"max": {"field": "at"}},
        "some": {"percentiles": {"field": "count", "percents": [0, 100], "keyed": false}},
        "more": {"extended_stats": {"field": "count"}},
    });
    let said = said(&site, aggs).await;
    assert_eq!(said["values"], json!({"value": 7}));
    assert_eq!(said["about"], json!({"value": 3}));
    assert_eq!(said["with"], json!({"value": 56.0 / 6.0}));
    assert_eq!(said["none"], json!({"value": null}));
    assert_eq!(said["last"]["value"], "soon");
    assert_eq!(said["some"]["values"][0]["key"], 0.0);
    assert_eq!(said["some"]["values"][1]["value"], 7.0);
    let more = &said["more"];
    assert_eq!(more["sum_of_squares"], 65.0);
    let variance = 65.0 / 6.0 - (15.0_f64 / 6.0).powi(2);
    assert!((more["variance"].as_f64().unwrap() - variance).abs() < 1e-12);
    let upper = more["std_deviation_bounds"]["upper"].as_f64().unwrap();
    assert!((upper - (2.5 + 2.0 * variance.sqrt())).abs() < 1e-12);
}

#[tokio::test]
async fn percentiles_are_exact_of_few_values() {
    let site = sales().await;
    let aggs = json!({
        "some": {"percentiles": {"field": "price", "percents": [10, 25, 50, 90]}},
        "digits": {"percentiles": {
            "field": "price", "percents": [1, 50, 75], "keyed": false,
            "hdr": {"number_of_significant_value_digits": 1},
        }},
        "below": {"percentile_ranks": {"field": "price", "values": [1, 3, 19, 20.5]}},
        "wide": {"median_absolute_deviation": {"field": "price", "compression": 10}},
        "weighed": {"weighted_avg": {
            "value": {"field": "price"}, "weight": {"field": "count"},
        }},
        "all": {"weighted_avg": {
            "value": {"field": "price", "missing": 1}, "weight": {"field": "no", "missing": 2},
        }},
        "nothing": {"median_absolute_deviation": {"field": "no"}},
    });
    let said = said_with(&site, "?typed_keys=true", aggs).await;
    let some = json!({"10.0": 2.0, "25.0": 2.75, "50.0": 8.5, "90.0": 20.0});
    assert_eq!(said["tdigest_percentiles#some"]["values"], some);
    let digits = json!([
        {"key": 1.0, "value": 2.0}, {"key": 50.0, "value": 8.875}, {"key": 75.0, "value": 18.875},
    ]);
    assert_eq!(said["hdr_percentiles#digits"]["values"], digits);
    let below = json!({"1.0": 0.0, "3.0": 30.0, "19.0": 80.0, "20.5": 100.0});
    assert_eq!(said["tdigest_percentile_ranks#below"]["values"], below);
    // The median is 8.5; the distances from it are 0, 5.5, 6.5, 9.5 and 11.5.
    let wide = &said["median_absolute_deviation#wide"];
    assert_eq!(wide, &json!({"value": 6.5}));
    let sum = 2.0 * 3.0 + 8.5 + 3.0 * 7.0 + 20.0 + 18.0;
    let weighed = &said["weighted_avg#weighed"]["value"];
    assert_eq!(weighed, sum / 13.0);
    assert_eq!(said["weighted_avg#all"]["value"], 52.5 / 6.0);
    assert_eq!(
        said["median_absolute_deviation#nothing"]["value"],
        Json::Null
    );
}

#[tokio::test]
async fn terms_may_be_rare_of_several_fields_or_of_each_two_filters() {
    let site = sales().await;
    let aggs = json!({
        "rare": {
            "rare_terms": {"field": "item", "max_doc_count": 2},
            "aggs": {"n": {"sum": {"field": "count"}}},
        },
        "both": {"multi_terms": {"terms": [{"field": "shop"}, {"field": "item"}], "size": 2}},
        "sold": {"multi_terms": {"terms": [
            {"field": "shop", "missing": "none"}, {"field": "sold"},
        ]}},
        "with": {"adjacency_matrix": {"filters": {
            "b": {"term": {"item": "cup"}}, "a": {"term": {"item": "pen"}},
            "c": {"term": {"item": "x"}},
        }}},
        "mean": {"avg_bucket": {"buckets_path": "rare.n"}},
    });
    let said = said_with(&site, "?typed_keys=true", aggs).await;
    let rare = json!({"buckets": [
        {"key": "cup", "doc_count": 2, "sum#n": {"value": 3.0}},
        {"key": "pot", "doc_count": 2, "sum#n": {"value": 2.0}},
    ]});
    assert_eq!(said["srareterms#rare"], rare);
    assert_eq!(said["simple_value#mean"], json!({"value": 2.5}));
    let both = with_terms(
        3,
        json!([
            {"key": ["Bonn", "pen"], "key_as_string": "Bonn|pen", "doc_count": 2},
            {"key": ["Bonn", "cup"], "key_as_string": "Bonn|cup", "doc_count": 1},
        ]),
    );
    assert_eq!(said["multi_terms#both"], both);
    let sold = json!([
        {"key": ["none", true], "key_as_string": "none|true", "doc_count": 1},
    ]);
    assert_eq!(said["multi_terms#sold"]["buckets"], sold);
    let with = json!({"buckets": [
        {"key": "a", "doc_count": 3}, {"key": "a&b", "doc_count": 1}, {"key": "b", "doc_count": 2},
    ]});
    assert_eq!(said["adjacency_matrix#with"], with);
}

/// Documents whose fields have types.
async fn typed() -> Site {
    let site = Site::new();
    let mapping = json!({"mappings": {"properties": {
        "word": {"type": "keyword"}, "day": {"type": "date"}, "id": {"type": "unsigned_long"},
        "n": {"type": "long"},
    }}});
    site.call("PUT /sales", mapping.to_string()).await.done(200);
    for (id, one) in [
        json!({"word": "a", "day": "2026-02-01", "id": u64::MAX, "n": 1}),
        json!({"word": "a", "day": "2026-02-01T00:00:00Z", "id": 7, "n": 2}),
        json!({"word": "b", "day": 1_769_990_400_000_i64, "n": 3}),
    ]
    .iter()
    .enumerate()
    {
        let path = format!("PUT /sales/_doc/{id}");
        site.call(&path, one.to_string()).await.done(201);
    }
    site
}

#[tokio::test]
async fn dates_of_the_mapping_are_one_however_they_are_written() {
    let site = typed().await;
    let aggs = json!({
        "days": {"terms": {"field": "day"}},
        "rare": {"rare_terms": {"field": "day"}},
        "both": {"multi_terms": {"terms": [{"field": "day"}, {"field": "word"}]}},
        "ids": {"terms": {"field": "id"}},
        "none": {"terms": {"field": "n", "include": ["9"]}},
        "page": {"composite": {"sources": [{"d": {"terms": {"field": "day"}}}], "size": 1}},
        "next": {"composite": {
            "sources": [{"d": {"terms": {"field": "day"}}}], "after": {"d": "2026-02-01"},
        }},
        "given": {"terms": {"field": "no", "value_type": "date", "missing": "2026-02-02"}},
    });
    let said = said_with(&site, "?typed_keys=true", aggs).await;
    let (first, second) = ("2026-02-01T00:00:00.000Z", "2026-02-02T00:00:00.000Z");
    let day = |text: &str, key: i64, count: u64| {
        let text = json!(text);
        json!({"key_as_string": text, "key": key, "doc_count": count})
    };
    let (one, other) = (1_769_904_000_000, 1_769_990_400_000);
    let days = json!([day(first, one, 2), day(second, other, 1)]);
    assert_eq!(said["lterms#days"]["buckets"], days);
    assert_eq!(
        said["lrareterms#rare"]["buckets"],
        json!([day(second, other, 1)])
    );
    assert_eq!(
        said["lterms#given"]["buckets"],
        json!([day(second, other, 3)])
    );
    let both = json!([
        {"key": [first, "a"], "key_as_string": format!("{first}|a"), "doc_count": 2},
        {"key": [second, "b"], "key_as_string": format!("{second}|b"), "doc_count": 1},
    ]);
    assert_eq!(said["multi_terms#both"]["buckets"], both);
    let page = json!([{"key": {"d": one}, "doc_count": 2}]);
    assert_eq!(said["composite#page"]["buckets"], page);
    let next = json!([{"key": {"d": other}, "doc_count": 1}]);
    assert_eq!(said["composite#next"]["buckets"], next);
    assert_eq!(said["ulterms#ids"]["buckets"][1]["key"], u64::MAX);
    assert_eq!(said["lterms#none"]["buckets"], json!([]));
}

#[tokio::test]
async fn what_a_mapping_rules_out_is_refused() {
    let site = typed().await;
    for (agg, reason) in [
        (
            json!({"avg": {"field": "word"}}),
            "Field [word] of type [keyword] is not supported for aggregation [avg]",
        ),
        (json!({"max": {"field": "word"}}), "[max]"),
        (
            json!({"extended_stats": {"field": "word"}}),
            "[extended_stats]",
        ),
        (json!({"percentiles": {"field": "word"}}), "[percentiles]"),
        (
            json!({"histogram": {"field": "word", "interval": 2}}),
            "[histogram]",
        ),
        (
            json!({"weighted_avg": {"value": {"field": "n"}, "weight": {"field": "word"}}}),
            "[word]",
        ),
        (
            json!({"sum": {"field": "day"}}),
            "Field [day] of type [date]",
        ),
        (
            json!({"terms": {"field": "n", "exclude": "1.*"}}),
            "can only be applied to string fields",
        ),
    ] {
        let body = json!({"size": 0, "aggs": {"a": agg}}).to_string();
        let reply = site.call("POST /sales/_search", body.clone()).await;
        assert_eq!(reply.status, 400, "{body}: {}", reply.text);
        let found = reply.json()["error"]["reason"].as_str().unwrap().to_owned();
        assert!(found.contains(reason), "{body}: {found}");
    }
}

#[tokio::test]
async fn the_first_documents_of_each_bucket_are_shown() {
    let site = sales().await;
    let aggs = json!({"shops": {
        "terms": {"field": "shop", "size": 2},
        "aggs": {"top": {"top_hits": {
            "size": 1, "sort": [{"count": "desc"}], "_source": ["item"],
        }}},
    }});
    let said = said(&site, aggs).await;
    let hits = |id: &str, item: Json, count: u64| {
        json!({"hits": {
            "total": {"value": 2, "relation": "eq"}, "max_score": null,
            "hits": [{"_index": "sales", "_id": id, "_score": null, "_source": {"item": item},
                "sort": [count]}],
        }})
    };
    assert_eq!(
        said["shops"]["buckets"][0]["top"],
        hits("2", json!("pen"), 7)
    );
    assert_eq!(
        said["shops"]["buckets"][1]["top"],
        hits("0", json!("pen"), 3)
    );
}

#[tokio::test]
async fn composite_buckets_are_paged_to_the_end() {
    let site = sales().await;
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let mut composite = json!({"size": 2, "sources": [
            {"shop": {"terms": {"field": "shop", "missing_bucket": true, "order": "desc"}}},
            {"day": {"date_histogram": {
                "field": "at", "calendar_interval": "month", "format": "yyyy-MM",
                "missing_bucket": true,
            }}},
        ]});
        if let Some(after) = after.take() {
            composite["after"] = after;
        }
        let mut page = said(&site, json!({"c": {"composite": composite}})).await;
        let buckets = page["c"]["buckets"].as_array().unwrap();
        if buckets.is_empty() {
            assert!(page["c"].get("after_key").is_none());
            break;
        }
        all.extend(buckets.clone());
        assert_eq!(page["c"]["after_key"], all[all.len() - 1]["key"]);
        after = Some(page["c"]["after_key"].take());
    }
    let bucket = |shop: Json, day: Json| json!({"key": {"shop": shop, "day": day}, "doc_count": 1});
    assert_eq!(
        json!(all),
        json!([
            bucket(json!("Ulm"), json!("2026-01")),
            bucket(json!("Ulm"), json!("2026-02")),
            bucket(json!("Bonn"), json!("2026-02")),
            bucket(json!("Bonn"), json!("2026-04")),
            bucket(Json::Null, Json::Null),
        ])
    );
}

#[tokio::test]
async fn pipelines_compute_with_what_others_say() {
    let site = sales().await;
    let aggs = json!({
        "best": {"max_bucket": {"buckets_path": "months>income"}},
        "mean": {"avg_bucket": {"buckets_path": "months>income"}},
        "zeros": {"avg_bucket": {"buckets_path": "months>income", "gap_policy": "insert_zeros"}},
        "all": {"stats_bucket": {"buckets_path": "months>_count"}},
        "months": {
            "date_histogram": {"field": "at", "calendar_interval": "month", "format": "yyyy-MM"},
            "aggs": {
                "steps": {"derivative": {"buckets_path": "sofar"}},
                "sofar": {"cumulative_sum": {"buckets_path": "income"}},
                "income": {"sum": {"field": "price"}},
                "before": {"moving_fn": {
                    "buckets_path": "income", "window": 2,
                    "script": {"source": "MovingFunctions.sum(values)"},
                }},
            },
        },
        "shops": {
            "terms": {"field": "shop"},
            "aggs": {
                "mean": {"avg": {"field": "price"}},
                "first": {"bucket_sort": {"sort": [{"mean": {"order": "desc"}}], "size": 2}},
            },
        },
    });
    let said = said(&site, aggs).await;
    assert_eq!(said["best"], json!({"value": 11.5, "keys": ["2026-02"]}));
    assert_eq!(said["mean"], json!({"value": 13.5 / 3.0}));
    assert_eq!(said["zeros"], json!({"value": 13.5 / 4.0}));
    let counts = json!({"count": 4, "min": 0.0, "max": 2.0, "avg": 1.0, "sum": 4.0});
    assert_eq!(said["all"], counts);
    let months = said["months"]["buckets"].as_array().unwrap();
    let sofar: Vec<_> = months
        .iter()
        .map(|month| &month["sofar"]["value"])
        .collect();
    assert_eq!(json!(sofar), json!([2.0, 13.5, 13.5, 13.5]));
    assert!(months[0].get("steps").is_none());
    assert_eq!(months[1]["steps"], json!({"value": 11.5}));
    let before: Vec<_> = months.iter().map(|month| month.get("before")).collect();
    let value = |value: f64| Some(json!({"value": value}));
    let expected = [value(0.0), value(2.0), None, value(13.5)];
    assert_eq!(
        before,
        expected.iter().map(Option::as_ref).collect::<Vec<_>>()
    );
    let shops = said["shops"]["buckets"].as_array().unwrap();
    let keys: Vec<_> = shops.iter().map(|shop| &shop["key"]).collect();
    assert_eq!(json!(keys), json!(["Köln", "Ulm"]));
    assert!(shops[0].get("first").is_none());
}

#[tokio::test]
async fn names_have_their_types_where_a_client_wants_them() {
    let site = sales().await;
    let aggs = json!({
        "a": {"terms": {"field": "shop"}, "aggs": {"b": {"top_hits": {}}}},
        "c": {"terms": {"field": "count"}}, "d": {"terms": {"field": "price"}},
        "e": {"date_histogram": {"field": "at", "calendar_interval": "year"},
            "aggs": {"f": {"cumulative_sum": {"buckets_path": "_count"}}}},
        "g": {"filter": {"match_all": {}}}, "h": {"percentiles": {"field": "price"}},
        "i": {"max_bucket": {"buckets_path": "e>_count"}},
        "j": {"value_count": {"field": "shop"}},
    });
    let said = said_with(&site, "?typed_keys=true", aggs).await;
    for pointer in [
        "/sterms#a/buckets/0/top_hits#b/hits/hits/0/_id",
        "/lterms#c/buckets/0/key",
        "/dterms#d/buckets/0/key",
        "/date_histogram#e/buckets/0/simple_value#f/value",
        "/filter#g/doc_count",
        "/tdigest_percentiles#h/values/99.0",
        "/bucket_metric_value#i/keys/0",
        "/value_count#j/value",
    ] {
        assert!(said.pointer(pointer).is_some(), "{pointer}: {said}");
    }
}

#[tokio::test]
async fn what_is_not_known_is_refused_by_its_name() {
    let site = sales().await;
    let deep = (0..20).fold(
        json!({"min": {"field": "x"}}),
        |inner, _| json!({"missing": {"field": "x"}, "aggs": {"a": inner}}),
    );
    for (agg, name) in [
        (
            json!({"significant_terms": {"field": "shop"}}),
            "[significant_terms]",
        ),
        (
            json!({"terms": {"field": "shop", "script": "x"}}),
            "[script]",
        ),
        (
            json!({"terms": {"field": "shop", "min_doc_count": -1}}),
            "[min_doc_count]",
        ),
        (json!({"terms": {"field": "shop", "include": "a&b"}}), "'&'"),
        (
            json!({"terms": {"field": "shop", "order": {"x": "asc"}}}),
            "[x]",
        ),
        (
            json!({"terms": {"field": "shop", "order": {"_key": "up"}}}),
            "up",
        ),
        (
            json!({"terms": {"field": "shop"}, "min": {"field": "x"}}),
            "[min]",
        ),
        (
            json!({"min": {"field": "x"}, "aggs": {"b": {"max": {"field": "x"}}}}),
            "[b]",
        ),
        (json!({"aggs": {}}), "no kind"),
        (
            json!({"date_histogram": {"field": "at"}}),
            "[calendar_interval]",
        ),
        (
            json!({"date_histogram": {"field": "at", "calendar_interval": "2M"}}),
            "[2M]",
        ),
        (
            json!({"date_histogram": {
                "field": "at", "fixed_interval": "1d", "time_zone": "Mars"
            }}),
            "[Mars]",
        ),
        (
            json!({"date_histogram": {"field": "at", "fixed_interval": "1d", "format": "QQ"}}),
            "[QQ]",
        ),
        (
            json!({"date_histogram": {"field": "at", "fixed_interval": "1ms"}}),
            "buckets",
        ),
        (
            json!({"date_range": {"field": "at", "ranges": [{"from": "soon"}]}}),
            "soon",
        ),
        (
            json!({"range": {"field": "price", "ranges": []}}),
            "[ranges]",
        ),
        (json!({"filters": {"filters": {}}}), "cannot be empty"),
        (json!({"filters": {}}), "cannot be empty"),
        (json!({"adjacency_matrix": {"filters": {}}}), "0 filters"),
        (
            json!({"median_absolute_deviation": {"field": "x", "compression": 0}}),
            "[compression] must be greater than 0. Found [0.0] in [a]",
        ),
        (
            json!({"percentiles": {"field": "x", "tdigest": {"compression": -1}}}),
            "[compression] must be greater than or equal to 0. Found [-1.0]",
        ),
        (
            json!({"percentiles": {
                "field": "x", "hdr": {"number_of_significant_value_digits": 6}
            }}),
            "[numberOfSignificantValueDigits] must be between 0 and 5",
        ),
        (
            json!({"percentiles": {"field": "x", "percents": null}}),
            "[percents]",
        ),
        (json!({"percentile_ranks": {"field": "x"}}), "[values]"),
        (
            json!({"extended_stats": {"field": "x", "sigma": -1}}),
            "[sigma] must be greater than or equal to 0. Found [-1.0] in [a]",
        ),
        (
            json!({"cardinality": {"field": "x", "precision_threshold": -1}}),
            "[precisionThreshold] must be greater than or equal to 0. Found [-1] in [a]",
        ),
        (
            json!({"weighted_avg": {"value": {"field": "x"}}}),
            "[weight]",
        ),
        (
            json!({"rare_terms": {"field": "x", "max_doc_count": 101}}),
            "[max_doc_count]",
        ),
        (
            json!({"multi_terms": {"terms": [{"field": "x"}]}}),
            "two [terms]",
        ),
        (
            json!({"moving_fn": {"buckets_path": "_count", "window": -1, "script": "x"}}),
            "[window] must be a positive, non-zero integer.",
        ),
        (
            json!({"terms": {"field": "shop"}, "aggs": {
                "b": {"moving_fn": {"buckets_path": "_count", "window": 2, "script": "x"}},
            }}),
            "[MovingFunctions]",
        ),
        (
            json!({"terms": {"size": 3}}),
            "Required one of fields [field, script]",
        ),
        (
            json!({"percentiles": {"field": "x", "percents": [101]}}),
            "[percents]",
        ),
        (json!({"composite": {"sources": []}}), "[sources]"),
        (
            json!({"composite": {"sources": [{"a": {"terms": {"field": "x"}}}], "after": {}}}),
            "[after]",
        ),
        (json!({"top_hits": {"size": 101}}), "[size]"),
        (json!({"top_hits": {"highlight": {}}}), "[highlight]"),
        (
            json!({"derivative": {"buckets_path": "_count"}}),
            "derivative aggregation [a] must be declared inside of another aggregation",
        ),
        (json!({"avg_bucket": {"buckets_path": "b>c"}}), "[b]"),
        (
            json!({"terms": {"field": "shop"}, "aggs": {
                "b": {"cumulative_sum": {"buckets_path": "c"}},
                "c": {"cumulative_sum": {"buckets_path": "b"}},
            }}),
            "leads back",
        ),
        (deep, "deep"),
    ] {
        let body = json!({"size": 0, "aggs": {"a": agg}}).to_string();
        let reply = site.call("POST /sales/_search", body.clone()).await;
        assert_eq!(reply.status, 400, "{body}: {}", reply.text);
        let reason = reply.json()["error"]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(name), "{body}: {reason}");
    }
}

#[tokio::test]
async fn buckets_past_the_memory_of_a_search_are_an_error_that_says_so() {
    let site = Site::new();
    let mut bulk = String::new();
    for at in 0..500 {
        let values: Vec<String> = (0..200).map(|n| format!("{at}-{n}-{:0>40}", n)).collect();
        bulk += "{\"index\":{}}\n";
        bulk += &json!({ "v": values }).to_string();
        bulk.push('\n');
    }
    site.call("POST /many/_bulk", bulk).await.done(200);
    let aggs = json!({"size": 0, "aggs": {"a": {
        "terms": {"field": "v"}, "aggs": {"b": {"stats": {"field": "n"}}},
    }}});
    let reply = site.call("POST /many/_search", aggs.to_string()).await;
    assert!(
        reply.status != 200 && reply.text.contains("[memory] of [quire]"),
        "{}",
        reply.text
    );
    let mut more = aggs.clone();
    more["quire"] = json!({"memory": "50mb"});
    let answer = site.call("POST /many/_search", more.to_string()).await;
    let answer = answer.done(200);
    assert_eq!(answer["aggregations"]["a"]["buckets"][9]["doc_count"], 1);
    let lines = format!("{{\"index\":\"many\"}}\n{more}\n");
    let answer = site.call("POST /_msearch", lines).await.done(200);
    assert_eq!(answer["responses"][0]["status"], 200, "{answer}");
    for wrong in [json!("much"), json!(0), json!({})] {
        more["quire"]["memory"] = wrong;
        let reply = site.call("POST /many/_search", more.to_string()).await;
        assert_eq!(reply.status, 400, "{}", reply.text);
    }
}
