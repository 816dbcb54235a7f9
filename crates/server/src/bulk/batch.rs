//! A batch of bulk items, applied: each judged on its own, those of one key in their order, with
//! one sync per partition and round.
//!
//! An update depends on the document as it is, so that is read, merged and written on condition
//! that nothing came between. Items are done in rounds: an update waits for the next one if an item
//! before it writes the same key, and so does whatever follows an update on its key. A batch
//! without updates is one round.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use quiredb::{Action, Collection, Condition, ErrorKind, Key, Position, Write, Written};

use super::action::Op;
use crate::ack::{Ack, write_failure};
use crate::documents::{document_too_long, key_of, parse_document, parse_key};
use crate::failure::{Failure, Outcome};
use crate::state::Server;
use crate::update::{Plan, Update};

/// One item.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) op: Op,
    pub(crate) index: Arc<str>,
    pub(crate) id: Option<String>,
    /// The version the document must have, or why the item can't be done.
    pub(crate) version: Outcome<Option<Position>>,
    pub(crate) retries: Option<u32>,
    pub(crate) source: Source,
}

/// What follows an action line.
#[derive(Debug)]
pub(crate) enum Source {
    /// Nothing: a delete.
    None,
    Text(Bytes),
    /// A line of so many bytes, more than a document can have.
    TooLong(u64),
}

/// What became of an item.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) op: Op,
    pub(crate) index: Arc<str>,
    /// None if it had none and got none.
    pub(crate) id: Option<String>,
    pub(crate) outcome: Outcome<Ack>,
}

/// Bytes of merged documents that one round holds; the updates after them wait for the next.
const MERGED_BYTES_MAX: usize = 8 << 20;

/// An item that is yet to be done.
struct Task {
    /// Which item it is, counted from 0. Tasks are in this order.
    item: usize,
    index: Arc<str>,
    key: Key,
    work: Work,
}

enum Work {
    Write(Write),
    Update(Box<Update>),
}

/// A write to be done in this round.
struct Pending {
    item: usize,
    write: Write,
    /// The update it came from.
    update: Option<Box<Update>>,
}

/// Applies the items; one outcome for each, in their order. Blocks.
pub(crate) fn apply(server: &Server, items: Vec<Item>) -> Vec<Done> {
    let mut batch = Batch {
        server,
        collections: BTreeMap::new(),
        done: Vec::with_capacity(items.len()),
    };
    let mut tasks = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        let (op, index, mut id) = (item.op, Arc::clone(&item.index), item.id.clone());
        let outcome = match batch.prepare(item) {
            Ok((key, work)) => {
                id = Some(key.to_string());
                tasks.push(Task {
                    item: at,
                    index: Arc::clone(&index),
                    key,
                    work,
                });
                Err(not_done())
            }
            Err(failure) => Err(failure),
        };
        batch.done.push(Done {
            op,
            index,
            id,
            outcome,
        });
    }
    while !tasks.is_empty() {
        tasks = batch.round(tasks);
    }
    batch.done
}

struct Batch<'a> {
    server: &'a Server,
    collections: BTreeMap<Arc<str>, Collection>,
    done: Vec<Done>,
}

impl Batch<'_> {
    /// Reads an item's source and finds its collection and key.
    fn prepare(&mut self, item: Item) -> Outcome<(Key, Work)> {
        let Item {
            op,
            index,
            id,
            version,
            retries,
            source,
        } = item;
        let version = version?;
        let text = match &source {
            Source::None => &[][..],
            Source::Text(text) => text,
            Source::TooLong(bytes) => return Err(document_too_long(*bytes)),
        };
        let condition = version.map_or(Condition::Always, Condition::IfVersion);
        let given_key = || {
            id.as_deref()
                .map_or_else(|| Err(Failure::validation("id is missing")), parse_key)
        };
        let server = self.server;
        match op {
            Op::Index | Op::Create => {
                let document = parse_document(text)?;
                let key = id.as_deref().map(parse_key).transpose()?;
                let collection = self.collection(&index, || server.collection_or_create(&index))?;
                let (key, is_new) = key_of(server, collection, key, &document)?;
                let is_create = op == Op::Create || is_new && condition == Condition::Always;
                let condition = if is_create {
                    Condition::IfAbsent
                } else {
                    condition
                };
                Ok((
                    key.clone(),
                    Work::Write(Write {
                        condition,
                        ..Write::put(key, document)
                    }),
                ))
            }
            Op::Delete => {
                let key = given_key()?;
                self.collection(&index, || server.collection(&index))?;
                Ok((
                    key.clone(),
                    Work::Write(Write {
                        condition,
                        ..Write::delete(key)
                    }),
                ))
            }
            Op::Update => {
                let key = given_key()?;
                let update = Update::parse(text, version, retries)?;
                self.collection(&index, || update.collection(server, &index))?;
                Ok((key, Work::Update(Box::new(update))))
            }
        }
    }

    /// The collection, looked up or made at its first item.
    fn collection(
        &mut self,
        index: &Arc<str>,
        open: impl FnOnce() -> Outcome<Collection>,
    ) -> Outcome<&Collection> {
        match self.collections.entry(Arc::clone(index)) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => Ok(entry.insert(open()?)),
        }
    }

    /// Does what can be done at once; returns the rest. The first task is always done or loses a
    /// retry, so rounds end.
    fn round(&mut self, tasks: Vec<Task>) -> Vec<Task> {
        let (now, updates, mut later) = split(tasks);
        let mut writes: BTreeMap<Arc<str>, Vec<Pending>> = BTreeMap::new();
        for Task {
            item, index, work, ..
        } in now
        {
            if let Work::Write(write) = work {
                writes.entry(index).or_default().push(Pending {
                    item,
                    write,
                    update: None,
                });
            }
        }
        let mut merged_bytes = 0;
        for task in updates {
            if merged_bytes > MERGED_BYTES_MAX {
                later.push(task);
                continue;
            }
            let Task {
                item,
                index,
                key,
                work: Work::Update(update),
            } = task
            else {
                continue;
            };
            match self.plan(&index, &key, &update) {
                Ok(Plan::Write(write)) => {
                    merged_bytes += write_bytes(&write);
                    let pending = Pending {
                        item,
                        write,
                        update: Some(update),
                    };
                    writes.entry(index).or_default().push(pending);
                }
                Ok(Plan::Noop(version)) => self.report(item, Ok(Ack::noop(version))),
                Err(failure) => self.report(item, Err(failure)),
            }
        }
        for (index, pending) in writes {
            self.write(&index, pending, &mut later);
        }
        later.sort_unstable_by_key(|task| task.item);
        later
    }

    fn plan(&self, index: &Arc<str>, key: &Key, update: &Update) -> Outcome<Plan> {
        let collection = self.collections.get(index).ok_or_else(not_done)?;
        let current = collection
            .get(key)
            .map_err(|error| Failure::engine(&error, Some(index)))?;
        update.plan(index, key, current.as_ref())
    }

    /// Writes to one collection. Updates that another write came between go to `later`.
    fn write(&mut self, index: &Arc<str>, pending: Vec<Pending>, later: &mut Vec<Task>) {
        let Some(collection) = self.collections.get(index) else {
            return;
        };
        let mut writes = Vec::with_capacity(pending.len());
        let mut origins = Vec::with_capacity(pending.len());
        for Pending {
            item,
            write,
            update,
        } in pending
        {
            origins.push((item, update.map(|update| (write.key.clone(), update))));
            writes.push(write);
        }
        let results = collection.batch().writes(writes).write();
        for ((item, update), result) in origins.into_iter().zip(results) {
            match (result, update) {
                (Err(error), Some((key, mut update)))
                    if error.kind() == ErrorKind::Conflict && update.retries > 0 =>
                {
                    update.retries -= 1;
                    later.push(Task {
                        item,
                        index: Arc::clone(index),
                        key,
                        work: Work::Update(update),
                    });
                }
                (result, _) => self.report_written(item, result),
            }
        }
    }

    fn report_written(&mut self, item: usize, result: quiredb::Result<Written>) {
        let Some(done) = self.done.get_mut(item) else {
            return;
        };
        done.outcome = match result {
            Ok(written) if done.op == Op::Delete => Ok(Ack::delete(written)),
            Ok(written) => Ok(Ack::put(written)),
            Err(error) => Err(write_failure(
                &error,
                &done.index,
                done.id.as_deref().unwrap_or_default(),
            )),
        };
    }

    fn report(&mut self, item: usize, outcome: Outcome<Ack>) {
        if let Some(done) = self.done.get_mut(item) {
            done.outcome = outcome;
        }
    }
}

/// What a round does as it is, which updates it does, and what waits for the next round.
fn split(tasks: Vec<Task>) -> (Vec<Task>, Vec<Task>, Vec<Task>) {
    let (mut updates, mut later) = (Vec::new(), Vec::new());
    if !tasks
        .iter()
        .any(|task| matches!(task.work, Work::Update(_)))
    {
        return (tasks, updates, later);
    }
    let mut now = Vec::with_capacity(tasks.len());
    let (mut touched, mut waiting) = (HashSet::new(), HashSet::new());
    for task in tasks {
        let place = (Arc::clone(&task.index), task.key.clone());
        if waiting.contains(&place) {
            later.push(task);
        } else if matches!(task.work, Work::Write(_)) {
            touched.insert(place);
            now.push(task);
        } else {
            if touched.contains(&place) {
                later.push(task)
            } else {
                updates.push(task)
            }
            waiting.insert(place);
        }
    }
    (now, updates, later)
}

fn write_bytes(write: &Write) -> usize {
    match &write.action {
        Action::Put(document) | Action::Patch(document) => document.as_bytes().len(),
        Action::Delete => 0,
    }
}

/// What stands until an item has an outcome; nobody sees it unless the engine left an answer out.
fn not_done() -> Failure {
    Failure::internal("the write was not answered")
}
