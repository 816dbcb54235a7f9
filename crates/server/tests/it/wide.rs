//! Wide collections over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::site::Site;

const SCHEMA: &str = r#"{"quire":{"partitions":2,"wide":{
    "properties": {
        "title": {"type": "string"},
        "visits": {"type": "integer"},
        "tree": {"type": "object"},
        "html": {"type": "string", "contentEncoding": "base64", "group": "content"},
        "links": {"type": "object", "additionalProperties": {"type": "string"}, "group": "links"}
    },
    "additionalProperties": false
}}}"#;

const PAGE: &str = "http:%2F%2Fa.org%2F";

async fn pages() -> Site {
    let site = Site::new();
    site.call("PUT /pages", SCHEMA).await.done(200);
    let row = r#"{"title":"A","html":"PGh0bWw+","links":{"http://b.org/":"see","z":"last"}}"#;
    let written = site.call(&format!("PUT /pages/_doc/{PAGE}"), row).await;
    assert_eq!(written.done(201)["result"], "created");
    site
}

async fn source(site: &Site, query: &str) -> Value {
    let found = site.get(&format!("/pages/_doc/{PAGE}{query}")).await;
    found.done(200)["_source"].clone()
}

#[tokio::test]
async fn a_pattern_of_source_is_about_columns_with_dots_below_it() {
    let site = Site::new();
    let columns = json!({"s": {"type": "string"}, "s.name": {"type": "string"},
        "t": {"type": "string"}});
    let body = json!({"quire": {"wide": {"properties": columns}}}).to_string();
    site.call("PUT /w", body).await.done(200);
    let row = json!({"s": "a", "s.name": "b", "t": "c"}).to_string();
    site.call("PUT /w/_doc/1", row).await.done(201);
    for (params, expected) in [
        ("_source_includes=s", json!({"s": "a", "s.name": "b"})),
        ("_source_includes=s.name", json!({"s.name": "b"})),
        ("_source_excludes=s", json!({"_id": 1, "t": "c"})),
    ] {
        let path = format!("/w/_source/1?{params}");
        assert_eq!(site.get(&path).await.done(200), expected, "{params}");
    }
}

#[tokio::test]
async fn a_document_is_a_row_and_fields_are_columns() {
    let site = pages().await;
    let whole = source(&site, "").await;
    assert_eq!(whole["title"], "A");
    assert_eq!(whole["links"]["http://b.org/"], "see");
    let some = source(&site, "?_source_includes=title").await;
    assert_eq!(some, json!({"title": "A"}));
    let some = source(&site, "?_source_includes=ti*").await;
    assert_eq!(some, json!({"title": "A"}));

    let update = format!("POST /pages/_update/{PAGE}");
    let body = r#"{"doc":{"visits":3,"links":{"z":null,"y":"new"}}}"#;
    assert_eq!(
        site.call(&update, body).await.done(200)["result"],
        "updated"
    );
    let links = json!({"http://b.org/": "see", "y": "new"});
    assert_eq!(
        source(&site, "?_source_includes=links").await["links"],
        links
    );
    let reason = site.call(&update, r#"{"doc":{"tree":{"a":1}}}"#).await;
    let reason = reason.refused(400, "illegal_argument_exception");
    assert!(reason.contains("written whole"), "{reason}");
    let missing = site
        .call("POST /pages/_update/none", r#"{"doc":{"visits":1}}"#)
        .await;
    missing.refused(404, "document_missing_exception");
    let upsert = r#"{"doc":{"visits":1},"doc_as_upsert":true}"#;
    site.call("POST /pages/_update/none", upsert)
        .await
        .done(201);

    let wrong = site.call("PUT /pages/_doc/x", r#"{"titel":"A"}"#).await;
    let reason = wrong.refused(400, "illegal_argument_exception");
    assert!(reason.contains("no column \"titel\""), "{reason}");
    let taken = site
        .call("PUT /pages/_create/none", r#"{"title":"A"}"#)
        .await;
    taken.refused(409, "version_conflict_engine_exception");
    let stale = "DELETE /pages/_doc/none?if_seq_no=77&if_primary_term=1";
    site.call(stale, "")
        .await
        .refused(409, "version_conflict_engine_exception");
    assert_eq!(
        site.call("DELETE /pages/_doc/none", "").await.done(200)["result"],
        "deleted"
    );
    assert_eq!(site.get("/pages/_doc/none").await.done(404)["found"], false);
}

#[tokio::test]
async fn cells_are_written_and_read_as_they_are() {
    let site = pages().await;
    let at = |column: &str| format!("/pages/_cell/{PAGE}/{column}");
    assert_eq!(site.get(&at("html")).await.text, "<html>");
    let json = site.get(&at("html?format=json")).await.done(200);
    assert_eq!(json["value"], "PGh0bWw+");
    let put = |column: &str| format!("PUT {}", at(column));
    site.call(&put("html"), "raw \u{0} bytes").await.done(200);
    assert_eq!(site.get(&at("html")).await.text, "raw \u{0} bytes");
    site.call(&put("visits"), "41").await.done(200);
    let merge = |column: &str| format!("POST {}", at(column));
    site.call(&merge("visits"), r#"{"add":1}"#).await.done(200);
    assert_eq!(site.get(&at("visits")).await.text, "42");
    site.call(&merge("title"), r#"{"append":"BC"}"#)
        .await
        .done(200);
    assert_eq!(site.get(&at("title")).await.text, "ABC");

    for member in ["a", "b", "c"] {
        site.call(&put(&format!("links%5B{member}%5D")), member)
            .await
            .done(200);
    }
    assert_eq!(site.get(&at("links[a]")).await.text, "a");
    let page = site.get(&at("links?size=2")).await.done(200);
    assert_eq!(page, json!({"members": {"a": "a", "b": "b"}, "next": "c"}));
    let page = site.get(&at("links?from=c&to=y")).await.done(200);
    assert_eq!(page["members"], json!({"c": "c", "http://b.org/": "see"}));
    let delete = |column: &str| format!("DELETE {}", at(column));
    site.call(&delete("links?from=b&to=d"), "").await.done(200);
    site.call(&delete("links[a]"), "").await.done(200);
    let page = site.get(&at("links")).await.done(200);
    assert_eq!(
        page,
        json!({"members": {"http://b.org/": "see", "z": "last"}})
    );
    site.call(&delete("links"), "").await.done(200);
    assert_eq!(
        site.get(&at("links")).await.done(200),
        json!({"members": {}})
    );

    site.get(&at("title[a]"))
        .await
        .refused(400, "illegal_argument_exception");
    site.get(&at("nothing"))
        .await
        .refused(400, "illegal_argument_exception");
    site.get(&at("tree"))
        .await
        .refused(404, "resource_not_found_exception");
    site.call(&put("links"), "x")
        .await
        .refused(400, "illegal_argument_exception");
    site.call(&put("visits"), "\"x\"")
        .await
        .refused(400, "illegal_argument_exception");
    let stale = format!("{}?if_seq_no=1000&if_primary_term=1", put("visits"));
    site.call(&stale, "1")
        .await
        .refused(409, "version_conflict_engine_exception");
    site.collection("plain");
    site.get("/plain/_cell/a/b")
        .await
        .refused(400, "illegal_argument_exception");
}

#[tokio::test]
async fn cells_expire_after_a_time_to_live() {
    let site = pages().await;
    let at = |column: &str| format!("/pages/_cell/{PAGE}/{column}");
    let put = |column: &str| format!("PUT {}", at(column));
    let expires = |answer: &Value| answer["expires_micros"].as_i64();
    let now = || jiff::Timestamp::now().as_microsecond();

    let before = now();
    site.call(&put("links%5Bl%5D?ttl=1h"), "l").await.done(200);
    let found = site.get(&at("links[l]?format=json")).await.done(200);
    let hour = expires(&found).unwrap() - 3_600_000_000;
    assert!((before..=now()).contains(&hour), "{found}");
    let merge = format!("POST {}", at("visits?ttl=2h"));
    site.call(&merge, r#"{"add":1}"#).await.done(200);
    let found = site.get(&at("visits?format=json")).await.done(200);
    let two_hours = expires(&found).unwrap() - 7_200_000_000;
    assert!((before..=now()).contains(&two_hours), "{found}");
    // An operand leaves the time that the cell has.
    let merge = format!("POST {}", at("visits"));
    site.call(&merge, r#"{"add":1}"#).await.done(200);
    let again = site.get(&at("visits?format=json")).await.done(200);
    assert_eq!(again["expires_micros"], found["expires_micros"]);
    site.call(&put("visits?ttl=none"), "1").await.done(200);
    let found = site.get(&at("visits?format=json")).await.done(200);
    assert_eq!(found, json!({"value": 1}));

    for (ttl, expected) in [("7", "number and d"), ("-1s", "number and d"), ("", "none")] {
        let refused = site.call(&put(&format!("visits?ttl={ttl}")), "1").await;
        let reason = refused.refused(400, "illegal_argument_exception");
        assert!(
            reason.contains("[ttl]") && reason.contains(expected),
            "{reason}"
        );
    }
    let delete = format!("DELETE {}", at("visits?ttl=1s"));
    site.call(&delete, "")
        .await
        .refused(400, "illegal_argument_exception");

    let schema = r#"{"add":{"session":{"type":"string","timeToLive":"1d"}},
        "timeToLive":{"title":"30d","links":null}}"#;
    let altered = site.call("POST /pages/_schema", schema).await.done(200);
    let columns = &altered["mappings"]["_meta"]["wide"]["properties"];
    assert_eq!(columns["session"]["timeToLive"], "1d");
    assert_eq!(columns["title"]["timeToLive"], "30d");
    let before = now();
    site.call(&put("session"), "s").await.done(200);
    let found = site.get(&at("session?format=json")).await.done(200);
    let day = expires(&found).unwrap() - 86_400_000_000;
    assert!((before..=now()).contains(&day), "{found}");
    let wrong = r#"{"timeToLive":{"title":"soon"}}"#;
    site.call("POST /pages/_schema", wrong)
        .await
        .refused(400, "illegal_argument_exception");

    // At zero seconds it has expired already.
    site.call(&put("session?ttl=0s"), "s").await.done(200);
    site.get(&at("session"))
        .await
        .refused(404, "resource_not_found_exception");
}

#[tokio::test]
async fn a_column_moves_to_another_group_while_it_is_served() {
    let site = pages().await;
    for number in 0..50 {
        let row = format!(r#"{{"title":"t","links":{{"a":"{number}","b":"x"}}}}"#);
        let path = format!("PUT /pages/_doc/{number}");
        site.call(&path, row).await.done(201);
    }
    let moved = r#"{"move":{"links":"content","title":"titles"}}"#;
    let altered = site.call("POST /pages/_schema", moved).await.done(200);
    let columns = &altered["mappings"]["_meta"]["wide"]["properties"];
    assert_eq!(columns["links"]["group"], "content");
    assert_eq!(columns["links"]["movedFrom"], "links");
    loop {
        // Whatever has moved yet, each cell is there once.
        for number in 0..50 {
            let found = site.get(&format!("/pages/_doc/{number}")).await.done(200);
            let links = json!({"a": number.to_string(), "b": "x"});
            let whole = json!({"_id": number, "title": "t", "links": links});
            assert_eq!(found["_source"], whole);
        }
        let count = r#"{"query":{"term":{"title":"t"}}}"#;
        let found = site.call("POST /pages/_count", count).await.done(200);
        assert_eq!(found["count"], 50);
        let stats = site.get("/_quire/stats").await.done(200);
        let pages = stats["collections"].as_array().unwrap();
        let pages = pages.iter().find(|one| one["name"] == "pages").unwrap();
        if pages["column_moves"] == json!([]) {
            // The links of the first page, two of each other, and all titles.
            assert_eq!(pages["column_cells_moved"], 2 + 100 + 51);
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let unknown = r#"{"move":{"nothing":"content"}}"#;
    site.call("POST /pages/_schema", unknown)
        .await
        .refused(400, "illegal_argument_exception");
}

#[tokio::test]
async fn a_cell_that_would_break_its_row_is_refused_and_a_removal_makes_no_row() {
    let site = pages().await;
    let at = |column: &str| format!("/pages/_cell/{PAGE}/{column}");
    let before = source(&site, "").await;
    // Nothing is before the empty name.
    let removed = format!("DELETE {}", at("links?to="));
    site.call(&removed, "").await.done(200);
    assert_eq!(source(&site, "").await, before);

    for column in ["title", "links%5Bz%5D", "links", "links?from=a"] {
        let delete = format!("DELETE /pages/_cell/none/{column}");
        site.call(&delete, "")
            .await
            .refused(404, "document_missing_exception");
        assert_eq!(site.get("/pages/_doc/none").await.done(404)["found"], false);
    }

    let add = r#"{"add":{"trees":{"type":"object","additionalProperties":{}}}}"#;
    site.call("POST /pages/_schema", add).await.done(200);
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let member = format!("PUT {}", at("trees%5Bm%5D"));
    let refused = site.call(&member, nested(127)).await;
    refused.refused(400, "illegal_argument_exception");
    for body in [r#"1,"x":2"#, "1,2"] {
        assert!(
            site.call(&member, body).await.text.contains("error"),
            "{body}"
        );
    }
    assert_eq!(source(&site, "").await, before);
    site.call(&member, nested(126)).await.done(200);
    // The row is as deep as rows can be: the test reads no answer that has all of it.
    let search = r#"{"query":{"match_all":{}},"_source":["title"]}"#;
    let found = site.call("POST /pages/_search", search).await.done(200);
    assert_eq!(found["hits"]["hits"][0]["_source"]["title"], "A");

    let numbered = r#"{"add":{"size":{"type":"integer","column":1}}}"#;
    let refused = site.call("POST /pages/_schema", numbered).await;
    refused.refused(400, "illegal_argument_exception");
}

#[tokio::test]
async fn a_wide_collection_is_searched_counted_and_described() {
    let site = pages().await;
    for number in 0..30 {
        let row = format!(r#"{{"title":"t{}","visits":{number}}}"#, number % 3);
        let path = format!("PUT /pages/_doc/{number}");
        site.call(&path, row).await.done(201);
    }
    assert_eq!(site.get("/pages/_count").await.done(200)["count"], 31);
    let search = r#"{"query":{"term":{"title":"t1"}},"sort":[{"visits":"desc"}],"size":2,
        "_source":["visits"],"aggs":{"sum":{"sum":{"field":"visits"}}}}"#;
    let found = site.call("POST /pages/_search", search).await.done(200);
    assert_eq!(found["hits"]["total"]["value"], 10);
    assert_eq!(found["hits"]["hits"][0]["_source"], json!({"visits": 28}));
    assert_eq!(found["aggregations"]["sum"]["value"], 145.0);
    // All collections together.
    site.collection("plain");
    site.call("PUT /plain/_doc/p", r#"{"title":"t1"}"#)
        .await
        .done(201);
    let all = r#"{"query":{"term":{"title":"t1"}}}"#;
    assert_eq!(site.call("POST /_count", all).await.done(200)["count"], 11);

    let mapping = site.get("/pages/_mapping").await.done(200);
    let properties = &mapping["pages"]["mappings"]["properties"];
    assert_eq!(properties["html"]["type"], "binary");
    let changes =
        r#"{"rename":{"title":"heading"},"drop":["tree"],"add":{"size":{"type":"number"}}}"#;
    site.call("POST /pages/_schema", changes).await.done(200);
    assert_eq!(
        site.get("/pages/_doc/1").await.done(200)["_source"]["heading"],
        "t1"
    );
    let described = site.get("/pages").await.done(200);
    assert_eq!(
        described["pages"]["mappings"]["properties"]["size"]["type"],
        "double"
    );
    let reason = site
        .call("POST /pages/_schema", r#"{"drop":["tree"]}"#)
        .await;
    reason.refused(400, "illegal_argument_exception");
    let shaped = r#"{"groups":{"default":{"codec":"zstd"}}}"#;
    let altered = site.call("POST /pages/_schema", shaped).await.done(200);
    let own = &altered["mappings"]["_meta"]["wide"];
    assert_eq!(own["groups"]["default"]["codec"], "zstd");
    let tiers = r#"{"groups":{"default":{"tiers":{"hot":"ssd","cold":"hdd","after":"7d"}}}}"#;
    let refused = site.call("POST /pages/_schema", tiers).await;
    refused.refused(400, "illegal_argument_exception");
    let moved = site.call("POST /pages/_tier", "").await.done(200);
    assert_eq!(moved, json!({"rows": 0, "bytes": 0}));
    let stats = site.get("/pages/_stats").await.done(200);
    assert_eq!(stats["indices"]["pages"]["total"]["docs"]["count"], 31);
    site.call("POST /pages/_flush", "").await.done(200);
    site.call("DELETE /pages", "").await.done(200);
    site.get("/pages/_doc/1")
        .await
        .refused(404, "index_not_found_exception");
}

#[tokio::test]
async fn exists_finds_families_and_objects_in_columns_of_json() {
    let site = pages().await;
    for (id, row) in [
        ("tree", r#"{"tree":{"a":{"b.c":1}}}"#),
        ("scalar", r#"{"tree":7}"#),
        ("empty", r#"{"title":"none"}"#),
    ] {
        let put = format!("PUT /pages/_doc/{id}");
        site.call(&put, row).await.done(201);
    }
    site.call("PUT /plain/_doc/p", r#"{"links":{"x":1}}"#)
        .await
        .done(201);
    for (index, field, count) in [
        ("pages", "links", 1),
        ("pages", "links.z", 1),
        ("pages", "tree", 2),
        ("pages", "tree.a", 1),
        ("pages", "title", 2),
        ("pages", "html", 1),
        ("pages", "title.none", 0),
        ("pages,plain", "links", 2),
    ] {
        let query = json!({"query": {"exists": {"field": field}}});
        let call = format!("POST /{index}/_count");
        let counted = site.call(&call, query.to_string()).await.done(200);
        assert_eq!(counted["count"], count, "{field} of {index}");
        let not = json!({"query": {"bool": {"must_not": {"exists": {"field": field}}}}});
        let counted = site.call(&call, not.to_string()).await.done(200);
        let all = if index == "pages" { 4 } else { 5 };
        assert_eq!(counted["count"], all - count, "without {field} of {index}");
    }

    let links = (0..1001).map(|number| (format!("m{number}"), json!("x")));
    let many = json!({"links": serde_json::Map::from_iter(links)});
    let put = "PUT /pages/_doc/many";
    site.call(put, many.to_string()).await.done(201);
    let query = r#"{"query":{"exists":{"field":"links"}}}"#;
    let refused = site.call("POST /pages/_count", query).await;
    refused.refused(400, "illegal_argument_exception");
}

#[tokio::test]
async fn what_is_not_done_with_wide_collections_says_so() {
    let site = pages().await;
    site.call("PUT /plain", "").await.done(200);
    let both = r#"{"actions":[{"add":{"indices":["pages","plain"],"alias":"both"}}]}"#;
    site.call("POST /_aliases", both).await.done(200);
    for (call, body) in [
        ("GET /pages/_changes", ""),
        ("PUT /pages/_settings", r#"{"quire":{"codec":"none"}}"#),
        ("PUT /both/_settings", r#"{"quire":{"codec":"none"}}"#),
    ] {
        let answer = site.call(call, body).await.text;
        assert!(answer.contains("is wide"), "{call}: {answer}");
    }
}

/// The ids of the rows that a search finds, sorted.
async fn ids(site: &Site, index: &str, query: Value) -> Vec<String> {
    let body = json!({"query": query, "size": 10_000, "_source": false}).to_string();
    let found = site.call(&format!("POST /{index}/_search"), body).await;
    let found = found.done(200);
    let hits = found["hits"]["hits"].as_array().unwrap();
    let mut ids: Vec<String> = hits
        .iter()
        .map(|hit| hit["_id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn an_alias_stands_for_a_wide_collection() {
    let site = pages().await;
    let old = SCHEMA.replacen("{\"quire\"", "{\"aliases\":{\"web\":{}},\"quire\"", 1);
    site.call("PUT /old", old).await.done(200);
    let shown = site.get("/old").await.done(200);
    assert_eq!(shown["old"]["aliases"], json!({"web": {}}));

    // The only one of an alias is read and written by its name.
    let put = r#"{"title":"one","visits":1}"#;
    let written = site.call("PUT /web/_doc/1", put).await.done(201);
    assert_eq!(written["_index"], "old");
    let body = r#"{"doc":{"visits":2}}"#;
    let written = site.call("POST /web/_update/1", body).await.done(200);
    assert_eq!(written["_index"], "old");
    let written = site.call("PUT /web/_cell/1/html", "raw").await.done(200);
    assert_eq!(written["_index"], "old");
    assert_eq!(site.get("/web/_cell/1/html").await.text, "raw");
    let found = site.get("/web/_doc/1").await.done(200);
    assert_eq!(
        (&found["_index"], &found["_source"]["visits"]),
        (&json!("old"), &json!(2))
    );
    let several = [
        r#"{"index":{"_index":"web","_id":"2"}}"#,
        r#"{"title":"two"}"#,
        r#"{"update":{"_index":"old","_id":"2"}}"#,
        r#"{"doc":{"visits":7}}"#,
        r#"{"delete":{"_index":"web","_id":"1"}}"#,
    ];
    let done = site.call("POST /_bulk", several.join("\n") + "\n").await;
    let done = done.done(200);
    assert_eq!(done["errors"], false, "{done:#}");
    assert_eq!(done["items"][0]["index"]["_index"], "old");
    let found = site.call("POST /web/_mget", r#"{"ids":["1","2"]}"#).await;
    let found = found.done(200);
    assert_eq!(found["docs"][0]["found"], false);
    assert_eq!(found["docs"][1]["_index"], "old");
    assert_eq!(found["docs"][1]["_source"]["visits"], 7);
    let named = site.call("POST /web/_schema", r#"{"rename":{"tree":"json"}}"#);
    named.await.done(200);

    // Of several, one takes the writes; reads of one document can't choose.
    let both = r#"{"actions":[
        {"add":{"index":"old","alias":"web","filter":{"range":{"visits":{"gte":5}}}}},
        {"add":{"index":"pages","alias":"web","is_write_index":true}}]}"#;
    site.call("POST /_aliases", both).await.done(200);
    let written = site.call("PUT /web/_doc/3", put).await.done(201);
    assert_eq!(written["_index"], "pages");
    let refused = site.get("/web/_doc/3").await;
    refused.refused(400, "illegal_argument_exception");
    site.call("PUT /old/_doc/4", put).await.done(201);
    let all = json!({"match_all": {}});
    assert_eq!(
        ids(&site, "web", all.clone()).await,
        ["2", "3", "http://a.org/"]
    );
    assert_eq!(ids(&site, "old", all.clone()).await, ["2", "4"]);
    let of_all = site.get("/_alias/web").await.done(200);
    let names: Vec<&String> = of_all.as_object().unwrap().keys().collect();
    assert_eq!(names, ["old", "pages"]);
    let listed = site.get("/_cat/aliases?h=alias,index").await.text;
    assert!(
        listed.contains("old") && listed.contains("pages"),
        "{listed}"
    );
    let listed = site.get("/_cat/indices?h=index,docs.count").await.text;
    assert!(listed.contains("old"), "{listed}");
    let refused = site.call("PUT /web", "").await;
    refused.refused(400, "invalid_index_name_exception");

    // It takes the place of a collection in one step, and outlives the server.
    let moved = r#"{"actions":[{"remove_index":{"index":"old"}},
        {"add":{"index":"pages","alias":"old"}}]}"#;
    site.call("POST /_aliases", moved).await.done(200);
    assert_eq!(ids(&site, "old", all.clone()).await, ["3", "http://a.org/"]);
    let again = Site::over(site.database.clone(), Default::default());
    assert_eq!(ids(&again, "web,old", all).await, ["3", "http://a.org/"]);
}

#[tokio::test]
async fn rows_are_deleted_and_written_again_by_query() {
    let site = pages().await;
    site.collection("plain");
    for number in 0..40 {
        for index in ["pages", "plain"] {
            let html = "PGh0bWw+".repeat(1 + number % 3 * 50_000);
            let row = format!(
                r#"{{"title":"t{}","visits":{number},"html":"{html}"}}"#,
                number % 4
            );
            let path = format!("PUT /{index}/_doc/{number}");
            site.call(&path, row).await.done(201);
        }
    }
    let version = async |id: usize| {
        let found = site.get(&format!("/pages/_doc/{id}?_source=false")).await;
        found.done(200)["_seq_no"].as_u64().unwrap()
    };
    let before = (version(1).await, version(2).await);
    let whole = site.get("/pages/_source/1").await.done(200);
    let query = json!({"query": {"term": {"title": "t1"}}}).to_string();
    let path = "POST /pages/_update_by_query?scroll_size=3";
    let report = site.call(path, query.clone()).await.done(200);
    assert_eq!(
        (&report["updated"], &report["total"]),
        (&json!(10), &json!(10))
    );
    assert!(version(1).await > before.0);
    assert_eq!(version(2).await, before.1);
    assert_eq!(site.get("/pages/_source/1").await.done(200), whole);

    // Through an alias its filter holds, and collections of both kinds are changed together.
    let both = r#"{"actions":[
        {"add":{"index":"pages","alias":"few","filter":{"range":{"visits":{"lt":20}}}}},
        {"add":{"index":"plain","alias":"few"}}]}"#;
    site.call("POST /_aliases", both).await.done(200);
    let path = "POST /few/_delete_by_query?slices=3&scroll_size=2";
    let report = site.call(path, query.clone()).await.done(200);
    assert_eq!(report["deleted"], 15, "{report}");
    let left = json!({"term": {"title": "t1"}});
    assert_eq!(
        ids(&site, "pages", left.clone()).await,
        ["21", "25", "29", "33", "37"]
    );
    assert_eq!(ids(&site, "plain", left).await, [""; 0]);
    let some = json!({"query": {"match_all": {}}, "max_docs": 7}).to_string();
    let path = "POST /pages/_delete_by_query";
    assert_eq!(site.call(path, some).await.done(200)["deleted"], 7);
    let all = json!({"query": {"match_all": {}}}).to_string();
    let path = "POST /pages/_delete_by_query?wait_for_completion=false";
    let task = site.call(path, all).await.done(200)["task"].clone();
    let path = format!("/_tasks/{}", task.as_str().unwrap());
    let report = loop {
        let report = site.get(&path).await.done(200);
        if report["completed"] == true {
            break report;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(report["response"]["deleted"], 29, "{report}");
    assert_eq!(site.get("/pages/_count").await.done(200)["count"], 0);
}

#[tokio::test]
async fn documents_are_copied_into_a_wide_collection_and_back() {
    let site = pages().await;
    site.collection("plain");
    let row = |number: usize| match number % 3 {
        0 => json!({"title": format!("t{number}"), "visits": number}),
        1 => json!({"html": "PGh0bWw+".repeat(60_000), "links": {"http://b.org/": "b"}}),
        _ => json!({"tree": {"a": [number, null, {"b": 1.5}]}}),
    };
    for number in 0..60 {
        let path = format!("PUT /plain/_doc/p{number}");
        site.call(&path, row(number).to_string()).await.done(201);
    }
    let copy = |from: &str, to: Value| json!({"source": {"index": from}, "dest": to}).to_string();
    let create = json!({"index": "pages", "op_type": "create"});
    let path = "POST /_reindex";
    let report = site.call(path, copy("plain", create.clone())).await;
    assert_eq!(report.done(200)["created"], 60);
    for number in 0..60 {
        let mut expected = row(number);
        expected["_id"] = format!("p{number}").into();
        let found = site.get(&format!("/pages/_source/p{number}")).await;
        assert_eq!(found.done(200), expected);
    }
    let again = json!({"source": {"index": "plain"}, "dest": create, "conflicts": "proceed"});
    let report = site.call(path, again.to_string()).await;
    assert_eq!(report.done(200)["version_conflicts"], 60);
    let back = json!({"index": "back"});
    let report = site.call(path, copy("pages", back)).await.done(200);
    assert_eq!(report["created"], 61);
    let found = site.get("/back/_source/p1").await.done(200);
    assert_eq!(found["links"], row(1)["links"]);

    // What can't be a row is refused by name, and is not lost.
    let external = json!({"index": "pages", "version_type": "external"});
    let refused = site.call(path, copy("plain", external)).await;
    refused.refused(400, "illegal_argument_exception");
    site.call("PUT /plain/_doc/wrong", r#"{"visits":"many"}"#)
        .await
        .done(201);
    let to = json!({"index": "pages"});
    let report = site.call(path, copy("plain", to.clone())).await.done(400);
    assert_eq!(report["failures"][0]["id"], "wrong", "{report}");
    let refused = site.call(path, copy("pages,plain", to)).await;
    refused.refused(400, "action_request_validation_exception");
}

#[tokio::test]
async fn rows_are_read_with_documents_in_one_multi_get() {
    let site = pages().await;
    site.call("PUT /plain/_doc/1", r#"{"a":1}"#).await.done(201);
    let docs = json!({"docs": [
        {"_index": "pages", "_id": "http://a.org/", "_source": ["title", "nothing"]},
        {"_index": "plain", "_id": "1"},
        {"_index": "pages", "_id": "none"},
        {"_index": "pages", "_id": "http://a.org/", "_source": false},
        {"_index": "absent", "_id": "1"},
    ]});
    let answer = site.call("POST /_mget", docs.to_string()).await.done(200);
    let docs = &answer["docs"];
    assert_eq!(docs[0]["_source"], json!({"title": "A"}));
    assert_eq!(docs[0]["_index"], "pages");
    assert_eq!(docs[1]["_source"], json!({"a": 1}));
    let missing = json!({"_index": "pages", "_id": "none", "found": false});
    assert_eq!(docs[2], missing);
    assert_eq!(
        (&docs[3]["found"], docs[3].get("_source")),
        (&json!(true), None)
    );
    assert_eq!(docs[4]["error"]["type"], "index_not_found_exception");
    let ids = r#"{"ids":["http://a.org/"]}"#;
    let one = site.call("GET /pages/_mget", ids).await.done(200);
    assert_eq!(one["docs"][0]["_source"]["html"], "PGh0bWw+");
}

/// A trigger that sets `seen` if a document is written, and refuses nothing.
const SETS_SEEN: &str = concat!(
    "\0asm\u{1}\0\0\0\u{1}\u{9}\u{2}`\u{2}\u{7f}\u{7f}\0`\0\0",
    "\u{2}\u{10}\u{1}\u{7}quire_1\u{4}emit\0\0\u{3}\u{2}\u{1}\u{1}\u{5}\u{3}\u{1}\0\u{1}",
    "\u{7}\u{1c}\u{2}\u{6}memory\u{2}\0\u{f}quire_1_trigger\0\u{1}",
    "\u{a}\u{a}\u{1}\u{8}\0A\0A\u{d}\u{10}\0\u{b}",
    "\u{b}\u{13}\u{1}\0A\0\u{b}\u{d}{\"seen\":true}",
);

#[tokio::test]
async fn a_trigger_runs_with_writes_of_rows_and_of_documents() {
    let site = pages().await;
    site.call("PUT /plain/_doc/0", r#"{"a":1}"#).await.done(201);
    let add = site.call("PUT /_quire/coprocessors/seen", SETS_SEEN).await;
    add.done(201);
    let added = r#"{"add":{"seen":{"type":"boolean"}}}"#;
    site.call("POST /pages/_schema", added).await.done(200);
    for (index, body) in [
        ("pages", r#"{"version":1,"columns":["title"]}"#),
        ("plain", ""),
    ] {
        let put = format!("PUT /{index}/_quire/triggers/seen");
        let attached = site.call(&put, body).await.done(200);
        assert_eq!(
            (&attached["coprocessor"], &attached["version"]),
            (&json!("seen"), &json!(1))
        );
        let listed = site
            .get(&format!("/{index}/_quire/triggers"))
            .await
            .done(200);
        assert_eq!(listed["triggers"], json!([attached]));
    }
    site.call("DELETE /_quire/coprocessors/seen", "")
        .await
        .refused(400, "illegal_argument_exception");

    let patch = format!("POST /pages/_cell/{PAGE}/visits");
    site.call(&patch, r#"{"add":1}"#).await.done(200);
    let row = source(&site, "?_source_includes=visits,seen").await;
    assert_eq!(row, json!({"visits": 1, "seen": true}));
    let lines = "{\"index\":{\"_id\":\"1\"}}\n{\"a\":2}\n{\"update\":{\"_id\":\"0\"}}\n\
        {\"doc\":{\"b\":3}}\n{\"delete\":{\"_id\":\"1\"}}\n";
    let done = site.call("POST /plain/_bulk", lines).await.done(200);
    let reason = "it emits no patch of a row that is removed";
    let error = done["items"][2]["delete"]["error"]["reason"].to_string();
    assert!(error.contains(reason), "{done}");
    for (id, document) in [
        ("0", json!({"a": 1, "b": 3, "seen": true})),
        ("1", json!({"a": 2, "seen": true})),
    ] {
        let found = site.get(&format!("/plain/_doc/{id}")).await.done(200);
        assert_eq!(found["_source"], document);
    }

    for index in ["pages", "plain"] {
        let delete = format!("DELETE /{index}/_quire/triggers/seen");
        site.call(&delete, "").await.done(200);
        site.call(&delete, "")
            .await
            .refused(404, "resource_not_found_exception");
    }
    site.call("DELETE /_quire/coprocessors/seen", "")
        .await
        .done(200);
    site.call("DELETE /plain/_doc/1", "").await.done(200);
}

#[tokio::test]
async fn bulk_writes_rows_beside_documents() {
    let site = pages().await;
    site.collection("plain");
    let body = [
        r#"{"index":{"_index":"pages","_id":"1"}}"#,
        r#"{"title":"one","visits":1}"#,
        r#"{"create":{"_index":"pages","_id":"1"}}"#,
        r#"{"title":"again"}"#,
        r#"{"index":{"_index":"plain","_id":"1"}}"#,
        r#"{"title":"plain"}"#,
        r#"{"update":{"_index":"pages","_id":"1"}}"#,
        r#"{"doc":{"visits":2,"links":{"a":"x"}}}"#,
        r#"{"update":{"_index":"pages","_id":"none"}}"#,
        r#"{"doc":{"visits":2}}"#,
        r#"{"update":{"_index":"pages","_id":"2"}}"#,
        r#"{"doc":{"visits":3},"doc_as_upsert":true}"#,
        r#"{"index":{"_index":"pages","_id":"3"}}"#,
        r#"{"titel":"wrong"}"#,
        r#"{"index":{"_index":"pages"}}"#,
        r#"{"title":"with a new id"}"#,
        r#"{"delete":{"_index":"pages","_id":"2"}}"#,
        r#"{"delete":{"_index":"pages","_id":"absent"}}"#,
        r#"{"index":{"_index":"pages","_id":"1","if_seq_no":9999,"if_primary_term":1}}"#,
        r#"{"title":"stale"}"#,
        r#"{"index":{"_index":"pages","_id":"1","version":4,"version_type":"external"}}"#,
        r#"{"title":"external"}"#,
        r#"{"update":{"_index":"pages","_id":"1","_source":true}}"#,
        r#"{"doc":{"visits":4}}"#,
    ]
    .join("\n");
    let done = site.call("POST /_bulk", body + "\n").await.done(200);
    let items = done["items"].as_array().unwrap();
    let outcomes: Vec<(String, u64)> = items
        .iter()
        .map(|item| {
            let (op, item) = item.as_object().unwrap().iter().next().unwrap();
            (op.clone(), item["status"].as_u64().unwrap())
        })
        .collect();
    let expected = [
        ("index", 201),
        ("create", 409),
        ("index", 201),
        ("update", 200),
        ("update", 404),
        ("update", 201),
        ("index", 400),
        ("index", 201),
        ("delete", 200),
        ("delete", 404),
        ("index", 409),
        ("index", 400),
        ("update", 400),
    ];
    let expected: Vec<_> = expected.map(|(op, status)| (op.to_string(), status)).into();
    assert_eq!(outcomes, expected, "{done:#}");
    assert_eq!(done["errors"], true);
    let row = site.get("/pages/_doc/1").await.done(200);
    assert_eq!(
        row["_source"],
        json!({"_id": 1, "title": "one", "visits": 2, "links": {"a": "x"}})
    );
    let new = items[7]["index"]["_id"].as_str().unwrap();
    let row = site.get(&format!("/pages/_doc/{new}")).await.done(200);
    assert_eq!(row["_source"]["title"], "with a new id");
    // The first page, 1, and the one with a new id.
    assert_eq!(site.get("/pages/_count").await.done(200)["count"], 3);

    // Many rows of one key are written in their order.
    let mut body = String::new();
    for number in 0..500 {
        body += &format!(
            "{{\"index\":{{\"_id\":\"{}\"}}}}\n{{\"visits\":{number}}}\n",
            number % 50
        );
    }
    let done = site.call("POST /pages/_bulk", body).await.done(200);
    assert_eq!(done["errors"], false);
    for key in 0..50 {
        let row = site.get(&format!("/pages/_doc/{key}")).await.done(200);
        assert_eq!(row["_source"]["visits"], 450 + key);
    }
}

#[tokio::test]
async fn settings_are_shown_and_many_rows_are_read_together() {
    let site = pages().await;
    site.collection("plain");
    let all = site.get("/_settings").await.done(200);
    let pages = &all["pages"]["settings"];
    assert_eq!(pages["index"]["number_of_shards"], "2");
    assert_eq!(pages["quire"]["key_field"], "_id");
    assert_eq!(pages["quire"].get("wide"), None);
    assert!(all["plain"]["settings"]["index"].is_object());
    let one = site.get("/pages/_settings/index.number_of_shards").await;
    let expected = json!({"pages": {"settings": {"index": {"number_of_shards": "2"}}}});
    assert_eq!(one.done(200), expected);

    for number in 0..40 {
        let html = "PGh0bWw+".repeat(1 + number % 7 * 2000);
        let row = format!(r#"{{"title":"t{number}","html":"{html}"}}"#);
        let path = format!("PUT /pages/_doc/{number}");
        site.call(&path, row).await.done(201);
    }
    let ids: Vec<String> = (0..45).rev().map(|number| number.to_string()).collect();
    for (query, is_whole) in [("", true), ("?_source_includes=title", false)] {
        let body = json!({"ids": ids}).to_string();
        let found = site.call(&format!("POST /pages/_mget{query}"), body).await;
        let found = found.done(200);
        let docs = found["docs"].as_array().unwrap();
        assert_eq!(docs.len(), 45);
        for (id, doc) in ids.iter().zip(docs) {
            assert_eq!(doc["_id"], **id);
            let number: usize = id.parse().unwrap();
            assert_eq!(doc["found"], number < 40, "{doc}");
            if number < 40 {
                assert_eq!(doc["_source"]["title"], format!("t{number}"));
                let html = doc["_source"]["html"].as_str().map(str::len);
                assert_eq!(html, is_whole.then(|| 8 * (1 + number % 7 * 2000)));
            }
        }
    }
    let mixed = r#"{"docs":[{"_id":"1"},{"_id":"2","_source":["title"]},{"_id":"3"},{"_id":"4"},
        {"_index":"plain","_id":"1"},{"_id":"5"}]}"#;
    let found = site.call("POST /pages/_mget", mixed).await.done(200);
    let docs = found["docs"].as_array().unwrap();
    assert_eq!(docs[1]["_source"], json!({"title": "t2"}));
    assert_eq!(docs[3]["_source"]["title"], "t4");
    assert_eq!(docs[4]["found"], false);
    assert_eq!(docs[5]["_source"]["title"], "t5");
}

/// The lines of an answer, and the cursor after them.
fn changes(text: &str) -> (Vec<Value>, String) {
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut lines: Vec<Value> = lines.collect();
    let last = lines.pop().unwrap();
    (lines, last["cursor"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_told_while_they_are_kept_also_over_a_split() {
    let site = Site::new();
    let kept = SCHEMA.replacen(
        "{\"quire\":{",
        "{\"quire\":{\"log_retention_secs\":3600,",
        1,
    );
    site.call("PUT /kept", kept).await.done(200);
    let put = r#"{"title":"A","html":"PGh0bWw+","links":{"x":"1","y":"2"}}"#;
    site.call("PUT /kept/_doc/a", put).await.done(201);
    site.call("PUT /kept/_doc/b", r#"{"visits":1}"#)
        .await
        .done(201);
    let (lines, first) = changes(&site.get("/kept/_changes?limit=1").await.text);
    assert_eq!(lines.len(), 1);
    let (mut lines, cursor) = changes(&site.get("/kept/_changes").await.text);
    lines.sort_by_key(|line| line["key"].to_string());
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["key"], "a");
    assert_eq!(
        lines[0]["document"],
        site.get("/kept/_source/a").await.done(200)
    );
    assert_eq!(lines[1]["document"], json!({"_id": "b", "visits": 1}));

    // The next is waited for.
    let path = format!("/kept/_changes?wait_ms=60000&after={cursor}");
    let wait = site.get(&path);
    let patch = r#"{"doc":{"title":null,"visits":3,"links":{"x":null,"z":"4"}}}"#;
    let write = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        site.call("POST /kept/_update/a", patch).await.done(200)
    };
    let (waited, _) = tokio::join!(wait, write);
    let (lines, cursor) = changes(&waited.text);
    assert_eq!(lines.len(), 1);
    let mut patched = lines[0]["patch"].as_array().unwrap().clone();
    patched.sort_by_key(ToString::to_string);
    let expected = [
        json!({"column": "links", "member": "x", "removed": true}),
        json!({"column": "links", "member": "z", "value": "4"}),
        json!({"column": "title", "removed": true}),
        json!({"column": "visits", "value": 3}),
    ];
    assert_eq!(patched, expected);
    assert_eq!(lines[0]["key"], "a");

    site.call("POST /kept/_cell/a/visits", r#"{"add":2}"#)
        .await
        .done(200);
    let split = site.call("POST /kept/_partitions?count=4", "").await;
    split.done(200);
    site.call("DELETE /kept/_doc/a", "").await.done(200);
    let (lines, _) = changes(
        &site
            .get(&format!("/kept/_changes?after={cursor}"))
            .await
            .text,
    );
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0]["patch"], json!([{"column": "visits", "add": 2}]));
    assert_eq!(lines[1]["deleted"], true);
    // A cursor from before the split has the rest.
    let (lines, _) = changes(
        &site
            .get(&format!("/kept/_changes?after={first}"))
            .await
            .text,
    );
    assert_eq!(lines.len(), 4);
    let (lines, _) = changes(&site.get("/kept/_changes?prefix=b").await.text);
    assert_eq!(lines.len(), 1);

    // The setting is changed while the collection is served.
    let set = |secs: &str| format!("{{\"quire\":{{\"log_retention_secs\":{secs}}}}}");
    let settings = "PUT /kept/_settings";
    site.call(settings, set("0")).await.done(200);
    let refused = site.get("/kept/_changes").await;
    let reason = refused.refused(400, "illegal_argument_exception");
    assert!(reason.contains("log_retention_secs"), "{reason}");
    site.call("PUT /kept/_doc/c", r#"{"visits":1}"#)
        .await
        .done(201);
    site.call(settings, set("60")).await.done(200);
    site.call("PUT /kept/_doc/c", r#"{"visits":2}"#)
        .await
        .done(200);
    let gone = site.get(&format!("/kept/_changes?after={cursor}")).await;
    let reason = gone.refused(404, "resource_not_found_exception");
    assert!(reason.contains("log_retention_secs"), "{reason}");
    site.call(settings, set("\"soon\""))
        .await
        .refused(400, "illegal_argument_exception");
    site.call("PUT /plain", "").await.done(200);
    let plain = site.call("PUT /plain/_settings", set("60")).await;
    plain.refused(400, "illegal_argument_exception");
}
