//! Search indexes of wide collections over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::site::Site;

fn body(index: &Value) -> String {
    let properties = json!({
        "host": {"type": "string"},
        "fetched": {"type": "integer"},
        "html": {"type": "string", "group": "content"},
        "links": {"type": "object", "additionalProperties": {"type": "string"}, "group": "links"},
    });
    json!({"quire": {"partitions": 2, "index": index, "wide": {"properties": properties}}})
        .to_string()
}

async fn index_of(site: &Site) -> Value {
    let stats = site.get("/pages/_stats").await.done(200);
    stats["indices"]["pages"]["quire"]["index"].clone()
}

async fn wait_for_index(site: &Site) {
    while index_of(site).await["complete"] != true {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn count(site: &Site, query: &Value) -> Value {
    let body = json!({ "query": query }).to_string();
    let counted = site.call("POST /pages/_count", body).await.done(200);
    counted["count"].clone()
}

async fn put(site: &Site, number: u64, row: &Value) {
    let path = format!("PUT /pages/_doc/{number}");
    site.call(&path, row.to_string()).await;
}

#[tokio::test]
async fn an_index_is_given_at_creation_and_changed_and_sees_each_write_at_once() {
    let site = Site::new();
    site.call(
        "PUT /pages",
        body(&json!({"default": "none", "host": "all"})),
    )
    .await
    .done(200);
    let settings = site.get("/pages/_settings").await.done(200);
    assert_eq!(
        settings["pages"]["settings"]["quire"]["index"],
        json!({"default": "none", "host": "all"})
    );
    for number in 0..300_u64 {
        let host = ["a.org", "b.org", "c.org"][number as usize % 3];
        let row = json!({"host": host, "fetched": number, "html": "<p>", "links": {"x": host}});
        put(&site, number, &row).await;
        if number % 50 == 0 {
            let of_host = count(&site, &json!({"term": {"host": host}})).await;
            assert_eq!(of_host, number / 3 + 1);
        }
    }
    wait_for_index(&site).await;
    let of_a = json!({"term": {"host": "a.org"}});
    let late = json!({"range": {"fetched": {"gte": 200}}});
    assert_eq!(count(&site, &of_a).await, 100);
    assert_eq!(count(&site, &late).await, 100);

    // Another index, of all columns; families are read of rows.
    let all = r#"{"quire":{"index":"all"}}"#;
    site.call("PUT /pages/_settings", all).await.done(200);
    assert_eq!(count(&site, &late).await, 100);
    wait_for_index(&site).await;
    assert_eq!(count(&site, &late).await, 100);
    assert_eq!(
        count(&site, &json!({"term": {"links.x": "b.org"}})).await,
        100
    );
    put(&site, 7, &json!({"host": "a.org", "fetched": 7})).await;
    assert_eq!(count(&site, &of_a).await, 101);
    let sorted = json!({"query": of_a, "sort": [{"fetched": "desc"}], "size": 2}).to_string();
    let found = site.call("POST /pages/_search", sorted).await.done(200);
    let hits = &found["hits"]["hits"];
    let first = (&hits[0]["_id"], &hits[1]["_id"]);
    assert_eq!(first, (&json!("297"), &json!("294")));

    // A column under another name has what it had.
    let renamed = r#"{"rename":{"host":"site"}}"#;
    site.call("POST /pages/_schema", renamed).await.done(200);
    let of_site = json!({"term": {"site": "a.org"}});
    for _ in 0..2 {
        assert_eq!(count(&site, &of_a).await, 0);
        assert_eq!(count(&site, &of_site).await, 101);
        wait_for_index(&site).await;
    }
    let some = r#"{"quire":{"index":{"default":"none","site":"all"}}}"#;
    site.call("PUT /pages/_settings", some).await.done(200);
    wait_for_index(&site).await;
    assert_eq!(count(&site, &of_site).await, 101);
    let none = r#"{"quire":{"index":"none"}}"#;
    site.call("PUT /pages/_settings", none).await.done(200);
    assert_eq!(count(&site, &late).await, 100);
    assert_eq!(index_of(&site).await, Value::Null);
}

#[tokio::test]
async fn an_index_of_a_family_is_refused_by_name() {
    let site = Site::new();
    let made = site.call(
        "PUT /pages",
        body(&json!({"default": "none", "links": "all"})),
    );
    let refused = made.await;
    let reason = refused.refused(400, "illegal_argument_exception");
    assert!(reason.contains("\"links\" is a family"), "{reason}");

    site.call("PUT /pages", body(&json!("none")))
        .await
        .done(200);
    let family = r#"{"quire":{"index":{"default":"all","links.x":"all"}}}"#;
    let refused = site.call("PUT /pages/_settings", family).await;
    let reason = refused.refused(400, "illegal_argument_exception");
    assert!(reason.contains("\"links\" is a family"), "{reason}");
}
