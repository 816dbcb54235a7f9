//! Retention: deleting the documents of a partition that were not written for longest, by age or by
//! size.
//!
//! The log has the documents in the order of their last writes, so whatever is too old, or too
//! much, is at its beginning. It is read from there, and what is the newest record of its document
//! and has to go is deleted by an ordinary deletion, under the condition that the document is still
//! at that version.
//!
//! # Invariants
//! 1. Only deletions through the log: followers, tails, views and backups see them as any other,
//!    and a crash anywhere leaves some of them done.
//! 2. A document that is written meanwhile stays.
//! 3. Age ends at the first record that is younger, whatever comes after it.
//! 4. No clock that is set while the partition is open makes a document older: "now" is the time of
//!    the opening and what has passed since, and no record is taken for older than a mark that it
//!    came after. Marks are set as time passes.
//! 5. Size is what the newest records of the documents take. Deletions are not counted: they stay
//!    for ever, and would crowd out the documents.

use crate::documents::{ROWS, docid_bytes, parse_position};
use crate::expired::ExpiredBefore;
use crate::partition::Partition;
use crate::record::{Kind, Record, Row};
use crate::write::key_of;
use crate::{Error, PartitionView, Result, Retained, Write};
use bytes::Bytes;
use quire_model::Position;
use std::collections::VecDeque;
use std::ops::Bound;
use std::time::Duration;

/// The number of records judged at a time; fewer, if they are of many bytes.
const BATCH: usize = 512;
const BATCH_BYTES: usize = 4 << 20;

/// The number of marks kept for the time of an age.
const MARKS: i64 = 16;

/// Rows between two looks whether the partition is closed.
const ROWS_UNSEEN: u64 = 1 << 16;

/// What is to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionRule {
    /// Documents that were not written for longer than this.
    pub age: Option<Duration>,
    /// While the newest records of the partition's documents take more bytes than this, before
    /// compression: those that were not written for longest.
    pub bytes: Option<u64>,
    /// Documents that have expired.
    pub expired: bool,
}

/// How far a partition has come with its retention since it was opened.
#[derive(Debug)]
pub struct Retention {
    /// Every record before this one is superseded, or a deletion.
    next: Position,
    /// Positions, and the time when the partition was there, ascending.
    marks: VecDeque<(Position, i64)>,
    /// Bytes of the documents' newest records at the opening; `None` until they were added up.
    opened_bytes: Option<i64>,
    expired: ExpiredBefore,
}

impl Partition {
    /// The beginning, for a partition that was just opened.
    pub fn retention(&self) -> Retention {
        Retention {
            next: Position(0),
            marks: VecDeque::from([(self.any_store().extent().last, self.steady_micros())]),
            opened_bytes: None,
            expired: ExpiredBefore::default(),
        }
    }

    /// Deletes a few of the documents that `rule` says; call it again while there is more. With a
    /// size, the first step reads the position and length of every document.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; those of a [write](Partition::write). The next step
    /// tries again.
    pub fn retain(&self, rule: RetentionRule, retention: &mut Retention) -> Result<Retained> {
        let expired = match rule.expired {
            true => self.delete_expired(&mut retention.expired)?,
            false => Retained::default(),
        };
        let old = self.retain_newest(rule, retention)?;
        Ok(Retained {
            deleted: expired.deleted + old.deleted,
            more: expired.more || old.more,
        })
    }

    /// Deletes a few of the documents that are too old or too much.
    fn retain_newest(&self, rule: RetentionRule, retention: &mut Retention) -> Result<Retained> {
        let view = self.view()?;
        let now = self.steady_micros();
        let mut cutoff = rule.age.map(|age| cutoff(now, age));
        if let Some(cutoff) = cutoff {
            retention.mark(view.position(), now, cutoff);
        }
        let mut excess = match rule.bytes {
            Some(most) => retention.live_bytes(self, &view)? - i128::from(most),
            None => 0,
        };
        if cutoff.is_none() && excess <= 0 {
            return Ok(Retained::default());
        }
        let batch = batch(&view, retention.next)?;
        let is_whole = batch.is_none_left;
        let (mut next, mut deletions, mut ended) = (retention.next, Vec::new(), false);
        for judged in self.judge(&view, &batch.records)? {
            let (position, record, bytes, newest) = judged;
            let written = record.time_micros.max(retention.floor(position));
            let expired = cutoff.is_some_and(|cutoff| written < cutoff);
            if !expired && excess <= 0 {
                ended = true;
                break;
            }
            if !expired {
                cutoff = None;
            }
            if newest {
                deletions.push(Write::delete(key_of(&record)?).if_version(position));
                excess -= bytes as i128;
            }
            next = position.next();
        }
        let deleted = self.delete(&deletions)?;
        retention.next = next;
        Ok(Retained {
            deleted,
            more: !ended && !is_whole,
        })
    }

    /// Records with their lengths, and whether each is the newest of its document.
    fn judge<'a>(
        &self,
        view: &PartitionView,
        records: &'a [(Position, Bytes)],
    ) -> Result<impl Iterator<Item = (Position, Record<'a>, usize, bool)> + use<'a>> {
        let mut decoded = Vec::with_capacity(records.len());
        for (position, bytes) in records {
            let record = Record::decode(bytes).map_err(|what| Error::Corrupt {
                partition: self.number(),
                position: *position,
                what,
            })?;
            decoded.push((*position, record, bytes.len()));
        }
        let docids: Vec<_> = decoded
            .iter()
            .map(|(_, record, _)| docid_bytes(record.docid))
            .collect();
        let docids: Vec<_> = docids.iter().map(<[u8; 4]>::as_slice).collect();
        let rows = view
            .store_view()
            .point_view(&[ROWS])?
            .get_many(ROWS, &docids)?;
        let judged = decoded.into_iter().zip(rows);
        Ok(judged.map(|((position, record, bytes), row)| {
            let row = row.as_deref().and_then(parse_position);
            let newest = record.kind != Kind::Delete && row == Some(position);
            (position, record, bytes, newest)
        }))
    }
}

impl Retention {
    /// Notes that the partition is at `position` now. Marks before `cutoff` serve no more.
    fn mark(&mut self, position: Position, now: i64, cutoff: i64) {
        while self.marks.front().is_some_and(|(_, at)| *at < cutoff) {
            self.marks.pop_front();
        }
        let apart = now.saturating_sub(cutoff) / MARKS;
        let is_due = |(_, at): &(Position, i64)| now.saturating_sub(*at) >= apart;
        if self.marks.back().is_none_or(is_due) {
            self.marks.push_back((position, now));
        }
    }

    /// The record at `position` was written no earlier than this.
    fn floor(&self, position: Position) -> i64 {
        let before = self.marks.iter().rev().find(|(mark, _)| *mark < position);
        before.map_or(i64::MIN, |(_, at)| *at)
    }

    /// Bytes of the newest records of all documents that `view` sees.
    fn live_bytes(&mut self, partition: &Partition, view: &PartitionView) -> Result<i128> {
        let grown = view.store_view().summary().grown_bytes;
        let opened = match self.opened_bytes {
            Some(bytes) => bytes,
            None => {
                let bytes = add_up(partition, view)? - grown;
                *self.opened_bytes.insert(bytes)
            }
        };
        Ok(i128::from(opened) + i128::from(grown))
    }
}

/// The time before which a record is older than `age`.
fn cutoff(now: i64, age: Duration) -> i64 {
    now.saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX))
}

/// Bytes of all documents' newest records, from the rows.
fn add_up(partition: &Partition, view: &PartitionView) -> Result<i64> {
    let rows = view.store_view().tree(ROWS)?;
    let rows = rows.scan(Bound::Unbounded, Bound::Unbounded);
    let (mut sum, mut seen) = (0, 0);
    for item in rows.map_err(quire_store::Error::from)? {
        let (_, row) = item.map_err(quire_store::Error::from)?;
        sum += match (Row::decode(&row), parse_position(&row)) {
            (Some(row), _) => i64::from(row.bytes),
            // A row of the first version does not say how long its record is.
            (None, Some(position)) => view.store_view().record(position)?.len() as i64,
            (None, None) => 0,
        };
        seen += 1;
        if seen % ROWS_UNSEEN == 0 {
            // Fails if it was closed.
            partition.view()?;
        }
    }
    Ok(sum)
}

/// A few records in their order.
struct Batch {
    records: Vec<(Position, Bytes)>,
    /// The view sees none after them.
    is_none_left: bool,
}

/// The first records that the view sees from a position on.
fn batch(view: &PartitionView, from: Position) -> Result<Batch> {
    let (mut records, mut bytes) = (Vec::new(), 0);
    for item in view.store_view().log_from(from) {
        if records.len() == BATCH || bytes >= BATCH_BYTES {
            return Ok(Batch {
                records,
                is_none_left: false,
            });
        }
        let (position, record) = item?;
        bytes += record.len();
        records.push((position, record));
    }
    Ok(Batch {
        records,
        is_none_left: true,
    })
}
