//! Merging partitions: a new one takes the rows of several over, while they are read and written.
//!
//! What the trees of the old partitions have, each at one position, is [gathered](Merge::gather)
//! first: tree by tree, and in each tree one partition after the other, or in the order of keys.
//! The changes of their kept logs are copied. Then the new partition
//! [follows](Gathered::follow): what is written to the old ones meanwhile is written to it too (see
//! `adopting.rs`). The logs of the old partitions are kept until it has what is in them.
//!
//! # Invariants
//! 1. Rows get new docids, without gaps: those of the first old partition in their order, then
//!    those of the second, and so on. So trees that are ordered by docids are written in order.
//! 2. All versions are higher than those that the old partitions give. A row whose last change is
//!    in the kept log has the position of the change there, and all others have `base`.
//! 3. No column moves in any of the old partitions at the position at which it is gathered, and
//!    each is where the schema says. So all cells of a column come from one group and stay in it.

use crate::adopting::Adoption;
use crate::column_moves::{ColumnMove, ColumnMoves, Place as End};
use crate::docids::Docids;
use crate::gathered_log::GatheredLog;
use crate::machine::{EXPIRIES, KEYS, ROWS, Totals, WideRows};
use crate::row::Row;
use crate::tree_scan::{all_trees, docid_of, scan};
use crate::{Error, Result, Schema, WidePartition, WideView, expiry_key};
use quire_lsm::{Scan, SmallBytes};
use quire_model::{DocId, Position};
use quire_seeded::{Bug, seeded};
use quire_store::{AnyStore, Durability, LogCopy, LogHold, Place, Store, TreeId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::sync::Arc;

/// How many entries are gathered between two calls of the one who watches.
const WATCH_EVERY: u64 = 1024;

/// Partitions that are to be merged into a new one.
pub struct Merge<'a> {
    /// They, in their order.
    pub olds: &'a [WidePartition],
    /// Where the new one is made.
    pub place: &'a Place,
    /// The position at which it begins: after all that the old ones have, with room for what is
    /// written to them meanwhile.
    pub base: Position,
    /// The schema of now.
    pub schema: &'a dyn Fn() -> Arc<Schema>,
    /// Opens the new partition, once it was made.
    pub open: &'a dyn Fn() -> Result<WidePartition>,
    /// Is called now and then with the number of entries that were gathered; if it returns false,
    /// the work ends.
    pub watch: &'a dyn Fn(u64) -> bool,
}

/// Is told up to which positions of the old partitions the new one has what they have, and its own
/// position then.
pub type OnMark<'a> = &'a mut dyn FnMut(&[Position], Position);

/// A new partition that others are merged into.
pub struct Gathered {
    partition: WidePartition,
    olds: Vec<Old>,
    adoption: Adoption,
}

/// An old partition.
struct Old {
    partition: WidePartition,
    /// The last position of which the new partition has what is there.
    seen: Position,
    /// Keeps what comes after it in the log.
    hold: LogHold,
}

/// What is gathered of an old partition.
struct Source {
    partition: WidePartition,
    view: WideView,
    hold: LogHold,
}

impl fmt::Debug for Merge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merge").finish_non_exhaustive()
    }
}

impl fmt::Debug for Gathered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathered")
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}

impl Merge<'_> {
    /// Makes the new partition of what the old ones have. `None` if `watch` ended it.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; `Full` or `Io`, also if there are more rows than a
    /// partition can have; what `open` returned. What was made is then of no use.
    pub fn gather(&self, mark: OnMark<'_>) -> Result<Option<Gathered>> {
        // What follows reads the kept logs more than once.
        let hold_all = |old: &WidePartition| old.store().hold_log(Position(0));
        let _held: Vec<LogHold> = self.olds.iter().map(hold_all).collect();
        let Some((sources, schema)) = self.level()? else {
            return Ok(None);
        };
        let Some((mut totals, docids)) = count(&sources, self.watch)? else {
            return Ok(None);
        };
        totals.moves = Arc::new(moves(&sources, &schema));
        let state = WideRows::begun(Docids::given(&docids), totals);
        let Some((log, last)) = self.create((&sources, &docids), &state, mark)? else {
            return Ok(None);
        };
        let partition = (self.open)()?;
        let trees = Trees {
            sources: &sources,
            docids: &docids,
            log: &log,
            older: self.base,
        };
        let loaded = trees.load(&partition, self.watch);
        match loaded.and_then(|is_whole| partition.hold_position(last).map(|()| is_whole)) {
            Ok(true) => {}
            ended => {
                let _ = partition.close();
                return ended.map(|_| None);
            }
        }
        let ends: Vec<Position> = sources.iter().map(|one| one.view.position()).collect();
        mark(&ends, last);
        let olds = sources.into_iter().zip(ends).map(|(source, seen)| Old {
            partition: source.partition,
            seen,
            hold: source.hold,
        });
        Ok(Some(Gathered {
            partition,
            olds: olds.collect(),
            adoption: Adoption::new(docids),
        }))
    }

    /// Makes the new store, and its log of the kept ones. Gives these, and the position at which
    /// the new partition begins. `None` if `watch` ended it.
    fn create(
        &self,
        (sources, docids): (&[Source], &[Docids]),
        state: &WideRows,
        mark: OnMark<'_>,
    ) -> Result<Option<(GatheredLog, Position)>> {
        let (begin, goes_on) = (self.base.next(), || (self.watch)(0));
        let Some(source) = sources.first() else {
            return Err(Error::Invalid("no partitions to be merged".into()));
        };
        let ends = sources
            .iter()
            .map(|one| (&one.partition, one.view.position()));
        let ends: Vec<_> = ends.collect();
        let Some(mut log) = GatheredLog::read(&ends, begin, &goes_on)? else {
            return Ok(None);
        };
        let last = Position(begin.0 + log.count());
        // Without changes a record holds the position, once the partition is open.
        let applied = if last == begin { self.base } else { last };
        let shared = source.partition.shared();
        Store::create_at(shared, self.place, applied, state)?;
        mark(&log.before(), begin);
        if last > begin {
            let options = source.partition.kept_log().options.clone();
            let copy = LogCopy::begin(shared, self.place, options, begin)?;
            if !log.copy((self.olds, docids), copy, mark, &goes_on)? {
                return Ok(None);
            }
        }
        Ok(Some((log, last)))
    }

    /// Views of the old partitions, of table files, in which no column moves and each is where the
    /// schema says. `None` if `watch` ended it.
    fn level(&self) -> Result<Option<(Vec<Source>, Arc<Schema>)>> {
        loop {
            for old in self.olds {
                while !old.column_step(&(self.schema)(), Durability::None)?.is_over {
                    if !(self.watch)(0) {
                        return Ok(None);
                    }
                }
            }
            // No column begins to move before all views are there.
            let _alone: Vec<_> = self
                .olds
                .iter()
                .map(|old| old.columns().alone.lock())
                .collect();
            let schema = (self.schema)();
            let mut sources = Vec::with_capacity(self.olds.len());
            for old in self.olds {
                // Before the view: the log has all that comes after it.
                let hold = old.store().hold_log(old.position());
                sources.push(Source {
                    partition: old.clone(),
                    view: old.flushed_view_of_all(&schema)?,
                    hold,
                });
            }
            let is_level = |one: &Source| one.view.moves().due(&schema).is_none();
            if sources.iter().all(is_level) {
                return Ok(Some((sources, schema)));
            }
        }
    }
}

/// The totals of all rows together, and the new docids of those of each partition. `None` if
/// `watch` ended it.
fn count(sources: &[Source], watch: &dyn Fn(u64) -> bool) -> Result<Option<(Totals, Vec<Docids>)>> {
    let (mut totals, mut all, mut base) = (Totals::default(), Vec::new(), 0u32);
    for source in sources {
        let view = &source.view;
        totals.has_expiring |= view.has_expiring();
        let mut docids = Docids::new(base, view.rows_made());
        for item in scan(view, ROWS)? {
            let (docid, row) = item?;
            let row = Row::decode(&row).ok_or_else(|| view.corrupt("a row is cut short".into()))?;
            docids.push(docid_of(view, &docid)?);
            totals.add_row(row.tiers.cold);
            if totals.documents.is_multiple_of(WATCH_EVERY) && !watch(0) {
                return Ok(None);
            }
        }
        let exhausted = Error::DocIdsExhausted {
            partition: source.partition.number(),
        };
        base = docids.next().ok_or(exhausted)?;
        all.push(docids);
    }
    Ok(Some((totals, all)))
}

/// The columns that have moved in any of the partitions. All are where they are to be.
fn moves(sources: &[Source], schema: &Schema) -> ColumnMoves {
    let mut all = ColumnMoves::default();
    for column in &schema.columns {
        let found = sources
            .iter()
            .find_map(|one| one.view.moves().get(column.number));
        if let Some(found) = found {
            assert_eq!(found.to, column.group, "a column is where the schema says");
            let moved = ColumnMove {
                next: End::end(),
                ..found.clone()
            };
            all.set(column.number, moved);
        }
    }
    all
}

/// The trees of the old partitions.
struct Trees<'a> {
    sources: &'a [Source],
    docids: &'a [Docids],
    log: &'a GatheredLog,
    /// The version of rows that the kept log has no change of.
    older: Position,
}

impl Trees<'_> {
    /// Writes all of them to the new partition; false if that was stopped.
    fn load(&self, partition: &WidePartition, watch: &dyn Fn(u64) -> bool) -> Result<bool> {
        let mut entries = 0;
        for tree in all_trees() {
            let mut load = partition.store().load(tree)?;
            let mut put = |(key, value): Entry| -> Result<bool> {
                load.put(&key, &value)?;
                entries += 1;
                Ok(entries % WATCH_EVERY != 0 || watch(entries))
            };
            let is_whole = match tree {
                KEYS | EXPIRIES => self.in_order(tree, &mut put)?,
                _ => self.in_turns(tree, &mut put)?,
            };
            if !is_whole {
                return Ok(false);
            }
            partition.store().finish_load(tree, load)?;
        }
        Ok(true)
    }

    fn of_old(&self, old: usize, tree: TreeId) -> Result<OneTree<'_>> {
        Ok(OneTree {
            trees: self,
            old,
            tree,
            scan: scan(&self.sources[old].view, tree)?,
        })
    }

    /// Entries that begin with docids: one partition after the other.
    fn in_turns(&self, tree: TreeId, put: PutEntry<'_>) -> Result<bool> {
        for old in 0..self.sources.len() {
            let mut one = self.of_old(old, tree)?;
            while let Some(entry) = one.next()? {
                if !put(entry)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Entries of all partitions, with short values, in the order of their keys.
    fn in_order(&self, tree: TreeId, put: PutEntry<'_>) -> Result<bool> {
        let olds = 0..self.sources.len();
        let mut scans = olds
            .map(|old| self.of_old(old, tree))
            .collect::<Result<Vec<_>>>()?;
        let mut heads = BinaryHeap::new();
        for one in &mut scans {
            heads.extend(one.head()?);
        }
        while let Some(Reverse((key, old, value))) = heads.pop() {
            heads.extend(scans[old].head()?);
            if !put((key, value.into()))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A key of the new partition, and its value.
type Entry = (Vec<u8>, SmallBytes);

/// Writes an entry; false ends the work.
type PutEntry<'a> = &'a mut dyn FnMut(Entry) -> Result<bool>;

/// The next entry of an old partition, to be ordered among those of others: the least is popped
/// first.
type Ordered = Reverse<(Vec<u8>, usize, Vec<u8>)>;

/// A tree of an old partition.
struct OneTree<'a> {
    trees: &'a Trees<'a>,
    old: usize,
    tree: TreeId,
    scan: Scan,
}

impl OneTree<'_> {
    /// The next entry, as the new partition has it. One of a row that is no more is left out.
    fn next(&mut self) -> Result<Option<Entry>> {
        for item in &mut self.scan {
            let (key, value) = item?;
            if let Some(entry) = self.trees.entry(self.old, self.tree, &key, value)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// As [`next`](OneTree::next), with the number of its partition.
    fn head(&mut self) -> Result<Option<Ordered>> {
        let next = self.next()?;
        Ok(next.map(|(key, value)| Reverse((key, self.old, value.to_vec()))))
    }
}

impl Trees<'_> {
    fn entry(
        &self,
        old: usize,
        tree: TreeId,
        key: &[u8],
        value: SmallBytes,
    ) -> Result<Option<Entry>> {
        let view = &self.sources[old].view;
        let new = |bytes: &[u8]| -> Result<Option<DocId>> {
            Ok(self.docids[old].of(docid_of(view, bytes)?))
        };
        if tree == KEYS {
            let docid = new(&value)?.ok_or_else(|| view.corrupt("a key without a row".into()))?;
            let value = docid.0.to_be_bytes().to_vec();
            return Ok(Some((key.to_vec(), value.into())));
        }
        let begins = match tree {
            EXPIRIES => key.len() - expiry_key::split(key).map_or(0, |(_, cell)| cell.len()),
            _ => 0,
        };
        let Some(docid) = new(&key[begins..])? else {
            return Ok(None);
        };
        let mut key = key.to_vec();
        key[begins..begins + 4].copy_from_slice(&docid.0.to_be_bytes());
        if tree != ROWS || seeded(Bug::MergedVersionKept) {
            return Ok(Some((key, value)));
        }
        let row = Row::decode(&value).ok_or_else(|| view.corrupt("a row is cut short".into()))?;
        let row = Row {
            version: self.log.version(old, row.version, self.older),
            ..row
        };
        Ok(Some((key, row.encode().into())))
    }
}

impl Gathered {
    /// The new partition.
    pub fn partition(&self) -> &WidePartition {
        &self.partition
    }

    /// Takes over some of what was written to the old partitions, as far as readers there see it.
    /// Returns how many positions are left where most are. Nothing is durable before a
    /// [`sync`](WidePartition::sync).
    ///
    /// # Errors
    /// Damage on disk; those of a [write](WidePartition::write).
    pub fn follow(&mut self, mark: OnMark<'_>) -> Result<u64> {
        let mut left = 0;
        for (number, old) in self.olds.iter_mut().enumerate() {
            let end = old.partition.position();
            if old.seen >= end {
                continue;
            }
            let records = old.partition.records_after(old.seen)?;
            let seen = Position(old.seen.0 + records.len() as u64);
            let partition = &self.partition;
            let adoption = &mut self.adoption;
            let ((), position) = partition.store().write_unsynced(|transaction| {
                adoption.adopt(&old.partition, number, &records, transaction)
            })?;
            partition.acknowledge(position, Durability::None)?;
            old.seen = seen;
            old.hold.advance(seen);
            left = left.max(end.0.saturating_sub(seen.0));
        }
        let seen: Vec<Position> = self.olds.iter().map(|old| old.seen).collect();
        mark(&seen, self.partition.position());
        Ok(left)
    }
}
