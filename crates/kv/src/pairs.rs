//! Pairs: what records of keys and values mean to the tree.

use crate::record::Changes;
use bytes::Bytes;
use quire_lsm::{Op, TreeSpec};
use quire_model::Position;
use quire_store::{ApplyError, Machine, TreeId, TreeWriter};

/// The only tree.
pub(crate) const PAIRS: TreeId = TreeId(1);

/// The machine: it has no state of its own.
#[derive(Debug)]
pub(crate) struct Pairs;

impl Pairs {
    /// The tree, before options shape it.
    pub(crate) fn tree() -> TreeSpec {
        TreeSpec::new(PAIRS.0, "pairs")
    }
}

impl Machine for Pairs {
    type Summary = ();

    const LOG_IS_KEPT: bool = false;

    fn trees() -> Vec<TreeSpec> {
        vec![Pairs::tree()]
    }

    fn new() -> Pairs {
        Pairs
    }

    fn decode(state: &[u8]) -> Result<Pairs, String> {
        match state {
            [] => Ok(Pairs),
            state => Err(format!(
                "{} bytes of state where there are none",
                state.len()
            )),
        }
    }

    fn encode(&self) -> Vec<u8> {
        Vec::new()
    }

    fn summary(&self) {}

    fn apply(&mut self, record: &[u8], trees: &TreeWriter<'_>) -> Result<(), ApplyError> {
        Changes::check(record).map_err(ApplyError::Record)?;
        for change in Changes::of(record) {
            let change = change.map_err(ApplyError::Record)?;
            match change.op {
                Op::Put(value) => trees.put(PAIRS, change.key, value)?,
                Op::PutUntil(timed) => trees.put_until(PAIRS, change.key, timed)?,
                Op::Delete => trees.delete(PAIRS, change.key)?,
                Op::Merge(operand) => trees.merge(PAIRS, change.key, operand)?,
                Op::DeleteRange(to) => trees.delete_range(PAIRS, change.key, to)?,
            }
        }
        Ok(())
    }

    fn check(&self, first: Position, records: &[Bytes]) -> Result<(), (Position, String)> {
        let mut position = first;
        for record in records {
            Changes::check(record).map_err(|what| (position, what))?;
            position = position.next();
        }
        Ok(())
    }
}
