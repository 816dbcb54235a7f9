//! Mergers: what a tree's merge operands mean.
//!
//! A merge operand is a change of a value. A read folds the stored value of a key and the operands
//! above it into an accumulator, and hands that out as it is ("lazy merging"). Only a flush, a
//! compaction, a write over an entry of the same memtable, and a read that wants bytes serialise.
//!
//! ```text
//!  newest memtable   operand c ─┐
//!  a run             operand b ─┤ combine(b, c) ─► one operand            (older runs exist)
//!  the oldest run    value a   ─┴ begin(a), add(b), add(c) ─► accumulator ─► encode ─► value
//! ```
//!
//! An accumulator that is nothing has no value: its key is deleted.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Why a merger refused, in words for an operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MergeError(pub String);

/// Folds merge operands into a typed accumulator.
///
/// # Contract
/// 1. All functions are pure: the same input gives the same result.
/// 2. Operands come oldest first. They need not commute.
/// 3. Folding is associative. `begin(base)`, `add(a)`, `add(b)` gives what `begin(base)`,
///    `add(combine(a, b))` gives, and `combine(a, b, c)` what `combine(combine(a, b), c)` gives.
/// 4. Encoding loses nothing: after `encode(x)` gives a value, `begin(value)` gives `x`. Of an `x`
///    that [is nothing](Merger::is_nothing), `begin` without a value gives `x`.
///
/// The tree may cut the operands of a key anywhere, by its memtables and runs. With 3 and 4 a read
/// gives the same accumulator whatever was flushed and compacted before.
///
/// # Errors
/// A function refuses bytes that make no sense to it. A write that is folded at once then fails. An
/// operand that is kept to be folded later is not checked when it is written; reads and compactions
/// of the key fail. So the writer of operands checks them.
pub trait Merger: Send + Sync + fmt::Debug + 'static {
    /// A key's value in memory: what a read hands out.
    type Accumulator: Send + 'static;

    /// A name for operators.
    fn name(&self) -> &str;

    /// The accumulator of a stored value; `None` if the key has none, and an operand is added next.
    ///
    /// # Errors
    /// See [`Merger`].
    fn begin(&self, key: &[u8], base: Option<&[u8]>) -> Result<Self::Accumulator, MergeError>;

    /// Changes the accumulator by an operand that is newer than all it has.
    ///
    /// # Errors
    /// See [`Merger`].
    fn add(
        &self,
        key: &[u8],
        accumulator: &mut Self::Accumulator,
        operand: &[u8],
    ) -> Result<(), MergeError>;

    /// Whether the accumulator is that of a key without a value: its key is then as if it had been
    /// deleted. A value with a deadline stays one. Never, if the merger does not say.
    fn is_nothing(&self, _: &Self::Accumulator) -> bool {
        false
    }

    /// Whether an operand of a key without a value makes a value of the same bytes: then nothing
    /// is decoded. Never, if the merger does not say.
    fn is_value(&self, _operand: &[u8]) -> bool {
        false
    }

    /// Appends the accumulator to `out`, as a value.
    ///
    /// # Errors
    /// See [`Merger`].
    fn encode(
        &self,
        key: &[u8],
        accumulator: &Self::Accumulator,
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError>;

    /// Appends to `out` one operand of the same effect as `operands`, at least two, oldest first.
    ///
    /// # Errors
    /// See [`Merger`].
    fn combine(&self, key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), MergeError>;
}

/// A [`Merger`] of any accumulator, as a tree keeps it. Every `Merger` is one.
pub trait DynMerger: Any + Send + Sync + fmt::Debug {
    /// As of [`Merger::name`].
    fn name(&self) -> &str;

    /// As of [`Merger::is_value`].
    fn is_value(&self, operand: &[u8]) -> bool;

    /// Appends the value that `operands`, oldest first, make of `base`. False if that is
    /// [nothing](Merger::is_nothing).
    ///
    /// # Errors
    /// As of [`Merger::add`].
    fn fold(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<bool, MergeError>;

    /// As of [`Merger::combine`].
    ///
    /// # Errors
    /// As of [`Merger::combine`].
    fn combine(&self, key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), MergeError>;
}

impl<M: Merger> DynMerger for M {
    fn name(&self) -> &str {
        Merger::name(self)
    }

    fn is_value(&self, operand: &[u8]) -> bool {
        Merger::is_value(self, operand)
    }

    fn fold(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<bool, MergeError> {
        let accumulator = fold(self, key, base, operands)?;
        self.encode(key, &accumulator, out)?;
        Ok(!self.is_nothing(&accumulator))
    }

    fn combine(&self, key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), MergeError> {
        Merger::combine(self, key, operands, out)
    }
}

/// The accumulator that `operands`, oldest first, make of `base`.
pub(crate) fn fold<M: Merger>(
    merger: &M,
    key: &[u8],
    base: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<M::Accumulator, MergeError> {
    let mut accumulator = merger.begin(key, base)?;
    for operand in operands {
        merger.add(key, &mut accumulator, operand)?;
    }
    Ok(accumulator)
}

/// A merger whose values are bytes in memory too. A tree takes it as [`FoldBytes`].
///
/// Folding is associative: `apply(apply(base, a), b)` equals `apply(base, combine(a, b))`. `out` is
/// empty when it is handed over.
pub trait BytesMerger: Send + Sync + fmt::Debug {
    /// A name for operators.
    fn name(&self) -> &str;

    /// A base value (`None`: the key has none) and an operand make a value.
    ///
    /// # Errors
    /// As of [`Merger`].
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
    /// As of [`Merger`].
    fn combine(
        &self,
        key: &[u8],
        older: &[u8],
        newer: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError>;
}

/// The [`Merger`] of a [`BytesMerger`]. Its accumulator is the value, `None` before the first
/// operand of a key without one.
#[derive(Debug, Clone)]
pub struct FoldBytes(pub Arc<dyn BytesMerger>);

impl FoldBytes {
    /// The merger, as [`TreeSpec::merger`](crate::TreeSpec::merger) takes it.
    pub fn shared(merger: impl BytesMerger + 'static) -> Arc<dyn DynMerger> {
        Arc::new(FoldBytes(Arc::new(merger)))
    }
}

impl Merger for FoldBytes {
    type Accumulator = Option<Vec<u8>>;

    fn name(&self) -> &str {
        self.0.name()
    }

    fn begin(&self, _: &[u8], base: Option<&[u8]>) -> Result<Option<Vec<u8>>, MergeError> {
        Ok(base.map(<[u8]>::to_vec))
    }

    fn add(
        &self,
        key: &[u8],
        value: &mut Option<Vec<u8>>,
        operand: &[u8],
    ) -> Result<(), MergeError> {
        let mut out = Vec::new();
        self.0.apply(key, value.as_deref(), operand, &mut out)?;
        *value = Some(out);
        Ok(())
    }

    fn encode(
        &self,
        _: &[u8],
        value: &Option<Vec<u8>>,
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        out.extend_from_slice(value.as_deref().unwrap_or_default());
        Ok(())
    }

    fn combine(&self, key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), MergeError> {
        let mut operands = operands.iter();
        let mut combined = operands
            .next()
            .map_or_else(Vec::new, |first| first.to_vec());
        for newer in operands {
            let older = std::mem::take(&mut combined);
            self.0.combine(key, &older, newer, &mut combined)?;
        }
        out.append(&mut combined);
        Ok(())
    }
}
