//! What the tests of this crate share: a simulated machine with a place for tables, every codec,
//! and three mergers.

use crate::{BlockCodec, BytesMerger, FilterPager, MergeError, Merger, TableFiles, TreeContext};
use proptest::prelude::*;
use quire_env::{BlockCache, Budget, Env, SimEnv, Volumes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Tables at `/db/t` of `env`, a cache that holds a few blocks, a budget that only counts.
pub(crate) fn context(env: &Arc<SimEnv>) -> TreeContext {
    let env: Arc<dyn Env> = Arc::clone(env) as Arc<dyn Env>;
    TreeContext {
        files: Arc::new(TableFiles::new(
            Arc::clone(&env),
            Volumes::single("/db"),
            "t".into(),
            1,
        )),
        filters: FilterPager::new(Arc::clone(&env), 1 << 20),
        env,
        cache: BlockCache::new(64 << 10),
        budget: Budget::new(u64::MAX),
    }
}

/// Each codec, zstd at any level.
pub(crate) fn any_codec() -> impl Strategy<Value = BlockCodec> {
    prop_oneof![
        Just(BlockCodec::None),
        Just(BlockCodec::Lz4),
        (1u8..20).prop_map(|level| BlockCodec::Zstd { level })
    ]
}

/// Values are bytes; operands are appended to them. Not commutative, so the order of folding shows.
/// Refuses `!`.
#[derive(Debug)]
pub(crate) struct Concat;

impl BytesMerger for Concat {
    fn name(&self) -> &str {
        "concat"
    }

    fn apply(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operand: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        self.combine(key, base.unwrap_or_default(), operand, out)
    }

    fn combine(
        &self,
        _: &[u8],
        older: &[u8],
        newer: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        if newer == b"!" {
            return Err(MergeError("an exclamation mark".into()));
        }
        out.extend_from_slice(older);
        out.extend_from_slice(newer);
        Ok(())
    }
}

/// Values and operands are i64, little-endian; they add up. Any other length counts as its first
/// byte, or 0.
#[derive(Debug)]
pub(crate) struct Sum;

pub(crate) fn number(bytes: &[u8]) -> i64 {
    match bytes.try_into() {
        Ok(bytes) => i64::from_le_bytes(bytes),
        Err(_) => bytes.first().map_or(0, |&byte| i64::from(byte)),
    }
}

impl BytesMerger for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn apply(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operand: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        self.combine(key, base.unwrap_or_default(), operand, out)
    }

    fn combine(
        &self,
        _: &[u8],
        older: &[u8],
        newer: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), MergeError> {
        out.extend(number(older).wrapping_add(number(newer)).to_le_bytes());
        Ok(())
    }
}

/// Values are sets of bytes, ascending. An operand is a list of changes of two bytes each: 0 and a
/// byte to remove, or 1 and a byte to add; later ones count more. What is left of an odd one, and
/// other first bytes, count as additions. A set that becomes empty is no value.
#[derive(Debug)]
pub(crate) struct Sets;

fn changes(operand: &[u8]) -> impl Iterator<Item = (u8, bool)> {
    let change = |change: &[u8]| match change {
        [0, byte] => (*byte, false),
        [_, byte] | [byte] => (*byte, true),
        _ => (0, true),
    };
    operand.chunks(2).map(change)
}

impl Merger for Sets {
    type Accumulator = BTreeSet<u8>;

    fn name(&self) -> &str {
        "sets"
    }

    fn begin(&self, _: &[u8], base: Option<&[u8]>) -> Result<BTreeSet<u8>, MergeError> {
        Ok(base.unwrap_or_default().iter().copied().collect())
    }

    fn add(&self, _: &[u8], set: &mut BTreeSet<u8>, operand: &[u8]) -> Result<(), MergeError> {
        for (byte, is_added) in changes(operand) {
            match is_added {
                true => set.insert(byte),
                false => set.remove(&byte),
            };
        }
        Ok(())
    }

    fn is_nothing(&self, set: &BTreeSet<u8>) -> bool {
        set.is_empty()
    }

    fn encode(&self, _: &[u8], set: &BTreeSet<u8>, out: &mut Vec<u8>) -> Result<(), MergeError> {
        out.extend(set);
        Ok(())
    }

    fn combine(&self, _: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), MergeError> {
        let all = operands.iter().flat_map(|operand| changes(operand));
        let newest: BTreeMap<_, _> = all.collect();
        for (byte, is_added) in newest {
            out.extend([u8::from(is_added), byte]);
        }
        Ok(())
    }
}
