//! Reading many documents at a time.

use std::time::Duration;

use quiredb::{Collection, Found, FrozenCollection, Key, Usage, Use, Within};

use crate::engine::{Engine, Shape};
use crate::http::buffers::{Buffers, Held, LARGE_BYTES, SMALL_BYTES};
use crate::http::failure::{Failure, Outcome};

/// How many documents to read at a time so that about `bytes_wanted` are held: few at first, then
/// computed from the size of the documents before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    size: usize,
    size_max: usize,
    bytes_wanted: usize,
}

impl Group {
    /// `first` documents at first, at most `size_max`.
    pub(crate) fn new(first: usize, size_max: usize, bytes_wanted: usize) -> Group {
        Group {
            size: first,
            size_max,
            bytes_wanted,
        }
    }

    /// The number of documents to read next.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Records how many bytes the last documents had.
    pub(crate) fn was(&mut self, documents: usize, bytes: usize) {
        let document_bytes = (bytes / documents.max(1)).max(1);
        self.size = (self.bytes_wanted / document_bytes)
            .clamp(1, self.size_max)
            .min(self.size * 2);
    }
}

/// The documents under `keys`, in that order, as far as they fit in `bytes_max` together. One that
/// can't be read fails alone.
pub(crate) fn get_each_within(
    collection: &Collection,
    keys: &[Key],
    bytes_max: u64,
) -> Vec<quiredb::Result<Within>> {
    // One document needs a view of its own partition alone.
    if let [key] = keys {
        return vec![collection.get_up_to(key, bytes_max)];
    }
    let share = bytes_max / keys.len().max(1) as u64;
    match collection.get_within(keys, bytes_max) {
        Ok(found) => found.into_iter().map(Ok).collect(),
        Err(_) => keys
            .iter()
            .map(|key| collection.get_up_to(key, share))
            .collect(),
    }
}

/// A get, which is counted unless it was for nothing.
fn get_counted(
    usage: &Usage,
    get: impl FnOnce() -> quiredb::Result<Within>,
) -> quiredb::Result<Within> {
    let using = usage.begin(Use::GetFound);
    let found = get();
    match &found {
        Ok(Within::Found(_)) => using.end(1),
        Ok(Within::Absent) => using.end_as(Use::GetMissing, 1),
        Ok(Within::Longer(_)) | Err(_) => {}
    }
    found
}

/// The document under `key` of a frozen collection.
///
/// # Errors
/// Of damage.
pub(crate) fn get_frozen(collection: &FrozenCollection, key: &Key) -> Outcome<Option<Found>> {
    let found = counted(collection.usage(), || collection.view().get(key));
    found.map_err(|error| Failure::engine(&error, Some(collection.name())))
}

/// As [`get_frozen`], unless the document has more than `bytes_max` bytes.
///
/// # Errors
/// Of damage.
pub(crate) fn get_frozen_up_to(
    collection: &FrozenCollection,
    key: &Key,
    bytes_max: u64,
) -> quiredb::Result<Within> {
    get_counted(collection.usage(), || {
        let found = collection.view().get(key)?;
        Ok(found.map_or(Within::Absent, |found| {
            match found.document.as_bytes().len() as u64 {
                bytes if bytes > bytes_max => Within::Longer(bytes),
                _ => Within::Found(found),
            }
        }))
    })
}

/// A get, which is counted.
pub(crate) fn counted<T, E>(
    usage: &Usage,
    get: impl FnOnce() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let using = usage.begin(Use::GetFound);
    let found = get();
    match &found {
        Ok(Some(_)) => using.end(1),
        Ok(None) => using.end_as(Use::GetMissing, 1),
        Err(_) => {}
    }
    found
}

/// The document under `key` of a collection or an alias, and the collection's name. One whose
/// answer takes reserved memory has it reserved, waiting up to `timeout`, before it is read.
///
/// # Errors
/// As [`Engine::collection`], 429 if the memory is not free in time.
pub(crate) async fn get_held(
    engine: &Engine,
    buffers: &Buffers,
    index: &str,
    key: &Key,
    timeout: Duration,
) -> Outcome<(String, Option<Found>, Option<Held>)> {
    // A longer answer reserves its memory at once or is refused. Here it can be waited for.
    let (mut held, mut bytes_max) = (None, SMALL_BYTES as u64);
    let shape = Shape::of("get", index);
    loop {
        let (index, key) = (index.to_owned(), key.clone());
        // The reservation goes with the read, which ends even if the caller does not wait for it.
        let read = move |engine: &Engine| {
            let collection = engine.collection(&index)?;
            let name = collection.name().to_owned();
            let found = get_counted(collection.usage(), || collection.get_up_to(&key, bytes_max));
            let found = found.map_err(|error| Failure::engine(&error, Some(&name)))?;
            Ok::<_, Failure>((name, found, held))
        };
        let (name, found);
        (name, found, held) = engine.read_shaped(shape, read).await??;
        match found {
            Within::Absent => return Ok((name, None, None)),
            Within::Found(found) => return Ok((name, Some(found), held)),
            Within::Longer(bytes) => {
                // Another write may have made it longer: what is reserved is released first.
                drop(held.take());
                held = Some(buffers.hold_large(bytes, timeout).await?);
                bytes_max = bytes;
            }
        }
    }
}

/// The document under `key`, and the memory reserved for it if it is large.
///
/// # Errors
/// 429 if there is no memory for it now: for a caller that holds some, and so must not wait.
pub(crate) fn get_held_now(
    collection: &Collection,
    buffers: &Buffers,
    key: &Key,
) -> Outcome<Option<(Found, Option<Held>)>> {
    let (mut held, mut bytes_max) = (None, LARGE_BYTES);
    loop {
        let found = collection.get_up_to(key, bytes_max);
        let found = found.map_err(|error| Failure::engine(&error, Some(collection.name())))?;
        match found {
            Within::Absent => return Ok(None),
            Within::Found(found) => return Ok(Some((found, held))),
            Within::Longer(bytes) => {
                drop(held.take());
                held = Some(buffers.hold_large_now(bytes)?);
                bytes_max = bytes;
            }
        }
    }
}
