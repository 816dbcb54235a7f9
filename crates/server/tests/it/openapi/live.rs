//! A server whose requests and answers are compared with its description.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::Request;
use serde_json::Value;

use super::checker::Checker;
use crate::site::{Reply, Site};

/// A server, its description, and what of it was seen.
pub(super) struct Live {
    pub(super) site: Site,
    pub(super) description: Value,
    pub(super) checker: Checker,
    /// Where the description is wrong.
    pub(super) wrong: Vec<String>,
    /// The operations that were called, by their ids.
    called: BTreeSet<String>,
}

impl Live {
    pub(super) async fn new(site: Site) -> Live {
        let description = call(&site, "GET /openapi.json", "").await.done(200);
        Live {
            site,
            checker: Checker::new(&description),
            description,
            wrong: Vec::new(),
            called: BTreeSet::new(),
        }
    }

    /// Sends a request with JSON, or with none if it is null; returns the answer. Both are
    /// compared with the description.
    pub(super) async fn json(&mut self, line: &str, body: Value) -> Value {
        if body.is_null() {
            return self.send(line, "").await;
        }
        let text = body.to_string();
        let operation = self.operation(line);
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let problems = match schema.is_null() {
            true => vec!["the request has no JSON".to_owned()],
            false => self.checker.check(schema, &body),
        };
        self.note(line, problems);
        self.send(line, &text).await
    }

    /// Sends a request; returns the answer, which is compared with the description.
    pub(super) async fn send(&mut self, line: &str, body: &str) -> Value {
        let operation = self.operation(line);
        if !body.is_empty() && operation["requestBody"].is_null() {
            self.note(line, vec!["the request has no body".to_owned()]);
        }
        let id = operation["operationId"].as_str().unwrap();
        self.called.insert(id.to_owned());
        let reply = call(&self.site, line, body).await;
        let responses = &operation["responses"];
        let response = match &responses[reply.status.to_string()] {
            Value::Null => &responses["default"],
            response => response,
        };
        let media = reply.headers["content-type"].to_str().unwrap();
        let media = media.split(';').next().unwrap();
        let schema = &response["content"][media]["schema"];
        let (status, text) = (reply.status, &reply.text);
        if schema.is_null() {
            self.note(line, vec![format!("{status}, {media}: {text}")]);
        }
        if media != "application/json" {
            return Value::Null;
        }
        let answer = reply.json();
        let problems = self.checker.check(schema, &answer);
        self.note(&format!("{line}, {status}"), problems);
        answer
    }

    /// As [`json`](Live::json); an answer that is no success is wrong.
    pub(super) async fn done(&mut self, line: &str, body: Value) -> Value {
        let answer = self.json(line, body).await;
        if !answer["error"].is_null() {
            self.note(line, vec![format!("refused: {answer}")]);
        }
        answer
    }

    /// As [`done`](Live::done), with a body that is JSON, or lines, which are sent as they are.
    pub(super) async fn done_text(&mut self, line: &str, body: &str) {
        let content = &self.operation(line)["requestBody"]["content"];
        let is_json = !body.is_empty() && content["application/json"].is_object();
        let answer = match is_json {
            true => self.json(line, serde_json::from_str(body).unwrap()).await,
            false => self.send(line, body).await,
        };
        if !answer["error"].is_null() {
            self.note(line, vec![format!("refused: {answer}")]);
        }
    }

    /// The ids of the operations that were not called; HEAD is as GET is.
    pub(super) fn uncalled(&self) -> Vec<&str> {
        let paths = self.description["paths"].as_object().unwrap().values();
        let operations = paths.flat_map(|methods| methods.as_object().unwrap());
        operations
            .filter(|(method, _)| *method != "head")
            .map(|(_, operation)| operation["operationId"].as_str().unwrap())
            .filter(|id| !self.called.contains(*id))
            .collect()
    }

    fn note(&mut self, line: &str, problems: Vec<String>) {
        let problems = problems.iter();
        self.wrong
            .extend(problems.map(|problem| format!("{line}: {problem}")));
    }

    /// The operation of a request: that with the most segments of its own.
    fn operation(&self, line: &str) -> Value {
        let (method, uri) = line.split_once(' ').unwrap();
        let path = uri.split('?').next().unwrap();
        let own = |template: &str| {
            template
                .split('/')
                .filter(|part| !part.starts_with('{'))
                .count()
        };
        let paths = self.description["paths"].as_object().unwrap().iter();
        let fitting = paths.filter(|(template, methods)| {
            let parts = template.split('/').zip(path.split('/'));
            template.matches('/').count() == path.matches('/').count()
                && methods.get(method.to_lowercase()).is_some()
                && parts.into_iter().all(|(part, given)| {
                    part == given || (part.starts_with('{') && !given.is_empty())
                })
        });
        let best = fitting.max_by_key(|(template, _)| own(template));
        let (_, methods) = best.unwrap_or_else(|| panic!("{line} is not described"));
        methods[method.to_lowercase()].clone()
    }
}

/// Sends a request with the token of the server.
async fn call(site: &Site, line: &str, body: &str) -> Reply {
    let (method, uri) = line.split_once(' ').unwrap();
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("authorization", "Bearer root");
    site.send(request.body(Body::from(body.to_owned())).unwrap())
        .await
}
