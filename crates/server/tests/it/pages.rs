//! Pages of searches: after a place, by scrolls, at points in time, and in slices.

use serde_json::{Value as Json, json};

use crate::search::{ids, refusal, request};
use crate::site::Site;

/// A page of a search: the ids, and where the next page begins.
fn page(reply: &Json) -> (Vec<String>, Option<Json>) {
    let hits = reply["hits"]["hits"].as_array().unwrap();
    let ids = hits
        .iter()
        .map(|hit| hit["_id"].as_str().unwrap().to_owned());
    (ids.collect(), hits.last().map(|hit| hit["sort"].clone()))
}

/// Documents whose values of `v` are of all types, several in some, none in others.
async fn mixed() -> Site {
    let site = Site::new();
    let values = [
        "1",
        "2.5",
        "-3",
        "true",
        "false",
        "\"a\"",
        "\"b\"",
        "[1,9]",
        "[\"a\",0]",
        "{}",
        "[]",
        "2",
        "1.0",
        "\"\"",
    ];
    let mut bulk = String::new();
    for round in 0..3 {
        for (at, value) in values.iter().enumerate() {
            let id = match at % 2 {
                0 => format!("{}", round * 100 + at),
                _ => format!("k{round}-{at}"),
            };
            bulk.push_str(&format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n"));
            bulk.push_str(&format!("{{\"v\":{value},\"round\":{round}}}\n"));
        }
    }
    request(&site, "POST /mixed/_bulk", &bulk).await.done(200);
    site
}

#[tokio::test]
async fn pages_after_a_place_are_together_the_whole() {
    let site = mixed().await;
    for sort in [
        json!([{"_id": "asc"}]),
        json!([{"_id": "desc"}]),
        json!(["_doc"]),
        json!([{"v": "asc"}, {"_id": "asc"}]),
        json!([{"v": "desc"}, {"_id": "desc"}]),
        json!([{"round": "desc"}, {"v": "asc"}, {"_shard_doc": "asc"}]),
    ] {
        // A document without `v` has no place that could be named.
        let query = json!({"bool": {"filter": [{"exists": {"field": "v"}}]}});
        let search = json!({"query": query, "sort": sort, "size": 1000});
        let all = request(&site, "POST /mixed/_search", search).await.json();
        let mut expected = page(&all).0;
        if sort == json!(["_doc"]) {
            expected.sort_by_key(|id| quiredb::Key::parse(id).unwrap());
        }
        for size in [1, 4, 1000] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let mut search = json!({"query": query, "sort": sort, "size": size});
                // An empty text comes before every key, and is none.
                search["search_after"] = match (&after, sort == json!(["_doc"])) {
                    (Some(after), _) => Json::clone(after),
                    (None, true) => json!([-9_000_000_000_i64]),
                    (None, false) => Json::Null,
                };
                let reply = request(&site, "POST /mixed/_search", search).await.json();
                assert_eq!(reply["hits"]["total"]["value"], 36, "{sort}: {reply}");
                let (ids, last) = page(&reply);
                if ids.is_empty() {
                    break;
                }
                found.extend(ids);
                after = last;
            }
            assert_eq!(found, expected, "{sort} by {size}");
        }
    }
}

#[tokio::test]
async fn numbers_of_all_digits_are_found_and_paged_over_as_they_are_written() {
    let site = Site::new();
    let mut bulk = String::new();
    // Some of these differ in the last bit if they are read by a short way.
    let numbers: Vec<f64> = (1..=400u64)
        .map(|n| {
            f64::from_bits(0x4022_6bf2_0000_0000 | n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32)
        })
        .chain([9.210886624827637, 0.3, 1e-300, 1.7976931348623157e308])
        .collect();
    for (at, number) in numbers.iter().enumerate() {
        bulk.push_str(&format!(
            "{{\"index\":{{\"_id\":\"{at}\"}}}}\n{{\"v\":{number:?}}}\n"
        ));
    }
    request(&site, "POST /numbers/_bulk", &bulk).await.done(200);
    for (at, number) in numbers.iter().enumerate() {
        let search = format!(r#"{{"query":{{"term":{{"v":{number:?}}}}}}}"#);
        let found = request(&site, "POST /numbers/_search", search).await;
        assert_eq!(ids(&found.json()), [at.to_string()], "{number:?}");
    }
    let (mut found, mut after) = (Vec::new(), Json::Null);
    loop {
        let search = json!({"sort": [{"v": "asc"}], "size": 7, "search_after": after});
        let reply = request(&site, "POST /numbers/_search", search).await.json();
        let (ids, Some(last)) = page(&reply) else {
            break;
        };
        found.extend(ids);
        after = last;
        assert!(
            found.len() <= numbers.len(),
            "a page begins behind the one before"
        );
    }
    let mut expected: Vec<usize> = (0..numbers.len()).collect();
    expected.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
    let expected: Vec<String> = expected.iter().map(usize::to_string).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_scroll_gives_every_document_once_as_of_its_beginning() {
    let site = mixed().await;
    for body in [
        json!({"size": 5}),
        json!({"size": 5, "sort": ["_doc"]}),
        json!({"size": 5, "sort": [{"v": "asc"}]}),
        json!({"size": 1000, "query": {"exists": {"field": "v"}}}),
    ] {
        let begin = "POST /mixed/_search?scroll=5m&rest_total_hits_as_int=true";
        let mut reply = request(&site, begin, &body).await.json();
        let expected = reply["hits"]["total"].as_u64().unwrap();
        let id = reply["_scroll_id"].as_str().unwrap().to_owned();
        request(&site, "PUT /mixed/_doc/late", r#"{"v":1}"#).await;
        let mut ids = Vec::new();
        loop {
            let (some, _) = page(&reply);
            assert!(some.len() as u64 <= body["size"].as_u64().unwrap());
            if some.is_empty() {
                break;
            }
            ids.extend(some);
            let next = json!({"scroll": "5m", "scroll_id": id});
            reply = request(&site, "POST /_search/scroll", next).await.json();
        }
        assert_eq!(ids.len() as u64, expected, "{body}");
        assert!(!ids.contains(&"late".to_owned()));
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len() as u64, expected, "{body}");
        let closed = json!({"scroll_id": [id]});
        let closed = request(&site, "DELETE /_search/scroll", closed)
            .await
            .json();
        assert_eq!(closed, json!({"succeeded": true, "num_freed": 1}));
        let gone = request(&site, "POST /_search/scroll", json!({"scroll_id": id})).await;
        assert_eq!(gone.status, 404);
        request(&site, "DELETE /mixed/_doc/late", "")
            .await
            .done(200);
    }
    let cached = "POST /mixed/_search?scroll=5m&request_cache=true";
    let refused = request(&site, cached, "{}").await;
    assert!(refusal(&refused).contains("[request_cache] cannot be used in a scroll context"));
    let refused = request(&site, cached, json!({"size": 0})).await;
    assert!(refusal(&refused).contains("[size] cannot be [0] in a scroll context"));
    // What the body names comes before what the path names.
    let begun = request(&site, "POST /mixed/_search?scroll=5m", "{}").await;
    let id = json!({"scroll_id": begun.json()["_scroll_id"]});
    let next = request(&site, "POST /_search/scroll/other", id.clone()).await;
    assert_eq!(next.status, 200, "{}", next.text);
    let closed = request(&site, "DELETE /_search/scroll/other", id).await;
    assert_eq!(closed.done(200)["num_freed"], 1);
    let long = request(&site, "POST /mixed/_search?scroll=25h", "{}").await;
    assert!(refusal(&long).contains("24h"));
}

#[tokio::test]
async fn a_point_in_time_is_searched_as_it_was() {
    let site = mixed().await;
    let path = "POST /mixed/_search/point_in_time?keep_alive=5m";
    let opened = request(&site, path, "").await.json();
    let id = opened["pit_id"].as_str().unwrap();
    request(&site, "PUT /mixed/_doc/late", r#"{"v":1}"#)
        .await
        .done(201);
    request(&site, "DELETE /mixed/_doc/0", "").await.done(200);
    let (mut count, mut after) = (0, Json::Null);
    loop {
        let search = json!({
            "pit": {"id": id, "keep_alive": "1m"},
            "size": 10,
            "sort": [{"_shard_doc": "asc"}],
            "search_after": after,
        });
        let reply = request(&site, "POST /_search", search).await.json();
        assert_eq!(reply["pit_id"], id);
        let (ids, last) = page(&reply);
        assert!(!ids.contains(&"late".to_owned()));
        count += ids.len();
        match last {
            Some(last) => after = last,
            None => break,
        }
    }
    assert_eq!(count, 42);
    let listed = request(&site, "GET /_search/point_in_time/_all", "")
        .await
        .json();
    assert_eq!(listed["pits"][0]["pit_id"], id);
    // A lease never becomes shorter.
    assert_eq!(listed["pits"][0]["keep_alive"], 300_000);
    let closed = request(
        &site,
        "DELETE /_search/point_in_time",
        json!({"pit_id": [id]}),
    );
    assert_eq!(closed.await.json()["pits"][0]["successful"], true);
    let search = json!({"pit": {"id": id}});
    assert_eq!(request(&site, "POST /_search", search).await.status, 404);
}

#[tokio::test]
async fn a_collapse_goes_on_behind_large_groups() {
    let site = Site::new();
    let mut lines = String::new();
    for n in 0..500 {
        // Two large groups, then small ones and documents of none.
        let group = match n {
            0..200 => json!("first"),
            200..400 => json!("second"),
            400..490 => json!(n % 30),
            _ => Json::Null,
        };
        lines.push_str(&format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n"));
        lines.push_str(&format!("{}\n", json!({"n": n, "group": group})));
    }
    request(&site, "POST /things/_bulk", lines).await.done(200);
    let found = async |from: u64, size: u64| {
        let search = json!({
            "collapse": {"field": "group"}, "sort": ["n"], "from": from, "size": size,
        });
        page(&request(&site, "POST /things/_search", search).await.json()).0
    };
    let mut all = vec!["0".to_owned(), "200".to_owned()];
    all.extend((400..430).map(|n| n.to_string()));
    all.push("490".to_owned());
    assert_eq!(found(0, 1_000).await, all);
    assert_eq!(found(0, 3).await, all[..3]);
    assert_eq!(found(31, 10).await, all[31..]);
    assert!(found(40, 10).await.is_empty());
    let search = json!({"collapse": {"field": "group"}, "from": 9_000, "size": 2_000});
    let refused = request(&site, "POST /things/_search", search).await;
    assert!(refusal(&refused).contains("[collapse] must be up to 10000"));
}

#[tokio::test]
async fn a_point_in_time_keeps_the_filter_of_its_alias() {
    let site = mixed().await;
    let alias = json!({"filter": {"ids": {"values": ["2", "4"]}}});
    let made = request(&site, "PUT /mixed/_alias/few", alias).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let path = "POST /few/_search/point_in_time?keep_alive=5m";
    let opened = request(&site, path, "").await.json();
    // The alias is another one afterwards; the point in time is not.
    let alias = json!({"filter": {"match_none": {}}});
    request(&site, "PUT /mixed/_alias/few", alias)
        .await
        .done(200);
    let search = json!({"pit": {"id": opened["pit_id"]}, "sort": ["_id"]});
    let found = request(&site, "POST /_search", search.clone()).await.json();
    assert_eq!(page(&found).0, ["2", "4"]);
    assert_eq!(found["hits"]["total"]["value"], 2);
    let lines = format!("{{}}\n{search}\n");
    let found = request(&site, "POST /_msearch", lines).await.json();
    assert_eq!(found["responses"][0]["hits"]["total"]["value"], 2);
}

/// As clients for Java send them.
#[tokio::test]
async fn a_search_goes_on_after_numbers_and_booleans_that_are_sent_as_text() {
    let site = Site::new();
    for n in 0..20 {
        let document = json!({"n": n, "even": n % 2 == 0, "mixed": n, "code": format!("{n:02}")});
        let path = format!("PUT /things/_doc/{n}");
        request(&site, &path, document).await.done(201);
    }
    request(&site, "PUT /things/_doc/x", json!({"mixed": "10"}))
        .await
        .done(201);
    let found = async |sort: Json, after: Json| {
        let search = json!({"size": 3, "sort": sort, "search_after": after});
        page(&request(&site, "POST /things/_search", search).await.json()).0
    };
    assert_eq!(found(json!(["n"]), json!(["4"])).await, ["5", "6", "7"]);
    let descending = json!([{"n": "desc"}]);
    assert_eq!(found(descending, json!(["9.5"])).await, ["9", "8", "7"]);
    let both = json!([{"even": "desc"}, {"n": "asc"}]);
    assert_eq!(found(both, json!(["true", "14"])).await, ["16", "18", "1"]);
    // A text is a text where there are some.
    assert_eq!(found(json!(["code"]), json!(["05"])).await, ["6", "7", "8"]);
    assert_eq!(found(json!(["mixed"]), json!([18])).await, ["19", "x"]);
    assert!(found(json!(["mixed"]), json!(["10"])).await.is_empty());
}

#[tokio::test]
async fn the_number_of_open_scrolls_is_bounded() {
    let site = mixed().await;
    for _ in 0..100 {
        request(&site, "POST /mixed/_search?scroll=5m", "{}")
            .await
            .done(200);
    }
    let refused = request(&site, "POST /mixed/_search?scroll=5m", "{}").await;
    assert_eq!(refused.status, 429);
    let closed = request(&site, "DELETE /_search/scroll/_all", "")
        .await
        .json();
    assert_eq!(closed["num_freed"], 100);
    // One that is not used is released when its time is over.
    request(&site, "POST /mixed/_search?scroll=1ms", "{}")
        .await
        .done(200);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let closed = request(&site, "DELETE /_search/scroll/_all", "")
        .await
        .json();
    assert_eq!(closed["num_freed"], 0);
}

#[tokio::test]
async fn slices_of_scrolls_points_and_work_have_each_document_once() {
    const SLICES: usize = 3;
    let site = Site::new();
    site.call(
        "PUT /a",
        json!({"settings": {"number_of_shards": 2}}).to_string(),
    )
    .await
    .done(200);
    let mut lines = String::new();
    for number in 0..300 {
        lines += &format!(
            "{{\"index\":{{\"_id\":\"{number}\"}}}}\n{{\"n\":{}}}\n",
            number % 2
        );
    }
    site.call("POST /a/_bulk", lines).await.done(200);
    let even: Vec<String> = (0..300_u32).step_by(2).map(|n| n.to_string()).collect();
    let sorted = |mut all: Vec<String>| {
        all.sort_by_key(|id| id.parse::<u32>().unwrap());
        all
    };
    let point = site
        .call("POST /a/_search/point_in_time?keep_alive=1m", "")
        .await
        .done(200);
    let (mut of_scrolls, mut of_points, mut copied) = (Vec::new(), Vec::new(), 0);
    for id in 0..SLICES {
        let slice = json!({"id": id, "max": SLICES});
        let query = json!({"term": {"n": 0}});
        let body = json!({"query": query, "slice": slice, "size": 20});
        let mut page = site
            .call("POST /a/_search?scroll=1m", body.to_string())
            .await
            .done(200);
        let total = page["hits"]["total"]["value"].as_u64().unwrap() as usize;
        let before = of_scrolls.len();
        while !ids(&page).is_empty() {
            of_scrolls.extend(ids(&page).into_iter().map(str::to_owned));
            let next = json!({"scroll_id": page["_scroll_id"], "scroll": "1m"});
            page = site
                .call("POST /_search/scroll", next.to_string())
                .await
                .done(200);
        }
        assert_eq!(of_scrolls.len() - before, total);
        assert!(total > 20, "{total}");
        let mut body = json!({"query": query, "slice": slice, "size": 1000, "sort": ["n"]});
        body["pit"] = json!({"id": point["pit_id"]});
        let page = site.call("POST /_search", body.to_string()).await.done(200);
        of_points.extend(ids(&page).into_iter().map(str::to_owned));
        let source = json!({"index": "a", "query": query, "slice": slice});
        let body = json!({"source": source, "dest": {"index": "b", "op_type": "create"}});
        let report = site
            .call("POST /_reindex", body.to_string())
            .await
            .done(200);
        assert_eq!(report["total"].as_u64(), Some(total as u64));
        copied += total;
    }
    assert_eq!(sorted(of_scrolls), even);
    assert_eq!(sorted(of_points), even);
    assert_eq!(copied, even.len());
    let body = json!({"query": {"match_all": {}}, "slice": {"id": 0, "max": 2}});
    let report = site
        .call("POST /a/_delete_by_query", body.to_string())
        .await
        .done(200);
    let deleted = report["deleted"].as_u64().unwrap();
    assert!((100..200).contains(&deleted), "{deleted}");
    let left = site.get("/a/_count").await.done(200);
    assert_eq!(left["count"].as_u64(), Some(300 - deleted));
}
