//! Changing fields of a document: read it, merge, write on condition that it is still the same, and
//! again if it is not.

use quiredb::{Collection, Document, ErrorKind, Found, Key, Position, Write};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::ack::{Ack, write_failure};
use crate::answer::Answer;
use crate::call::Call;
use crate::documents::{acknowledge, check_write, document_failure, parse_key, version_condition};
use crate::failure::{Failure, Outcome};
use crate::merge::merge;
use crate::state::Server;

/// How often an update is tried again after another write came between, if the caller asks for
/// fewer or says nothing.
pub(crate) const RETRIES_LEAST: u32 = 10;

/// More is not tried, whatever the caller asks for.
const RETRIES_MAX: u32 = 1000;

/// `POST /{collection}/_update/{id}`
pub(crate) async fn update(call: Call) -> Outcome<Answer> {
    let (index, id) = (call.collection(), call.id());
    check_write(&call.params, Some(&id))?;
    let params = &call.params;
    let version = version_condition(
        params.number("if_seq_no")?,
        params.number("if_primary_term")?,
    )?;
    let retries = params.number("retry_on_conflict")?;
    let server = call.server.clone();
    let body = call.take_body().await?;
    let work = move |server: &Server| {
        let update = Update::parse(&body.bytes, version, retries)?;
        let collection = update.collection(server, &index)?;
        let ack = update.run(&collection, &parse_key(&id)?)?;
        Ok(acknowledge(ack, &index, &id))
    };
    server.write(work).await?
}

/// What an update asks for.
#[derive(Debug)]
pub(crate) struct Update {
    partial: Option<Document>,
    /// What to put where there is no document.
    upsert: Option<Document>,
    detect_noop: bool,
    version: Option<Position>,
    /// How often to try again when another write came between.
    pub(crate) retries: u32,
}

/// What an update comes to, given the document as it is.
pub(crate) enum Plan {
    Write(Write),
    /// It would change nothing.
    Noop(Position),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body<'a> {
    #[serde(borrow)]
    doc: Option<&'a RawValue>,
    #[serde(borrow)]
    upsert: Option<&'a RawValue>,
    #[serde(default)]
    doc_as_upsert: bool,
    detect_noop: Option<bool>,
    #[serde(borrow)]
    script: Option<&'a RawValue>,
    #[serde(default)]
    scripted_upsert: bool,
    #[serde(borrow, rename = "_source")]
    source: Option<&'a RawValue>,
}

impl Update {
    /// Reads the body of an update.
    pub(crate) fn parse(
        json: &[u8],
        version: Option<Position>,
        retries: Option<u32>,
    ) -> Outcome<Update> {
        let body: Body<'_> = serde_json::from_slice(json)
            .map_err(|error| Failure::parse(format!("[UpdateRequest] {error}")))?;
        if body.script.is_some() || body.scripted_upsert {
            return Err(Failure::illegal_argument(
                "[script] is not supported: send the changed fields as [doc]",
            ));
        }
        if body.source.is_some_and(|source| source.get() != "false") {
            return Err(Failure::illegal_argument(
                "[_source] is not supported in an update: get the document after it",
            ));
        }
        let document = |json: &RawValue| {
            Document::from_json(json.get().as_bytes()).map_err(|error| document_failure(&error))
        };
        let partial = body.doc.map(document).transpose()?;
        let mut upsert = body.upsert.map(document).transpose()?;
        if body.doc_as_upsert {
            upsert.clone_from(&partial);
        }
        match (&partial, version, retries) {
            (None, ..) if body.doc_as_upsert => Err(Failure::validation(
                "doc must be specified if doc_as_upsert is enabled",
            )),
            (None, ..) => Err(Failure::validation("script or doc is missing")),
            (_, Some(_), Some(1..)) => Err(Failure::validation(
                "compare and write operations can not be retried",
            )),
            (_, Some(_), _) if upsert.is_some() => Err(Failure::validation(
                "upsert requests don't support `if_seq_no` and `if_primary_term`",
            )),
            _ => Ok(Update {
                partial,
                upsert,
                detect_noop: body.detect_noop.unwrap_or(true),
                version,
                retries: if version.is_some() {
                    0
                } else {
                    retries.unwrap_or(0).clamp(RETRIES_LEAST, RETRIES_MAX)
                },
            }),
        }
    }

    /// The collection to update in, made if the update may put a document where there was none.
    pub(crate) fn collection(&self, server: &Server, index: &str) -> Outcome<Collection> {
        if self.upsert.is_some() {
            server.collection_or_create(index)
        } else {
            server.collection(index)
        }
    }

    /// What to do about the document as it is. The write it may come to is done only if the
    /// document is still that one.
    pub(crate) fn plan(&self, index: &str, key: &Key, current: Option<&Found>) -> Outcome<Plan> {
        let Some(current) = current else {
            let upsert = self
                .upsert
                .clone()
                .ok_or_else(|| Failure::document_missing(index, &key.to_string()))?;
            return Ok(Plan::Write(Write::put(key.clone(), upsert).if_absent()));
        };
        if let Some(version) = self.version
            && version != current.version
        {
            let what = format!(
                "required seqNo [{version}], primary term [1]. current document has seqNo [{}] and primary term [1]",
                current.version
            );
            return Err(Failure::version_conflict(index, &key.to_string(), &what));
        }
        let merged = match &self.partial {
            Some(partial) => {
                merge(&current.document, partial).map_err(|error| document_failure(&error))?
            }
            None => current.document.clone(),
        };
        if self.detect_noop && merged == current.document {
            return Ok(Plan::Noop(current.version));
        }
        Ok(Plan::Write(
            Write::put(key.clone(), merged).if_version(current.version),
        ))
    }

    fn run(&self, collection: &Collection, key: &Key) -> Outcome<Ack> {
        let (index, id) = (collection.name(), key.to_string());
        let mut retries = self.retries;
        loop {
            let current = collection
                .get(key)
                .map_err(|error| Failure::engine(&error, Some(index)))?;
            let write = match self.plan(index, key, current.as_ref())? {
                Plan::Noop(version) => return Ok(Ack::noop(version)),
                Plan::Write(write) => write,
            };
            match collection.write().run(write) {
                Ok(written) => return Ok(Ack::put(written)),
                Err(error) if error.kind() == ErrorKind::Conflict && retries > 0 => retries -= 1,
                Err(error) => return Err(write_failure(&error, index, &id)),
            }
        }
    }
}
