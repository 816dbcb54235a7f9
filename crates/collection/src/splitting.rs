//! Splitting a partition: new partitions take its documents over, while it is read and written.
//!
//! A partition is [forked](Partition::fork) first: the new partitions' logs get the newest records
//! of its documents, and its deletions, under their positions, and opening them makes their trees.
//! Then they [follow](Partition::follow): each record that is written to the old partition
//! meanwhile is decided anew in the one that has its key, and holds its position in the others.
//!
//! # Invariants
//! 1. A document keeps its version, which is its record's position: the new partitions have it
//!    where the old one had it.
//! 2. A level partition ends at the position at which the old one ends. So a reader that has seen
//!    the old partition's changes up to some position goes on from there in all new ones, and the
//!    next version of any document is higher than all that it had.
//! 3. Each new partition counts its documents from 0, without gaps but for deleted ones: clusters
//!    and blocks of its indexes are as full as those of a partition that never was split.

use crate::partition::Partition;
use crate::record::{Kind, Record};
use crate::write::{Decider, Writer, key_of};
use crate::{Error, Result, Triggers};
use bytes::Bytes;
use quire_model::{DocId, Key, Position};
use quire_store::{Dealt, Durability, ForkPlace};

/// Bytes of records that are taken over at a time, about, and positions at most.
pub(crate) const STEP_BYTES: usize = 4 << 20;
pub(crate) const STEP_POSITIONS: u64 = 16 << 10;

impl Partition {
    /// Makes partitions at these places of the documents that this one has: a key's are in the one
    /// that `owner` says, by its place in `places`. They can be [opened](Partition::open) then.
    /// `watch` is called now and then with the number of records that were dealt out; if it returns
    /// false, the work ends with false.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; `Full` or `Io`. What was made is then of no use.
    pub fn fork(
        &self,
        places: &[ForkPlace],
        owner: &dyn Fn(&Key) -> usize,
        watch: &dyn Fn(u64) -> bool,
    ) -> Result<bool> {
        let held = Record::foreign(self.env().now_micros()).encode();
        let mut next_docids = vec![0_u32; places.len()];
        let count = std::cell::Cell::new(0_u64);
        let mut deal = |position: Position, bytes: &Bytes| {
            count.set(count.get() + 1);
            let record = self.record_at(position, bytes)?;
            if record.has_no_key() {
                return Ok(None);
            }
            let target = owner(&key_of(&record)?);
            let next = next_docids.get_mut(target);
            let next = next.ok_or_else(|| self.corrupt(position, "a key of another partition"))?;
            let docid = DocId(*next);
            *next += 1;
            let dealt = Record {
                kind: match record.kind {
                    Kind::Patch => Kind::Put,
                    kind => kind,
                },
                created: true,
                superseded: None,
                docid,
                ..record
            };
            let record = dealt.encode();
            Ok::<_, Error>(Some(Dealt { target, record }))
        };
        self.store()
            .fork(places, &mut deal, &held, &|| !watch(count.get()))
    }

    /// Takes over some of what was written to the partition that this one is split from, as far as
    /// readers there see it; `owns` says which keys are this one's. Returns how many positions are
    /// left. Nothing is durable before a [`sync`](Partition::sync).
    ///
    /// # Errors
    /// Damage on disk; those of a [write](Partition::write).
    pub fn follow(&self, old: &Partition, owns: &dyn Fn(&Key) -> bool) -> Result<u64> {
        let seen = self.store().extent().last;
        let end = old.position();
        if seen >= end {
            return Ok(0);
        }
        let upto = Position(end.0.min(seen.0 + STEP_POSITIONS));
        let (mut records, mut bytes) = (Vec::new(), 0);
        let mut last = upto;
        for item in old.store().tail(seen)? {
            let (position, record) = item?;
            if position > upto {
                break;
            }
            bytes += record.len();
            records.push((position, record));
            if bytes >= STEP_BYTES {
                last = position;
                break;
            }
        }
        self.take_over(&records, last, owns)?;
        Ok(end.0 - last.0)
    }

    /// Does these records, which come next, and holds the positions between them and up to `last`.
    fn take_over(
        &self,
        records: &[(Position, Bytes)],
        last: Position,
        owns: &dyn Fn(&Key) -> bool,
    ) -> Result<()> {
        let (number, none) = (self.number(), Triggers::none());
        let ((), position) = self.store().write_unsynced(|transaction| {
            let mut decider = Decider::new(number, 0, none, Writer::Engine, transaction);
            let mut time_micros = 0;
            for (position, bytes) in records {
                let record = self.record_at(*position, bytes)?;
                time_micros = record.time_micros;
                if !record.has_no_key() && owns(&key_of(&record)?) {
                    // Those before are of others, or were superseded and compacted away.
                    decider.hold_positions(*position, time_micros);
                    decider.adopt(&record)?;
                }
            }
            decider.hold_positions(last.next(), time_micros);
            Ok::<_, Error>(())
        })?;
        self.acknowledge(position, Durability::None)
    }

    pub(crate) fn record_at<'a>(&self, position: Position, bytes: &'a Bytes) -> Result<Record<'a>> {
        Record::decode(bytes).map_err(|what| self.corrupt(position, &what))
    }

    fn corrupt(&self, position: Position, what: &str) -> Error {
        Error::Corrupt {
            partition: self.number(),
            position,
            what: what.to_string(),
        }
    }
}
