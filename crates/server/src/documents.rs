//! One document: put, create, get, delete.

use axum::http::StatusCode;
use quire_model::{DOCUMENT_BYTES_MAX, ErrorKind};
use quiredb::{Collection, Condition, Document, Found, Key, Position, ValueRef};
use serde::Deserialize;

use crate::ack::{Ack, write_failure};
use crate::answer::{Answer, write_string};
use crate::call::Call;
use crate::failure::{Failure, Outcome};
use crate::fields::Fields;
use crate::params::Params;
use crate::state::Server;

/// `PUT|POST /{collection}/_doc/{id}`
pub(crate) async fn put(call: Call) -> Outcome<Answer> {
    let id = call.id();
    write(call, Some(id), false).await
}

/// `PUT|POST /{collection}/_create/{id}`
pub(crate) async fn create(call: Call) -> Outcome<Answer> {
    let id = call.id();
    write(call, Some(id), true).await
}

/// `POST /{collection}/_doc`
pub(crate) async fn add(call: Call) -> Outcome<Answer> {
    write(call, None, false).await
}

async fn write(call: Call, id: Option<String>, only_create: bool) -> Outcome<Answer> {
    check_write(&call.params, id.as_deref())?;
    let condition = condition(&call.params, only_create)?;
    let (server, index) = (call.server.clone(), call.collection());
    let body = call.take_body().await?;
    let work = move |server: &Server| {
        let document = parse_document(&body.bytes)?;
        let key = id.as_deref().map(parse_key).transpose()?;
        let collection = server.collection_or_create(&index)?;
        let (key, is_new) = key_of(server, &collection, key, &document)?;
        // A new id can't be taken; that it is not costs nothing to make sure of.
        let condition = if is_new && condition == Condition::Always {
            Condition::IfAbsent
        } else {
            condition
        };
        let id = key.to_string();
        let write = collection.write().condition(condition);
        let written = write.put_at(&key, &document);
        let ack = Ack::put(written.map_err(|error| write_failure(&error, &index, &id))?);
        Ok(acknowledge(ack, &index, &id))
    };
    server.write(work).await?
}

/// `DELETE /{collection}/_doc/{id}`
pub(crate) async fn delete(call: Call) -> Outcome<Answer> {
    let (index, id) = (call.collection(), call.id());
    check_write(&call.params, Some(&id))?;
    let condition = condition(&call.params, false)?;
    let work = move |server: &Server| {
        let collection = server.collection(&index)?;
        let write = collection.write().condition(condition);
        let written = write.delete(&parse_key(&id)?);
        let ack = Ack::delete(written.map_err(|error| write_failure(&error, &index, &id))?);
        Ok(acknowledge(ack, &index, &id))
    };
    call.server.write(work).await?
}

pub(crate) fn acknowledge(ack: Ack, index: &str, id: &str) -> Answer {
    let mut json = b"{".to_vec();
    ack.write(index, id, &mut json);
    json.push(b'}');
    Answer::json(ack.status(), json)
}

/// `GET /{collection}/_doc/{id}`
pub(crate) async fn get(call: Call) -> Outcome<Answer> {
    let source = Source::of(&call.params)?;
    let (index, id, found) = read(call).await?;
    let status = if found.is_some() {
        StatusCode::OK
    } else {
        StatusCode::NOT_FOUND
    };
    let mut json = Vec::new();
    write_found(&index, &id, found.as_ref(), &source, &mut json);
    Ok(Answer::json(status, json))
}

/// `GET /{collection}/_source/{id}`
pub(crate) async fn source(call: Call) -> Outcome<Answer> {
    let source = Source::of(&call.params)?;
    let (index, id, found) = read(call).await?;
    let Some(found) = found else {
        let reason = format!("Document not found [{index}]/[{id}]");
        return Err(Failure::new(
            StatusCode::NOT_FOUND,
            "resource_not_found_exception",
            reason,
        ));
    };
    let mut json = Vec::new();
    source
        .fields
        .write(ValueRef::Object(found.document.root()), "", &mut json);
    Ok(Answer::json(StatusCode::OK, json))
}

/// The document that the path names.
async fn read(call: Call) -> Outcome<(String, String, Option<Found>)> {
    let (index, id) = (call.collection(), call.id());
    check_routing(&call.params, Some(&id))?;
    call.params
        .only("version_type", &["internal"], "versions are given by Quire")?;
    let version = call.params.number::<u64>("version")?;
    let work = move |server: &Server| {
        let collection = server.collection(&index)?;
        let found = collection
            .get(&parse_key(&id)?)
            .map_err(|error| Failure::engine(&error, Some(&index)))?;
        match (&found, version) {
            (Some(found), Some(version)) if found.version != Position(version) => {
                let what = format!(
                    "current version [{}] is different than the one provided [{version}]",
                    found.version
                );
                Err(Failure::version_conflict(&index, &id, &what))
            }
            _ => Ok((index, id, found)),
        }
    };
    call.server.read(work).await?
}

/// Appends the answer to a get.
pub(crate) fn write_found(
    index: &str,
    id: &str,
    found: Option<&Found>,
    source: &Source,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"_index\":");
    write_string(index, out);
    out.extend_from_slice(b",\"_id\":");
    write_string(id, out);
    match found {
        Some(Found {
            version, document, ..
        }) => {
            let members = format!(
                ",\"_version\":{version},\"_seq_no\":{version},\"_primary_term\":1,\"found\":true"
            );
            out.extend_from_slice(members.as_bytes());
            if source.shown {
                out.extend_from_slice(b",\"_source\":");
                source
                    .fields
                    .write(ValueRef::Object(document.root()), "", out);
            }
        }
        None => out.extend_from_slice(b",\"found\":false"),
    }
    out.push(b'}');
}

/// What to show of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) shown: bool,
    pub(crate) fields: Fields,
}

impl Source {
    /// `_source` is a switch or patterns; `_source_includes` and `_source_excludes` are patterns.
    pub(crate) fn of(params: &Params) -> Outcome<Source> {
        let (shown, patterns) = match params.text("_source") {
            None | Some("" | "true") => (true, ""),
            Some("false") => (false, ""),
            Some(patterns) => (true, patterns),
        };
        let includes = params.text("_source_includes").unwrap_or(patterns);
        let excludes = params.text("_source_excludes").unwrap_or_default();
        Ok(Source {
            shown,
            fields: Fields::new(includes, excludes)?,
        })
    }
}

/// What to show of a document, as a body says it.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum SourceBody {
    Switch(bool),
    Pattern(String),
    Patterns(Vec<String>),
    Both {
        #[serde(default, alias = "include")]
        includes: Vec<String>,
        #[serde(default, alias = "exclude")]
        excludes: Vec<String>,
    },
}

impl SourceBody {
    pub(crate) fn source(self) -> Outcome<Source> {
        let (shown, includes, excludes) = match self {
            SourceBody::Switch(shown) => (shown, Vec::new(), Vec::new()),
            SourceBody::Pattern(pattern) => (true, vec![pattern], Vec::new()),
            SourceBody::Patterns(includes) => (true, includes, Vec::new()),
            SourceBody::Both { includes, excludes } => (true, includes, excludes),
        };
        Ok(Source {
            shown,
            fields: Fields::checked(includes, excludes)?,
        })
    }
}

/// Refuses what can't be honoured in a write's parameters.
pub(crate) fn check_write(params: &Params, id: Option<&str>) -> Outcome<()> {
    check_routing(params, id)?;
    params.only("pipeline", &["_none"], "there are no ingest pipelines")?;
    params.only(
        "refresh",
        &["", "true", "false", "wait_for"],
        "only [true], [false] and [wait_for] are allowed",
    )?;
    params.only("require_alias", &["false"], "there are no aliases")?;
    params.only(
        "wait_for_active_shards",
        &["", "0", "1", "all", "-1"],
        "there is one copy of everything",
    )
}

fn check_routing(params: &Params, id: Option<&str>) -> Outcome<()> {
    let why = "a document's place follows from its id alone";
    params.only("routing", id.as_slice(), why)
}

/// The condition of a write by its parameters.
pub(crate) fn condition(params: &Params, only_create: bool) -> Outcome<Condition> {
    params.only(
        "op_type",
        &["index", "create"],
        "only [index] and [create] are allowed",
    )?;
    let only_create = only_create || params.text("op_type") == Some("create");
    let version = version_condition(
        params.number("if_seq_no")?,
        params.number("if_primary_term")?,
    )?;
    match (only_create, version) {
        (true, None) => Ok(Condition::IfAbsent),
        (true, Some(_)) => Err(Failure::validation(
            "create operations do not support compare and set. use index instead",
        )),
        (false, Some(version)) => Ok(Condition::IfVersion(version)),
        (false, None) => Ok(Condition::Always),
    }
}

/// The version that `if_seq_no` and `if_primary_term` ask for. No document has version 0, so that
/// asks for what never is.
pub(crate) fn version_condition(
    seq_no: Option<u64>,
    term: Option<u64>,
) -> Outcome<Option<Position>> {
    match (seq_no, term) {
        (None, None) => Ok(None),
        (Some(seq_no), Some(1)) => Ok(Some(Position(seq_no))),
        (Some(_), Some(0)) | (Some(_), None) => Err(Failure::validation(
            "ifSeqNo is set, but primary term is [0]",
        )),
        (Some(_), Some(_)) => Ok(Some(Position(0))),
        (None, Some(term)) => Err(Failure::validation(&format!(
            "ifSeqNo is unassigned, but primary term is [{term}]"
        ))),
    }
}

pub(crate) fn parse_key(id: &str) -> Outcome<Key> {
    Key::parse(id).map_err(|error| Failure::illegal_argument(format!("_id: {error}")))
}

pub(crate) fn parse_document(json: &[u8]) -> Outcome<Document> {
    if json.is_empty() {
        return Err(Failure::parse("request body is required"));
    }
    Document::from_json(json).map_err(|error| document_failure(&error))
}

pub(crate) fn document_failure(error: &quire_model::Error) -> Failure {
    match error.kind() {
        ErrorKind::TooLarge => Failure::too_large(error.to_string()),
        _ => Failure::document(error.to_string()),
    }
}

pub(crate) fn document_too_long(bytes: u64) -> Failure {
    Failure::too_large(format!(
        "document of {bytes} bytes is over the limit of {DOCUMENT_BYTES_MAX}"
    ))
}

/// The key of a document to be put: the one the caller gives, else the one in its key field, else a
/// new one, of which nothing can exist yet (true).
pub(crate) fn key_of(
    server: &Server,
    collection: &Collection,
    given: Option<Key>,
    document: &Document,
) -> Outcome<(Key, bool)> {
    if let Some(key) = given {
        return Ok((key, false));
    }
    if document.get(&collection.settings().key_field).is_some() {
        let key = collection.key_of(document);
        return Ok((
            key.map_err(|error| Failure::document(error.to_string()))?,
            false,
        ));
    }
    Ok((parse_key(&server.new_id())?, true))
}
