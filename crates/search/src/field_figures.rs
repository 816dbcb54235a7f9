//! The fields of a live partition, from its postings.
//!
//! Postings are visited in the order of their keys, so those of a field are neighbours. A field
//! with more than [`POSTINGS_MAX`] is left after these: its other types are looked for where their
//! values would begin, and the number of its values is an estimate.

use super::key;
use super::postings::FoundPosting;
use super::shard::LiveShard;
use crate::Result;
use crate::fields::{FieldFigures, Fields};
use quire_index::{DocSet, IndexDamage, term};
use quire_model::ordered::{Direction, OrderedValue};
use std::ops::ControlFlow;

/// Postings that are visited of one field.
const POSTINGS_MAX: u64 = 1 << 16;

/// The first bytes of numbers, of strings, and of what follows all terms.
const PARTS: [u8; 4] = [0x10, 0xa0, key::SEVERAL, key::LONG];

/// The field whose postings are being visited.
#[derive(Default)]
struct Visited {
    /// The beginning of its keys.
    prefix: Vec<u8>,
    path: String,
    figures: FieldFigures,
    /// Documents with a value, null included.
    docs: DocSet,
    postings: u64,
    /// Pairs of a value and a document.
    pairs: u64,
    /// The last entry, which several clusters may have.
    last: Vec<u8>,
}

impl Visited {
    fn new(entry: &[u8]) -> Option<Visited> {
        let (name, rest) = OrderedValue::decode(entry, Direction::Ascending).ok()?;
        let OrderedValue::String(path) = name else {
            return None;
        };
        Some(Visited {
            prefix: entry.get(..entry.len() - rest.len())?.to_vec(),
            path: path.into_owned(),
            ..Visited::default()
        })
    }

    fn see(
        &mut self,
        entry: &[u8],
        cluster: u16,
        posting: FoundPosting<'_>,
    ) -> std::result::Result<(), IndexDamage> {
        let what = entry.get(self.prefix.len()..).unwrap_or_default();
        let count = u64::from(posting.len()?);
        self.postings += 1;
        // The documents of a value that has gone are none, until a compaction.
        if count == 0 {
            return Ok(());
        }
        self.figures.index_bytes += entry.len() as u64 + 4 + (2 * count).min(8192);
        match what.first() {
            Some(&key::PRESENT) => return posting.add_to(&mut self.docs, cluster),
            Some(&key::SEVERAL) => {
                self.figures.has_several = true;
                return Ok(());
            }
            _ => self.pairs += count,
        }
        if what == term::NULL {
            posting.add_to(&mut self.docs, cluster)?;
        }
        if self.last != entry {
            self.last = entry.to_vec();
            match what.first() {
                Some(&key::LONG) => self.figures.add_long(key::entry_hash(what)),
                _ => self.figures.add(what),
            }
        }
        Ok(())
    }
}

impl LiveShard<'_> {
    /// The fields of its documents.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub(crate) fn fields(&self) -> Result<Fields> {
        let mut fields = Fields {
            from_index: true,
            ..Fields::default()
        };
        let mut from = Some(Vec::new());
        while let Some(start) = from {
            let (visited, next) = self.visit_fields(&start, &mut fields)?;
            match visited {
                Some(visited) if next.is_some() => {
                    let visited = self.look_ahead(visited)?;
                    self.finish(visited, &mut fields);
                }
                Some(visited) => self.finish(visited, &mut fields),
                None => {}
            }
            from = next;
        }
        for document in self.all_changed().documents() {
            fields.add(document);
        }
        fields.by_path.retain(|_, figures| figures.documents > 0);
        Ok(fields)
    }

    /// Visits the postings from a key on, up to the first field with too many. Gives the field that
    /// was visited last, and where the next begins if the rest of it was left out.
    fn visit_fields(
        &self,
        from: &[u8],
        fields: &mut Fields,
    ) -> Result<(Option<Visited>, Option<Vec<u8>>)> {
        let (mut current, mut next): (Option<Visited>, _) = (None, None);
        self.each_posting(from, &[u8::MAX], &mut |entry, cluster, posting| {
            let is_same = |visited: &Visited| entry.starts_with(&visited.prefix);
            if !current.as_ref().is_some_and(is_same) {
                if let Some(done) = current.take() {
                    self.finish(done, fields);
                }
                current = Visited::new(entry);
            }
            let Some(visited) = &mut current else {
                return Ok(ControlFlow::Continue(()));
            };
            visited.see(entry, cluster, posting)?;
            Ok(match visited.postings < POSTINGS_MAX {
                true => ControlFlow::Continue(()),
                false => {
                    next = key::after_prefix(&visited.prefix);
                    ControlFlow::Break(())
                }
            })
        })?;
        Ok((current, next))
    }

    /// Takes in the first posting of each part of a field that was not come to.
    fn look_ahead(&self, mut visited: Visited) -> Result<Visited> {
        let (pairs, docs) = (visited.pairs, visited.docs.len());
        visited.figures.set_looked_at(pairs, docs);
        let last = visited.last.get(visited.prefix.len()).copied();
        let end = key::after_prefix(&visited.prefix).unwrap_or_default();
        for part in PARTS {
            if last.is_some_and(|last| part <= last) {
                continue;
            }
            let from = [visited.prefix.as_slice(), &[part]].concat();
            self.each_posting(&from, &end, &mut |entry, cluster, posting| {
                visited.see(entry, cluster, posting)?;
                Ok(ControlFlow::Break(()))
            })?;
        }
        Ok(visited)
    }

    /// Adds a field that was visited, without the documents that changed.
    fn finish(&self, visited: Visited, fields: &mut Fields) {
        // The empty path has all documents.
        if visited.path.is_empty() {
            return;
        }
        let (mut figures, docs) = (visited.figures, visited.docs);
        let kept = &docs - self.changed_docs();
        if kept.len() < docs.len() {
            figures.set_behind();
        }
        figures.documents = kept.len();
        if let Some(field) = fields.field(&visited.path) {
            *field = figures;
        }
    }
}
