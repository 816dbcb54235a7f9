//! Splitting a partition: new partitions take its rows over, while it is read and written.
//!
//! A partition is [dealt](WidePartition::deal) first: what its trees have at one position is read
//! tree by tree, each in its order, and every entry goes to the same tree of the new partition that
//! has its row. The new partitions begin at this position, with a record that holds it. Then they
//! [follow](WidePartition::follow): a record that is written to the old partition meanwhile is
//! copied as it is by the partition that has its row, and the others get one that holds its
//! position. The log of the old partition is kept until they have it.
//!
//! # Invariants
//! 1. A row keeps its docid and its version, and its cells stay in their groups and tiers. So a
//!    record of the old partition says in a new one what it said there.
//! 2. All new partitions know which docids were given, and how far columns have moved: a docid that
//!    one of them gives out is of no row that it has, nor of a record that it is to copy.
//! 3. A level partition ends at the position at which the old one ends. So the next version of any
//!    row is higher than all that it had.

use crate::column_work::passing_record;
use crate::machine::{EXPIRIES, KEYS, NAMES, ROWS, Totals, WideRows};
use crate::record::{self, CellChange, Head, Kind, Tailed};
use crate::row::Row;
use crate::tail::is_change;
use crate::tree_scan::{all_trees, docid_of, scan};
use crate::{Error, Result, Schema, WidePartition, WideView, cell_key, expiry_key};
use bytes::Bytes;
use quire_lsm::{Load, Scan, SmallBytes};
use quire_model::{DocId, Key, Position};
use quire_seeded::{Bug, seeded};
use quire_store::{Durability, LogHold, Place, Store, Transaction, TreeId};
use std::collections::HashSet;
use std::sync::Arc;

/// Bytes of records that are taken over at a time, about, and records at most.
const STEP_BYTES: usize = 4 << 20;
const STEP_RECORDS: usize = 16 << 10;

/// How many entries are dealt out between two calls of the one who watches.
const WATCH_EVERY: u64 = 1024;

/// Says which of the new partitions has a key, by its place among them.
pub type OwnerOf<'a> = &'a dyn Fn(&Key) -> usize;

/// New partitions, level with the one that they were dealt of as it was then.
#[derive(Debug)]
pub struct Dealt {
    /// They, in the order of their places.
    pub partitions: Vec<WidePartition>,
    /// Keeps the records that they have to follow in the log of the old partition.
    pub hold: LogHold,
}

impl WidePartition {
    /// Makes partitions at these places of the rows that this one has: a key's are in the one that
    /// `owner` says. `open` opens one once it was made, by its place. `watch` is called now and
    /// then with the number of entries that were dealt out; if it returns false, the work ends,
    /// with `None`.
    ///
    /// # Errors
    /// Damage on disk, by file and offset; `Full` or `Io`; what `open` returned. What was made is
    /// then of no use.
    pub fn deal(
        &self,
        schema: &Arc<Schema>,
        places: &[Place],
        owner: OwnerOf<'_>,
        open: &dyn Fn(usize) -> Result<WidePartition>,
        watch: &dyn Fn(u64) -> bool,
    ) -> Result<Option<Dealt>> {
        // Before the view: the log has all that comes after it.
        let hold = self.any_store().hold_log(self.position());
        let view = self.view_to_deal(schema)?;
        let upto = view.position();
        let first_copied = self.first_copied(upto);
        let begins = match first_copied {
            Some(_) => upto,
            None => Position(upto.0.saturating_sub(1)),
        };
        for (place, totals) in places.iter().zip(totals(&view, places.len(), owner)?) {
            let state = WideRows::begun(view.rows_made(), totals);
            Store::create_at(self.shared(), place, begins, &state)?;
        }
        if let Some(first) = first_copied
            && !self.copy_log((first, upto), places, owner, &|| watch(0))?
        {
            return Ok(None);
        }
        let mut partitions = Vec::with_capacity(places.len());
        for number in 0..places.len() {
            match open(number) {
                Ok(partition) => partitions.push(partition),
                Err(error) => {
                    close(&partitions);
                    return Err(error);
                }
            }
        }
        match deal_trees(&view, &partitions, owner, watch) {
            Ok(true) => Ok(Some(Dealt { partitions, hold })),
            ended => {
                close(&partitions);
                ended.map(|_| None)
            }
        }
    }

    /// Writes a record at the position at which a new partition begins, unless its log has one. So
    /// a copy of it, which is known by its last record, can follow it.
    pub(crate) fn hold_position(&self, position: Position) -> Result<()> {
        if self.position() < position {
            self.pass_position()?;
        }
        assert_eq!(
            self.position(),
            position,
            "a new partition begins at the position of what it was dealt"
        );
        Ok(())
    }

    /// Writes a record that changes nothing.
    fn pass_position(&self) -> Result<()> {
        let time_micros = self.env().now_micros();
        let ((), written) = self.store().write_unsynced(|transaction| {
            let tailed = self.kept_log().tailed();
            let passed = Head::foreign(false, DocId(0), time_micros, tailed);
            transaction.append(passed.encode());
            Ok::<_, Error>(())
        })?;
        self.acknowledge(written, Durability::None)
    }

    /// The view that is dealt. Its position is never the first: the logs of the new partitions
    /// would have every record from there on, and a follower would take these for all rows.
    fn view_to_deal(&self, schema: &Arc<Schema>) -> Result<WideView> {
        loop {
            let view = self.flushed_view_of_all(schema)?;
            if view.position() != Position(1) {
                return Ok(view);
            }
            self.pass_position()?;
        }
    }

    /// Takes over some of what was written to the partition that this one is split from, as far as
    /// readers there see it; `owns` says which keys are this one's. Returns how many positions are
    /// left. Nothing is durable before a [`sync`](WidePartition::sync).
    ///
    /// # Errors
    /// Damage on disk; those of a [write](WidePartition::write).
    pub fn follow(&self, old: &WidePartition, owns: &dyn Fn(&Key) -> bool) -> Result<u64> {
        let (seen, end) = (self.store().extent().last, old.position());
        if seen >= end {
            return Ok(0);
        }
        let records = old.records_after(seen)?;
        let ((), position) = self.store().write_unsynced(|transaction| {
            let mut made = HashSet::new();
            assert_eq!(
                transaction.next_position(),
                seen.next(),
                "a new partition has the positions of the old one"
            );
            for bytes in &records {
                let record = self.taken(transaction, &mut made, bytes, owns)?;
                transaction.append(record);
            }
            Ok::<_, Error>(())
        })?;
        self.acknowledge(position, Durability::None)?;
        Ok(end.0.saturating_sub(position.0))
    }

    /// Some of the records after a position, without a gap, and one at least.
    ///
    /// # Errors
    /// `Corrupt` if the log does not have the next one; damage on disk, by file and offset.
    pub(crate) fn records_after(&self, seen: Position) -> Result<Vec<Bytes>> {
        let (mut records, mut bytes, mut next) = (Vec::new(), 0, seen.next());
        for item in self.store().tail(seen)? {
            let (position, record) = item?;
            if position != next {
                break;
            }
            next = position.next();
            bytes += record.len();
            records.push(record);
            if bytes >= STEP_BYTES || records.len() >= STEP_RECORDS {
                break;
            }
        }
        match records.is_empty() {
            true => Err(self.missing(next)),
            false => Ok(records),
        }
    }

    /// What a record of the old partition is in this one. `made` has the docids of rows that
    /// records before it in the transaction have made here.
    fn taken(
        &self,
        transaction: &Transaction<'_, WideRows>,
        made: &mut HashSet<u32>,
        bytes: &Bytes,
        owns: &dyn Fn(&Key) -> bool,
    ) -> Result<Vec<u8>> {
        let corrupt = |what| self.corrupt(what);
        let (head, changes) = record::decode(bytes).map_err(corrupt)?;
        let is_own = match head.kind {
            Kind::PassColumn | Kind::Foreign => true,
            _ if head.created => {
                let is_own = owns(&Key::decode(head.key)?);
                if is_own {
                    made.insert(head.docid.0);
                }
                is_own
            }
            _ => {
                let row = || transaction.get(ROWS, &cell_key::row(head.docid));
                made.contains(&head.docid.0) || row()?.is_some()
            }
        };
        if is_own {
            return Ok(bytes.to_vec());
        }
        let mut moved = changes.iter().filter_map(|change| progress(change));
        Ok(match moved.next() {
            Some((column, moved)) if !seeded(Bug::SplitColumnNotPassed) => {
                passing_record(column, &moved, &moved.next, head.time_micros)
            }
            _ => foreign(&head, self.kept_log().tailed()).encode(),
        })
    }

    pub(crate) fn missing(&self, position: Position) -> Error {
        self.corrupt(format!(
            "the log of an old partition has no record {position}"
        ))
    }
}

/// The record that holds the position of a record of another partition, in a partition whose
/// records are `tailed` or not.
pub(crate) fn foreign(head: &Head<'_>, tailed: Tailed) -> Head<'static> {
    // What is no change is not missed by those who tail the log.
    let tailed = match (is_change(head), head.tailed) {
        (true, Tailed::No) => Tailed::No,
        (true, _) => Tailed::Key,
        (false, _) => tailed,
    };
    Head::foreign(head.created, head.docid, head.time_micros, tailed)
}

fn progress(change: &CellChange<'_>) -> Option<(u32, crate::column_moves::ColumnMove)> {
    Some((change.column, change.progress()?))
}

/// The totals of the rows that each of `count` partitions gets.
fn totals(view: &WideView, count: usize, owner: OwnerOf<'_>) -> Result<Vec<Totals>> {
    let mut all = vec![view.totals_without_rows(); count];
    let mut owners = Owners::new(view, owner)?;
    for item in scan(view, ROWS)? {
        let (docid, row) = item?;
        let row = Row::decode(&row).ok_or_else(|| view.corrupt("a row is cut short".into()))?;
        let of = owners.of(docid_of(view, &docid)?)?;
        let totals = of.and_then(|of| all.get_mut(of));
        totals.ok_or_else(|| nobodys(view))?.add_row(row.tiers.cold);
    }
    Ok(all)
}

/// Closes partitions that are of no use.
fn close(partitions: &[WidePartition]) {
    for partition in partitions {
        let _ = partition.close();
    }
}

/// Deals out all trees; false if that was stopped.
fn deal_trees(
    view: &WideView,
    partitions: &[WidePartition],
    owner: OwnerOf<'_>,
    watch: &dyn Fn(u64) -> bool,
) -> Result<bool> {
    let mut dealt = 0;
    let mut goes_on = || {
        dealt += 1;
        dealt % WATCH_EVERY != 0 || watch(dealt)
    };
    for tree in all_trees() {
        if !deal_tree(view, tree, partitions, owner, &mut goes_on)? {
            return Ok(false);
        }
    }
    for partition in partitions {
        partition.hold_position(view.position())?;
    }
    Ok(true)
}

/// Deals out a tree; false if that was stopped.
fn deal_tree(
    view: &WideView,
    tree: TreeId,
    partitions: &[WidePartition],
    owner: OwnerOf<'_>,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<bool> {
    let mut owners = Owners::new(view, owner)?;
    let mut owner_of = |key: &[u8]| match tree {
        KEYS => Ok(Some(owner(&Key::decode(key)?))),
        // Not in the order of docids. One of a row that is no more is left out.
        EXPIRIES => {
            let cell = expiry_key::split(key).map(|(_, cell)| cell);
            let docid = docid_of(view, cell.unwrap_or_default())?;
            let name = view.tree(NAMES)?.get(&cell_key::row(docid))?;
            let key = name.map(|name| Key::decode(&name)).transpose()?;
            Ok(key.map(|key| owner(&key)))
        }
        _ => owners.of(docid_of(view, key)?),
    };
    let begin = |partition: &WidePartition| Ok(partition.store().load(tree)?);
    let mut loads: Vec<Load> = partitions.iter().map(begin).collect::<Result<_>>()?;
    for item in scan(view, tree)? {
        let (key, value) = item?;
        if let Some(owner) = owner_of(&key)? {
            let load = loads.get_mut(owner).ok_or_else(|| nobodys(view))?;
            load.put(&key, &value)?;
        }
        if !goes_on() {
            return Ok(false);
        }
    }
    for (partition, load) in partitions.iter().zip(loads) {
        partition.store().finish_load(tree, load)?;
    }
    Ok(true)
}

fn nobodys(view: &WideView) -> Error {
    view.corrupt("a row that has no key, or a key of another partition".into())
}

/// Which partition has a row, by docids that ascend: the names of rows are read beside them.
struct Owners<'a> {
    view: &'a WideView,
    owner: OwnerOf<'a>,
    names: Scan,
    next: Option<(SmallBytes, SmallBytes)>,
    /// Of the docid that came last.
    last: Option<(DocId, Option<usize>)>,
}

impl<'a> Owners<'a> {
    fn new(view: &'a WideView, owner: OwnerOf<'a>) -> Result<Owners<'a>> {
        let mut names = scan(view, NAMES)?;
        Ok(Owners {
            view,
            owner,
            next: names.next().transpose()?,
            names,
            last: None,
        })
    }

    /// None if there is no row of this docid.
    fn of(&mut self, docid: DocId) -> Result<Option<usize>> {
        if let Some((last, owner)) = self.last
            && last == docid
        {
            return Ok(owner);
        }
        while let Some((named, name)) = &self.next {
            let named = docid_of(self.view, named)?;
            if named >= docid {
                let key = (named == docid).then(|| Key::decode(name)).transpose()?;
                let owner = key.map(|key| (self.owner)(&key));
                self.last = Some((docid, owner));
                return Ok(owner);
            }
            self.next = self.names.next().transpose()?;
        }
        self.last = Some((docid, None));
        Ok(None)
    }
}
