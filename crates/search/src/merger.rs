//! [`MergePostings`]: how changes of postings merge. A posting that becomes empty is no value.

use quire_index::{IndexDamage, Posting, PostingChange, is_posting};
use quire_lsm::{MergeError, Merger};

/// Merges changes of postings.
#[derive(Debug)]
pub(crate) struct MergePostings;

fn refused(damage: IndexDamage) -> MergeError {
    MergeError(damage.to_string())
}

impl Merger for MergePostings {
    type Accumulator = Posting;

    fn name(&self) -> &str {
        "postings"
    }

    fn begin(&self, _: &[u8], base: Option<&[u8]>) -> Result<Posting, MergeError> {
        let decoded = base.map(Posting::decode).transpose();
        Ok(decoded.map_err(refused)?.unwrap_or_default())
    }

    fn add(&self, _: &[u8], posting: &mut Posting, operand: &[u8]) -> Result<(), MergeError> {
        posting.apply_encoded(operand).map_err(refused)
    }

    fn is_value(&self, operand: &[u8]) -> bool {
        is_posting(operand)
    }

    fn is_nothing(&self, posting: &Posting) -> bool {
        posting.is_empty()
    }

    fn encode(&self, _: &[u8], posting: &Posting, out: &mut Vec<u8>) -> Result<(), MergeError> {
        posting.encode(out);
        Ok(())
    }

    fn combine(&self, _: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), MergeError> {
        PostingChange::combine(operands, out).map_err(refused)
    }
}
