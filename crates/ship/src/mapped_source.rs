//! A source whose documents are mapped as they are read.

use crate::change::{Change, Cursor};
use crate::error::Result;
use crate::mapping::Mapping;
use crate::topic::{Source, Topic};
use crate::transform::{Transform, Transforming};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// A source with a mapping. Its positions and places are those of the source.
#[derive(Debug)]
pub struct MappedSource {
    source: Box<dyn Source>,
    transform: Option<Transform>,
    mapping: Option<Arc<Mapping>>,
}

impl MappedSource {
    /// A source whose documents become what `mapping` says.
    pub fn new(source: Box<dyn Source>, mapping: Mapping) -> MappedSource {
        MappedSource::of(source, None, Some(mapping))
    }

    /// A source whose documents go through a module, and then become what `mapping` says.
    pub(crate) fn of(
        source: Box<dyn Source>,
        transform: Option<Transform>,
        mapping: Option<Mapping>,
    ) -> MappedSource {
        MappedSource {
            source,
            transform,
            mapping: mapping.map(Arc::new),
        }
    }

    fn keeps_keys(&self) -> bool {
        self.mapping
            .as_ref()
            .is_none_or(|mapping| mapping.keeps_keys())
    }
}

impl Source for MappedSource {
    fn identity(&self) -> String {
        self.source.identity()
    }

    fn grows(&self) -> bool {
        self.source.grows()
    }

    fn count(&self) -> Result<Option<u64>> {
        // A module may leave documents out.
        match self.transform {
            None => self.source.count(),
            Some(_) => Ok(None),
        }
    }

    fn has(&self, key: &str) -> Result<Option<bool>> {
        match self.keeps_keys() && self.transform.is_none() {
            true => self.source.has(key),
            false => Ok(None),
        }
    }

    fn describe(&self) -> Result<Vec<String>> {
        self.source.describe()
    }

    fn has_dense_positions(&self) -> bool {
        self.source.has_dense_positions()
    }

    fn release(&self, place: &Value, used: Option<&Value>) -> Result<()> {
        self.source.release(place, used)
    }

    fn collection_at(&self, url: &str) -> Result<Option<String>> {
        self.source.collection_at(url)
    }

    fn of_collection(&self, name: &str) -> Option<Box<dyn Source>> {
        let source = self.source.of_collection(name)?;
        Some(Box::new(MappedSource {
            source,
            transform: self.transform.clone(),
            mapping: self.mapping.clone(),
        }))
    }

    fn fork(&self, place: &Value) -> Result<Option<Value>> {
        self.source.fork(place)
    }

    fn open(&self, place: Option<&Value>) -> Result<Box<dyn Topic>> {
        Ok(Box::new(MappedTopic {
            topic: self.source.open(place)?,
            transforming: self.transform.as_ref().map(Transform::start).transpose()?,
            mapping: self.mapping.clone(),
        }))
    }
}

struct MappedTopic {
    topic: Box<dyn Topic>,
    transforming: Option<Transforming>,
    mapping: Option<Arc<Mapping>>,
}

impl Topic for MappedTopic {
    fn read(&mut self, cursor: &Cursor, bytes_max: usize, wait: Duration) -> Result<Vec<Change>> {
        let changes = self.topic.read(cursor, bytes_max, wait)?;
        let (transforming, mapping) = (&mut self.transforming, &self.mapping);
        let mapped = changes.into_iter().map(|mut change| {
            if let Some(transforming) = transforming {
                change = transforming.apply(change)?;
            }
            match mapping {
                Some(mapping) => mapping.apply(change),
                None => Ok(change),
            }
        });
        mapped.collect()
    }

    fn resumed(&self, cursor: Cursor, place: Option<&Value>) -> Result<Cursor> {
        self.topic.resumed(cursor, place)
    }

    fn place(&self) -> Option<Value> {
        self.topic.place()
    }

    fn stored(&mut self, place: &Value) {
        self.topic.stored(place);
    }

    fn end(&self) -> Option<Cursor> {
        self.topic.end()
    }
}
