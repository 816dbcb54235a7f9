//! A sortable field as a [`Column`]: the ordinal of a value is its code.

use crate::file::FrozenField;
use crate::table::SectionKind;
use crate::{Error, Result};
use quire_index::{Dictionary, IndexDamage};
use quire_query::{Column, End, NO_ORDINAL, Ordinals};
use std::cell::OnceCell;
use std::ops::ControlFlow;

/// The values of a field by document.
#[derive(Debug)]
pub(crate) struct FrozenColumn<'a> {
    field: FrozenField<'a>,
    codes: quire_index::Column<'a>,
    starts: Option<quire_index::Column<'a>>,
    /// Opened when a value is read: most orders read none.
    dictionary: OnceCell<Dictionary<'a>>,
}

impl<'a> FrozenColumn<'a> {
    pub(crate) fn new(field: &FrozenField<'a>) -> Result<FrozenColumn<'a>> {
        let (codes, starts) = field.codes()?;
        Ok(FrozenColumn {
            field: *field,
            codes,
            starts,
            dictionary: OnceCell::new(),
        })
    }

    fn dictionary(&self) -> Result<&Dictionary<'a>> {
        match self.dictionary.get() {
            Some(dictionary) => Ok(dictionary),
            None => {
                let dictionary = self.field.dictionary()?;
                Ok(self.dictionary.get_or_init(|| dictionary))
            }
        }
    }

    fn damaged(&self, kind: SectionKind) -> impl Fn(IndexDamage) -> Error + use<'a> {
        self.field.damaged(kind)
    }

    /// The rows of the codes of each document.
    fn rows(
        starts: &quire_index::Column<'_>,
        docs: &[u32],
        mut each: impl FnMut(u64, u64) -> Result<(), IndexDamage>,
    ) -> Result<(), IndexDamage> {
        for doc in docs {
            let mut ends = [0; 2];
            starts.read((*doc).into(), &mut ends)?;
            each(ends[0], ends[1])?;
        }
        Ok(())
    }

    /// The codes of documents that have at most one each, plus one; 0 without.
    fn read_single(&self, docs: &[u32], out: &mut Vec<u64>) -> Result<(), IndexDamage> {
        match (docs.first(), docs.last()) {
            // Neighbours, as when all documents are read.
            (Some(first), Some(last)) if (last - first) as usize + 1 == docs.len() => {
                out.clear();
                out.resize(docs.len(), 0);
                self.codes.read((*first).into(), out)
            }
            _ => self.codes.gather(docs, out),
        }
    }

    /// Appends the term of a document's only value.
    pub(crate) fn append_term(&self, docid: u32, out: &mut Vec<u8>) -> Result<()> {
        let read = || {
            let row = match &self.starts {
                Some(starts) => starts.get(docid.into())?,
                None => docid.into(),
            };
            self.codes.get(row)
        };
        let code = read().map_err(self.damaged(SectionKind::Codes))?;
        // Of a document without a value it is 0, and the dictionary has no such code.
        let term = self.dictionary()?.append_value(code.wrapping_sub(1), out);
        term.map_err(self.damaged(SectionKind::Values))
    }

    /// Replaces `out` by all ordinals of each document.
    pub(crate) fn read(&self, docs: &[u32], out: &mut Ordinals) -> Result<()> {
        out.clear();
        let damaged = self.damaged(SectionKind::Codes);
        let Some(starts) = &self.starts else {
            let mut codes = Vec::new();
            self.read_single(docs, &mut codes).map_err(damaged)?;
            for code in codes {
                out.ordinals.extend(code.checked_sub(1));
                out.end_document();
            }
            return Ok(());
        };
        let read = |start: u64, end: u64| {
            let from = out.ordinals.len();
            let count = end.saturating_sub(start).min(self.codes.rows()) as usize;
            out.ordinals.resize(from + count, 0);
            let ordinals = out.ordinals.get_mut(from..).unwrap_or_default();
            self.codes.read(start, ordinals)?;
            ordinals
                .iter_mut()
                .for_each(|code| *code = code.saturating_sub(1));
            out.end_document();
            Ok(())
        };
        Self::rows(starts, docs, read).map_err(damaged)
    }
}

impl Column for FrozenColumn<'_> {
    fn has_many(&self) -> bool {
        self.starts.is_some()
    }

    fn ordinal_end(&self) -> u64 {
        self.field.entry.distinct
    }

    fn ends(&self, docs: &[u32], end: End, out: &mut Vec<u64>) -> quire_query::Result<()> {
        let damaged = self.damaged(SectionKind::Codes);
        let Some(starts) = &self.starts else {
            self.read_single(docs, out).map_err(damaged)?;
            // Without a value it is 0, and becomes `NO_ORDINAL`.
            const _: () = assert!(0u64.wrapping_sub(1) == NO_ORDINAL);
            out.iter_mut().for_each(|code| *code = code.wrapping_sub(1));
            return Ok(());
        };
        out.clear();
        let read = |first: u64, last: u64| {
            out.push(match end {
                _ if first >= last => NO_ORDINAL,
                End::Smallest => self.codes.get(first)?.wrapping_sub(1),
                End::Largest => self.codes.get(last - 1)?.wrapping_sub(1),
            });
            Ok(())
        };
        Ok(Self::rows(starts, docs, read).map_err(damaged)?)
    }

    fn ordinals(&self, docs: &[u32], out: &mut Ordinals) -> quire_query::Result<()> {
        Ok(self.read(docs, out)?)
    }

    fn term(&self, ordinal: u64, out: &mut Vec<u8>) -> quire_query::Result<()> {
        let term = self.dictionary()?.append_value(ordinal, out);
        Ok(term.map_err(self.damaged(SectionKind::Values))?)
    }

    fn each_term(
        &self,
        ordinals: &[u64],
        see: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> quire_query::Result<()> {
        let read = self.dictionary()?.each_value(ordinals, see);
        Ok(read.map_err(self.damaged(SectionKind::Values))?)
    }

    fn ordinal_of(&self, term: &[u8]) -> quire_query::Result<u64> {
        let found = self.dictionary()?.search(term);
        Ok(found.map_err(self.damaged(SectionKind::Values))?.0)
    }
}
