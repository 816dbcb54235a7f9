//! The documents of a partition, plain, wide or frozen, one batch after the other in docid order.

use crate::frozen_view::{self, FrozenView};
use crate::view::PartView;
use crate::wide_found::found_of;
use crate::{Error, Result};
use quire_collection::{Found, Rows, Within};
use quire_model::DocId;
use quire_query::{Prepared, Shard};
use quire_wide::RowScan;

/// A batch of rows ends with the one that makes it this long.
const BATCH_ROWS: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// Documents of a partition on their way.
#[derive(Debug)]
pub struct PartRows(Source);

#[derive(Debug)]
enum Source {
    Plain(Box<Rows>),
    Wide(Box<RowScan>),
    /// This one of the files, and the docid of the next document.
    Frozen(FrozenView, usize, u32),
}

impl PartView<'_> {
    /// The documents that a query looks at: of a wide partition the columns alone that it is about,
    /// and no group of others is read.
    pub(crate) fn rows(self, query: &Prepared) -> Result<PartRows> {
        match self {
            PartView::Plain(_) | PartView::Frozen(..) => self.rows_of(None),
            PartView::Wide(..) => {
                let fields = fields_of(query);
                let fields: Vec<&str> = fields.iter().map(|field| &**field).collect();
                self.rows_of(Some(&fields))
            }
        }
    }

    /// All documents, of a wide partition with the columns that are named, or all.
    pub(crate) fn rows_of(self, columns: Option<&[&str]>) -> Result<PartRows> {
        match self {
            PartView::Plain(view) => Ok(PartRows(Source::Plain(Box::new(view.rows()?)))),
            PartView::Wide(view, key_field) => {
                let rows = view.rows(key_field, columns)?;
                Ok(PartRows(Source::Wide(Box::new(rows))))
            }
            PartView::Frozen(files, number) => {
                let file = files.file(number)?;
                if file.documents() > 0 && file.document(0)?.is_none() {
                    let path = file.path().display();
                    return Err(Error::Invalid(format!(
                        "{path} was frozen without documents, and this reads each of them"
                    )));
                }
                Ok(PartRows(Source::Frozen(files.clone(), number, 0)))
            }
        }
    }

    /// The documents of these numbers, in that order.
    pub(crate) fn documents(self, docids: &[DocId]) -> Result<Vec<Found>> {
        match self {
            PartView::Plain(view) => Ok(view.documents(docids)?),
            PartView::Wide(..) | PartView::Frozen(..) => {
                docids.iter().map(|docid| self.row(*docid, None)).collect()
            }
        }
    }

    /// As [`documents`](PartView::documents), as far as they fit in `bytes_left`, which is reduced
    /// by the bytes of those read; of a wide partition with the columns that are named, or all. A
    /// row's length is known once it is read.
    pub(crate) fn documents_within(
        self,
        docids: &[DocId],
        columns: Option<&[&str]>,
        bytes_left: &mut u64,
    ) -> Result<Vec<Within>> {
        if let PartView::Plain(view) = self {
            return Ok(view.documents_within(docids, bytes_left)?);
        }
        let within = |docid: &DocId| {
            let found = self.row(*docid, columns)?;
            let bytes = found.document.as_bytes().len() as u64;
            if bytes > *bytes_left {
                return Ok(Within::Longer(bytes));
            }
            *bytes_left -= bytes;
            Ok(Within::Found(found))
        };
        docids.iter().map(within).collect()
    }

    fn row(self, docid: DocId, columns: Option<&[&str]>) -> Result<Found> {
        let found = match self {
            PartView::Plain(view) => view.documents(&[docid])?.pop(),
            PartView::Wide(view, key_field) => {
                view.row_of(docid, key_field, columns)?.map(found_of)
            }
            PartView::Frozen(files, number) => {
                Some(frozen_view::found(files.file(number)?, docid.0)?)
            }
        };
        found.ok_or_else(|| Error::Invalid("a hit names a document that there is not".into()))
    }
}

impl PartRows {
    /// The next documents; none at the end. They have about a mebibyte, and one document beyond.
    ///
    /// # Errors
    /// `TooLarge` for a row that is larger than a document may be; `Corrupt` for damage.
    pub fn next_batch(&mut self) -> Result<Vec<(DocId, Found)>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_ROWS && bytes < BATCH_BYTES {
            let (docid, found) = match &mut self.0 {
                Source::Plain(rows) => return Ok(rows.next_batch()?),
                Source::Wide(rows) => match rows.next().transpose()? {
                    Some((docid, found)) => (docid, found_of(found)),
                    None => break,
                },
                Source::Frozen(files, number, next) => {
                    let (file, docid) = (files.file(*number)?, *next);
                    if docid >= file.documents() {
                        break;
                    }
                    *next += 1;
                    (DocId(docid), frozen_view::found(file, docid)?)
                }
            };
            bytes += found.document.as_bytes().len();
            batch.push((docid, found));
        }
        Ok(batch)
    }
}

/// The fields of documents that the paths of a query may lead to. A field's own name may have dots
/// in it.
fn fields_of(query: &Prepared) -> Vec<String> {
    let mut fields = Vec::new();
    query.each_use(&mut |path, _| {
        let path = path.as_str();
        let ends = path.match_indices('.').map(|(at, _)| at);
        fields.extend(ends.chain([path.len()]).map(|end| path[..end].to_string()));
    });
    fields.sort_unstable();
    fields.dedup();
    fields
}
