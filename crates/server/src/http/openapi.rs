//! `/openapi.json`: the table of routes as OpenAPI 3.0.

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::call::Call;
use super::endpoint::Endpoint;
use super::failure::Outcome;
use super::params::COMMON;

/// All routes of the server, as callers see them.
pub(crate) struct Endpoints(pub(crate) Vec<&'static Endpoint>);

/// `GET /openapi.json`
pub(crate) async fn document(call: Call<Endpoints>) -> Outcome<Answer> {
    Ok(Answer::ok(&describe(&call.state)))
}

fn describe(endpoints: &Endpoints) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in &endpoints.0 {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        for method in endpoint.methods {
            path[method.as_str().to_lowercase()] = operation(endpoint);
            if method == Method::GET {
                path["head"] = operation(endpoint);
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

fn operation(endpoint: &Endpoint) -> Value {
    let in_path = ["collection", "id", "name"]
        .into_iter()
        .filter(|name| endpoint.path.contains(&format!("{{{name}}}")));
    let schema = json!({"type": "string"});
    let mut parameters: Vec<Value> = in_path
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": schema}))
        .collect();
    let names = endpoint.params.iter().chain(COMMON);
    parameters.extend(names.map(|name| json!({"name": name, "in": "query", "schema": schema})));
    json!({
        "summary": endpoint.summary,
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
