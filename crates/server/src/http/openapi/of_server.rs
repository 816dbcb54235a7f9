//! Schemas of errors, tables, tokens and the description itself.

use serde_json::{Value, json};

use super::kinds::{
    Group, any, list, map, members, named, nullable, number, object, text, with_example,
};

pub(super) fn group() -> Group {
    let text = text();
    let cause = json!({"type": "index_not_found_exception", "reason": "no such index [tracks]"});
    let error = json!({
        "root_cause": [cause], "type": cause["type"], "reason": cause["reason"],
    });
    let causes = list(named("ErrorCause"));
    vec![
        (
            "ErrorCause",
            object(
                json!({
                    "type": text, "reason": text, "root_cause": causes, "caused_by": any(),
                }),
                error.clone(),
            ),
        ),
        // Of a few refusals the error is a text.
        (
            "Error",
            object(
                json!({
                    "error": {"oneOf": [named("ErrorCause"), text]},
                    "status": {"type": "integer"},
                }),
                json!({"error": error, "status": 404}),
            ),
        ),
        // Rows, whose cells have the names of their columns.
        (
            "Table",
            with_example(
                list(map(nullable(text.clone()))),
                json!([{"index": "tracks", "docs.count": "3"}]),
            ),
        ),
        // OpenAPI 3.0, which says what its parts are.
        (
            "Description",
            object(
                json!({
                    "openapi": text, "info": any(), "paths": map(any()), "components": any(),
                    "security": list(any()),
                }),
                json!({
                    "openapi": "3.0.3", "info": {"title": "Quire", "version": "0.1.0"},
                    "paths": {},
                }),
            ),
        ),
    ]
    .into_iter()
    .chain(tokens())
    .collect()
}

fn tokens() -> Group {
    let (text, number) = (text(), number());
    let names = list(text.clone());
    vec![
        (
            "NewToken",
            object(
                json!({
                    "role": role(), "collections": names, "expires": text,
                    "limit": nullable(limit()),
                }),
                json!({"role": "read", "collections": ["tracks"], "expires": "90d"}),
            ),
        ),
        (
            "Token",
            object(
                json!({"name": text, "token": text}),
                json!({"name": "reader", "token": "SECRET"}),
            ),
        ),
        (
            "Tokens",
            object(
                json!({"tokens": list(members(json!({
                    "name": text, "role": role(), "collections": names,
                    "created_micros": number, "expires_micros": nullable(number.clone()),
                    "limit": nullable(limit()),
                })))}),
                json!({"tokens": [{
                    "name": "reader", "role": "read", "collections": ["tracks"],
                    "created_micros": 1_767_225_600_000_000_u64, "expires_micros": null,
                    "limit": {"requests": 100},
                }]}),
            ),
        ),
    ]
}

fn role() -> Value {
    json!({"type": "string", "enum": ["read", "write", "manage", "follow", "all"]})
}

/// What the holders of a token may take together.
fn limit() -> Value {
    let number = number();
    members(json!({
        "requests": number, "bytes": number, "running": number, "searches": number,
    }))
}
