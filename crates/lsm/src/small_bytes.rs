//! Bytes as trees keep and hand out: a few in place, more shared with the block or memtable entry
//! they are from.

use crate::table::Block;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Up to this many are kept in place: as much as fits where shared ones have their pointer.
const SHORT_MAX: usize = 30;

/// A key or value. Copying one of up to 30 bytes changes no count that threads share,
/// and reading it reads no other memory.
#[derive(Clone)]
pub struct SmallBytes(Repr);

#[derive(Clone)]
enum Repr {
    Short {
        length: u8,
        bytes: [u8; SHORT_MAX],
    },
    Shared(Arc<[u8]>),
    /// A part of a block: the count of holders lies with what is read of the block anyway.
    Part {
        block: Arc<Block>,
        start: u32,
        length: u32,
    },
}

const _: () = assert!(size_of::<SmallBytes>() == 32);

impl SmallBytes {
    /// No bytes.
    pub(crate) const EMPTY: SmallBytes = SmallBytes(Repr::Short {
        length: 0,
        bytes: [0; SHORT_MAX],
    });

    fn short(slice: &[u8]) -> Option<SmallBytes> {
        let mut bytes = [0; SHORT_MAX];
        bytes.get_mut(..slice.len())?.copy_from_slice(slice);
        let length = slice.len() as u8;
        Some(SmallBytes(Repr::Short { length, bytes }))
    }

    /// A copy.
    pub(crate) fn copy_from_slice(slice: &[u8]) -> SmallBytes {
        Self::short(slice).unwrap_or_else(|| SmallBytes(Repr::Shared(slice.into())))
    }

    /// A part of a block: many share the block's memory.
    pub(crate) fn part(block: &Arc<Block>, range: Range<usize>) -> SmallBytes {
        let (start, length) = (range.start as u32, range.len() as u32);
        debug_assert_eq!(
            block.slice(range.clone()).len(),
            range.len(),
            "a part lies in its block"
        );
        let part = || {
            SmallBytes(Repr::Part {
                block: Arc::clone(block),
                start,
                length,
            })
        };
        Self::short(block.slice(range)).unwrap_or_else(part)
    }
}

impl SmallBytes {
    /// Without the first `count` bytes: of a part of a block, a part of that.
    pub(crate) fn after(&self, count: usize) -> SmallBytes {
        match &self.0 {
            Repr::Part {
                block,
                start,
                length,
            } => {
                let (start, end) = (*start as usize, (*start + *length) as usize);
                SmallBytes::part(block, (start + count).min(end)..end)
            }
            Repr::Short { .. } | Repr::Shared(_) => {
                SmallBytes::copy_from_slice(self.get(count..).unwrap_or_default())
            }
        }
    }
}

impl From<Vec<u8>> for SmallBytes {
    fn from(bytes: Vec<u8>) -> SmallBytes {
        Self::short(&bytes).unwrap_or_else(|| SmallBytes(Repr::Shared(bytes.into())))
    }
}

impl Deref for SmallBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Repr::Shared(bytes) => bytes,
            Repr::Part {
                block,
                start,
                length,
            } => {
                let start = *start as usize;
                block.slice(start..start + *length as usize)
            }
        }
    }
}

impl AsRef<[u8]> for SmallBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for SmallBytes {
    fn eq(&self, other: &SmallBytes) -> bool {
        **self == **other
    }
}

impl Eq for SmallBytes {}

impl fmt::Debug for SmallBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_come_back_as_they_were_and_only_short_ones_allocate_nothing(
            bytes in vec(any::<u8>(), 0..60),
        ) {
            let copies = [
                SmallBytes::copy_from_slice(&bytes),
                SmallBytes::from(bytes.clone()),
            ];
            for copy in copies {
                prop_assert_eq!(&*copy.clone(), bytes.as_slice());
                prop_assert_eq!(&*copy.after(8), bytes.get(8..).unwrap_or_default());
                prop_assert_eq!(matches!(copy.0, Repr::Short { .. }), bytes.len() <= 30);
            }
        }
    }
}
