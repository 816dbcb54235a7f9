//! `/openapi.json`: the table of routes as OpenAPI 3.0.

mod schemas;
mod shape;

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::call::Call;
use super::endpoint::Endpoint;
use super::failure::Outcome;
use super::params::COMMON;
use schemas::schemas;
use shape::{Content, shape};

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
            path[method.as_str().to_lowercase()] = operation(endpoint, method);
            if method == Method::GET {
                path["head"] = operation(endpoint, &Method::HEAD);
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
            "schemas": schemas(),
        },
        // A server on loopback may have no token.
        "security": [{"token": []}, {}],
    })
}

fn operation(endpoint: &Endpoint, method: &Method) -> Value {
    let in_path = ["collection", "id", "name", "column", "index_metric"]
        .into_iter()
        .filter(|name| endpoint.path.contains(&format!("{{{name}}}")));
    let mut parameters: Vec<Value> = in_path
        .map(|name| {
            let schema = json!({"type": "string"});
            json!({"name": name, "in": "path", "required": true, "schema": schema})
        })
        .collect();
    let names = endpoint.params.iter().chain(COMMON);
    parameters
        .extend(names.map(|name| json!({"name": name, "in": "query", "schema": type_of(name)})));
    let shape = shape(endpoint.path, method);
    let done = match *method {
        Method::HEAD => json!({"description": "It is there"}),
        _ => json!({"description": "Done", "content": content(shape.answer)}),
    };
    let error = content(("application/json", Some("Error")));
    let mut operation = json!({
        "operationId": operation_id(endpoint.path, method),
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": {
            "200": done,
            "201": done,
            "default": {"description": "Not done, and why", "content": error},
        },
    });
    if let (Some(request), false) = (shape.request, *method == Method::HEAD) {
        operation["requestBody"] = json!({"content": content(request)});
    }
    operation
}

/// `get_collection_doc_id` of `GET /{collection}/_doc/{id}`: no two operations have the same.
fn operation_id(path: &str, method: &Method) -> String {
    let words = path.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    let method = method.as_str().to_lowercase();
    let words: Vec<&str> = [method.as_str()].into_iter().chain(words).collect();
    words.join("_")
}

fn content((media, schema): Content) -> Value {
    let schema = match schema {
        Some(name) => json!({"$ref": format!("#/components/schemas/{name}")}),
        None => json!({"type": "string", "format": "binary"}),
    };
    json!({media: {"schema": schema}})
}

/// The type of a parameter's values.
fn type_of(name: &str) -> Value {
    let name = match name {
        "if_primary_term" | "if_seq_no" | "keep" | "limit" | "max_docs" | "partition"
        | "rate_bytes" | "retry_on_conflict" | "scroll_size" | "size" | "wait_ms" => "integer",
        "requests_per_second" => "number",
        "allow_no_indices"
        | "create"
        | "detailed"
        | "error_trace"
        | "flat_settings"
        | "help"
        | "human"
        | "ignore_unavailable"
        | "include_defaults"
        | "local"
        | "pretty"
        | "realtime"
        | "require_alias"
        | "rest_total_hits_as_int"
        | "seq_no_primary_term"
        | "typed_keys"
        | "v"
        | "wait_for_completion" => "boolean",
        _ => "string",
    };
    json!({"type": name})
}
