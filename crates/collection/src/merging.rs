//! Merging partitions: a new one takes the documents of several over, while they are read and
//! written.
//!
//! The new partition is [begun](Partition::begin_merged) without documents, at a position after all
//! that the old ones have. Then it [gathers](Partition::gather) their records in the order of their
//! times, without those that are superseded already, and decides each anew, at a position of its
//! own.
//!
//! # Invariants
//! 1. Its positions are higher than all that the old partitions have while it gathers. So the
//!    version of a document grows by a merge, and no version that an old partition gave is one of
//!    the new partition.
//! 2. The records of an old partition come in their order. So all that it did not have when `seen`
//!    was what it had gathered comes after the position that it had then.

use crate::partition::Partition;
use crate::record::Record;
use crate::splitting::{STEP_BYTES, STEP_POSITIONS};
use crate::write::{Decider, Writer, key_of};
use crate::{Error, Result, Triggers};
use bytes::Bytes;
use quire_model::Position;
use quire_store::{Durability, ForkPlace, Shared, Store};

/// A record of an old partition.
struct Next {
    /// Which one, by its place among them.
    old: usize,
    position: Position,
    time_micros: i64,
    bytes: Bytes,
}

impl Partition {
    /// Makes a partition at this place, into which others are to be merged, that begins at a
    /// position. It can be [opened](Partition::open) then.
    ///
    /// # Errors
    /// `Full` or `Io`. What was made is then of no use.
    pub fn begin_merged(shared: &Shared, place: &ForkPlace, position: Position) -> Result<()> {
        let record = Record::begin(shared.env().now_micros()).encode();
        let created = Store::<crate::Documents>::create_after(shared, place, position, &record);
        Ok(created?)
    }

    /// Takes over some of what the old partitions have after `seen`, one position for each of them,
    /// as far as readers there see it. `seen` is then what was taken over. Returns how many
    /// positions are left. Nothing is durable before a [`sync`](Partition::sync).
    ///
    /// # Errors
    /// Damage on disk; those of a [write](Partition::write).
    pub fn gather(&self, olds: &[Partition], seen: &mut [Position]) -> Result<u64> {
        assert_eq!(olds.len(), seen.len(), "each old partition has a position");
        let ends: Vec<Position> = olds.iter().map(Partition::position).collect();
        let (mut tails, mut heads) = (Vec::new(), Vec::new());
        for (old, seen) in olds.iter().zip(&*seen) {
            let mut tail = old.store().tail(*seen)?;
            heads.push(old.next_of(heads.len(), &mut tail)?);
            tails.push(tail);
        }
        let mut records = Vec::new();
        let (mut taken, mut bytes) = (seen.to_vec(), 0);
        while bytes < STEP_BYTES && (records.len() as u64) < STEP_POSITIONS {
            let with_time =
                |(at, head): (usize, &Option<Next>)| Some((head.as_ref()?.time_micros, at));
            let Some((_, at)) = heads.iter().enumerate().filter_map(with_time).min() else {
                break;
            };
            let next = olds[at].next_of(at, &mut tails[at])?;
            if let Some(head) = std::mem::replace(&mut heads[at], next) {
                taken[at] = head.position;
                bytes += head.bytes.len();
                records.push(head);
            }
        }
        for ((taken, end), head) in taken.iter_mut().zip(&ends).zip(&heads) {
            if head.is_none() {
                // Compactions may have removed the last records.
                *taken = (*taken).max(*end);
            }
        }
        self.adopt_all(&needed(olds, records)?)?;
        seen.copy_from_slice(&taken);
        let left = ends.iter().zip(&*seen);
        Ok(left.map(|(end, seen)| end.0.saturating_sub(seen.0)).sum())
    }

    /// The next of these records; those that only hold a position are passed over.
    fn next_of(
        &self,
        old: usize,
        tail: &mut impl Iterator<Item = quire_store::Result<(Position, Bytes)>>,
    ) -> Result<Option<Next>> {
        for item in tail {
            let (position, bytes) = item?;
            let record = self.record_at(position, &bytes)?;
            if !record.has_no_key() {
                let time_micros = record.time_micros;
                return Ok(Some(Next {
                    old,
                    position,
                    time_micros,
                    bytes,
                }));
            }
        }
        Ok(None)
    }

    /// Does what these records say, in their order.
    fn adopt_all(&self, records: &[Next]) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let (number, none) = (self.number(), Triggers::none());
        let ((), position) = self.store().write_unsynced(|transaction| {
            let mut decider = Decider::new(number, 0, none, Writer::Engine, transaction);
            for next in records {
                let record = self.record_at(next.position, &next.bytes)?;
                key_of(&record)?;
                decider.adopt(&record)?;
            }
            Ok::<_, Error>(())
        })?;
        self.acknowledge(position, Durability::None)
    }
}

/// Those of these records that nothing supersedes yet.
fn needed(olds: &[Partition], mut records: Vec<Next>) -> Result<Vec<Next>> {
    for (number, old) in olds.iter().enumerate() {
        let of_old = records.iter().filter(|record| record.old == number);
        let of_old: Vec<(Position, Bytes)> = of_old
            .map(|record| (record.position, record.bytes.clone()))
            .collect();
        let mut needed = old.store().needed(&of_old)?.into_iter();
        records.retain(|record| record.old != number || needed.next() == Some(true));
    }
    Ok(records)
}
