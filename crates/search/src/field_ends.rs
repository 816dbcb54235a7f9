//! The least and the greatest value of a field: by the postings at both ends of the field, and the
//! documents that changed since.

use super::key;
use super::shard::LiveShard;
use super::shared_reads::FieldEnds;
use crate::Result;
use quire_index::{DocSet, term};
use quire_model::ordered::Direction;
use quire_query::{End, KnownEnd, Path, Value};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Postings that are looked at for one end. Those of values that no document has any more come
/// before the first of a value that one has.
const LOOKED_AT_MAX: usize = 256;

const UNKNOWN: [KnownEnd; 2] = [KnownEnd::Unknown, KnownEnd::Unknown];

impl LiveShard<'_> {
    /// The least and the greatest value of a field that is not null.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn known_ends(&self, path: &Path) -> quire_query::Result<[KnownEnd; 2]> {
        let ends = self.ends_of(path);
        ends.map_err(|error| self.failed(error))
    }

    fn ends_of(&self, path: &Path) -> Result<[KnownEnd; 2]> {
        let shared = self.columns.shared.as_ref();
        let of_index = match shared.and_then(|shared| shared.field_ends(path)) {
            Some(known) => known,
            None => {
                let read = self.indexed_ends(path)?.map(Arc::new);
                if let Some(shared) = shared {
                    shared.keep_field_ends(path, read.as_ref());
                }
                read
            }
        };
        let Some(of_index) = of_index else {
            return Ok(UNKNOWN);
        };
        let [least, most] = &of_index.0;
        Ok([
            self.end_of(path, least.as_ref(), End::Smallest)?,
            self.end_of(path, most.as_ref(), End::Largest)?,
        ])
    }

    /// The ends of a field by the index alone; none if the postings do not have all of its values,
    /// or too many have to be looked at.
    fn indexed_ends(&self, path: &Path) -> Result<Option<FieldEnds>> {
        let field = key::field(path.as_str());
        if !self.has_all_terms(&field)? {
            return Ok(None);
        }
        let mut ends = FieldEnds::default();
        for (found, end) in ends.0.iter_mut().zip([End::Smallest, End::Largest]) {
            let is_known = self.each_value_from(&field, end, &mut |term, docs| {
                *found = Some((term.to_vec(), docs));
                ControlFlow::Break(())
            })?;
            if !is_known {
                return Ok(None);
            }
        }
        Ok(Some(ends))
    }

    /// The end of all documents; that of the index is known.
    fn end_of(
        &self,
        path: &Path,
        of_index: Option<&(Vec<u8>, DocSet)>,
        end: End,
    ) -> Result<KnownEnd> {
        let unchanged = match of_index {
            None => KnownEnd::NoValue,
            Some((term, docs)) if self.has_unchanged(docs) => known_of(term),
            Some(_) => self.unchanged_end(&key::field(path.as_str()), end)?,
        };
        let layers = self.all_changed().layers().iter();
        Ok(layers.fold(unchanged, |known, layer| {
            let column = layer.column(path);
            let of_layer = column.end(layer.live(), end).map(known_of);
            known.of_both(of_layer.unwrap_or(KnownEnd::NoValue), end)
        }))
    }

    /// The end of the documents that did not change since the index.
    fn unchanged_end(&self, field: &[u8], end: End) -> Result<KnownEnd> {
        let mut found = KnownEnd::NoValue;
        let is_known = self.each_value_from(field, end, &mut |term, docs| {
            if !self.has_unchanged(&docs) {
                return ControlFlow::Continue(());
            }
            found = known_of(term);
            ControlFlow::Break(())
        })?;
        Ok(match is_known {
            true => found,
            false => KnownEnd::Unknown,
        })
    }

    /// Shows the terms of a field that are not null from one end on, with documents that have them
    /// by the index. A term of several clusters of documents is shown for each. False if it ended
    /// because too many were looked at.
    fn each_value_from(
        &self,
        field: &[u8],
        end: End,
        see: &mut dyn FnMut(&[u8], DocSet) -> ControlFlow<()>,
    ) -> Result<bool> {
        let (from, to) = key::terms(field);
        let (mut left, mut is_known) = (LOOKED_AT_MAX, false);
        let direction = match end {
            End::Smallest => Direction::Ascending,
            End::Largest => Direction::Descending,
        };
        self.each_posting_by(direction, (&from, &to), &mut |entry, cluster, posting| {
            let term = entry.get(field.len()..).unwrap_or_default();
            if term == term::NULL {
                return Ok(ControlFlow::Continue(()));
            }
            if left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            left -= 1;
            let mut docs = DocSet::empty();
            posting.add_to(&mut docs, cluster)?;
            if docs.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            let flow = see(term, docs);
            is_known |= flow.is_break();
            Ok(flow)
        })?;
        Ok(is_known || left > 0)
    }

    /// Whether one of some documents did not change since the index.
    fn has_unchanged(&self, docs: &DocSet) -> bool {
        docs.intersection_len(self.changed_docs()) < docs.len()
    }
}

fn known_of(term: &[u8]) -> KnownEnd {
    Value::from_term(term).map_or(KnownEnd::Unknown, KnownEnd::Value)
}
