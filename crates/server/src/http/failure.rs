//! Errors of one request, in the shape and with the status codes of OpenSearch.
//!
//! ```text
//! {"error":{"root_cause":[CAUSE],"type":T,"reason":R,…},"status":N}
//! CAUSE = {"type":T,"reason":R,…}
//! ```
//! A failed item of a bulk or multi-get answer holds the CAUSE alone.
//!
//! | engine | status | type |
//! | --- | --- | --- |
//! | no such collection | 404 | `index_not_found_exception` |
//! | collection exists | 400 | `resource_already_exists_exception` |
//! | condition did not hold | 409 | `version_conflict_engine_exception` |
//! | bad input | 400 | `illegal_argument_exception`, `mapper_parsing_exception` for a document |
//! | too large | 413 | `content_too_long_exception` |
//! | no free disk space or memory | 429 | `rejected_execution_exception`: shippers try again |
//! | read-only or closed | 503 | `cluster_block_exception`, `node_closed_exception` |
//! | damage, or the machine failed | 500 | `corrupt_index_exception`, `i_o_exception` |

use axum::http::{Method, StatusCode};
use quiredb::{ErrorKind, MappingError, Violation};
use serde_json::{Map, Value, json};

use crate::access::grant::Refused;

/// The error of a request, or of one item of it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// OpenSearch answers a request that it has no handler for with text alone.
    Text(String),
    Cause(Box<Cause>),
}

#[derive(Debug)]
struct Cause {
    kind: &'static str,
    reason: String,
    /// Further members of the cause, such as `index`.
    members: Map<String, Value>,
}

/// The result of a request or of a part of it.
pub(crate) type Outcome<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(
        status: StatusCode,
        kind: &'static str,
        reason: impl Into<String>,
    ) -> Failure {
        let cause = Cause {
            kind,
            reason: reason.into(),
            members: Map::new(),
        };
        Failure {
            status,
            body: Body::Cause(Box::new(cause)),
        }
    }

    /// Something in the request that is wrong or not supported; `reason` names it.
    pub(crate) fn illegal_argument(reason: impl Into<String>) -> Failure {
        Failure::new(
            StatusCode::BAD_REQUEST,
            "illegal_argument_exception",
            reason,
        )
    }

    /// A request that lacks something; `what` is the text that OpenSearch has for it.
    pub(crate) fn validation(what: &str) -> Failure {
        let reason = format!("Validation Failed: 1: {what};");
        Failure::new(
            StatusCode::BAD_REQUEST,
            "action_request_validation_exception",
            reason,
        )
    }

    /// A body that is not the JSON it should be.
    pub(crate) fn parse(reason: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, "parse_exception", reason)
    }

    /// A document that can't be accepted.
    pub(crate) fn document(reason: impl Into<String>) -> Failure {
        let caused_by = json!({"type": "parse_exception", "reason": reason.into()});
        Failure::new(
            StatusCode::BAD_REQUEST,
            "mapper_parsing_exception",
            "failed to parse",
        )
        .with("caused_by", caused_by)
    }

    /// A document that contradicts the mapping of its collection.
    fn violation(violation: &Violation) -> Failure {
        let kind = match violation {
            Violation::Unnamed { .. } => "strict_dynamic_mapping_exception",
            _ => "mapper_parsing_exception",
        };
        let failure = Failure::new(StatusCode::BAD_REQUEST, kind, violation.to_string());
        match violation.cause() {
            Some(why) => {
                let caused_by = json!({"type": "illegal_argument_exception", "reason": why});
                failure.with("caused_by", caused_by)
            }
            None => failure,
        }
    }

    /// A mapping that can't be accepted.
    pub(crate) fn mapping(error: &MappingError) -> Failure {
        let caused_by = json!({"type": "mapper_parsing_exception", "reason": error.to_string()});
        Failure::new(
            StatusCode::BAD_REQUEST,
            "mapper_parsing_exception",
            format!("Failed to parse mapping [_doc]: {error}"),
        )
        .with("caused_by", caused_by)
    }

    pub(crate) fn too_large(reason: impl Into<String>) -> Failure {
        Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "content_too_long_exception",
            reason,
        )
    }

    /// The caller has no right to what it requests.
    pub(crate) fn forbidden(refused: Refused) -> Failure {
        let reason = refused.to_string();
        Failure::new(StatusCode::FORBIDDEN, "security_exception", reason)
    }

    /// Whether the caller has no right to what it requests.
    pub(crate) fn is_forbidden(&self) -> bool {
        let is_refusal = |cause: &Cause| cause.kind == "security_exception";
        self.status == StatusCode::FORBIDDEN
            && matches!(&self.body, Body::Cause(cause) if is_refusal(cause))
    }

    /// The caller is over a limit.
    pub(crate) fn too_many_requests(reason: impl Into<String>) -> Failure {
        Failure::new(
            StatusCode::TOO_MANY_REQUESTS,
            "rejected_execution_exception",
            reason,
        )
    }

    /// A bug of the server.
    pub(crate) fn internal(reason: impl Into<String>) -> Failure {
        Failure::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "illegal_state_exception",
            reason,
        )
    }

    pub(crate) fn index_not_found(index: &str) -> Failure {
        Failure::new(
            StatusCode::NOT_FOUND,
            "index_not_found_exception",
            format!("no such index [{index}]"),
        )
        .about(index)
        .with("resource.id", index)
        .with("resource.type", "index_or_alias")
    }

    /// The collection is closed: documents are neither read nor written.
    pub(crate) fn index_closed(index: &str) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, "index_closed_exception", "closed").about(index)
    }

    /// A write or a read that blocks of a collection refuse: `reasons` has each block's number and
    /// words.
    pub(crate) fn blocked(
        status: StatusCode,
        index: &str,
        reasons: impl Iterator<Item = String>,
    ) -> Failure {
        let reasons: Vec<String> = reasons.collect();
        let reason = format!("index [{index}] blocked by: [{}];", reasons.join("];["));
        Failure::new(status, "cluster_block_exception", reason).about(index)
    }

    pub(crate) fn index_exists(index: &str) -> Failure {
        let reason = format!("index [{index}] already exists");
        Failure::new(
            StatusCode::BAD_REQUEST,
            "resource_already_exists_exception",
            reason,
        )
        .about(index)
    }

    pub(crate) fn document_missing(index: &str, id: &str) -> Failure {
        Failure::new(
            StatusCode::NOT_FOUND,
            "document_missing_exception",
            format!("[{id}]: document missing"),
        )
        .about(index)
    }

    pub(crate) fn version_conflict(index: &str, id: &str, what: &str) -> Failure {
        let reason = format!("[{id}]: version conflict, {what}");
        Failure::new(
            StatusCode::CONFLICT,
            "version_conflict_engine_exception",
            reason,
        )
        .about(index)
    }

    /// A name that no collection can have.
    pub(crate) fn invalid_index_name(error: &quiredb::Error, index: &str) -> Failure {
        let reason = format!("Invalid index name [{index}], {error}");
        Failure::new(
            StatusCode::BAD_REQUEST,
            "invalid_index_name_exception",
            reason,
        )
        .about(index)
    }

    /// A write to a follower.
    pub(crate) fn read_only_follower(reason: String) -> Failure {
        Failure::new(StatusCode::FORBIDDEN, "cluster_block_exception", reason)
    }

    /// No route has this path.
    pub(crate) fn no_handler(method: &Method, path: &str) -> Failure {
        let text = format!("no handler found for uri [{path}] and method [{method}]");
        Failure {
            status: StatusCode::BAD_REQUEST,
            body: Body::Text(text),
        }
    }

    /// The path has routes, none with this method.
    pub(crate) fn method_not_allowed(method: &Method, path: &str, allowed: &[Method]) -> Failure {
        let allowed: Vec<&str> = allowed.iter().map(Method::as_str).collect();
        let allowed = allowed.join(", ");
        let text = format!(
            "Incorrect HTTP method for uri [{path}] and method [{method}], allowed: [{allowed}]"
        );
        Failure {
            status: StatusCode::METHOD_NOT_ALLOWED,
            body: Body::Text(text),
        }
    }

    /// An error of the engine that has no more specific failure; `index` is the collection, if
    /// there is one.
    pub(crate) fn engine(error: &quiredb::Error, index: Option<&str>) -> Failure {
        if let quiredb::Error::Mapping(violation) = error {
            return Failure::violation(violation);
        }
        let (status, kind) = match error.kind() {
            ErrorKind::NotFound | ErrorKind::Gone => {
                (StatusCode::NOT_FOUND, "resource_not_found_exception")
            }
            ErrorKind::AlreadyExists => {
                (StatusCode::BAD_REQUEST, "resource_already_exists_exception")
            }
            ErrorKind::Conflict => (StatusCode::CONFLICT, "version_conflict_engine_exception"),
            ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "illegal_argument_exception"),
            ErrorKind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "content_too_long_exception"),
            ErrorKind::Full => (
                StatusCode::TOO_MANY_REQUESTS,
                "rejected_execution_exception",
            ),
            ErrorKind::ReadOnly | ErrorKind::Locked => {
                (StatusCode::SERVICE_UNAVAILABLE, "cluster_block_exception")
            }
            ErrorKind::Closed => (StatusCode::SERVICE_UNAVAILABLE, "node_closed_exception"),
            ErrorKind::Corrupt => (StatusCode::INTERNAL_SERVER_ERROR, "corrupt_index_exception"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "i_o_exception"),
        };
        let mut reason = with_sources(error);
        if let Some(advice) = error.advice() {
            reason = format!("{reason}; {advice}");
        }
        let failure = Failure::new(status, kind, reason);
        match index {
            Some(index) => failure.about(index),
            None => failure,
        }
    }

    /// Adds the collection that it is about. It has a UUID beside its name for clients that fail
    /// without one.
    fn about(self, index: &str) -> Failure {
        self.with("index", index).with("index_uuid", "_na_")
    }

    /// Adds a member to the cause.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Failure {
        if let Body::Cause(cause) = &mut self.body {
            cause.members.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Appends text to the reason.
    #[must_use]
    pub(crate) fn because(mut self, more: &str) -> Failure {
        match &mut self.body {
            Body::Text(text) => text.push_str(more),
            Body::Cause(cause) => cause.reason.push_str(more),
        }
        self
    }

    /// Whether what was named is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// The reason in words.
    pub(crate) fn reason(&self) -> &str {
        match &self.body {
            Body::Text(text) => text,
            Body::Cause(cause) => &cause.reason,
        }
    }

    /// The cause alone, for an item of a larger answer.
    pub(crate) fn cause(&self) -> Value {
        match &self.body {
            Body::Text(text) => json!({"type": "illegal_argument_exception", "reason": text}),
            Body::Cause(cause) => {
                let mut object = Map::new();
                object.insert("type".into(), cause.kind.into());
                object.insert("reason".into(), cause.reason.as_str().into());
                object.extend(
                    cause
                        .members
                        .iter()
                        .map(|(name, value)| (name.clone(), value.clone())),
                );
                Value::Object(object)
            }
        }
    }

    /// The `error` member: the root cause, which is the cause again, then the cause.
    pub(crate) fn error(&self) -> Value {
        match (&self.body, self.cause()) {
            (Body::Cause(_), Value::Object(cause)) => {
                let mut root = cause.clone();
                root.remove("caused_by");
                // A failure that was caused by one of its own kind is that one.
                let caused_by = cause
                    .get("caused_by")
                    .filter(|by| by["type"] == cause["type"]);
                if let Some(by) = caused_by.and_then(Value::as_object) {
                    root.clone_from(by);
                }
                let mut error = Map::new();
                error.insert("root_cause".into(), json!([root]));
                error.extend(cause);
                Value::Object(error)
            }
            (Body::Text(text), _) => text.as_str().into(),
            (_, cause) => cause,
        }
    }

    /// The whole answer.
    pub(crate) fn to_json(&self) -> Value {
        match (&self.body, self.status) {
            (Body::Text(text), StatusCode::BAD_REQUEST) => json!({"error": text}),
            _ => json!({"error": self.error(), "status": self.status.as_u16()}),
        }
    }
}

/// An error and what caused it, as one line.
pub(crate) fn with_sources(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors already say their cause.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_shape_of_opensearch() {
        let expected = concat!(
            r#"{"error":{"root_cause":[{"type":"index_not_found_exception","#,
            r#""reason":"no such index [jobs]","index":"jobs","index_uuid":"_na_","#,
            r#""resource.id":"jobs","resource.type":"index_or_alias"}],"#,
            r#""type":"index_not_found_exception","reason":"no such index [jobs]","index":"jobs","#,
            r#""index_uuid":"_na_","resource.id":"jobs","resource.type":"index_or_alias"},"#,
            r#""status":404}"#
        );
        assert_eq!(
            Failure::index_not_found("jobs").to_json().to_string(),
            expected
        );

        let expected = concat!(
            r#"{"error":{"root_cause":["#,
            r#"{"type":"mapper_parsing_exception","reason":"failed to parse"}],"#,
            r#""type":"mapper_parsing_exception","reason":"failed to parse","#,
            r#""caused_by":{"type":"parse_exception","reason":"not an object"}},"status":400}"#
        );
        assert_eq!(
            Failure::document("not an object").to_json().to_string(),
            expected
        );

        let expected = r#"{"error":"no handler found for uri [/a/b] and method [PUT]"}"#;
        assert_eq!(
            Failure::no_handler(&Method::PUT, "/a/b")
                .to_json()
                .to_string(),
            expected
        );

        let expected = concat!(
            r#"{"error":"Incorrect HTTP method for uri [/_bulk] and method [GET], "#,
            r#"allowed: [POST, PUT]","#,
            r#""status":405}"#
        );
        let failure =
            Failure::method_not_allowed(&Method::GET, "/_bulk", &[Method::POST, Method::PUT]);
        assert_eq!(failure.to_json().to_string(), expected);
    }
}
