//! Code: a module or a closure, with its name and version.

use crate::change::Change;
use crate::compiled::compiled;
use crate::kind::Kind;
use crate::row::Row;
use crate::runtime::Module;
use crate::{Error, Result};
use quire_model::Document;
use std::sync::Arc;

/// Takes the documents that a map makes.
pub type Emit<'e> = &'e mut dyn FnMut(Document);

/// An aggregate in Rust: one for each partition, then one that merges them.
pub trait Fold: Send {
    /// Takes a row.
    ///
    /// # Errors
    /// What is wrong, in words: the run ends.
    fn fold(&mut self, row: &Row<'_>) -> std::result::Result<(), String>;
    /// What it has so far, for [`merge`](Fold::merge).
    fn partial(&mut self) -> Vec<u8>;
    /// Takes what another one has.
    ///
    /// # Errors
    /// As of [`fold`](Fold::fold).
    fn merge(&mut self, partial: &[u8]) -> std::result::Result<(), String>;
    /// The result.
    ///
    /// # Errors
    /// As of [`fold`](Fold::fold).
    fn finish(&mut self) -> std::result::Result<Document, String>;
}

type FilterFn = dyn Fn(&Row<'_>) -> std::result::Result<bool, String> + Send + Sync;
type MapFn = dyn Fn(&Row<'_>, Emit<'_>) -> std::result::Result<(), String> + Send + Sync;
type TriggerFn = dyn Fn(&Change<'_>) -> std::result::Result<Option<Document>, String> + Send + Sync;
type AggregateFn = dyn Fn() -> Box<dyn Fold> + Send + Sync;

/// Code that can run beside the data. Cheap to clone.
///
/// ```
/// use quire_coprocessor::{Code, Limits, Row};
/// use quire_model::{Document, Key};
///
/// let cheap = Code::filter("cheap", |row| {
///     Ok(row.document.get("price").is_some_and(|price| price == quire_model::ValueRef::Int(7)))
/// });
/// let mut run = cheap.start(None, &Limits::default())?;
/// let (key, document) = (Key::parse("a")?, Document::from_json(br#"{"price":7}"#)?);
/// assert!(run.filter(&Row::new(&key, &document))?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Code {
    name: Arc<str>,
    pub(crate) body: Body,
}

#[derive(Clone)]
pub(crate) enum Body {
    Wasm(Module),
    Filter(Arc<FilterFn>),
    Map(Arc<MapFn>),
    Aggregate(Arc<AggregateFn>),
    Trigger(Arc<TriggerFn>),
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code")
            .field("name", &self.name)
            .field("kinds", &self.kinds())
            .finish_non_exhaustive()
    }
}

impl Code {
    /// Checks and compiles a WebAssembly module; none of it runs. `name` is for messages.
    ///
    /// # Errors
    /// What is wrong with the module.
    pub fn wasm(name: &str, wasm: &[u8]) -> Result<Code> {
        Ok(Code::new(name, Body::Wasm(compiled(wasm)?)))
    }

    /// A filter in Rust.
    pub fn filter(
        name: &str,
        keep: impl Fn(&Row<'_>) -> std::result::Result<bool, String> + Send + Sync + 'static,
    ) -> Code {
        Code::new(name, Body::Filter(Arc::new(keep)))
    }

    /// A map in Rust: it gives the documents that it makes to what it is called with.
    pub fn map(
        name: &str,
        map: impl Fn(&Row<'_>, Emit<'_>) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) -> Code {
        Code::new(name, Body::Map(Arc::new(map)))
    }

    /// An aggregate in Rust: `begin` makes an empty one.
    pub fn aggregate(
        name: &str,
        begin: impl Fn() -> Box<dyn Fold> + Send + Sync + 'static,
    ) -> Code {
        Code::new(name, Body::Aggregate(Arc::new(begin)))
    }

    /// A trigger in Rust: it gives a JSON merge patch of the document as it is to be, or nothing.
    pub fn trigger(
        name: &str,
        change: impl Fn(&Change<'_>) -> std::result::Result<Option<Document>, String>
        + Send
        + Sync
        + 'static,
    ) -> Code {
        Code::new(name, Body::Trigger(Arc::new(change)))
    }

    fn new(name: &str, body: Body) -> Code {
        Code {
            name: name.into(),
            body,
        }
    }

    /// Its name, as messages have it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it can be used as.
    pub fn kinds(&self) -> &[Kind] {
        match &self.body {
            Body::Wasm(module) => module.kinds(),
            Body::Filter(_) => &[Kind::Filter],
            Body::Map(_) => &[Kind::Map],
            Body::Aggregate(_) => &[Kind::Aggregate],
            Body::Trigger(_) => &[Kind::Trigger],
        }
    }

    /// Refuses to use it as what it is not.
    ///
    /// # Errors
    /// `WrongKind`.
    pub fn check_kind(&self, kind: Kind) -> Result<()> {
        if self.kinds().contains(&kind) {
            return Ok(());
        }
        let kinds: Vec<_> = self.kinds().iter().map(|kind| kind.name()).collect();
        Err(Error::WrongKind {
            code: self.name.to_string(),
            wanted: kind.name(),
            kinds: kinds.join(", "),
        })
    }
}
