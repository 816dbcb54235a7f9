//! The items of wide collections: writes of rows, done in the order of the items, and made durable
//! together. An update reads no cell, so nothing waits for a round.

use super::action::Op;
use super::item::{Done, Item, not_done};
use crate::documents::ack::{Ack, write_failure};
use crate::documents::parse::{parse_document, parse_key};
use crate::documents::tally;
use crate::engine::Engine;
use crate::http::failure::{Failure, Outcome};
use crate::wide;
use crate::wide::documents::{check_objects, key_of, patched};
use quiredb::wide::{RowWrite, WideBatch, WideCollection};
use quiredb::{ErrorKind, Key, Use, Written};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The items of wide collections in a batch.
#[derive(Default)]
pub(super) struct Rows {
    /// What the items name; none if it is no wide collection, or may not be written.
    named: BTreeMap<Arc<str>, Option<WideCollection>>,
    /// Their numbers in the batch, and they, by the name of the collection: aliases of one too, so
    /// that they are done in their order.
    items: BTreeMap<Arc<str>, Vec<(usize, Item)>>,
}

impl Rows {
    /// The name of the wide collection that an item of this name is of; none if it is of none.
    ///
    /// # Errors
    /// If it may not be written.
    pub(super) fn name_of(
        &mut self,
        engine: &Engine,
        index: &Arc<str>,
    ) -> Outcome<Option<Arc<str>>> {
        if !self.named.contains_key(index) {
            self.named
                .insert(Arc::clone(index), engine.wide_for_writes(index)?);
        }
        let wide = self.named.get(index).and_then(Option::as_ref);
        Ok(wide.map(|wide| match wide.name() == &**index {
            true => Arc::clone(index),
            false => Arc::from(wide.name()),
        }))
    }

    /// Adds an item of the wide collection of this name.
    pub(super) fn push(&mut self, name: Arc<str>, number: usize, item: Item) {
        self.items.entry(name).or_default().push((number, item));
    }

    /// Does the items. Blocks.
    pub(super) fn apply(self, engine: &Engine, done: &mut [Done]) {
        for (_, items) in self.items {
            let named = items
                .first()
                .and_then(|(_, item)| self.named.get(&item.index));
            if let Some(Some(wide)) = named {
                apply_to(engine, wide, items, done);
            }
        }
    }
}

/// Does the items of one collection.
fn apply_to(engine: &Engine, wide: &WideCollection, items: Vec<(usize, Item)>, done: &mut [Done]) {
    let usage = wide.usage();
    let (using, mut indexed, mut deleted) = (usage.begin(Use::Index), 0, 0);
    let mut batch = wide.batch();
    let mut written = Vec::with_capacity(items.len());
    for (number, item) in items {
        let (key, outcome) = apply_item(engine, wide, &mut batch, item);
        if let (Some(key), Some(done)) = (key, done.get_mut(number)) {
            done.id = Some(key.to_string());
        }
        written.push((number, outcome));
    }
    let failed = batch.finish();
    for (number, outcome) in written {
        let Some(done) = done.get_mut(number) else {
            continue;
        };
        let id = done.id.as_deref().unwrap_or_default();
        done.outcome = outcome.and_then(|written| match failed.get(&written.partition) {
            Some(error) => Err(write_failure(error, wide.name(), id)),
            None if done.op == Op::Delete => Ok(Ack::delete(written)),
            None => Ok(Ack::put(written)),
        });
        let what = match done.op {
            Op::Delete => Use::Delete,
            _ => Use::Index,
        };
        match tally::is_done(usage, what, done.outcome.as_ref().copied()) {
            true if what == Use::Delete => deleted += 1,
            true => indexed += 1,
            false => {}
        }
    }
    using.end_as_both((Use::Index, indexed), (Use::Delete, deleted));
}

/// Does an item. Gives its key, if it has one or got one, and what was written.
fn apply_item(
    engine: &Engine,
    wide: &WideCollection,
    batch: &mut WideBatch<'_>,
    item: Item,
) -> (Option<Key>, Outcome<Written>) {
    let mut key = None;
    let written = write_item(engine, wide, batch, item, &mut key);
    (key, written)
}

fn write_item(
    engine: &Engine,
    wide: &WideCollection,
    batch: &mut WideBatch<'_>,
    mut item: Item,
    named: &mut Option<Key>,
) -> Outcome<Written> {
    let condition = item.check(engine)?;
    let text = item.text()?;
    let failed = |key: &Key, error: &quiredb::Error| match error.kind() {
        ErrorKind::NotFound => Failure::document_missing(wide.name(), &key.to_string()),
        _ => write_failure(error, wide.name(), &key.to_string()),
    };
    match item.op {
        Op::Index | Op::Create => {
            let document = parse_document(text)?;
            let given = item.id.as_deref().map(parse_key).transpose()?;
            let names_key = document.get(&wide.settings().key_field).is_some();
            let is_new = given.is_none() && !names_key;
            let key = match given {
                Some(key) => key,
                None => key_of(engine, wide, &document)?,
            };
            *named = Some(key.clone());
            let condition = wide::condition_of(item.put_condition(condition, is_new))?;
            let write = wide.put_write(&key, &document);
            let written = write.and_then(|write| batch.write(&write.condition(condition)));
            written.map_err(|error| failed(&key, &error))
        }
        Op::Delete => {
            let key = item.key()?;
            *named = Some(key.clone());
            let write = RowWrite::delete(key.clone()).condition(wide::condition_of(condition)?);
            batch.write(&write).map_err(|error| failed(&key, &error))
        }
        Op::Update => {
            let key = item.key()?;
            *named = Some(key.clone());
            let update = item.update(&condition)?;
            update.check_no_source()?;
            check_objects(wide, &update)?;
            let mut write = |write: &RowWrite| batch.write(write);
            patched(wide, &key, &update, &mut write).map_err(|error| failed(&key, &error))
        }
    }
}

/// The outcome of an item of this collection until it has another one.
pub(super) fn waiting(item: &Item, index: Arc<str>) -> Done {
    Done {
        op: item.op,
        index,
        id: item.id.clone(),
        outcome: Err(not_done()),
        shown: None,
    }
}
