//! Prepare: each item's source is parsed, and its collection and key are found.

use super::action::Op;
use super::item::{Done, Item, not_done};
use super::rows::{Rows, waiting};
use crate::audit::AuditedGrant;
use crate::collections::on_write::collection_or_create;
use crate::documents::parse::{key_of, parse_document, parse_key};
use crate::documents::update::Update;
use crate::engine::Engine;
use crate::http::failure::Outcome;
use quiredb::{Collection, Key, Write};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The collections of a batch, by name, and by the aliases that its items have.
#[derive(Default)]
pub(super) struct Collections {
    by_name: BTreeMap<Arc<str>, Collection>,
    /// The names of the collections that aliases and names stand for: one for the whole batch.
    by_alias: BTreeMap<Arc<str>, Arc<str>>,
}

impl Collections {
    /// The collection of this name, which is no alias.
    pub(super) fn get(&self, name: &Arc<str>) -> Option<&Collection> {
        self.by_name.get(name)
    }

    /// The collection that an item names, opened or created by the first item that names it.
    fn open(
        &mut self,
        named: &Arc<str>,
        open: impl FnOnce() -> Outcome<Collection>,
    ) -> Outcome<(Arc<str>, &Collection)> {
        let name = match self.by_alias.get(named) {
            Some(name) => Arc::clone(name),
            None => {
                let collection = open()?;
                let name: Arc<str> = match collection.name() == &**named {
                    true => Arc::clone(named),
                    false => Arc::from(collection.name()),
                };
                self.by_alias.insert(Arc::clone(named), Arc::clone(&name));
                self.by_name.entry(Arc::clone(&name)).or_insert(collection);
                name
            }
        };
        match self.by_name.get(&name) {
            Some(collection) => Ok((name, collection)),
            None => Err(not_done()),
        }
    }
}

/// An item that is ready to be done.
pub(super) struct Task {
    /// The index of the item in its batch. Tasks are in this order.
    pub(super) item: usize,
    pub(super) index: Arc<str>,
    pub(super) key: Key,
    pub(super) work: Work,
}

pub(super) enum Work {
    Write(Write),
    Update(Box<Update>),
}

/// Items that were prepared.
pub(super) struct Prepared {
    /// One for each item, in their order; that of a task is [`not_done`].
    pub(super) done: Vec<Done>,
    pub(super) tasks: Vec<Task>,
    pub(super) collections: Collections,
    /// The items of wide collections.
    pub(super) rows: Rows,
}

/// Prepares items. What can't be done has its outcome already.
pub(super) fn prepare(engine: &Engine, by: &AuditedGrant, items: Vec<Item>) -> Prepared {
    let mut prepared = Prepared {
        done: Vec::with_capacity(items.len()),
        tasks: Vec::with_capacity(items.len()),
        collections: Collections::default(),
        rows: Rows::default(),
    };
    for (number, item) in items.into_iter().enumerate() {
        let (op, mut index, mut id) = (item.op, Arc::clone(&item.index), item.id.clone());
        let outcome = match prepared.rows.name_of(engine, &index) {
            Ok(Some(name)) => {
                prepared.done.push(waiting(&item, Arc::clone(&name)));
                prepared.rows.push(name, number, item);
                continue;
            }
            Ok(None) => prepare_item(engine, by, &mut prepared.collections, item),
            Err(failure) => Err(failure),
        };
        let outcome = match outcome {
            Ok((name, key, work)) => {
                id = Some(key.to_string());
                index = name;
                prepared.tasks.push(Task {
                    item: number,
                    index: Arc::clone(&index),
                    key,
                    work,
                });
                Err(not_done())
            }
            Err(failure) => Err(failure),
        };
        prepared.done.push(Done {
            op,
            index,
            id,
            outcome,
            shown: None,
        });
    }
    prepared
}

fn prepare_item(
    engine: &Engine,
    by: &AuditedGrant,
    collections: &mut Collections,
    mut item: Item,
) -> Outcome<(Arc<str>, Key, Work)> {
    let condition = item.check(engine)?;
    let text = item.text()?;
    let index = &item.index;
    match item.op {
        Op::Index | Op::Create => {
            let document = parse_document(text)?;
            let key = item.id.as_deref().map(parse_key).transpose()?;
            let open = || collection_or_create(engine, index, by);
            let (name, collection) = collections.open(index, open)?;
            let (key, is_new) = key_of(engine, collection, key, &document)?;
            let condition = item.put_condition(condition, is_new);
            let write = Write::put(key.clone(), document);
            Ok((name, key, Work::Write(Write { condition, ..write })))
        }
        Op::Delete => {
            let key = item.key()?;
            let open = || engine.collection_for_writes(index);
            let (name, _) = collections.open(index, open)?;
            let write = Write::delete(key.clone());
            Ok((name, key, Work::Write(Write { condition, ..write })))
        }
        Op::Update => {
            let key = item.key()?;
            let update = item.update(&condition)?;
            let open = || update.collection(engine, index, by);
            let (name, _) = collections.open(index, open)?;
            Ok((name, key, Work::Update(Box::new(update))))
        }
    }
}
