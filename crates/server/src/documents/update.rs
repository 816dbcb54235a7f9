//! Changing fields of a document: read it, merge as OpenSearch does (null is a value), and write if
//! its version is still the same; otherwise try again.

use std::sync::Arc;

use quiredb::{
    Action, Collection, Document, ErrorKind, Found, Key, Position, Use, ValueRef, Within, Write,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::ack::{Ack, acknowledge, write_failure};
use super::conditions::{check_alias, check_write, version_condition};
use super::parse::{document_failure, document_of, parse_key};
use super::source::{Source, SourceBody};
use super::tally;
use crate::audit::AuditedGrant;
use crate::collections::on_write::collection_or_create;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::body::Whole;
use crate::http::buffers::LARGE_BYTES;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::params::Params;
use crate::wide;

/// How often an update is tried again after another write changed the document, if the caller sets
/// a smaller number or none.
pub(crate) const RETRIES_LEAST: u32 = 10;

/// The most retries, whatever the caller sets.
const RETRIES_MAX: u32 = 1000;

/// `POST /{collection}/_update/{id}`
pub(crate) async fn update(call: Call<Engine>) -> Outcome<Answer> {
    let (named, id) = (call.collection(), call.id());
    check_write(&call.params)?;
    let params = &call.params;
    let version = version_condition(
        params.number("if_seq_no")?,
        params.number("if_primary_term")?,
    )?;
    let retries = params.number("retry_on_conflict")?;
    let (engine, buffers, timeout) = (call.state.clone(), call.buffers.clone(), call.body_timeout);
    let (params, grant) = (call.params.clone(), Arc::clone(&call.grant));
    let mut body = call.take_body().await?;
    let (mut parsed, mut bytes_max) = (None, LARGE_BYTES);
    loop {
        let (name, at, own_params) = (named.clone(), id.clone(), params.clone());
        let by = Arc::clone(&grant);
        let work = move |engine: &Engine| {
            let update = match parsed {
                Some(update) => update,
                None => {
                    body.reserve_written()?;
                    let update = Update::parse(&body.bytes, version, retries)?;
                    update.or_source_of(&own_params)?
                }
            };
            // The memory is for the documents from here on.
            body.release_bytes();
            check_alias(engine, &own_params, &name)?;
            if let Some(wide) = engine.wide_for_writes(&name)? {
                update.check_no_source()?;
                let ack = wide::documents::update(&wide, &parse_key(&at)?, &update)?;
                return Ok((body, update, wide.name().to_owned(), Ran::Done(ack, None)));
            }
            let collection = update.collection(engine, &name, &by)?;
            let (usage, key) = (collection.usage(), parse_key(&at)?);
            let using = usage.begin(Use::Index);
            let ran = update.run(&collection, &key, bytes_max);
            match &ran {
                Ok(Ran::Done(ack, _)) => tally::ended(usage, using, Use::Index, Ok(*ack)),
                Ok(Ran::Longer(_)) => {}
                Err(failure) => tally::ended(usage, using, Use::Index, Err(failure)),
            }
            let ran = ran?;
            Ok::<_, Failure>((body, update, collection.name().to_owned(), ran))
        };
        let (ran, index, update);
        (body, update, index, ran) = engine.write(work).await??;
        match ran {
            Ran::Done(ack, None) => {
                return Ok(acknowledge(ack.answered_to(&params), &index, &id));
            }
            Ran::Done(ack, Some(document)) => {
                let ack = ack.answered_to(&params);
                return show(ack, &index, &id, &document, &update.source, body);
            }
            Ran::Longer(bytes) => {
                body.make_room(&buffers, bytes, timeout).await?;
                bytes_max = bytes;
            }
        }
        parsed = Some(update);
    }
}

/// What running an update gave.
enum Ran {
    /// How it is acknowledged; and the document as it is now, if it is to be shown.
    Done(Ack, Option<Document>),
    /// Nothing was done, because the document is longer than allowed: its length in bytes.
    Longer(u64),
}

/// The acknowledgement of an update, with the document that it made. The memory of `body` is enough
/// for a large one, which was read and written.
fn show(
    ack: Ack,
    index: &str,
    id: &str,
    document: &Document,
    source: &Source,
    body: Whole,
) -> Outcome<Answer> {
    let mut json = b"{".to_vec();
    ack.write(index, id, &mut json);
    json.extend_from_slice(b",\"get\":{");
    ack.write_place(&mut json);
    json.extend_from_slice(b",\"found\":true,\"_source\":");
    let root = ValueRef::Object(document.root());
    source.fields.write(root, "", &mut json);
    json.extend_from_slice(b"}}");
    let held = match json.len() as u64 > LARGE_BYTES {
        true => {
            let mut held = body.into_held();
            held.resize(json.capacity())?;
            Some(held)
        }
        false => None,
    };
    Ok(Answer::held_json(ack.status(), json, held))
}

/// An update, as its body describes it.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) partial: Option<Document>,
    /// The document to put if there is none.
    pub(crate) upsert: Option<Document>,
    detect_noop: bool,
    pub(crate) version: Option<Position>,
    /// How often to try again when another write changed the document meanwhile.
    pub(crate) retries: u32,
    /// Which part of the document the answer shows.
    source: Source,
}

/// What an update has to do, given the present document.
pub(crate) enum Plan {
    Write(Write),
    /// Nothing: the document would stay as it is.
    Noop(Ack),
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
    #[serde(rename = "_source")]
    source: Option<SourceBody>,
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
        let source = body.source.map(SourceBody::source).transpose()?;
        let document = |json: &RawValue| document_of(json.get().as_bytes());
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
                source: source.unwrap_or_else(Source::none),
                retries: if version.is_some() {
                    0
                } else {
                    retries.unwrap_or(0).clamp(RETRIES_LEAST, RETRIES_MAX)
                },
            }),
        }
    }

    /// The same, with what the parameters say of `_source`, unless the body says it.
    fn or_source_of(self, params: &Params) -> Outcome<Update> {
        let names = ["_source", "_source_includes", "_source_excludes"];
        let is_named = names.iter().any(|name| params.text(name).is_some());
        match is_named {
            true => Ok(self.or_showing(Some(&Source::of(params)?))),
            false => Ok(self),
        }
    }

    /// The same, showing this part of the document unless the body says which.
    pub(crate) fn or_showing(self, source: Option<&Source>) -> Update {
        match source {
            Some(source) if !self.source.shown => Update {
                source: source.clone(),
                ..self
            },
            _ => self,
        }
    }

    /// What the answer shows of a document, as JSON; none if it shows nothing.
    pub(crate) fn shown(&self, document: &Document) -> Option<Vec<u8>> {
        self.source.shown.then(|| {
            let mut json = Vec::new();
            let root = ValueRef::Object(document.root());
            self.source.fields.write(root, "", &mut json);
            json
        })
    }

    /// Refuses to show the document.
    pub(crate) fn check_no_source(&self) -> Outcome<()> {
        match self.source.shown {
            true => Err(Failure::illegal_argument(
                "[_source] is not supported in this update: get the document afterwards",
            )),
            false => Ok(()),
        }
    }

    /// The collection to update in. It is made if the update may put a new document.
    pub(crate) fn collection(
        &self,
        engine: &Engine,
        index: &str,
        by: &AuditedGrant,
    ) -> Outcome<Collection> {
        if self.upsert.is_some() {
            collection_or_create(engine, index, by)
        } else {
            engine.collection_for_writes(index)
        }
    }

    /// What to do, given the present document. The write that this returns has the condition that
    /// the document is still the same.
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
                "required seqNo [{version}], primary term [1]. current document has seqNo [{}] \
                 and primary term [1]",
                current.version
            );
            return Err(Failure::version_conflict(index, &key.to_string(), &what));
        }
        let merged = match &self.partial {
            Some(partial) => {
                let merged = current.document.merge(partial);
                merged.map_err(|error| document_failure(&error))?
            }
            None => current.document.clone(),
        };
        if self.detect_noop && merged == current.document {
            return Ok(Plan::Noop(Ack::noop(current)));
        }
        Ok(Plan::Write(
            Write::put(key.clone(), merged)
                .if_version(current.version)
                .expiring(current.expiry()),
        ))
    }

    /// Changes the document under `key`, unless it takes more than `bytes_max`.
    fn run(&self, collection: &Collection, key: &Key, bytes_max: u64) -> Outcome<Ran> {
        let (index, id) = (collection.name(), key.to_string());
        let mut retries = self.retries;
        loop {
            let current = collection.get_up_to(key, bytes_max);
            let current = match current.map_err(|error| Failure::engine(&error, Some(index)))? {
                Within::Absent => None,
                Within::Found(found) => Some(found),
                Within::Longer(bytes) => return Ok(Ran::Longer(bytes)),
            };
            let write = match self.plan(index, key, current.as_ref())? {
                Plan::Noop(ack) => {
                    let shown = current.filter(|_| self.source.shown);
                    return Ok(Ran::Done(ack, shown.map(|found| found.document)));
                }
                Plan::Write(write) => write,
            };
            // The memory is for the new document from here on.
            drop(current);
            let shown = match &write.action {
                Action::Put(document) if self.source.shown => Some(document.clone()),
                _ => None,
            };
            match collection.write().run(write) {
                Ok(written) => return Ok(Ran::Done(Ack::put(written), shown)),
                Err(error) if error.kind() == ErrorKind::Conflict && retries > 0 => retries -= 1,
                Err(error) => return Err(write_failure(&error, index, &id)),
            }
        }
    }
}
