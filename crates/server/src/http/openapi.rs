//! `/openapi.json`: the table of routes as OpenAPI 3.0.

use axum::http::Method;
use serde_json::{Map, Value, json};

use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::Outcome;
use crate::http::params::COMMON;
use crate::routes::{ROUTES, Route};

/// `GET /openapi.json`
pub(crate) async fn document(_: Call) -> Outcome<Answer> {
    Ok(Answer::ok(&describe()))
}

fn describe() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        for method in route.methods {
            path[method.as_str().to_lowercase()] = operation(route);
            if method == Method::GET {
                path["head"] = operation(route);
            }
        }
    }
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "Quire",
            "description": "The document part of the OpenSearch REST API.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": error_schema()},
        },
        // A server on loopback may have no token.
        "security": [{"token": []}, {}],
    })
}

fn operation(route: &Route) -> Value {
    let places = ["collection", "id", "name"]
        .into_iter()
        .filter(|place| route.path.contains(&format!("{{{place}}}")));
    let mut parameters: Vec<Value> = places
        .map(|place| json!({"name": place, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let names = route.params.iter().chain(COMMON);
    parameters.extend(
        names.map(|name| json!({"name": name, "in": "query", "schema": {"type": "string"}})),
    );
    json!({
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            "2XX": {"description": "Done"},
            "default": {
                "description": "Not done, and why",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    })
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": {
                    "type": {"type": "string"},
                    "reason": {"type": "string"},
                    "root_cause": {"type": "array", "items": {"type": "object"}},
                },
            },
            "status": {"type": "integer"},
        },
    })
}
