//! [`Records`] of a write, of which queries to come are made ready before the write is
//! acknowledged. See `ahead.rs` of `search`.

use crate::Result;
use crate::documents::Documents;
use crate::record::Record;
use crate::searching::change_of;
use bytes::Bytes;
use quire_model::Position;
use quire_search::{Change, SearchState};
use quire_store::Transaction;
use std::collections::BTreeMap;

/// Fewer records than this are left to the queries that see them: that costs them little.
const RECORDS_MIN: u64 = 8;

/// Records of more bytes than these are left to them, too.
const BYTES_MAX: usize = 4 << 20;

/// See the module. All records of one write, or none.
#[derive(Debug, Default)]
pub(crate) struct Records {
    first: Position,
    records: Vec<Bytes>,
}

impl Records {
    /// Takes the records from `first` on, if queries want it. Called with the writer's lock.
    pub(crate) fn to_make_ready(
        search: &SearchState,
        transaction: &Transaction<'_, Documents>,
        first: Position,
    ) -> Result<Records> {
        let end = transaction.next_position();
        let mut records = Records {
            first,
            records: Vec::new(),
        };
        if end.0 - first.0 < RECORDS_MIN || !search.has_queries() {
            return Ok(records);
        }
        let mut bytes = 0;
        for position in first.0..end.0 {
            let record = transaction.record(Position(position))?;
            bytes += record.len();
            if bytes > BYTES_MAX {
                records.records.clear();
                break;
            }
            records.records.push(record);
        }
        Ok(records)
    }

    /// Makes ready what queries will need of them. They are applied; mostly no view has them yet.
    pub(crate) fn make_ready(self, search: &SearchState) {
        let Some(last) = (self.records.len() as u64).checked_sub(1) else {
            return;
        };
        let last = Position(self.first.0 + last);
        let positions = (self.first.0..).map(Position);
        let changes = positions
            .zip(&self.records)
            .map(|(at, bytes)| change(at, bytes));
        // The later change of a document counts.
        // What can't be read is left to the query, which says so.
        if let Some(changes) = changes.collect::<Option<BTreeMap<_, _>>>() {
            search.make_ready((self.first, last), changes);
        }
    }
}

/// The number of a record's document, and what the record changes.
fn change(position: Position, bytes: &Bytes) -> Option<(u32, Change)> {
    let record = Record::decode(bytes).ok()?;
    let change = change_of(position, &record, bytes, false).ok()??;
    Some((record.docid.0, change))
}
