//! Schema: the columns of a wide collection, and the groups that they lie in.
//!
//! # Invariants
//! 1. A column's number is never given to another, so cells of a dropped column are never shown.
//! 2. A group's number is its place in the list; groups are added and never removed.
//! 3. A column stays plain or a family, and its first group is known. Its type only becomes wider.

use crate::group_tiers::AFTER;
use crate::{Error, GroupTiers, Result};
use quire_env::Medium;
use quire_lsm::BlockCodec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most groups of a collection.
pub const GROUPS_MAX: usize = 16;

/// The most columns of a collection.
const COLUMNS_MAX: usize = 65_536;

/// The longest name of a column or group, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Bytes that a block of a group may have, before compression.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 1 << 10..=1 << 20;

/// Bits of filter for each cell, unless it is said, and at most.
pub(crate) const FILTER_BITS: u32 = 10;
const FILTER_BITS_MAX: u32 = 64;

/// The column that undeclared fields are kept in: a family of JSON, in the first group.
pub const REST: &str = "_rest";

/// The type of a column's cells, or of a family's members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// Text.
    String,
    /// Any bytes; base64 in JSON.
    Bytes,
    /// An integer of 64 bits.
    Int,
    /// A number.
    Float,
    /// True or false.
    Bool,
    /// Microseconds since 1970 UTC.
    Timestamp,
    /// Any JSON value.
    Json,
}

impl ColumnType {
    /// What JSON has to be there, for messages.
    pub(crate) fn words(self) -> &'static str {
        match self {
            ColumnType::String => "a string",
            ColumnType::Bytes => "a string of base64",
            ColumnType::Int => "an integer of 64 bits",
            ColumnType::Float => "a number",
            ColumnType::Bool => "a boolean",
            ColumnType::Timestamp => "an integer of microseconds",
            ColumnType::Json => "any value",
        }
    }
}

/// A declared column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name: a top-level field of documents.
    pub name: String,
    /// Its number, which stays when it is renamed.
    pub(crate) number: u32,
    /// The type of its cells.
    pub kind: ColumnType,
    /// Whether it is a family: an object whose members are cells of their own.
    pub family: bool,
    /// The number of its group: the one that it moves to, if it does.
    pub(crate) group: u8,
    /// The group that it was in at first.
    pub(crate) first_group: u8,
    /// How long its cells are there after they were written, unless a write says otherwise; always,
    /// if none.
    pub time_to_live: Option<Duration>,
}

impl Column {
    /// Whether its cells are those of `other`, whatever their names.
    pub fn is_same(&self, other: Option<&Column>) -> bool {
        other.is_some_and(|other| other.number == self.number)
    }

    /// Whether its cells may be of this type from now on: the same, or a wider one.
    fn can_become(&self, kind: ColumnType) -> bool {
        self.kind == kind || (self.kind, kind) == (ColumnType::Int, ColumnType::Float)
    }
}

/// How blocks of a group are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupCodec {
    /// As they are.
    None,
    /// LZ4: the default.
    #[default]
    Lz4,
    /// zstd of level 3.
    Zstd,
}

impl GroupCodec {
    pub(crate) fn of_blocks(self) -> BlockCodec {
        match self {
            GroupCodec::None => BlockCodec::None,
            GroupCodec::Lz4 => BlockCodec::Lz4,
            GroupCodec::Zstd => BlockCodec::Zstd { level: 3 },
        }
    }
}

/// A column group: a tree of its own in each partition, or two if it has two tiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// How its blocks are stored. What is on disk stays as it is.
    pub codec: GroupCodec,
    /// Bytes of a block before compression, 1 KiB to 1 MiB: small ones serve gets, large ones
    /// scans.
    pub block_bytes: u32,
    /// Bits of filter for each cell, 0 to 64: a filter saves reads for cells that are not there,
    /// and takes memory. 10 let about 1 % of them through; with 0 there is no filter.
    pub filter_bits: u32,
    /// New tables go to the volumes of this medium; to those of the first volume's if none.
    pub tier: Option<Medium>,
    /// Two tiers instead, between which the cells of a row move by their age.
    pub tiers: Option<GroupTiers>,
}

impl Group {
    /// The media of new tables of the hot tree and of the cold one.
    pub(crate) fn media(&self) -> (Option<Medium>, Option<Medium>) {
        match &self.tiers {
            Some(tiers) => (Some(tiers.hot), Some(tiers.cold)),
            None => (self.tier, self.tier),
        }
    }

    /// A group of this name: LZ4, blocks of 8 KiB, filters of 10 bits a cell.
    pub fn new(name: impl Into<String>) -> Group {
        Group {
            name: name.into(),
            codec: GroupCodec::default(),
            block_bytes: 8 << 10,
            filter_bits: FILTER_BITS,
            tier: None,
            tiers: None,
        }
    }
}

/// The columns of a collection.
///
/// ```
/// use quire_wide::Schema;
///
/// let pages = Schema::from_json(
///     br#"{
///         "properties": {
///             "title":   {"type": "string"},
///             "html":    {"type": "string", "contentEncoding": "base64", "group": "cold"},
///             "anchors": {"type": "object", "additionalProperties": {"type": "string"}}
///         },
///         "groups": {"cold": {"codec": "zstd", "block_bytes": 65536}}
///     }"#,
/// )?;
/// assert!(pages.column("anchors").is_some_and(|column| column.family));
/// # Ok::<(), quire_wide::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    pub(crate) columns: Vec<Column>,
    pub(crate) groups: Vec<Group>,
    pub(crate) next_number: u32,
    pub(crate) keeps_rest: bool,
    /// Places in `columns`.
    by_name: BTreeMap<String, usize>,
    by_number: BTreeMap<u32, usize>,
}

impl Default for Schema {
    fn default() -> Schema {
        Schema {
            columns: Vec::new(),
            groups: vec![Group::new("default")],
            next_number: 1,
            keeps_rest: false,
            by_name: BTreeMap::new(),
            by_number: BTreeMap::new(),
        }
    }
}

impl Schema {
    /// A schema without columns, which refuses undeclared fields.
    pub fn new() -> Schema {
        Schema::default()
    }

    /// Says whether undeclared fields are kept, in the column `_rest`; else they are refused.
    #[must_use]
    pub fn keep_undeclared(mut self, keep: bool) -> Schema {
        self.keeps_rest = keep;
        self
    }

    /// Adds a group, or shapes one that there is otherwise.
    ///
    /// # Errors
    /// `Invalid` for a bad name, block size or filter, tiers that can't be, or one too many.
    pub fn with_group(mut self, group: Group) -> Result<Schema> {
        check_name("group", &group.name)?;
        if !BLOCK_BYTES.contains(&group.block_bytes) {
            let (least, most) = (BLOCK_BYTES.start(), BLOCK_BYTES.end());
            return Err(Error::Invalid(format!(
                "group {:?}: block_bytes is {}; it must be {least} to {most}",
                group.name, group.block_bytes
            )));
        }
        let wrong = |what| Err(Error::Invalid(format!("group {:?}: {what}", group.name)));
        if group.filter_bits > FILTER_BITS_MAX {
            let bits = group.filter_bits;
            return wrong(format!(
                "filter_bits is {bits}; it must be 0 to {FILTER_BITS_MAX}"
            ));
        }
        if group.tier.is_some() && group.tiers.is_some() {
            return wrong("it has one tier or two: leave tier or tiers out".into());
        }
        if let Some(Err(what)) = group.tiers.as_ref().map(GroupTiers::check) {
            return wrong(what);
        }
        let count = self.groups.len();
        match self.groups.iter_mut().find(|one| one.name == group.name) {
            Some(there) => *there = group,
            None if count == GROUPS_MAX => {
                let what = format!(
                    "group {:?}: a collection has {GROUPS_MAX} at most",
                    group.name
                );
                return Err(Error::Invalid(what));
            }
            None => self.groups.push(group),
        }
        Ok(self)
    }

    /// Adds a column to a group, which is made if there is none of this name.
    ///
    /// # Errors
    /// `Invalid` for a bad name, one that there is, or one too many.
    pub fn with_column(self, name: &str, kind: ColumnType, group: &str) -> Result<Schema> {
        self.add(name, kind, false, group, None)
    }

    /// Adds a column family to a group, which is made if there is none of this name: an object
    /// whose members, all of one type, are cells of their own.
    ///
    /// # Errors
    /// As of [`with_column`](Schema::with_column).
    pub fn with_family(self, name: &str, kind: ColumnType, group: &str) -> Result<Schema> {
        self.add(name, kind, true, group, None)
    }

    pub(crate) fn add(
        mut self,
        name: &str,
        kind: ColumnType,
        family: bool,
        group: &str,
        number: Option<u32>,
    ) -> Result<Schema> {
        check_name("column", name)?;
        if name == REST {
            let what = format!("column {REST:?} is where undeclared fields are kept");
            return Err(Error::Invalid(what));
        }
        if self.column(name).is_some() {
            return Err(Error::Invalid(format!("column {name:?} is there already")));
        }
        if self.columns.len() == COLUMNS_MAX {
            let what = format!("column {name:?}: a collection has {COLUMNS_MAX} at most");
            return Err(Error::Invalid(what));
        }
        if !self.groups.iter().any(|one| one.name == group) {
            self = self.with_group(Group::new(group))?;
        }
        let place = self.groups.iter().position(|one| one.name == group);
        let number = number.unwrap_or(self.next_number);
        if number == 0 || number >= u32::MAX - 1 {
            return Err(Error::Invalid(format!(
                "column {name:?}: number {number} can't be"
            )));
        }
        let index = self.columns.len();
        if self.by_number.insert(number, index).is_some() {
            return Err(Error::Invalid(format!(
                "column {name:?}: number {number} is another's"
            )));
        }
        self.by_name.insert(name.to_string(), index);
        self.next_number = self.next_number.max(number + 1);
        self.columns.push(Column {
            name: name.to_string(),
            number,
            kind,
            family,
            group: place.unwrap_or_default() as u8,
            first_group: place.unwrap_or_default() as u8,
            time_to_live: None,
        });
        Ok(self)
    }

    /// Without a column. Its cells are not shown any more, also if a column of this name is added
    /// again; their room is free once their rows are put or deleted.
    ///
    /// # Errors
    /// `Invalid` if there is none.
    pub fn without_column(mut self, name: &str) -> Result<Schema> {
        self.declared(name)?;
        self.columns.retain(|column| column.name != name);
        Ok(self.indexed())
    }

    /// With a column under another name.
    ///
    /// # Errors
    /// `Invalid` if there is none, or one of the new name.
    pub fn with_renamed(mut self, from: &str, to: &str) -> Result<Schema> {
        self.declared(from)?;
        check_name("column", to)?;
        if to == REST || self.column(to).is_some() {
            return Err(Error::Invalid(format!("column {to:?} is there already")));
        }
        for column in &mut self.columns {
            if column.name == from {
                column.name = to.to_string();
            }
        }
        Ok(self.indexed())
    }

    /// With places that are those of the columns.
    fn indexed(mut self) -> Schema {
        let columns = || self.columns.iter().enumerate();
        self.by_name = columns()
            .map(|(index, one)| (one.name.clone(), index))
            .collect();
        self.by_number = columns().map(|(index, one)| (one.number, index)).collect();
        self
    }

    /// With a wider type of a column: an integer becomes a float.
    ///
    /// # Errors
    /// `Invalid` if there is no such column, or its cells may not be of that type.
    pub fn with_wider(mut self, name: &str, kind: ColumnType) -> Result<Schema> {
        let before = self.declared(name)?;
        if !before.can_become(kind) {
            let what = format!(
                "column {name:?} has {}; only integers can become numbers",
                before.kind.words()
            );
            return Err(Error::Invalid(what));
        }
        for column in &mut self.columns {
            if column.name == name {
                column.kind = kind;
            }
        }
        Ok(self)
    }

    /// With a column in another group, which is made if there is none of this name. Its cells are
    /// moved there in the background, while they are read and written.
    ///
    /// # Errors
    /// `Invalid` if there is no such column, or one group too many.
    pub fn with_moved(mut self, name: &str, group: &str) -> Result<Schema> {
        if name == REST {
            let what = format!("column {REST:?} stays in its group");
            return Err(Error::Invalid(what));
        }
        self.declared(name)?;
        if !self.groups.iter().any(|one| one.name == group) {
            self = self.with_group(Group::new(group))?;
        }
        let place = self.groups.iter().position(|one| one.name == group);
        for column in &mut self.columns {
            if column.name == name {
                column.group = place.unwrap_or_default() as u8;
            }
        }
        Ok(self)
    }

    /// Says in which group a column was at first.
    pub(crate) fn with_first_group(mut self, name: &str, group: &str) -> Result<Schema> {
        let place = self.groups.iter().position(|one| one.name == group);
        let place = place.ok_or_else(|| {
            let what = format!("column {name:?}: movedFrom: there is no group {group:?}");
            Error::Invalid(what)
        })?;
        for column in &mut self.columns {
            if column.name == name {
                column.first_group = place as u8;
            }
        }
        Ok(self)
    }

    /// With another time to live of the cells of a column that are written from now on: each
    /// expires so long after it was written, unless its write says otherwise. None: they do not
    /// expire.
    ///
    /// # Errors
    /// `Invalid` if there is no such column, or the time is not 1 second to 100 years.
    pub fn with_time_to_live(mut self, name: &str, time: Option<Duration>) -> Result<Schema> {
        if name == REST {
            let what = format!("column {REST:?} has no time to live");
            return Err(Error::Invalid(what));
        }
        self.declared(name)?;
        if time.is_some_and(|time| !AFTER.contains(&time.as_secs())) {
            let (least, most) = (AFTER.start(), AFTER.end() / 86_400);
            return Err(Error::Invalid(format!(
                "column {name:?}: a time to live is at least {least}s, and at most {most}d"
            )));
        }
        for column in &mut self.columns {
            if column.name == name {
                column.time_to_live = time;
            }
        }
        Ok(self)
    }

    /// Checks that this is `before`, altered: cells that were written under that one mean the same
    /// under this one.
    ///
    /// # Errors
    /// `Invalid` if a column began in another group, is a family and was none, or has a narrower
    /// type; if a number is used again; if a group is missing or has another place.
    pub fn check_follows(&self, before: &Schema) -> Result<()> {
        let wrong = |what: String| {
            let what = format!("{what}: alter the schema that there is, and make no new one");
            Err(Error::Invalid(what))
        };
        for (place, group) in before.groups.iter().enumerate() {
            if self
                .groups
                .get(place)
                .is_none_or(|now| now.name != group.name)
            {
                return wrong(format!("group {:?} is missing or has moved", group.name));
            }
        }
        if self.next_number < before.next_number {
            let (now, then) = (self.next_number, before.next_number);
            return wrong(format!("the next column is {now}, and was {then}"));
        }
        for column in &self.columns {
            let (name, number) = (&column.name, column.number);
            let Some(then) = before.by_number.get(&number) else {
                match number < before.next_number {
                    true => {
                        return wrong(format!("column {name:?}: number {number} was another's"));
                    }
                    false => continue,
                }
            };
            let Some(then) = before.columns.get(*then) else {
                continue;
            };
            if (column.first_group, column.family) != (then.first_group, then.family) {
                return wrong(format!(
                    "column {name:?} was in another group, or is of another shape"
                ));
            }
            if !then.can_become(column.kind) {
                let (is, was) = (column.kind.words(), then.kind.words());
                return wrong(format!("column {name:?} has {is}, and had {was}"));
            }
        }
        Ok(())
    }

    /// The columns, in the order in which they were declared.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Whether undeclared fields are kept.
    pub fn keeps_undeclared(&self) -> bool {
        self.keeps_rest
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.get(*self.by_name.get(name)?)
    }

    /// The column of this number, also that of undeclared fields where they are kept; `None` of one
    /// that was dropped.
    pub(crate) fn numbered(&self, number: u32) -> Option<&Column> {
        if number == 0 {
            return self.keeps_rest.then(rest_column);
        }
        self.columns.get(*self.by_number.get(&number)?)
    }

    /// The name of a column's group.
    pub fn group_of(&self, column: &Column) -> &str {
        let group = self.groups.get(usize::from(column.group));
        group.map_or("", |group| group.name.as_str())
    }

    /// The name of the group that a column was in at first, if it has moved since.
    pub(crate) fn first_group_of(&self, column: &Column) -> Option<&str> {
        let has_moved = column.first_group != column.group;
        let group = self.groups.get(usize::from(column.first_group));
        group.filter(|_| has_moved).map(|group| group.name.as_str())
    }

    /// Whether no undeclared field can have this name: a column or the key has it.
    pub(crate) fn is_taken(&self, name: &str, key_field: &str) -> bool {
        self.column(name).is_some() || !key_field.is_empty() && name == key_field
    }

    /// The column of this name, also [`REST`] where undeclared fields are kept.
    ///
    /// # Errors
    /// `Invalid` if there is none: says which there are.
    pub(crate) fn declared(&self, name: &str) -> Result<&Column> {
        let rest = (self.keeps_rest && name == REST).then(rest_column);
        rest.or_else(|| self.column(name)).ok_or_else(|| {
            let names: Vec<_> = self.columns.iter().take(20).map(|one| &*one.name).collect();
            let more = if self.columns.len() > 20 { ", …" } else { "" };
            let names = names.join(", ");
            Error::Invalid(format!("no column {name:?}; there are: {names}{more}"))
        })
    }
}

/// The column of undeclared fields.
pub(crate) fn rest_column() -> &'static Column {
    static COLUMN: std::sync::LazyLock<Column> = std::sync::LazyLock::new(|| Column {
        name: REST.to_string(),
        number: 0,
        kind: ColumnType::Json,
        family: true,
        group: 0,
        first_group: 0,
        time_to_live: None,
    });
    &COLUMN
}

fn check_name(what: &str, name: &str) -> Result<()> {
    let is_bad = name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(',');
    match is_bad {
        true => Err(Error::Invalid(format!(
            "{what} {:?}: a name has 1 to {NAME_BYTES_MAX} bytes, and no comma",
            name.chars().take(64).collect::<String>()
        ))),
        false => Ok(()),
    }
}
