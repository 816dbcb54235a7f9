//! What the tests of this crate share: a simulated machine with a place for tables, every codec,
//! and two mergers.

use crate::{Codec, FilterPager, MergeError, Merger, TableFiles, TreeContext};
use proptest::prelude::*;
use quire_env::{BlockCache, Budget, Env, SimEnv, Volumes};
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
pub(crate) fn any_codec() -> impl Strategy<Value = Codec> {
    prop_oneof![
        Just(Codec::None),
        Just(Codec::Lz4),
        (1u8..20).prop_map(|level| Codec::Zstd { level })
    ]
}

/// Values are bytes; operands are appended to them. Not commutative, so the order of folding shows.
/// Refuses `!`.
#[derive(Debug)]
pub(crate) struct Concat;

impl Merger for Concat {
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

impl Merger for Sum {
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
