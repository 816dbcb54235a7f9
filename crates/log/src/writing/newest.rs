//! NEWEST

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
    /// If this opening made it.
    pub(crate) file: Option<Box<dyn AppendFile>>,
    /// Of that file.
    pub(crate) syncer: Option<Arc<Syncer>>,
    /// Of that file; packs nothing without.
    pub(crate) packer: Packer,
    /// If not all of it is durable.
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

/// What nothing proves durable at the end of the newest segment: an earlier opening wrote it, and
/// its sync may have failed. No sync of that file can be believed any more. See
/// [`create`](crate::create).
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

    /// The segment without the blocks; none if it is replaced by the one that they are carried over
    /// to.
    pub(crate) fn proven(&self) -> Option<&Arc<Segment>> {
        (self.first() != self.proven.base()).then_some(&self.proven)
    }

    /// Makes a segment of the blocks. The file that they are in stays as it is.
    pub(crate) fn carry_over(
        &self,
        directory: &LogDirectory,
        reserve: Reserve<'_>,
    ) -> std::result::Result<NewSegment, NotCreated> {
        directory.create(self.first(), Some(&self.blocks), reserve)
    }
}
