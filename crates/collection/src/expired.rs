//! Deleting the documents of a partition that have expired.
//!
//! The tree of expiries has them in the order of their times. What is due is read from there, and
//! the documents whose newest records have that time are deleted by ordinary deletions, under the
//! condition that they are still at that version.
//!
//! # Invariants
//! 1. Only deletions through the log: followers, tails, views and backups see them as any other,
//!    and a crash anywhere leaves some of them done.
//! 2. A document that is written meanwhile stays, unless that write has expired too.
//! 3. The entries before those that are due are read once: what was deleted there would have to be
//!    passed over again and again until the tree is compacted.

use crate::documents::{EXPIRIES, ROWS, docid_bytes, expiry_key, parse_expiry_key, parse_row};
use crate::fitting::fitting;
use crate::partition::Partition;
use crate::record::{Record, Row};
use crate::write::key_of;
use crate::{Error, Result, Retained, Write};
use quire_model::DocId;
use std::ops::Bound;

/// The number of entries judged at a time; fewer, if their records are of many bytes.
const BATCH: usize = 512;
const BATCH_BYTES: u64 = 4 << 20;

/// No write takes so long from the reading of the clock until it is seen, and no clock that is kept
/// in step is set back so far.
const SLACK_MICROS: i64 = 60 * 1_000_000;

/// How far a partition has come since it was opened.
#[derive(Debug)]
pub(crate) struct ExpiredBefore {
    /// All entries before this one were seen, and those of documents that had expired are gone.
    next: [u8; 12],
    /// The time of the newest step.
    seen_micros: i64,
}

impl Default for ExpiredBefore {
    fn default() -> ExpiredBefore {
        ExpiredBefore {
            next: expiry_key(i64::MIN, DocId(0)),
            seen_micros: i64::MIN,
        }
    }
}

impl Partition {
    /// Whether a document of it has ever had an expiry.
    ///
    /// # Errors
    /// When the store is closed.
    pub fn has_expiring(&self) -> Result<bool> {
        Ok(self.view()?.totals().has_expiring)
    }

    /// Deletes a few of the documents that have expired.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; those of a [write](Partition::write). The next step
    /// tries again.
    pub(crate) fn delete_expired(&self, before: &mut ExpiredBefore) -> Result<Retained> {
        let view = self.store().view_of(&[ROWS, EXPIRIES])?;
        let view = view.base();
        let now = view.time_micros();
        if now < before.seen_micros.saturating_sub(SLACK_MICROS) {
            // The clock was set back: what was written since may expire before what was seen.
            *before = ExpiredBefore::default();
        }
        before.seen_micros = now;
        let end = expiry_key(now, DocId(u32::MAX));
        let scan = view.tree(EXPIRIES)?;
        let scan = scan.scan(
            Bound::Included(before.next.as_slice()),
            Bound::Included(end.as_slice()),
        );
        let mut due = Vec::new();
        for item in scan.map_err(quire_store::Error::from)?.take(BATCH) {
            let (key, _) = item.map_err(quire_store::Error::from)?;
            due.push(parse_expiry_key(&key).ok_or_else(|| Error::Corrupt {
                partition: self.number(),
                position: view.position(),
                what: "an entry of the tree of expiries has a wrong length".to_string(),
            })?);
        }
        let is_last = due.len() < BATCH;
        let docids: Vec<_> = due.iter().map(|(_, docid)| docid_bytes(*docid)).collect();
        let docids: Vec<_> = docids.iter().map(<[u8; 4]>::as_slice).collect();
        let rows = view.point_view(&[ROWS])?.get_many(ROWS, &docids)?;
        let expired = due.iter().zip(rows).filter_map(|(entry, row)| {
            let row = row.as_deref().and_then(parse_row);
            // The entry may be of a time that the document no longer has.
            let row = row.filter(|row| row.expires == Some(entry.0));
            row.map(|row| (*entry, row))
        });
        let mut expired: Vec<((i64, DocId), Row)> = expired.collect();
        let lengths = expired.iter().map(|(_, row)| row.bytes);
        let count = fitting(lengths, BATCH_BYTES);
        let left_out = expired.get(count).map(|(entry, _)| *entry);
        expired.truncate(count);
        let positions: Vec<_> = expired.iter().map(|(_, row)| row.position).collect();
        let mut deletions = Vec::with_capacity(count);
        for (position, bytes) in positions.iter().zip(view.records(&positions)?) {
            let record = Record::decode(&bytes).map_err(|what| Error::Corrupt {
                partition: self.number(),
                position: *position,
                what,
            })?;
            deletions.push(Write::delete(key_of(&record)?).if_version(*position));
        }
        let deleted = self.delete(&deletions)?;
        before.next = match (left_out, due.last()) {
            (Some((time, docid)), _) => expiry_key(time, docid),
            (None, Some((time, docid))) if !is_last => {
                // A docid is less than u32::MAX, so there is a next one.
                expiry_key(*time, DocId(docid.0.saturating_add(1)))
            }
            _ => expiry_key(now.saturating_sub(SLACK_MICROS), DocId(0)),
        };
        Ok(Retained {
            deleted,
            more: left_out.is_some() || !is_last,
        })
    }
}
