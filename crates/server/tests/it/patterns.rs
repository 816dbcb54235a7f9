//! Texts are found by regular expressions, and by texts that they are near to.

use serde_json::{Value as Json, json};

use crate::site::Site;

const MODELS: [&str; 8] = [
    "passat", "pasat", "apssat", "Passat", "polo", "a4", "a 4\n", "^polo$",
];

/// Collections without an index and with one, each with the models, a number and nothing.
async fn site() -> Site {
    let site = Site::new();
    let properties = json!({"model": {"type": "keyword"}, "price": {"type": "long"}});
    for (name, index) in [("scanned", "none"), ("indexed", "all")] {
        let body = json!({
            "mappings": {"properties": properties},
            "settings": {"quire": {"index": index}},
        });
        let call = format!("PUT /{name}");
        site.call(&call, body.to_string()).await.done(200);
        let others = [json!({"price": 1, "other": 44}), json!({"other": [1, "x"]})];
        let documents = MODELS.iter().map(|model| json!({"model": model}));
        for (id, document) in documents.chain(others).enumerate() {
            let call = format!("PUT /{name}/_doc/{id}");
            site.call(&call, document.to_string()).await.done(201);
        }
    }
    site
}

/// The models that a query finds, as both collections answer.
async fn found(site: &Site, query: Json) -> Vec<&'static str> {
    let mut both = ["scanned", "indexed"].map(|_| Vec::new());
    for (name, found) in ["scanned", "indexed"].iter().zip(&mut both) {
        let call = format!("POST /{name}/_search");
        let reply = site.call(&call, json!({"query": query}).to_string()).await;
        assert_eq!(reply.status, 200, "{query}: {}", reply.text);
        let reply = reply.json();
        let hits = reply["hits"]["hits"].as_array().unwrap().iter();
        let ids = hits.map(|hit| hit["_id"].as_str().unwrap().parse::<usize>().unwrap());
        found.extend(ids);
        found.sort_unstable();
    }
    let [scanned, indexed] = both;
    assert_eq!(scanned, indexed, "{query}");
    scanned
        .into_iter()
        .map(|id| MODELS.get(id).copied().unwrap_or("?"))
        .collect()
}

#[tokio::test]
async fn regular_expressions_match_whole_texts() {
    let site = site().await;
    let cases = [
        (json!({"model": "pas+at"}), vec!["passat", "pasat"]),
        (
            json!({"model": {"value": "PAS+AT", "case_insensitive": true}}),
            { vec!["passat", "pasat", "Passat"] },
        ),
        (json!({"model": "polo"}), vec!["polo"]),
        (json!({"model": "^polo$"}), vec!["^polo$"]),
        (json!({"model": r"a\s?[0-9].?"}), vec!["a4", "a 4\n"]),
        (
            json!({"model": "[^p]@at|a\"4\""}),
            vec!["apssat", "Passat", "a4"],
        ),
        (
            json!({"model": {"value": "p.*", "flags": "ALL", "flags_value": 255}}),
            { vec!["passat", "pasat", "polo"] },
        ),
        (
            json!({"model": {"value": "a4", "flags": "NONE"}}),
            vec!["a4"],
        ),
        (json!({"other": "4+|x"}), vec!["?"]),
    ];
    for (body, expected) in cases {
        assert_eq!(
            found(&site, json!({"regexp": body})).await,
            expected,
            "{body}"
        );
    }
    // A pattern is a predicate like others.
    let query = json!({"bool": {
        "must": {"regexp": {"model": "p.*"}}, "must_not": {"regexp": {"model": ".*o"}},
    }});
    assert_eq!(found(&site, query).await, ["passat", "pasat"]);
}

#[tokio::test]
async fn texts_are_found_by_a_few_edits() {
    let site = site().await;
    let cases = [
        (
            json!({"model": "passat"}),
            vec!["passat", "pasat", "apssat", "Passat"],
        ),
        (
            json!({"model": {"value": "passat", "fuzziness": 0}}),
            vec!["passat"],
        ),
        (
            json!({"model": {"value": "passta", "fuzziness": 1}}),
            vec!["passat"],
        ),
        (
            json!({"model": {"value": "passat", "fuzziness": "1", "prefix_length": 1}}),
            { vec!["passat", "pasat"] },
        ),
        (
            json!({"model": {"value": "a", "fuzziness": "AUTO:1,9"}}),
            vec!["a4"],
        ),
        (json!({"model": {"value": "a"}}), vec![]),
        (json!({"model": {"value": "", "fuzziness": 2}}), vec![]),
        (
            json!({"model": {
                "value": "pola", "max_expansions": 50, "transpositions": true, "fuzziness": null,
            }}),
            { vec!["polo"] },
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(
            found(&site, json!({"fuzzy": body})).await,
            expected,
            "{body}"
        );
    }
}

#[tokio::test]
async fn lines_of_text_have_regular_expressions_and_edits() {
    let site = site().await;
    let cases = [
        ("model:/pas+at/", vec!["passat", "pasat"]),
        (r"model:/a\/b|polo/^1 OR model:a4", vec!["polo", "a4"]),
        ("model:(/a[0-9]/ polo~1)", vec!["polo", "a4"]),
        ("model:passat~", vec!["passat", "pasat", "apssat", "Passat"]),
        (
            "model:passat~1 AND NOT model:P*",
            vec!["passat", "pasat", "apssat"],
        ),
        (r"model:\^pol\$~0 OR model:pola~1", vec!["polo"]),
    ];
    for (line, expected) in cases {
        let query = json!({"query_string": {"query": line}});
        assert_eq!(found(&site, query).await, expected, "{line}");
    }
    for (line, expected) in [
        ("model:/a", "not closed"),
        ("model:/(/", "regular expression"),
        ("model:a~3", "[fuzziness]"),
        ("model:\"a b\"~2", "[~]"),
        ("model:a*~", "[~]"),
    ] {
        let body = json!({"query": {"query_string": {"query": line}}}).to_string();
        let reply = site.call("POST /indexed/_search", body).await;
        assert_eq!(reply.status, 400, "{line}: {}", reply.text);
        assert!(reply.text.contains(expected), "{line}: {}", reply.text);
    }
}

#[tokio::test]
async fn patterns_that_are_none_or_too_large_are_refused_by_name() {
    let site = site().await;
    let many = vec![json!({"regexp": {"model": "a.*b"}}); 65];
    let cases = [
        (json!({"regexp": {"model": "a&b"}}), r"\\&"),
        (json!({"regexp": {"model": "(a"}}), "a ) is missing"),
        (
            json!({"regexp": {"model": "((a{99}){99}){99}"}}),
            "too large",
        ),
        (
            json!({"regexp": {"model": {"value": "a@", "flags": "NONE"}}}),
            "[flags]",
        ),
        (json!({"regexp": {"model": 1}}), "[regexp] needs a string"),
        (
            json!({"regexp": {"price": "1"}}),
            "Can only use regexp queries",
        ),
        (json!({"bool": {"should": many}}), "64 regular expressions"),
        (
            json!({"fuzzy": {"price": "1"}}),
            "Can only use fuzzy queries",
        ),
        (
            json!({"fuzzy": {"model": {"value": "a", "fuzziness": 3}}}),
            "[fuzziness]",
        ),
        (
            json!({"fuzzy": {"model": {"value": "a", "transpositions": false}}}),
            "[transpositions]",
        ),
        (
            json!({"fuzzy": {"model": {"value": "a", "prefix_length": -1}}}),
            "[prefix_length]",
        ),
        (json!({"fuzzy": {"model": "a".repeat(257)}}), "256 letters"),
    ];
    for (query, expected) in cases {
        for name in ["scanned", "indexed"] {
            let call = format!("POST /{name}/_search");
            let reply = site.call(&call, json!({"query": query}).to_string()).await;
            assert_eq!(reply.status, 400, "{query}: {}", reply.text);
            assert!(reply.text.contains(expected), "{query}: {}", reply.text);
        }
    }
}
