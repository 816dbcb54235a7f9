//! What is told of the columns of wide collections, beside the fields of plain ones.

use serde_json::{Value, json};

use crate::site::Site;

const SCHEMA: &str = r#"{"quire":{"wide":{"properties": {
    "title": {"type": "string"},
    "visits": {"type": "integer"},
    "tree": {"type": "object"},
    "html": {"type": "string", "contentEncoding": "base64", "group": "content"},
    "links": {"type": "object", "additionalProperties": {"type": "string"}, "group": "links"}
}}}}"#;

/// A wide collection and a plain one.
async fn site() -> Site {
    let site = Site::new();
    site.call("PUT /pages", SCHEMA).await.done(200);
    site.collection("plain");
    for (line, body) in [
        ("PUT /pages/_doc/1", r#"{"title":"A","visits":3}"#),
        ("PUT /plain/_doc/1", r#"{"visits":2.5,"colour":true}"#),
    ] {
        site.call(line, body).await.done(201);
    }
    site
}

async fn capabilities(site: &Site, line: &str, body: &str) -> Value {
    site.call(&format!("POST {line}"), body.to_owned())
        .await
        .done(200)
}

#[tokio::test]
async fn columns_are_told_beside_fields_of_other_collections() {
    let site = site().await;
    let all = capabilities(&site, "/_field_caps?fields=*", "").await;
    assert_eq!(all["indices"], json!(["pages", "plain"]));
    let fields = &all["fields"];
    assert_eq!(fields["visits"]["long"]["indices"], json!(["pages"]));
    assert_eq!(fields["visits"]["double"]["indices"], json!(["plain"]));
    assert_eq!(
        fields["title"],
        json!({"keyword": {"type": "keyword", "searchable": true, "aggregatable": true}})
    );
    for (name, kind) in [
        ("html", "binary"),
        ("links", "flat_object"),
        ("tree", "object"),
    ] {
        assert_eq!(fields[name][kind]["searchable"], false, "{fields}");
        assert_eq!(fields[name][kind]["aggregatable"], false, "{fields}");
    }

    let unmapped = "/_field_caps?fields=t*,colour&include_unmapped=true";
    let fields = &capabilities(&site, unmapped, "").await["fields"];
    assert_eq!(fields["title"]["unmapped"]["indices"], json!(["plain"]));
    assert_eq!(fields["colour"]["unmapped"]["indices"], json!(["pages"]));
    let names: Vec<_> = fields.as_object().into_iter().flatten().collect();
    assert_eq!(names.len(), 3, "{fields}");

    // Those in which a document matches.
    for (filter, indices) in [
        (r#"{"range":{"visits":{"gt":2.7}}}"#, json!(["pages"])),
        (r#"{"range":{"visits":{"lt":2.7}}}"#, json!(["plain"])),
        (
            r#"{"exists":{"field":"visits"}}"#,
            json!(["pages", "plain"]),
        ),
    ] {
        let body = format!(r#"{{"index_filter":{filter}}}"#);
        let found = capabilities(&site, "/_field_caps?fields=visits", &body).await;
        assert_eq!(found["indices"], indices, "{filter}");
    }
}

#[tokio::test]
async fn columns_are_mapped_one_by_one() {
    let site = site().await;
    let of_wide = site.get("/pages/_mapping/field/vis*,html").await.done(200);
    let visits = json!({"full_name": "visits", "mapping": {"visits": {"type": "long"}}});
    let html = json!({"full_name": "html", "mapping": {"html": {"type": "binary"}}});
    let mappings = json!({"visits": visits, "html": html});
    assert_eq!(of_wide, json!({"pages": {"mappings": mappings}}));
    let of_all = site.get("/_mapping/field/visits").await.done(200);
    let number = &of_all["plain"]["mappings"]["visits"]["mapping"]["visits"];
    assert_eq!(number["type"], "double", "{of_all}");
    assert_eq!(of_all["pages"]["mappings"]["visits"], visits);

    // A new column is there at once, and a dropped one is not.
    let changes = r#"{"drop":["tree"],"add":{"size":{"type":"number"}}}"#;
    site.call("POST /pages/_schema", changes).await.done(200);
    let fields = capabilities(&site, "/pages/_field_caps?fields=*", "").await["fields"].clone();
    assert_eq!(fields["size"]["double"]["type"], "double");
    assert!(fields.get("tree").is_none(), "{fields}");
}

#[tokio::test]
async fn figures_of_columns_are_told() {
    let site = site().await;
    let family = r#"{"links":{"http://a.org/":"A"}}"#;
    site.call("PUT /pages/_doc/2", family).await.done(201);
    let found = site.get("/pages/_quire/fields").await.done(200);
    assert_eq!(
        (&found["documents"], &found["from_index"]),
        (&json!(2), &json!(false))
    );
    let fields = found["fields"].as_array().unwrap();
    let figures: Vec<_> = fields
        .iter()
        .map(|of| json!([of["path"], of["types"], of["documents"]]))
        .collect();
    assert_eq!(
        figures,
        [
            json!(["_id", ["integer"], 2]),
            json!(["title", ["string"], 1]),
            json!(["visits", ["integer"], 1]),
        ]
    );
    let mapping = site.get("/pages/_mapping?quire").await.done(200);
    let detailed = &mapping["pages"]["quire"]["fields"];
    assert_eq!(detailed[1]["examples"], json!(["A"]), "{mapping}");
    let mapping = site.get("/pages/_mapping").await.done(200);
    assert!(mapping["pages"].get("quire").is_none(), "{mapping}");
}
