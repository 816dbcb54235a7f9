//! The newest segment as an opening leaves it: closed, made by this opening, or with an unproven
//! tail.

use crate::directory::LogDirectory;
use crate::reading::segment::Segment;
use crate::writing::create::{CarriedBlocks, NewSegment, NotCreated, Reserve};
use crate::writing::syncer::Syncer;
use quire_env::AppendFile;
use quire_model::Position;
use quire_pack::{Codec, Packer};
use std::sync::Arc;

/// The newest segment, as an opening leaves it.
pub(crate) struct Newest {
    pub(crate) segment: Arc<Segment>,
    /// Open for appending, if this opening made the segment.
    pub(crate) file: Option<Box<dyn AppendFile>>,
    /// Of that file.
    pub(crate) syncer: Option<Arc<Syncer>>,
    /// Packs blocks for that file; without a file it packs nothing.
    pub(crate) packer: Packer,
    /// Set if not all of the segment is durable.
    pub(crate) unproven: Option<UnprovenTail>,
}

impl Newest {
    pub(crate) fn made(new: NewSegment) -> Newest {
        Newest {
            segment: new.segment,
            file: Some(new.file),
            syncer: Some(new.syncer),
            packer: new.packer,
            unproven: None,
        }
    }

    pub(crate) fn found(segment: Arc<Segment>, unproven: Option<UnprovenTail>) -> Newest {
        Newest {
            segment,
            file: None,
            syncer: None,
            packer: Packer::new(Codec::None, None),
            unproven,
        }
    }
}

/// Blocks at the end of the newest segment that nothing proves durable: an earlier opening wrote
/// them, and its sync may have failed. No later sync of that file can be trusted. See
/// [`create`](crate::writing::create).
#[derive(Debug)]
pub(crate) struct UnprovenTail {
    pub(crate) blocks: CarriedBlocks,
    /// The segment without them.
    pub(crate) proven: Arc<Segment>,
}

impl UnprovenTail {
    /// Position of the first record that is not proven durable.
    pub(crate) fn first(&self) -> Position {
        self.proven.index().read().next()
    }

    /// The segment without the blocks; `None` if the segment that they are carried over to replaces
    /// it.
    pub(crate) fn proven(&self) -> Option<&Arc<Segment>> {
        (self.first() != self.proven.base()).then_some(&self.proven)
    }

    /// Creates a segment of the blocks. The file that they are in stays as it is.
    pub(crate) fn carry_over(
        &self,
        directory: &LogDirectory,
        reserve: Reserve<'_>,
    ) -> std::result::Result<NewSegment, NotCreated> {
        directory.create(self.first(), Some(&self.blocks), reserve)
    }
}
