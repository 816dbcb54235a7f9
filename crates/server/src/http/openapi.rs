//! `/openapi.json`: the table of routes as OpenAPI 3.0.

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
    let shape = shape(endpoint.path, method);
    let done = match *method {
        Method::HEAD => json!({"description": "It is there"}),
        _ => json!({"description": "Done", "content": answer_content(endpoint.path, shape.answer)}),
    };
    let mut responses = json!({"200": done, "201": done});
    let error = content(("application/json", Some("Error")));
    for (status, why) in REFUSALS {
        responses[status] = json!({"description": why, "content": error});
    }
    // A document that there is not is answered in the way of one that there is.
    if let (_, Some("Found")) | (_, Some("Written")) = shape.answer
        && matches!(*method, Method::GET | Method::DELETE)
    {
        responses["404"]["content"] = content(shape.answer);
    }
    responses["default"] = json!({"description": "Not done, and why", "content": error});
    let mut operation = json!({
        "operationId": operation_id(endpoint.path, method),
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": responses,
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

/// The content of what is done; tables are text or JSON.
fn answer_content(path: &str, answer: Content) -> Value {
    let mut all = content(answer);
    if path.starts_with("/_cat/") {
        all["application/json"] =
            content(("application/json", Some("Table")))["application/json"].take();
    }
    all
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
    use super::*;
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
