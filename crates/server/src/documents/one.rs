//! One document: put, create, get, delete.

use std::sync::Arc;

use axum::http::StatusCode;
use quiredb::{Condition, Found, Use, ValueRef, Write};

use super::ack::{Ack, acknowledge, write_failure};
use super::conditions::{check_alias, check_write, condition};
use super::found::{check_version, write_found};
use super::lookup::{get_frozen, get_held};
use super::parse::{key_of, parse_document, parse_key};
use super::source::Source;
use super::tally::counted;
use crate::collections::on_write::collection_or_create;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::buffers::Held;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::wide;

/// `PUT|POST /{collection}/_doc/{id}`
pub(crate) async fn put(call: Call<Engine>) -> Outcome<Answer> {
    let id = call.id();
    write(call, Some(id), false).await
}

/// `PUT|POST /{collection}/_create/{id}`
pub(crate) async fn create(call: Call<Engine>) -> Outcome<Answer> {
    let id = call.id();
    write(call, Some(id), true).await
}

/// `POST /{collection}/_doc`
pub(crate) async fn add(call: Call<Engine>) -> Outcome<Answer> {
    write(call, None, false).await
}

async fn write(call: Call<Engine>, id: Option<String>, only_create: bool) -> Outcome<Answer> {
    check_write(&call.params)?;
    let condition = condition(&call.params, only_create)?;
    if id.is_none() && condition.external().is_some() {
        let why = "an id must be provided if version type or value are set";
        return Err(Failure::validation(why));
    }
    let (engine, index) = (call.state.clone(), call.collection());
    let (params, grant) = (call.params.clone(), Arc::clone(&call.grant));
    let mut body = call.take_body().await?;
    let work = move |engine: &Engine| {
        body.reserve_written()?;
        let document = parse_document(&body.bytes)?;
        body.release_bytes();
        let key = id.as_deref().map(parse_key).transpose()?;
        check_alias(engine, &params, &index)?;
        if let Some(wide) = engine.wide_for_writes(&index)? {
            let (ack, id) = wide::documents::put(engine, &wide, key, &document, condition)?;
            return Ok(acknowledge(ack.answered_to(&params), wide.name(), &id));
        }
        let collection = collection_or_create(engine, &index, &grant)?;
        let index = collection.name();
        let (key, is_new) = key_of(engine, &collection, key, &document)?;
        // A random id is new, and checking that costs nothing.
        let condition = if is_new && condition == Condition::Always {
            Condition::IfAbsent
        } else {
            condition
        };
        let id = key.to_string();
        let write = collection.write().condition(condition);
        let ack = counted(collection.usage(), Use::Index, || {
            let written = write.run(Write::put(key, document));
            written
                .map(Ack::put)
                .map_err(|error| write_failure(&error, index, &id))
        })?;
        Ok(acknowledge(ack.answered_to(&params), index, &id))
    };
    engine.write(work).await?
}

/// `DELETE /{collection}/_doc/{id}`
pub(crate) async fn delete(call: Call<Engine>) -> Outcome<Answer> {
    let (index, id) = (call.collection(), call.id());
    check_write(&call.params)?;
    let condition = condition(&call.params, false)?;
    let params = call.params;
    let work = move |engine: &Engine| {
        if let Some(wide) = engine.wide_for_writes(&index)? {
            let ack = wide::documents::delete(&wide, &parse_key(&id)?, condition)?;
            return Ok(acknowledge(ack.answered_to(&params), wide.name(), &id));
        }
        let collection = engine.collection_for_writes(&index)?;
        let index = collection.name();
        let write = collection.write().condition(condition);
        let key = parse_key(&id)?;
        let ack = counted(collection.usage(), Use::Delete, || {
            let written = write.delete(&key);
            written
                .map(Ack::delete)
                .map_err(|error| write_failure(&error, index, &id))
        })?;
        Ok(acknowledge(ack.answered_to(&params), index, &id))
    };
    call.state.write(work).await?
}

/// `GET /{collection}/_doc/{id}`
pub(crate) async fn get(call: Call<Engine>) -> Outcome<Answer> {
    let source = Source::of(&call.params)?;
    let read = read(call, &source).await?;
    let status = match read.found {
        Some(_) => StatusCode::OK,
        None => StatusCode::NOT_FOUND,
    };
    read.answer(status, |read, json| {
        write_found(&read.index, &read.id, read.found.as_ref(), &source, json);
    })
}

/// `GET /{collection}/_source/{id}`
pub(crate) async fn source(call: Call<Engine>) -> Outcome<Answer> {
    let source = Source::of(&call.params)?;
    let read = read(call, &source).await?;
    if read.found.is_none() {
        let reason = format!("Document not found [{}]/[{}]", read.index, read.id);
        return Err(Failure::new(
            StatusCode::NOT_FOUND,
            "resource_not_found_exception",
            reason,
        ));
    }
    read.answer(StatusCode::OK, |read, json| {
        if let Some(found) = &read.found {
            let document = ValueRef::Object(found.document.root());
            source.fields.write(document, "", json);
        }
    })
}

/// A document that was read, and the memory reserved for it and its answer if it is large.
struct Read {
    index: String,
    id: String,
    found: Option<Found>,
    held: Option<Held>,
}

impl Read {
    /// The answer that `write` makes. The document is released before it is sent.
    fn answer(
        mut self,
        status: StatusCode,
        write: impl FnOnce(&Read, &mut Vec<u8>),
    ) -> Outcome<Answer> {
        let document = self.found.as_ref().map(|found| found.document.as_bytes());
        // A buffer that grew to a large document would be copied on the way.
        let capacity = match self.held {
            Some(_) => document.map_or(0, |bytes| bytes.len() + bytes.len() / 8),
            None => 0,
        };
        let mut json = Vec::with_capacity(capacity);
        write(&self, &mut json);
        self.found = None;
        if let Some(held) = &mut self.held {
            json.shrink_to_fit();
            held.resize(json.capacity())?;
        }
        Ok(Answer::held_json(status, json, self.held))
    }
}

/// Reads the document that the path names; of a wide collection, the columns that `source` shows.
async fn read(call: Call<Engine>, source: &Source) -> Outcome<Read> {
    let (index, id) = (call.collection(), call.id());
    let types = ["internal", "external", "external_gt", "external_gte"];
    let why = "it is [internal], [external] or [external_gte]";
    call.params.only("version_type", &types, why)?;
    let version = call.params.number::<u64>("version")?;
    // A collection that there is not is reported before a key that can't be.
    let key = parse_key(&id);
    let (frozen, is_wide) = (call.state.frozen(&index), call.state.is_wide(&index));
    let (index, found, held) = match (&key, frozen) {
        (Ok(key), Some(frozen)) => {
            let key = key.clone();
            let get = move |_: &Engine| get_frozen(&frozen, &key);
            (index, call.state.read(get).await??, None)
        }
        (Ok(key), None) if is_wide => {
            let (key, source) = (key.clone(), source.clone());
            let get = move |engine: &Engine| {
                let wide = wide::to_read(engine, &index)?;
                let found = wide::documents::get(&wide, &key, &source)?;
                Ok::<_, Failure>((wide.name().to_owned(), found))
            };
            let (name, found) = call.state.read(get).await??;
            (name, found, None)
        }
        (Ok(key), None) => {
            let (engine, timeout) = (&call.state, call.body_timeout);
            get_held(engine, &call.buffers, &index, key, timeout).await?
        }
        (Err(_), Some(_)) => (index, None, None),
        (Err(_), None) if is_wide => (index, None, None),
        (Err(_), None) => {
            let name = index.clone();
            let known = move |engine: &Engine| engine.collection(&name).map(drop);
            call.state.read(known).await??;
            (index, None, None)
        }
    };
    key?;
    if let (Some(found), Some(version)) = (&found, version) {
        check_version(&index, &id, found, version)?;
    }
    Ok(Read {
        index,
        id,
        found,
        held,
    })
}
