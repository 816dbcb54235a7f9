//! A user's WebAssembly module that documents go through.

use crate::change::Change;
use crate::error::{Error, Result};
use quire_env::Env;
use quiredb::coprocessor::{Code, Kind, Limits, MODULE_BYTES_MAX, Row, Run};
use quiredb::{Document, Key};
use std::path::Path;

/// A module of the kinds filter, map or both.
#[derive(Debug, Clone)]
pub(crate) struct Transform(Code);

/// A module that runs, for one reader.
pub(crate) struct Transforming {
    run: Run,
    filters: bool,
    maps: bool,
}

impl Transform {
    /// Reads and checks a module.
    ///
    /// # Errors
    /// If it can't be used so.
    pub(crate) fn read(env: &dyn Env, path: &Path) -> Result<Transform> {
        let wasm = env.read(path, MODULE_BYTES_MAX as u64)?;
        let wrong = |why: String| Error::Config(format!("{}: {why}", path.display()));
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let code = Code::wasm(&name, &wasm).map_err(|error| wrong(error.to_string()))?;
        match [Kind::Filter, Kind::Map]
            .iter()
            .any(|kind| code.kinds().contains(kind))
        {
            true => Ok(Transform(code)),
            false => Err(wrong("it exports neither a filter nor a map".to_owned())),
        }
    }

    /// Begins to run it.
    ///
    /// # Errors
    /// If its start function fails.
    pub(crate) fn start(&self) -> Result<Transforming> {
        let Transform(code) = self;
        let run = code.start(None, &Limits::default());
        Ok(Transforming {
            run: run.map_err(|error| Error::Source(error.to_string()))?,
            filters: code.kinds().contains(&Kind::Filter),
            maps: code.kinds().contains(&Kind::Map),
        })
    }
}

impl Transforming {
    /// What a change becomes. A document that the filter does not keep, or that the map makes
    /// nothing of, is a deletion: an earlier one of its key may have been kept.
    ///
    /// # Errors
    /// If the module fails, or makes several documents of one.
    pub(crate) fn apply(&mut self, change: Change) -> Result<Change> {
        let Some(text) = &change.document else {
            return Ok(change);
        };
        let wrong = |why: String| Error::Source(format!("the document {:?}: {why}", change.key));
        let document = Document::from_json(text.as_bytes());
        let document = document.map_err(|error| wrong(error.to_string()))?;
        let key = Key::parse(&change.key).map_err(|error| wrong(error.to_string()))?;
        let row = Row::new(&key, &document);
        let failed = |error: quiredb::coprocessor::Error| Error::Source(error.to_string());
        let document = if self.filters && !self.run.filter(&row).map_err(failed)? {
            None
        } else if self.maps {
            let mut made = self.run.map(&row).map_err(failed)?;
            let one = made.pop();
            if !made.is_empty() {
                return Err(wrong("the map makes several documents of it".to_owned()));
            }
            one.map(|document| document.to_json().into_boxed_str())
        } else {
            return Ok(change);
        };
        Ok(Change { document, ..change })
    }
}
