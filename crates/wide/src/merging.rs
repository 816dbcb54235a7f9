//! The merger of a group's tree.

use crate::stored::{self, Stored};
use crate::{Cell, Operand};
use quire_lsm::{BytesMerger, MergeError};

/// Folds operands into cells, and operands into operands. A cell keeps the time when it expires:
/// no operand is written over one that has expired.
#[derive(Debug)]
pub(crate) struct CellMerger;

impl BytesMerger for CellMerger {
    fn name(&self) -> &str {
        "cells"
    }

    fn apply(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operand: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        let base = base.map(Stored::split).transpose().map_err(MergeError)?;
        let cell = base.map(|base| Cell::decode(base.cell)).transpose();
        let mut cell = cell.map_err(MergeError)?;
        for one in Operand::decode_all(operand).map_err(MergeError)? {
            cell = Some(one.apply(cell));
        }
        stored::put_expiry(base.and_then(|base| base.expires), out);
        out.extend(cell.iter().flat_map(Cell::encode));
        Ok(())
    }

    fn combine(
        &self,
        _: &[u8],
        older: &[u8],
        newer: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        let mut all = Operand::decode_all(older).map_err(MergeError)?;
        for one in Operand::decode_all(newer).map_err(MergeError)? {
            match all.last().and_then(|last| last.then(&one)) {
                Some(both) => {
                    all.pop();
                    all.push(both);
                }
                None => all.push(one),
            }
        }
        all.iter().for_each(|one| one.encode(out));
        Ok(())
    }
}
