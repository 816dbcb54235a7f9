//! The items of a bulk body.

use super::action::Op;
use crate::documents::ack::Ack;
use crate::documents::conditions::require_alias;
use crate::documents::parse::{document_too_long, parse_key};
use crate::documents::source::Source as Shown;
use crate::documents::update::Update;
use crate::engine::Engine;
use crate::http::failure::{Failure, Outcome};
use bytes::Bytes;
use quiredb::{Condition, Key};
use std::sync::Arc;

/// One item: an action, and its source.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) op: Op,
    pub(crate) index: Arc<str>,
    pub(crate) id: Option<String>,
    /// What must hold, or why the item can't be done.
    pub(crate) condition: Outcome<Condition>,
    pub(crate) retries: Option<u32>,
    /// Whether `index` must be an alias.
    pub(crate) requires_alias: bool,
    pub(crate) source: Source,
    /// Which part of an updated document the answer shows, if the item or the request says that.
    pub(crate) shows: Option<Arc<Shown>>,
}

/// What follows an action line.
#[derive(Debug)]
pub(crate) enum Source {
    /// Nothing: a delete.
    None,
    Text(Bytes),
    /// A line with this count of bytes, more than a document can have.
    TooLong(u64),
}

impl Item {
    /// What must hold, which is taken out of the item.
    ///
    /// # Errors
    /// Why it can't be done; 400 if it names no alias and must.
    pub(super) fn check(&mut self, engine: &Engine) -> Outcome<Condition> {
        let condition = std::mem::replace(&mut self.condition, Ok(Condition::Always))?;
        if self.requires_alias {
            require_alias(engine, &self.index)?;
        }
        Ok(condition)
    }

    /// What follows its action line.
    ///
    /// # Errors
    /// 413 if it is too long.
    pub(super) fn text(&self) -> Outcome<&[u8]> {
        match &self.source {
            Source::None => Ok(&[]),
            Source::Text(text) => Ok(text),
            Source::TooLong(bytes) => Err(document_too_long(*bytes)),
        }
    }

    /// The key that it names.
    ///
    /// # Errors
    /// 400 if it names none, or what is no key.
    pub(super) fn key(&self) -> Outcome<Key> {
        let id = self.id.as_deref();
        id.map_or_else(|| Err(Failure::validation("id is missing")), parse_key)
    }

    /// What must hold for a put. `is_new`: its key was made for it.
    pub(super) fn put_condition(&self, condition: Condition, is_new: bool) -> Condition {
        match self.op == Op::Create || is_new && condition == Condition::Always {
            true => Condition::IfAbsent,
            false => condition,
        }
    }

    /// The update that it is.
    ///
    /// # Errors
    /// 400 if it is none.
    pub(super) fn update(&self, condition: &Condition) -> Outcome<Update> {
        let version = match condition {
            Condition::IfVersion(version) => Some(*version),
            _ => None,
        };
        let update = Update::parse(self.text()?, version, self.retries)?;
        Ok(update.or_showing(self.shows.as_deref()))
    }
}

/// The outcome of an item.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) op: Op,
    pub(crate) index: Arc<str>,
    /// None if the item had none and got none.
    pub(crate) id: Option<String>,
    pub(crate) outcome: Outcome<Ack>,
    /// The part of an updated document that the answer shows, as JSON.
    pub(crate) shown: Option<Vec<u8>>,
}

/// The outcome of an item until it has another one. No client gets it, unless the database leaves
/// a result out.
pub(super) fn not_done() -> Failure {
    Failure::internal("the write was not answered")
}
