//! Mergers: what a tree's merge operands mean.

use std::fmt;

/// Why a merger refused, in words for an operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MergeError(pub String);

/// Folds merge operands. Folding is associative: `apply(apply(base, a), b)` equals `apply(base,
/// combine(a, b))`, for the tree folds in whatever grouping its runs bring.
///
/// `out` is empty when handed over. Both functions are pure: the same bytes in give the same bytes
/// out.
pub trait Merger: Send + Sync + fmt::Debug {
    /// A name for operators.
    fn name(&self) -> &str;

    /// A base value (`None`: the key has none) and an operand make a value.
    ///
    /// # Errors
    /// Bytes that make no sense to this merger. A write that is folded at once is refused; one that
    /// is kept to be folded later is not looked at, and reads and compactions of the key then fail.
    /// So whoever writes operands checks them.
    fn apply(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operand: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError>;

    /// An older and a newer operand make one operand of the same effect.
    ///
    /// # Errors
    /// As for [`apply`](Merger::apply).
    fn combine(
        &self,
        key: &[u8],
        older: &[u8],
        newer: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError>;
}
