//! The kept logs of partitions that are merged: the new one gets the changes of all of them, so
//! that those who tail the old ones go on in it.
//!
//! The changes come about in the order of their times, those of one partition in their order, at
//! positions without gaps. Records that are no changes are left out, and all before one that lacks
//! what those need who tail the log, as nobody reads on over it. No opening replays any of them.
//!
//! # Invariants
//! 1. The version of a row whose last change is in the new log is the position that the change has
//!    there.
//! 2. A change has the docid that its row has in the new partition, or [`GONE`].
//! 3. Changes of one partition come in runs, which are as long as it takes to have at most about
//!    [`RUNS_MAX`] of them. So what is kept in memory to find a position is bounded: these, and a
//!    bit for each old position.

use crate::docids::Docids;
use crate::ordinals::Ordinals;
use crate::record::{self, Head, Kind, Tailed};
use crate::tail::is_change;
use crate::{Result, WidePartition};
use bytes::Bytes;
use quire_model::{DocId, Position};
use quire_store::LogCopy;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most runs, but for one of each partition.
const RUNS_MAX: u64 = 1 << 18;

/// How many records are read or written between two calls of the one who watches.
const WATCH_EVERY: u64 = 1024;

/// The docid in changes of rows that are no more. No row has it, as the last ones are not given.
pub(crate) const GONE: DocId = DocId(u32::MAX - 1);

/// What the log of an old partition has of changes, up to one position.
struct Kept {
    /// The position before those that are copied.
    before: Position,
    /// The last position.
    end: Position,
    /// Which positions after `before` have a change, from 0 on.
    changes: Ordinals,
    /// The first of each run of changes, by its ordinal among them, and the position that it got.
    runs: Vec<(u64, Position)>,
}

/// The kept logs of partitions that are merged, up to one position of each.
pub(crate) struct GatheredLog {
    /// The position at which the new log begins, without a record.
    begin: Position,
    of_olds: Vec<Kept>,
}

impl GatheredLog {
    /// Looks up what the logs of these partitions have, up to one position of each. None if
    /// `goes_on` returned false.
    pub(crate) fn read(
        olds: &[(&WidePartition, Position)],
        begin: Position,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Option<GatheredLog>> {
        let mut of_olds = Vec::with_capacity(olds.len());
        for (old, end) in olds {
            let first = old.first_copied(*end).unwrap_or(end.next());
            let before = Position(first.0 - 1);
            let mut kept = Kept {
                before,
                end: *end,
                changes: Ordinals::default(),
                runs: Vec::new(),
            };
            let mut next = first;
            for item in records(old, &kept)? {
                let (position, bytes) = item?;
                if position != next {
                    return Err(old.missing(next));
                }
                next = position.next();
                let head = record::decode(&bytes).map_err(|what| old.corrupt(what))?.0;
                match (is_change(&head), head.tailed) {
                    // Nobody reads on over it.
                    (true, Tailed::No) => {
                        kept.before = position;
                        kept.changes = Ordinals::default();
                    }
                    _ if is_kept(&head) => kept.changes.push(position.0 - kept.before.0 - 1),
                    _ => {}
                }
                if position.0.is_multiple_of(WATCH_EVERY) && !goes_on() {
                    return Ok(None);
                }
            }
            if next != end.next() {
                return Err(old.missing(next));
            }
            of_olds.push(kept);
        }
        Ok(Some(GatheredLog { begin, of_olds }))
    }

    /// How many changes they have.
    pub(crate) fn count(&self) -> u64 {
        self.of_olds.iter().map(|kept| kept.changes.count()).sum()
    }

    /// The position of each before those that are copied.
    pub(crate) fn before(&self) -> Vec<Position> {
        self.of_olds.iter().map(|kept| kept.before).collect()
    }

    /// Writes the changes of all of them to the new log. `mark` is told now and then up to which
    /// positions of theirs it has them, and its own position. False if `goes_on` returned it.
    pub(crate) fn copy(
        &mut self,
        (olds, docids): (&[WidePartition], &[Docids]),
        mut copy: LogCopy,
        mark: &mut dyn FnMut(&[Position], Position),
        goes_on: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let run = self.count().div_ceil(RUNS_MAX).max(1);
        let (mut seen, mut at) = (self.before(), self.begin);
        let mut heads = Heads::new(olds, docids, self)?;
        while let Some(old) = heads.next_old() {
            let kept = &mut self.of_olds[old];
            let ordinal = kept.runs.last().map_or(0, |(ordinal, _)| ordinal + run);
            kept.runs.push((ordinal, at.next()));
            for _ in 0..run {
                let Some(change) = heads.take(old)? else {
                    break;
                };
                copy.append(change.record)?;
                (seen[old], at) = (change.position, at.next());
                if at.0.is_multiple_of(WATCH_EVERY) {
                    mark(&seen, at);
                    if !goes_on() {
                        return Ok(false);
                    }
                }
            }
            heads.put_back(old);
        }
        let end = Position(self.begin.0 + self.count());
        assert_eq!(at, end, "the log has as many changes as it had");
        copy.finish()?;
        Ok(true)
    }

    /// The version in the new partition of a row of an old one. Of all that were not changed since
    /// the logs begin it is `older`.
    pub(crate) fn version(&self, old: usize, version: Position, older: Position) -> Position {
        let kept = &self.of_olds[old];
        debug_assert!(version <= kept.end, "no row is newer than its view");
        let place = version.0.checked_sub(kept.before.0 + 1);
        let Some(ordinal) = place.and_then(|place| kept.changes.ordinal(place)) else {
            return older;
        };
        let run = kept.runs.partition_point(|(first, _)| *first <= ordinal);
        let run = run.checked_sub(1).and_then(|run| kept.runs.get(run));
        run.map_or(older, |(first, position)| {
            Position(position.0 + (ordinal - first))
        })
    }
}

/// Whether a record of a kept log is copied: it is a change of a row, as those need it who tail it.
fn is_kept(head: &Head<'_>) -> bool {
    is_change(head) && head.kind != Kind::Foreign && head.tailed != Tailed::No
}

/// A change of a kept log.
struct Change {
    time_micros: i64,
    position: Position,
    record: Vec<u8>,
}

/// The records of a log.
type Records = Box<dyn Iterator<Item = quire_store::Result<(Position, Bytes)>> + Send>;

/// The next change of each kept log.
struct Heads<'a> {
    logs: Vec<(&'a WidePartition, Records, Option<Change>)>,
    docids: &'a [Docids],
    /// Those that have one, by its time.
    by_time: BinaryHeap<Reverse<(i64, usize)>>,
}

impl<'a> Heads<'a> {
    fn new(
        olds: &'a [WidePartition],
        docids: &'a [Docids],
        log: &GatheredLog,
    ) -> Result<Heads<'a>> {
        let mut heads = Heads {
            logs: Vec::with_capacity(olds.len()),
            docids,
            by_time: BinaryHeap::new(),
        };
        for (number, (old, kept)) in olds.iter().zip(&log.of_olds).enumerate() {
            heads.logs.push((old, records(old, kept)?, None));
            heads.take(number)?;
            heads.put_back(number);
        }
        Ok(heads)
    }

    /// The partition with the oldest change, which is not given again before it was put back.
    fn next_old(&mut self) -> Option<usize> {
        self.by_time.pop().map(|Reverse((_, number))| number)
    }

    fn put_back(&mut self, number: usize) {
        if let (_, _, Some(change)) = &self.logs[number] {
            self.by_time.push(Reverse((change.time_micros, number)));
        }
    }

    /// Takes the next change of a partition.
    fn take(&mut self, number: usize) -> Result<Option<Change>> {
        let (old, records, head) = &mut self.logs[number];
        let change = head.take();
        for item in records {
            let (position, bytes) = item?;
            let (found, _) = record::decode(&bytes).map_err(|what| old.corrupt(what))?;
            if !is_kept(&found) {
                continue;
            }
            let docid = self.docids[number].of(found.docid);
            *head = Some(Change {
                time_micros: found.time_micros,
                position,
                record: record::with_docid(&bytes, docid.unwrap_or(GONE)),
            });
            break;
        }
        Ok(change)
    }
}

/// The records of a kept log that may be copied.
fn records(old: &WidePartition, kept: &Kept) -> Result<Records> {
    if kept.before >= kept.end {
        return Ok(Box::new(std::iter::empty()));
    }
    let end = kept.end;
    let records = old.store().tail(kept.before)?;
    Ok(Box::new(records.take_while(move |item| {
        let is_after = |(position, _): &(Position, Bytes)| *position > end;
        !item.as_ref().is_ok_and(is_after)
    })))
}
