//! Creating a segment. It is whole and durable before it gets its name, and the name is durable
//! when the creation returns.
//!
//! An [unsynced](crate::recovery::unsynced) segment is different: records are written to it before
//! it has its name, so that no append waits for the disk. It gets its name in the background, and
//! its records count as durable only after that.
//!
//! A segment may begin with blocks *carried over* from the one before it, so that no file is ever
//! written by two openings of a log. That matters after a sync failed: the system may have dropped
//! what it could not write, and still show it to readers and report success for later syncs of that
//! file. The carried blocks are in a file of their own.

use crate::directory::{LogDirectory, temporary_path};
use crate::format::block::{BlockHeader, Salt};
use crate::format::dictionary::{Dictionaries, block_bytes, encode_block};
use crate::format::header::{HEADER_BYTES, SegmentHeader, segment_path};
use crate::format::index::BlockIndex;
use crate::options::WRITE_BYTES;
use crate::reading::segment::Segment;
use crate::reading::walk::{BlockWalk, Step};

use crate::writing::syncer::Syncer;
use crate::{Error, LogIdentity, Result};
use quire_env::{AppendFile, ReadFile};
use quire_model::Position;
use quire_pack::Dictionary;
use quire_pack::Packer;
use quire_seeded::{Bug, seeded};
use std::path::Path;
use std::sync::Arc;

/// What comes before the blocks of a new segment: its header and its dictionary.
#[derive(Debug)]
pub(crate) struct Preamble {
    /// The segment may hold blocks in zstd.
    zstd: bool,
    dictionary: Option<Arc<Dictionary>>,
    /// The segments before it may not be durable.
    unsynced: bool,
}

/// Whole blocks of another segment, with which a new one begins.
#[derive(Debug)]
pub(crate) struct CarriedBlocks {
    pub(crate) file: Arc<dyn ReadFile>,
    /// The salt of the other segment.
    pub(crate) salt: Salt,
    /// Offset of the first block.
    pub(crate) start: u64,
    /// Offset of the end of the last block.
    pub(crate) end: u64,
}

/// A segment that was just created.
#[derive(Debug)]
pub(crate) struct NewSegment {
    pub(crate) segment: Arc<Segment>,
    pub(crate) file: Box<dyn AppendFile>,
    pub(crate) syncer: Arc<Syncer>,
    /// Packs its blocks.
    pub(crate) packer: Packer,
    /// Bytes of disk space reserved past its end.
    pub(crate) reserved: u64,
}

/// A segment that does not have its name yet.
#[derive(Debug)]
pub(crate) struct Unnamed {
    segment: Arc<Segment>,
    syncer: Arc<Syncer>,
}

/// What is in a file that was just written.
struct Written {
    index: BlockIndex,
    packer: Packer,
    reserved: u64,
}

/// Why a segment was not created.
#[derive(Debug)]
pub(crate) struct NotCreated {
    pub(crate) error: Error,
    /// Whether the file may have its name in spite of the error. If not, nothing has changed.
    pub(crate) named: bool,
}

/// Reserves disk space in a segment of this number of blocks, and returns the number of bytes.
pub(crate) type Reserve<'a> = &'a mut dyn FnMut(&mut dyn AppendFile, usize) -> Result<u64>;

impl Unnamed {
    /// The segment that [`create_unsynced`](LogDirectory::create_unsynced) made.
    pub(crate) fn new(made: &NewSegment) -> Unnamed {
        Unnamed {
            segment: made.segment.clone(),
            syncer: made.syncer.clone(),
        }
    }
}

impl Preamble {
    /// Offset of the first block.
    pub(crate) fn bytes(&self) -> u64 {
        let dictionary = self.dictionary.as_ref();
        HEADER_BYTES as u64 + dictionary.map_or(0, |dictionary| block_bytes(dictionary))
    }

    /// Encodes header and dictionary of the segment that begins with `base`.
    pub(crate) fn encode(
        &self,
        identity: LogIdentity,
        base: Position,
        born: u64,
        positions: Option<u32>,
    ) -> Vec<u8> {
        let header = SegmentHeader {
            identity,
            base,
            born,
            positions,
            zstd: self.zstd,
            unsynced: self.unsynced,
        };
        let mut bytes = header.encode().to_vec();
        if let Some(dictionary) = &self.dictionary {
            encode_block(
                dictionary,
                base,
                born,
                Salt::new(identity, base),
                &mut bytes,
            );
        }
        bytes
    }
}

impl LogDirectory {
    /// Sets the dictionary for new segments to that of the newest segment that has one, if new
    /// segments are to have one.
    pub(crate) fn find_dictionary(&self, segments: &[Arc<Segment>]) {
        if self.settings.lock().codec.dictionary_bytes() == 0 {
            return;
        }
        let has_one = |segment: &&Arc<Segment>| segment.has_dictionary();
        if let Some(segment) = segments.iter().rev().find(has_one)
            // If it can't be read, a new one is trained.
            && let Ok(Some(dictionary)) = segment.load_dictionary()
        {
            self.settings
                .lock()
                .set_dictionary(dictionary, segment.base());
        }
    }

    /// The header and dictionary of a new segment under the settings of now, and the packer of its
    /// blocks. One that begins with carried blocks keeps their dictionary, which they may need.
    pub(crate) fn preamble(&self, carried: Option<&CarriedBlocks>) -> Result<(Preamble, Packer)> {
        let settings = self.settings.lock().clone();
        let mut preamble = match carried {
            Some(carried) => carried.preamble(&self.dictionaries)?,
            None => Preamble {
                zstd: false,
                dictionary: None,
                unsynced: false,
            },
        };
        preamble.zstd |= settings.codec.is_zstd();
        preamble.dictionary = preamble.dictionary.or_else(|| settings.dictionary());
        let packer = Packer::new(settings.codec, preamble.dictionary.as_deref());
        Ok((preamble, packer))
    }

    /// Creates the segment whose first record has position `base`, beginning with `carried`. It
    /// replaces a segment of that name in one step. All records before it are durable.
    pub(crate) fn create(
        &self,
        base: Position,
        carried: Option<&CarriedBlocks>,
        reserve: Reserve<'_>,
    ) -> std::result::Result<NewSegment, NotCreated> {
        let begun = self.preamble(carried);
        self.create_as(base, begun, carried, reserve)
    }

    /// As [`create`](Self::create) without blocks, while records before it may not be durable.
    /// [`name`](Self::name) gives it its name.
    pub(crate) fn create_unsynced(
        &self,
        base: Position,
        reserve: Reserve<'_>,
    ) -> std::result::Result<NewSegment, NotCreated> {
        let temporary = temporary_path(&segment_path(&self.dir, base));
        let made = self
            .preamble(None)
            .and_then(|(preamble, packer)| {
                let preamble = Preamble {
                    unsynced: true,
                    ..preamble
                };
                self.write(&temporary, base, (preamble, packer), None, reserve)
            })
            .and_then(|(_, written)| self.open(&temporary, base, written, 0));
        made.map_err(|error| self.give_up(&temporary, error))
    }

    fn create_as(
        &self,
        base: Position,
        begun: Result<(Preamble, Packer)>,
        carried: Option<&CarriedBlocks>,
        reserve: Reserve<'_>,
    ) -> std::result::Result<NewSegment, NotCreated> {
        let path = segment_path(&self.dir, base);
        let temporary = temporary_path(&path);
        let written = begun
            .and_then(|begun| self.write(&temporary, base, begun, carried, reserve))
            .and_then(|(mut file, written)| {
                if !seeded(Bug::SegmentUnsynced) {
                    file.sync()?;
                }
                self.env.rename(&temporary, &path)?;
                Ok(written)
            })
            .map_err(|error| self.give_up(&temporary, error))?;
        let durable = written.index.end();
        self.sync_names()
            .and_then(|()| self.open(&path, base, written, durable))
            .map_err(|error| NotCreated { error, named: true })
    }

    fn give_up(&self, temporary: &Path, error: Error) -> NotCreated {
        // It would take disk space. Nothing reads it, and the next opening removes it too.
        let _ = self.env.remove(temporary);
        NotCreated {
            error,
            named: false,
        }
    }

    fn write(
        &self,
        path: &Path,
        base: Position,
        (preamble, packer): (Preamble, Packer),
        carried: Option<&CarriedBlocks>,
        reserve: Reserve<'_>,
    ) -> Result<(Box<dyn AppendFile>, Written)> {
        let mut file = self.create_temporary(path)?;
        let carried_bytes = carried.map_or(0, |carried| carried.end.saturating_sub(carried.start));
        let born = preamble.bytes() + carried_bytes;
        file.append(&preamble.encode(self.identity, base, born, None))?;
        let mut index = BlockIndex::new(base, preamble.bytes());
        if let Some(carried) = carried {
            carried.copy(
                file.as_mut(),
                Salt::new(self.identity, base),
                born,
                &mut index,
            )?;
        }
        let reserved = reserve(file.as_mut(), index.entries().len())?;
        let written = Written {
            index,
            packer,
            reserved,
        };
        Ok((file, written))
    }

    /// Opens the segment at `path`, of which `durable` bytes are durable.
    fn open(
        &self,
        path: &Path,
        base: Position,
        written: Written,
        durable: u64,
    ) -> Result<NewSegment> {
        let file = self.env.open_append(path)?;
        let syncer = Syncer::new(self.env.open_append(path)?, durable);
        let read_file = self.env.open_read(path)?;
        let segment = Segment::new(self, base, read_file, file.len(), written.index);
        Ok(NewSegment {
            segment: Arc::new(segment),
            file,
            syncer: Arc::new(syncer),
            packer: written.packer,
            reserved: written.reserved,
        })
    }

    /// Gives a segment its name. An error that leaves the name in doubt can't be retried: it says
    /// [named](NotCreated::named).
    pub(crate) fn name(&self, unnamed: &Unnamed) -> std::result::Result<(), NotCreated> {
        let path = unnamed.segment.path();
        // Header and dictionary: such a segment carries no blocks.
        let born = unnamed.segment.index().read().start();
        let unknown = |error| NotCreated { error, named: true };
        if !seeded(Bug::SegmentUnsynced) {
            unnamed.syncer.sync(born).map_err(unknown)?;
        }
        self.env
            .rename(&temporary_path(path), path)
            .map_err(|error| NotCreated {
                error: error.into(),
                named: false,
            })?;
        self.sync_names().map_err(unknown)?;
        // So that errors show the name that it has now.
        if let Ok(file) = self.env.open_read(path) {
            unnamed.segment.set_named(file);
        }
        Ok(())
    }
}

impl CarriedBlocks {
    /// The header and dictionary of the segment that they are in.
    fn preamble(&self, dictionaries: &Dictionaries) -> Result<Preamble> {
        let file = self.file.as_ref();
        let bytes = file.read_at(0, HEADER_BYTES)?;
        let header =
            SegmentHeader::decode(&bytes).map_err(|fault| fault.into_error(file.path()))?;
        let dictionary = match header.zstd && self.end > HEADER_BYTES as u64 {
            true if seeded(Bug::DictionaryNotCarried) => None,
            true => dictionaries.load(file, self.salt)?,
            false => None,
        };
        Ok(Preamble {
            zstd: header.zstd,
            dictionary,
            unsynced: false,
        })
    }

    /// Appends the blocks to `file`, under headers for their new place.
    fn copy(
        &self,
        file: &mut dyn AppendFile,
        salt: Salt,
        born: u64,
        index: &mut BlockIndex,
    ) -> Result<()> {
        let mut walk = BlockWalk::new(self.file.clone(), self.salt, self.start, self.end);
        let mut out = Vec::new();
        loop {
            let offset = walk.offset;
            let fault = match walk.step()? {
                Step::Block(header, stored) => {
                    out.extend_from_slice(
                        &BlockHeader {
                            durable: born,
                            ..header
                        }
                        .encode(salt, index.end()),
                    );
                    out.extend_from_slice(&stored);
                    if header.first == index.next()
                        && index.push(
                            header.records,
                            header.file_bytes(),
                            u64::from(header.raw_length),
                        )
                    {
                        None
                    } else {
                        Some("block of other positions than those that follow")
                    }
                }
                Step::End => break,
                Step::Fault(fault) => Some(fault.what),
            };
            if let Some(what) = fault {
                return Err(Error::corrupt(
                    self.file.path(),
                    offset,
                    what,
                    Some((index.next(), index.next())),
                ));
            }
            if out.len() >= WRITE_BYTES {
                file.append(&out)?;
                out.clear();
            }
        }
        file.append(&out)?;
        assert_eq!(
            file.len(),
            index.end(),
            "the index of a new segment ends where its file does"
        );
        Ok(())
    }
}
