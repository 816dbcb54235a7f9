//! One document: put, create, get, delete.

use axum::http::StatusCode;
use quiredb::{Condition, Found, Position, ValueRef};

use super::ack::{Ack, acknowledge, write_failure};
use super::conditions::{check_routing, check_write, condition};
use super::found::write_found;
use super::parse::{key_of, parse_document, parse_key};
use super::source::Source;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};

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
    check_write(&call.params, id.as_deref())?;
    let condition = condition(&call.params, only_create)?;
    let (engine, index) = (call.state.clone(), call.collection());
    let params = call.params.clone();
    let body = call.take_body().await?;
    let work = move |engine: &Engine| {
        let document = parse_document(&body.bytes)?;
        let key = id.as_deref().map(parse_key).transpose()?;
        let collection = engine.collection_or_create(&index)?;
        let (key, is_new) = key_of(engine, &collection, key, &document)?;
        // A random id is new, and checking that costs nothing.
        let condition = if is_new && condition == Condition::Always {
            Condition::IfAbsent
        } else {
            condition
        };
        let id = key.to_string();
        let write = collection.write().condition(condition);
        let written = write.put_at(&key, &document);
        let ack = Ack::put(written.map_err(|error| write_failure(&error, &index, &id))?);
        Ok(acknowledge(ack.asked_with(&params), &index, &id))
    };
    engine.write(work).await?
}

/// `DELETE /{collection}/_doc/{id}`
pub(crate) async fn delete(call: Call<Engine>) -> Outcome<Answer> {
    let (index, id) = (call.collection(), call.id());
    check_write(&call.params, Some(&id))?;
    let condition = condition(&call.params, false)?;
    let params = call.params;
    let work = move |engine: &Engine| {
        let collection = engine.collection(&index)?;
        let write = collection.write().condition(condition);
        let written = write.delete(&parse_key(&id)?);
        let ack = Ack::delete(written.map_err(|error| write_failure(&error, &index, &id))?);
        Ok(acknowledge(ack.asked_with(&params), &index, &id))
    };
    call.state.write(work).await?
}

/// `GET /{collection}/_doc/{id}`
pub(crate) async fn get(call: Call<Engine>) -> Outcome<Answer> {
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
pub(crate) async fn source(call: Call<Engine>) -> Outcome<Answer> {
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

/// Reads the document that the path names.
async fn read(call: Call<Engine>) -> Outcome<(String, String, Option<Found>)> {
    let (index, id) = (call.collection(), call.id());
    check_routing(&call.params, Some(&id))?;
    call.params
        .only("version_type", &["internal"], "versions are given by Quire")?;
    let version = call.params.number::<u64>("version")?;
    let work = move |engine: &Engine| {
        let collection = engine.collection(&index)?;
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
    call.state.read(work).await?
}
