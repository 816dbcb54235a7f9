//! Salvaging a partition that nobody has open: its rows as writes that make the same rows again.
//!
//! Cells live in their trees alone, so what is salvaged is what the whole table files have, group
//! by group, and then the records that the trees did not have yet.
//!
//! # Invariants
//! 1. Only reads.
//! 2. A row that a whole tree says was deleted, or written under another number since, is not
//!    given.
//! 3. A row that may lack cells, or have older ones, is named with the trees that lost some.
//! 4. Memory grows with the rows that the log alone has, and with those whose names are lost.

use crate::machine::{KEYS, NAMES, ROWS, WideRows, tree_of};
use crate::record::{self, CellChange, CellOp, Head, Kind};
use crate::row::Row;
use crate::row_write::check_change;
use crate::stored::Stored;
use crate::tiers::groups_of;
use crate::{Cell, CellExpiry, Change, Error, Operand, Result, RowWrite, Schema, cell_key};
use quire_lsm::{SmallBytes, TreeSnapshot};
use quire_model::{DocId, Key, Position};
use quire_store::{Damage, Place, SalvagedParts, Shared, TreeId};
use std::collections::BTreeMap;
use std::ops::Bound;

/// A row with more bytes of cells than this is given as several writes.
const WRITE_BYTES: usize = 8 << 20;

/// What a salvage comes upon.
#[derive(Debug, Clone)]
pub enum Salvaged {
    /// This number of further bytes was read.
    Read(u64),
    /// Something is wrong.
    Damage(Damage),
    /// A write of a row, to be done after those before it.
    Write(RowWrite),
    /// A row that was given, of which these trees may have lost something: the names of column
    /// groups, or `rows` for its entry. It may lack cells, have older ones, or have been deleted.
    Torn {
        /// The row.
        key: Key,
        /// The trees.
        trees: Vec<String>,
    },
    /// A record that makes no sense, or whose row is lost.
    Senseless(Position, String),
}

/// A partition being salvaged.
#[derive(Debug)]
pub struct WideSalvage<'s> {
    fields: Fields<'s>,
    parts: Option<SalvagedParts>,
    store: quire_store::Salvage,
    /// The keys of rows that the log creates, and of those whose names are lost.
    unnamed: BTreeMap<DocId, Key>,
}

impl WideSalvage<'_> {
    /// Begins to salvage the partition at a place, whose documents have their keys in `key_field`,
    /// and tells `progress` how many bytes are read meanwhile.
    ///
    /// # Errors
    /// Only what the machine reports, of files that can't even be opened.
    pub fn begin<'s>(
        shared: &Shared,
        place: &Place,
        (schema, key_field): (&'s Schema, &'s str),
        progress: &mut dyn FnMut(u64),
    ) -> Result<WideSalvage<'s>> {
        let store = quire_store::salvage::<WideRows>(shared, place, progress)?;
        Ok(WideSalvage {
            fields: Fields { schema, key_field },
            parts: store.parts(),
            store,
            unnamed: BTreeMap::new(),
        })
    }

    /// The position of the trees: what is lost of the log up to here is not missed.
    pub fn position(&self) -> Position {
        let position = |parts: &SalvagedParts| parts.trees.position();
        self.parts.as_ref().map_or(Position(0), position)
    }

    /// How many table files are lost.
    pub fn tables_lost(&self) -> u64 {
        let lost = |parts: &SalvagedParts| parts.damaged.len() as u64;
        self.parts.as_ref().map_or(0, lost)
    }

    /// Whether nothing says what the trees are made of: there is nothing then but the log.
    pub fn is_all_lost(&self) -> bool {
        self.parts.is_none()
    }

    /// Hands everything to `each`, in order.
    ///
    /// # Errors
    /// What the machine reports, and what `each` gives.
    pub fn run<E: From<Error>>(
        mut self,
        each: &mut dyn FnMut(Salvaged) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        if let Some(parts) = self.parts.clone() {
            let rows = RowsOf {
                fields: self.fields,
                parts: &parts,
            };
            self.unnamed = rows.run(each)?;
        }
        let known = self.position();
        while let Some(found) = self.store.next() {
            let found = found.map_err(Error::from)?;
            match found {
                quire_store::Salvaged::Read(bytes) => each(Salvaged::Read(bytes))?,
                quire_store::Salvaged::Damage(damage) => each(Salvaged::Damage(damage))?,
                quire_store::Salvaged::Record(position, bytes) if position > known => {
                    self.record(position, &bytes, each)?;
                }
                // The trees have it. A write of a row is one record, so none is a part of one.
                quire_store::Salvaged::Record(..) | quire_store::Salvaged::Part(..) => {}
            }
        }
        Ok(())
    }

    fn record<E: From<Error>>(
        &mut self,
        position: Position,
        bytes: &[u8],
        each: &mut dyn FnMut(Salvaged) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        match self.writes_of(bytes)? {
            Ok((writes, refused)) => {
                let writes = writes.into_iter().map(Salvaged::Write);
                let refused = refused.into_iter();
                let refused = refused.map(|what| Salvaged::Senseless(position, what));
                writes.chain(refused).try_for_each(each)
            }
            Err(what) => each(Salvaged::Senseless(position, what)),
        }
    }

    /// The writes that make the change of a record, and what is wrong with cells that they leave
    /// out; or why there are none.
    fn writes_of(&mut self, bytes: &[u8]) -> Result<std::result::Result<Writable, String>> {
        let (head, changes) = match record::decode(bytes) {
            Ok(decoded) => decoded,
            Err(what) => return Ok(Err(what)),
        };
        if matches!(head.kind, Kind::Expire | Kind::PassColumn | Kind::Foreign) {
            // The writes of cells say when they expire: one that has expired is not written.
            return Ok(Ok((Vec::new(), Vec::new())));
        }
        let Some(key) = self.key_of(&head)? else {
            let what = format!("it changes row number {}, whose key is lost", head.docid);
            return Ok(Err(what));
        };
        if head.created {
            self.unnamed.insert(head.docid, key.clone());
        }
        if head.kind == Kind::Delete {
            self.unnamed.remove(&head.docid);
            return Ok(Ok((vec![RowWrite::delete(key)], Vec::new())));
        }
        // A move changes no cell, but the trees may have lost some that it has.
        let is_move = matches!(head.kind, Kind::Move | Kind::MoveColumn);
        let is_put = !is_move && (head.created || head.cleared != 0);
        let (mut writes, mut refused) = (Writes::new(key, is_put), Vec::new());
        let is_given = |change: &&CellChange<'_>| !is_move || change.op == CellOp::Put;
        for change in changes.iter().filter(is_given) {
            match self.fields.change_of(change) {
                Ok(Some((change, bytes))) => match self.fields.check(&change) {
                    Ok(()) => writes.add((change, bytes)),
                    Err(error) => refused.push(error.to_string()),
                },
                Ok(None) => {}
                Err(what) => return Ok(Err(what)),
            }
        }
        Ok(Ok((writes.finish(), refused)))
    }

    fn key_of(&self, head: &Head<'_>) -> Result<Option<Key>> {
        if !head.key.is_empty() {
            return Ok(Some(Key::decode(head.key)?));
        }
        if let Some(key) = self.unnamed.get(&head.docid) {
            return Ok(Some(key.clone()));
        }
        let names = self
            .parts
            .as_ref()
            .and_then(|parts| parts.trees.tree(NAMES));
        let name = names.map(|names| names.get(&head.docid.0.to_be_bytes()));
        let name = name.transpose()?.flatten();
        Ok(name.map(|name| Key::decode(&name)).transpose()?)
    }
}

/// Writes, and what is wrong with cells that they leave out.
type Writable = (Vec<RowWrite>, Vec<String>);

/// Groups, each with whether it is its cold tree.
type GroupTrees = Vec<(u8, bool)>;

/// The rows that the trees have.
struct RowsOf<'a> {
    fields: Fields<'a>,
    parts: &'a SalvagedParts,
}

impl RowsOf<'_> {
    /// Gives all rows. Returns the keys of those whose names are lost.
    fn run<E: From<Error>>(
        &self,
        each: &mut dyn FnMut(Salvaged) -> std::result::Result<(), E>,
    ) -> std::result::Result<BTreeMap<DocId, Key>, E> {
        let mut unnamed = BTreeMap::new();
        let all = (Bound::Unbounded, Bound::Unbounded);
        let names = self.tree(NAMES)?.scan(all.0, all.1).map_err(Error::from)?;
        for item in names {
            let (number, name) = item.map_err(Error::from)?;
            self.row(&number, &name, each)?;
        }
        if !self.parts.is_damaged(NAMES) {
            return Ok(unnamed);
        }
        // Rows whose names are lost are found by their keys.
        let keys = self.tree(KEYS)?.scan(all.0, all.1).map_err(Error::from)?;
        for item in keys {
            let (name, number) = item.map_err(Error::from)?;
            let named = self.tree(NAMES)?.get(&number).map_err(Error::from)?;
            if named.is_none() {
                self.row(&number, &name, each)?;
                let docid = <[u8; 4]>::try_from(&*number).map(u32::from_be_bytes);
                if let (Ok(docid), Ok(key)) = (docid, Key::decode(&name)) {
                    unnamed.insert(DocId(docid), key);
                }
            }
        }
        Ok(unnamed)
    }

    /// Gives the row of a number and a name, unless it is gone.
    fn row<E: From<Error>>(
        &self,
        number: &SmallBytes,
        name: &SmallBytes,
        each: &mut dyn FnMut(Salvaged) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let decoded = <[u8; 4]>::try_from(&**number).map(u32::from_be_bytes);
        let (Ok(docid), Ok(key)) = (decoded, Key::decode(name)) else {
            return Ok(());
        };
        let Some((trees, mut torn)) = self.trees(DocId(docid), name)? else {
            return Ok(());
        };
        let mut writes = Writes::new(key.clone(), true);
        for (group, is_cold) in trees {
            if self.lost(tree_of(group, is_cold), number) {
                torn.extend(
                    self.fields
                        .schema
                        .groups()
                        .get(usize::from(group))
                        .map(|group| group.name.clone()),
                );
            }
            self.cells(DocId(docid), group, is_cold, &mut writes, each)?;
        }
        for write in writes.finish() {
            each(Salvaged::Write(write))?;
        }
        match torn.is_empty() {
            true => Ok(()),
            false => each(Salvaged::Torn { key, trees: torn }),
        }
    }

    /// The groups that may have cells of a row, each with whether they are in its cold tree, and
    /// the names of trees other than groups that may have lost something of the row; none if it
    /// is no row any more.
    fn trees(&self, docid: DocId, name: &[u8]) -> Result<Option<(GroupTrees, Vec<String>)>> {
        let number = docid.0.to_be_bytes();
        let led_to = self.tree(KEYS)?.get(name)?;
        let is_led_to = match &led_to {
            None => self.parts.is_damaged(KEYS),
            // Numbers grow: a row written later under this key has a greater one.
            Some(other) => **other == number || self.parts.is_damaged(KEYS) && **other < number[..],
        };
        let row = self.tree(ROWS)?.get(&number)?;
        let is_lost = self.lost(ROWS, &number);
        if !is_led_to || row.is_none() && !is_lost {
            return Ok(None);
        }
        let mut torn = Vec::new();
        if self.lost(NAMES, &number) || led_to.is_none() {
            torn.push("names".to_string());
        }
        if is_lost {
            torn.push("rows".to_string());
        }
        let row = row.as_deref().and_then(Row::decode);
        let trees = match row {
            Some(row) if !is_lost => groups_of(row.groups)
                .map(|group| (group, row.is_cold(group)))
                .collect(),
            // Its entry may be an older one, which names fewer groups, and other trees.
            _ => (0..self.fields.schema.groups().len() as u8)
                .map(|group| Ok((group, !self.has_cells(docid, group)?)))
                .collect::<Result<_>>()?,
        };
        Ok(Some((trees, torn)))
    }

    /// Whether the hot tree of a group has a cell of a row.
    fn has_cells(&self, docid: DocId, group: u8) -> Result<bool> {
        let (from, to) = (cell_key::row(docid), cell_key::row_end(docid));
        let tree = self.tree(tree_of(group, false))?;
        let mut cells = tree.scan(Bound::Included(&from), Bound::Excluded(&to))?;
        Ok(cells.next().transpose()?.is_some())
    }

    /// Adds the cells of a row in a tree of a group.
    fn cells<E: From<Error>>(
        &self,
        docid: DocId,
        group: u8,
        is_cold: bool,
        writes: &mut Writes,
        each: &mut dyn FnMut(Salvaged) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let (from, to) = (cell_key::row(docid), cell_key::row_end(docid));
        let Some(tree) = self.parts.trees.tree(tree_of(group, is_cold)) else {
            // An earlier program made no cold trees.
            return Ok(());
        };
        let cells = tree.scan(Bound::Included(&from), Bound::Excluded(&to));
        for item in cells.map_err(Error::from)? {
            let (key, value) = item.map_err(Error::from)?;
            let Some((_, column, member)) = cell_key::decode(&key) else {
                continue;
            };
            let change = CellChange {
                op: CellOp::Put,
                group,
                column,
                member,
                value: &value,
            };
            let change = self.fields.change_of(&change).and_then(|found| {
                let checked = found.as_ref().map(|(change, _)| self.fields.check(change));
                let checked = checked.transpose().map_err(|error| error.to_string());
                checked.map(|_| found)
            });
            match change {
                Ok(Some(change)) => writes.add(change),
                Ok(None) => {}
                Err(what) => each(Salvaged::Senseless(self.parts.trees.position(), what))?,
            }
        }
        Ok(())
    }

    /// Whether a tree lost a table file that may have had something of a row.
    fn lost(&self, tree: TreeId, number: &[u8]) -> bool {
        // The first bytes of keys of all trees but `keys` are the row's number.
        let mut damaged = self.parts.damaged.iter().filter(|table| table.tree == tree);
        damaged.any(|table| {
            let head = |key: &[u8]| key.get(..4).map(<[u8]>::to_vec);
            let from = head(&table.smallest).unwrap_or_default();
            let to = head(&table.largest);
            *number >= *from && to.is_none_or(|to| *number <= *to)
        })
    }

    fn tree(&self, tree: TreeId) -> Result<&TreeSnapshot> {
        self.parts.trees.tree(tree).ok_or_else(|| Error::Corrupt {
            partition: 0,
            what: format!("tree {tree} is missing"),
        })
    }
}

/// The writes of one row, each of a bounded size: the first replaces what is there if the row is
/// put.
struct Writes {
    key: Key,
    done: Vec<RowWrite>,
    current: RowWrite,
    bytes: usize,
}

impl Writes {
    fn new(key: Key, is_put: bool) -> Writes {
        Writes {
            current: match is_put {
                true => RowWrite::put(key.clone()),
                false => RowWrite::upsert(key.clone()),
            },
            key,
            done: Vec::new(),
            bytes: 0,
        }
    }

    fn add(&mut self, (change, bytes): (Change, usize)) {
        if self.bytes > 0 && self.bytes + bytes > WRITE_BYTES {
            let next = RowWrite::upsert(self.key.clone());
            self.done.push(std::mem::replace(&mut self.current, next));
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.current =
            std::mem::replace(&mut self.current, RowWrite::upsert(self.key.clone())).with(change);
    }

    fn finish(mut self) -> Vec<RowWrite> {
        self.done.push(self.current);
        self.done
    }
}

/// The fields of documents.
#[derive(Debug, Clone, Copy)]
struct Fields<'a> {
    schema: &'a Schema,
    key_field: &'a str,
}

impl Fields<'_> {
    /// The change of a cell, and its bytes; none of a column that was dropped, or of an undeclared
    /// field that documents do not show.
    ///
    /// # Errors
    /// What is wrong with it.
    fn change_of(
        &self,
        change: &CellChange<'_>,
    ) -> std::result::Result<Option<(Change, usize)>, String> {
        let Some(column) = self.schema.numbered(change.column) else {
            return Ok(None);
        };
        let text = |bytes: &[u8]| {
            String::from_utf8(bytes.to_vec())
                .map_err(|_| "the name of a member is no text".to_string())
        };
        let bytes = change.member.len() + change.value.len();
        let member = text(change.member)?;
        let name = column.name.as_str();
        let made = match change.op {
            CellOp::Put => {
                let stored = Stored::split(change.value)?;
                let expiry = stored.expires.map_or(CellExpiry::Never, CellExpiry::At);
                Change::set(name, Cell::decode(stored.cell)?).expiring(expiry)
            }
            CellOp::Delete => Change::remove(name),
            CellOp::Merge => match <[Operand; 1]>::try_from(Operand::decode_all(change.value)?) {
                Ok([operand]) => Change::merge(name, operand),
                Err(_) => return Err("a change of one cell by other than one operand".into()),
            },
            CellOp::Forget | CellOp::Progress => return Ok(None),
            CellOp::DeleteMembers => {
                let (from, to) = (Some(member), text(change.value)?);
                let to = (!to.is_empty()).then_some(to);
                return Ok(Some((Change::remove_members(name, from, to), bytes)));
            }
        };
        let is_shown = column.number != 0 || !self.schema.is_taken(&member, self.key_field);
        Ok(match column.family {
            true => is_shown.then(|| (made.of_member(member), bytes)),
            false => Some((made, bytes)),
        })
    }

    /// Refuses a cell that an older program wrote and that no document can have.
    fn check(&self, change: &Change) -> Result<()> {
        check_change(self.schema.declared(&change.column)?, change)
    }
}
