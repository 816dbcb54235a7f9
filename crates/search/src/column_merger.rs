//! [`MergeColumns`]: how changes of column blocks merge.

use quire_index::{ColumnLayers, IndexDamage, combine_layers, fold_layers};
use quire_lsm::{MergeError, Merger};
use quire_seeded::{Bug, seeded};

/// Merges changes of column blocks: each is layers above those that are there.
#[derive(Debug)]
pub(crate) struct MergeColumns;

fn refused(damage: IndexDamage) -> MergeError {
    MergeError(damage.to_string())
}

impl Merger for MergeColumns {
    /// Layers, the oldest first.
    type Accumulator = Vec<u8>;

    fn name(&self) -> &str {
        "columns"
    }

    fn begin(&self, _: &[u8], base: Option<&[u8]>) -> Result<Vec<u8>, MergeError> {
        Ok(base.map(<[u8]>::to_vec).unwrap_or_default())
    }

    fn add(&self, _: &[u8], layers: &mut Vec<u8>, operand: &[u8]) -> Result<(), MergeError> {
        // The layers themselves are checked when they are read.
        let lengths = ColumnLayers::new(operand).append_to(&mut Vec::new());
        lengths.map_err(refused)?;
        layers.extend_from_slice(operand);
        Ok(())
    }

    fn encode(&self, _: &[u8], layers: &Vec<u8>, out: &mut Vec<u8>) -> Result<(), MergeError> {
        fold_layers(layers, out).map_err(refused)
    }

    fn combine(&self, _: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), MergeError> {
        if seeded(Bug::ColumnPatchLost)
            && let Some((_, older)) = operands.split_last()
        {
            return combine_layers(older, out).map_err(refused);
        }
        combine_layers(operands, out).map_err(refused)
    }
}
