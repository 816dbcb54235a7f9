//! Operations on the wide collection of a history, beside those on its plain ones.
//!
//! The first write makes it. Its rows have cells in three column groups, one of which has two
//! tiers. As text:
//!
//! ```text
//! write wide sync: put 3 bytes 200; patch 4 shape 5; delete 6 if-absent
//! sync wide               # and so: flush, compact, check
//! tier wide               # moves the cells that are due between tiers
//! move wide text to links # text is to be in the group links
//! move wide columns       # moves the cells of columns that are to be in other groups
//! split wide: put 3 bytes 1  # each partition in two; these writes are done meanwhile
//! merge wide: delete 3    # each two partitions, in the same way
//! ```

pub(crate) mod model;
pub(crate) mod row;

use super::history::{Condition, Write};
use super::rng::Rng;
use super::text::{Words, parse_write};
use quiredb::Durability;
use quiredb::wide::Schema;
use std::fmt;

/// Its name in the database.
pub(crate) const NAME: &str = "wide";

/// The columns of the wide collection.
const COLUMNS: [&str; 3] = ["n", "text", "links"];

/// Its column groups, of one column each at first.
const GROUPS: [&str; 3] = ["default", "texts", "links"];

/// An operation on the wide collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WideOp {
    /// A batch of writes of rows.
    Write {
        /// Their durability.
        durability: Durability,
        /// At least one. None has an external version.
        writes: Vec<Write>,
    },
    /// Makes everything written so far durable.
    Sync,
    /// Writes the memtables out.
    Flush,
    /// Merges every tree into one run.
    Compact,
    /// Compares everything that can be read with the model.
    Check,
    /// Moves the cells that are due between the tiers of their group.
    Tier,
    /// Says that a column is to be in another group.
    Move {
        /// One of its columns.
        column: &'static str,
        /// One of its groups.
        group: &'static str,
    },
    /// Moves the cells of all columns that are to be in other groups.
    MoveColumns,
    /// Splits each partition in two, unless it has many, or writes in doubt. These writes are done
    /// one by one meanwhile.
    Split(Vec<Write>),
    /// Merges each two partitions, unless their number is odd, or writes in doubt. These writes are
    /// done one by one meanwhile.
    Merge(Vec<Write>),
}

/// The schema that it is made with.
pub(crate) fn schema() -> Schema {
    let json = br#"{
        "properties": {
            "n": {"type": "integer"},
            "text": {"type": "string", "group": "texts"},
            "links": {"type": "object", "additionalProperties": {"type": "integer"},
                      "group": "links"}
        },
        "groups": {
            "texts": {"codec": "none", "block_bytes": 1024,
                      "tiers": {"hot": "ssd", "cold": "hdd", "after": "1s"}}
        }
    }"#;
    Schema::from_json(json).unwrap()
}

impl fmt::Display for WideOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |f: &mut fmt::Formatter<'_>, writes: &[Write]| {
            for (index, write) in writes.iter().enumerate() {
                write!(f, "{} {write}", if index > 0 { ";" } else { ":" })?;
            }
            Ok(())
        };
        match self {
            WideOp::Write { durability, writes } => {
                write!(f, "write wide {durability}")?;
                all(f, writes)
            }
            WideOp::Sync => f.write_str("sync wide"),
            WideOp::Flush => f.write_str("flush wide"),
            WideOp::Compact => f.write_str("compact wide"),
            WideOp::Check => f.write_str("check wide"),
            WideOp::Tier => f.write_str("tier wide"),
            WideOp::Move { column, group } => write!(f, "move wide {column} to {group}"),
            WideOp::MoveColumns => f.write_str("move wide columns"),
            WideOp::Split(writes) => {
                f.write_str("split wide")?;
                all(f, writes)
            }
            WideOp::Merge(writes) => {
                f.write_str("merge wide")?;
                all(f, writes)
            }
        }
    }
}

/// The operation of this line, of which `op` and the name were taken.
pub(crate) fn parse(op: &str, words: &mut Words<'_>) -> Result<WideOp, String> {
    Ok(match op {
        "write" => {
            let durability = words.next().unwrap_or_default().parse()?;
            words.expect(":")?;
            WideOp::Write {
                durability,
                writes: parse_writes(words)?,
            }
        }
        "sync" => WideOp::Sync,
        "flush" => WideOp::Flush,
        "compact" => WideOp::Compact,
        "check" => WideOp::Check,
        "tier" => WideOp::Tier,
        "move" if words.take("columns") => WideOp::MoveColumns,
        "move" => {
            let column = words.choice(&COLUMNS.map(|name| (name, name)))?;
            words.expect("to")?;
            let group = words.choice(&GROUPS.map(|name| (name, name)))?;
            WideOp::Move { column, group }
        }
        "split" if words.take(":") => WideOp::Split(parse_writes(words)?),
        "split" => WideOp::Split(Vec::new()),
        "merge" if words.take(":") => WideOp::Merge(parse_writes(words)?),
        "merge" => WideOp::Merge(Vec::new()),
        other => return Err(format!("the wide collection has no operation {other:?}")),
    })
}

fn parse_writes(words: &mut Words<'_>) -> Result<Vec<Write>, String> {
    let mut writes = Vec::new();
    while writes.is_empty() || words.take(";") {
        let write = parse_write(words)?;
        if without_version(write) != write {
            return Err("rows of the wide collection have no external versions".to_string());
        }
        writes.push(write);
    }
    Ok(writes)
}

/// The write, with no condition on an external version.
pub(crate) fn without_version(write: Write) -> Write {
    let condition = match write.condition {
        Condition::External { .. } | Condition::ExternalOrEqual { .. } => Condition::Always,
        condition => condition,
    };
    Write { condition, ..write }
}

/// A random operation; `writes` draws a batch. Some time may pass before it.
pub(crate) fn random(
    rng: &mut Rng,
    writes: impl Fn(&mut Rng) -> (Durability, Vec<Write>),
) -> WideOp {
    let writes = |rng: &mut Rng| {
        let (durability, writes) = writes(rng);
        (
            durability,
            writes.into_iter().map(without_version).collect(),
        )
    };
    match rng.weighted([12, 1, 2, 1, 1, 2, 2, 2, 1, 1].into_iter()) {
        0 => {
            let (durability, writes) = writes(rng);
            WideOp::Write { durability, writes }
        }
        1 => WideOp::Sync,
        2 => WideOp::Flush,
        3 => WideOp::Compact,
        4 => WideOp::Check,
        5 => WideOp::Tier,
        6 => WideOp::Move {
            column: rng.one_of(&COLUMNS),
            group: rng.one_of(&GROUPS),
        },
        7 => WideOp::MoveColumns,
        8 => WideOp::Split(writes(rng).1),
        _ => WideOp::Merge(writes(rng).1),
    }
}
