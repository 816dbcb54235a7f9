//! `/openapi.json`: the table of routes as OpenAPI 3.0.

mod kinds;
mod of_cluster;
mod of_collections;
mod of_command;
mod of_documents;
mod of_fields;
mod of_figures;
mod of_jobs;
mod of_nodes;
mod of_partitions;
mod of_searches;
mod of_server;
mod of_state;
mod of_templates;
mod of_wide;
mod schemas;
mod shape;
mod types;

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::call::Call;
use super::endpoint::Endpoint;
use super::failure::Outcome;
use super::params::COMMON;
use schemas::schemas;
use shape::{Content, shape};
use types::type_of;

/// Why requests are refused, by status.
const REFUSALS: [(&str, &str); 7] = [
    (
        "400",
        "The request is wrong, or wants what is not supported",
    ),
    ("401", "The token is missing or wrong"),
    (
        "403",
        "The token, or a block of the collection, does not allow it",
    ),
    ("404", "What is named is not there"),
    (
        "409",
        "Another write came first, or a condition does not hold",
    ),
    ("413", "The body, or what it wants, is too large"),
    (
        "429",
        "Too many requests, or no memory is free: try again later",
    ),
];

/// The path of a cell, whose answer is the cell itself.
const CELL: &str = "/{collection}/_cell/{id}/{column}";

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
    parameters.extend(names.map(|name| {
        let schema = type_of(endpoint.path, name);
        json!({"name": name, "in": "query", "schema": schema})
    }));
    let is_head = *method == Method::HEAD;
    let shape = shape(endpoint.path, if is_head { &Method::GET } else { method });
    let done = match *method {
        Method::HEAD => json!({"description": "It is there"}),
        _ => json!({"description": "Done", "content": answer_content(endpoint.path, shape.answer)}),
    };
    let mut responses = match is_begun(endpoint.path, method) {
        true => json!({"202": done}),
        false => json!({"200": done, "201": done}),
    };
    let error = content(("application/json", Some("Error")));
    let refused = |why: &str| match is_head {
        true => json!({"description": why}),
        false => json!({"description": why, "content": error}),
    };
    for (status, why) in REFUSALS {
        responses[status] = refused(why);
    }
    if answers_absent(endpoint.path, method) {
        responses["404"]["content"] = content(shape.answer);
    }
    responses["default"] = refused("Not done, and why");
    let mut operation = json!({
        "operationId": operation_id(endpoint.path, method),
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": responses,
    });
    if let (Some(request), false) = (shape.request, is_head) {
        operation["requestBody"] = json!({"content": content(request)});
    }
    operation
}

/// Whether the answer comes before the work is done.
fn is_begun(path: &str, method: &Method) -> bool {
    *method == Method::POST && matches!(path, "/_backup/{name}" | "/_verify")
}

/// Whether what is not there is answered in the way of what is there.
fn answers_absent(path: &str, method: &Method) -> bool {
    match *method {
        Method::GET => matches!(path, "/{collection}/_doc/{id}" | "/_template/{name}"),
        Method::DELETE => {
            matches!(path, "/{collection}/_doc/{id}" | "/_pit")
                || path.starts_with("/_search/scroll")
        }
        _ => false,
    }
}

/// `get_collection_doc_id` of `GET /{collection}/_doc/{id}`: no two operations have the same.
fn operation_id(path: &str, method: &Method) -> String {
    let words = path.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    let method = method.as_str().to_lowercase();
    let words: Vec<&str> = [method.as_str()].into_iter().chain(words).collect();
    words.join("_")
}

/// The content of what is done; tables are text or JSON, and cells what they are.
fn answer_content(path: &str, answer: Content) -> Value {
    let also: &[Content] = match path {
        _ if path.starts_with("/_cat/") => &[json_of("Table")],
        CELL if answer.1.is_none() => &[json_of("Cell"), ("text/plain", Some("Lines"))],
        _ => &[],
    };
    let mut all = content(answer);
    for &(media, schema) in also {
        all[media] = content((media, schema))[media].take();
    }
    all
}

const fn json_of(schema: &'static str) -> Content {
    ("application/json", Some(schema))
}

fn content((media, schema): Content) -> Value {
    let schema = match schema {
        Some(name) => json!({"$ref": format!("#/components/schemas/{name}")}),
        None => json!({"type": "string", "format": "binary"}),
    };
    json!({media: {"schema": schema}})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::follow::status::FollowStatus;
    use crate::routes::ROUTES;

    fn described() -> Value {
        describe(&Endpoints(
            ROUTES.iter().map(|route| &route.endpoint).collect(),
        ))
    }

    /// The names of the schemas that a value refers to.
    fn names(value: &Value, to: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(name)) = object.get("$ref") {
                    to.extend(
                        name.strip_prefix("#/components/schemas/")
                            .map(str::to_owned),
                    );
                }
                object.values().for_each(|value| names(value, to));
            }
            Value::Array(list) => list.iter().for_each(|value| names(value, to)),
            _ => {}
        }
    }

    #[test]
    fn every_body_has_a_schema_with_an_example() {
        let described = described();
        let schemas = described["components"]["schemas"].as_object().unwrap();
        let mut used = Vec::new();
        names(&described, &mut used);
        for name in &used {
            assert!(schemas.contains_key(name), "{name}");
        }
        for (name, schema) in schemas {
            assert!(used.contains(name), "{name} is not used");
            assert!(!schema["example"].is_null(), "{name} has no example");
        }
    }

    #[test]
    fn figures_of_a_follower_have_the_members_that_are_named() {
        let schemas = schemas();
        let named = &schemas["DatabaseStats"]["properties"]["following"]["properties"];
        let status = FollowStatus::new("http://leader".to_owned());
        let names = |value: &Value| -> BTreeSet<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(names(&status.describe(Duration::ZERO)), names(named));
    }

    #[test]
    fn only_tables_and_metrics_are_text() {
        let described = described();
        for (path, operations) in described["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                let content = operation["responses"]["200"]["content"].as_object();
                let is_text = content.is_some_and(|content| content.contains_key("text/plain"));
                let may_be = path == "/metrics" || path.starts_with("/_cat") || path == CELL;
                assert!(may_be || !is_text, "{method} {path} has no schema");
            }
        }
    }

    #[test]
    fn parameters_and_refusals_are_described() {
        let described = described();
        let operation = |path: &str, method: &str| described["paths"][path][method].clone();
        let type_of = |operation: &Value, name: &str| {
            let all = operation["parameters"].as_array().unwrap();
            let found = all.iter().find(|parameter| parameter["name"] == name);
            found.unwrap()["schema"]["type"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let search = operation("/{collection}/_search", "post");
        for (name, kind) in [
            ("version", "boolean"),
            ("from", "integer"),
            ("batched_reduce_size", "integer"),
            ("request_cache", "boolean"),
            ("sort", "string"),
        ] {
            assert_eq!(type_of(&search, name), kind, "{name}");
        }
        let get = operation("/{collection}/_doc/{id}", "get");
        assert_eq!(type_of(&get, "version"), "integer");
        let absent = &get["responses"]["404"]["content"]["application/json"]["schema"]["$ref"];
        assert_eq!(absent, "#/components/schemas/Found");
        let put = operation("/{collection}/_doc/{id}", "put");
        for status in ["400", "401", "403", "404", "409", "413", "429"] {
            let content = &put["responses"][status]["content"]["application/json"];
            assert_eq!(content["schema"]["$ref"], "#/components/schemas/Error");
        }
        let tables = &operation("/_cat/indices", "get")["responses"]["200"]["content"];
        assert!(tables["application/json"].is_object() && tables["text/plain"].is_object());
    }
}
