//! Creating a segment: whole and durable before it has its name, and with its name durable when
//! this returns.
//!
//! An [unsynced](crate::recovery::unsynced) one is written to before it has its name, so that no append waits for
//! the disk: it gets it in the background, and what is in it counts as durable only after that.
//!
//! A segment may begin with blocks *carried over* from the one before it, so that no file is ever
//! written by two openings of a log. That matters after a sync that failed: the system may have
//! forgotten what it could not write, yet show it to readers and call later syncs of that file a
//! success. What is carried over is in a file of its own.

use crate::format::block::{BlockHeader, Salt};
use crate::format::dictionary::{Dictionaries, block_bytes, encode_block};
use crate::format::header::{HEADER_BYTES, SegmentHeader, segment_path};
use crate::format::index::BlockIndex;
use crate::reading::segment::Segment;
use crate::reading::walk::{BlockWalk, Step};
use crate::writing::making::Making;
use crate::writing::syncer::Syncer;
use crate::{Error, LogIdentity, LogOptions, Result};
use parking_lot::Mutex;
use quire_env::{AppendFile, BlockCache, Env, ErrorKind, ReadFile};
use quire_model::Position;
use quire_pack::Dictionary;
use quire_pack::Packer;
use quire_seeded::{Bug, seeded};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Ends the name of a segment that is not whole yet; one found at opening was left by a crash.
pub(crate) const TEMPORARY_SUFFIX: &str = ".log.tmp";
/// Encoded bytes are handed to a file in pieces of about this size.
pub(crate) const WRITE_BYTES: usize = 1 << 20;

/// Where a log's segments are made, and for which log.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) dir: PathBuf,
    pub(crate) identity: LogIdentity,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) dictionaries: Arc<Dictionaries>,
    /// How new segments are made. Held for a moment only.
    pub(crate) making: Arc<Mutex<Making>>,
}

/// What comes before the blocks of a new segment.
#[derive(Debug)]
pub(crate) struct Front {
    /// There may be blocks in zstd.
    zstd: bool,
    dictionary: Option<Arc<Dictionary>>,
    /// The segments before it may not be durable.
    unsynced: bool,
}

/// Whole blocks of another segment, to begin a new one with.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) file: Arc<dyn ReadFile>,
    /// Of the other segment.
    pub(crate) salt: Salt,
    /// Where the first of the blocks begins.
    pub(crate) start: u64,
    /// Where the last ends.
    pub(crate) end: u64,
}

/// A segment just created.
#[derive(Debug)]
pub(crate) struct NewSegment {
    pub(crate) segment: Arc<Segment>,
    pub(crate) file: Box<dyn AppendFile>,
    pub(crate) syncer: Arc<Syncer>,
    /// Packs its blocks.
    pub(crate) packer: Packer,
    /// Bytes of room past its end.
    pub(crate) reserved: u64,
}

/// A segment that is still to get its name.
#[derive(Debug)]
pub(crate) struct Unnamed {
    segment: Arc<Segment>,
    syncer: Arc<Syncer>,
}

/// A file that was just written.
struct Written {
    index: BlockIndex,
    packer: Packer,
    reserved: u64,
}

/// Why a segment was not created.
#[derive(Debug)]
pub(crate) struct NotCreated {
    pub(crate) error: Error,
    /// Whether the file may have its name all the same. If not, nothing has changed.
    pub(crate) named: bool,
}

/// Makes room in a segment with so many blocks, and says how many bytes.
pub(crate) type Reserve<'a> = &'a mut dyn FnMut(&mut dyn AppendFile, usize) -> Result<u64>;

impl Unnamed {
    /// One that [`create_unsynced`](Place::create_unsynced) made.
    pub(crate) fn new(made: &NewSegment) -> Unnamed {
        Unnamed {
            segment: made.segment.clone(),
            syncer: made.syncer.clone(),
        }
    }
}

impl Front {
    /// Offset of the first block.
    pub(crate) fn bytes(&self) -> u64 {
        let dictionary = self.dictionary.as_ref();
        HEADER_BYTES as u64 + dictionary.map_or(0, |dictionary| block_bytes(dictionary))
    }

    /// Header and dictionary of the segment that begins with `base`.
    pub(crate) fn encode(
        &self,
        identity: LogIdentity,
        base: Position,
        born: u64,
        span: Option<u32>,
    ) -> Vec<u8> {
        let header = SegmentHeader {
            identity,
            base,
            born,
            span,
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

impl Place {
    pub(crate) fn new(
        env: Arc<dyn Env>,
        dir: &Path,
        identity: LogIdentity,
        cache: Arc<BlockCache>,
        options: &LogOptions,
    ) -> Place {
        let making = Making::new(options.block_bytes, options.codec);
        Place {
            env,
            dir: dir.to_path_buf(),
            identity,
            cache,
            dictionaries: Arc::default(),
            making: Arc::new(Mutex::new(making)),
        }
    }

    /// How a new segment begins as settings are now, and what packs its blocks. One that begins
    /// with blocks of another keeps the other's dictionary: they may need it.
    pub(crate) fn front(&self, carried: Option<&Carried>) -> Result<(Front, Packer)> {
        let making = self.making.lock().clone();
        let mut front = match carried {
            Some(carried) => carried.front(&self.dictionaries)?,
            None => Front {
                zstd: false,
                dictionary: None,
                unsynced: false,
            },
        };
        front.zstd |= making.codec.is_zstd();
        front.dictionary = front.dictionary.or_else(|| making.dictionary());
        let packer = Packer::new(making.codec, front.dictionary.as_deref());
        Ok((front, packer))
    }

    /// Creates the segment whose first record has position `base`, beginning with `carried`;
    /// replaces the one of that name in one step if there is one. All before it is durable.
    pub(crate) fn create(
        &self,
        base: Position,
        carried: Option<&Carried>,
        reserve: Reserve<'_>,
    ) -> std::result::Result<NewSegment, NotCreated> {
        let begun = self.front(carried);
        self.create_as(base, begun, carried, reserve)
    }

    /// As [`create`](Self::create) without blocks, while what is before it may not be durable. It
    /// is still to get its [name](Self::name).
    pub(crate) fn create_unsynced(
        &self,
        base: Position,
        reserve: Reserve<'_>,
    ) -> std::result::Result<NewSegment, NotCreated> {
        let temporary = temporary_path(&segment_path(&self.dir, base));
        let made = self
            .front(None)
            .and_then(|(front, packer)| {
                let front = Front {
                    unsynced: true,
                    ..front
                };
                self.write(&temporary, base, (front, packer), None, reserve)
            })
            .and_then(|(_, written)| self.open(&temporary, base, written, 0));
        made.map_err(|error| self.give_up(&temporary, error))
    }

    fn create_as(
        &self,
        base: Position,
        begun: Result<(Front, Packer)>,
        carried: Option<&Carried>,
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
        // It would take room. Nobody reads it, and the next opening removes it too.
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
        (front, packer): (Front, Packer),
        carried: Option<&Carried>,
        reserve: Reserve<'_>,
    ) -> Result<(Box<dyn AppendFile>, Written)> {
        let mut file = self.create_temporary(path)?;
        let carried_bytes = carried.map_or(0, |carried| carried.end.saturating_sub(carried.start));
        let born = front.bytes() + carried_bytes;
        file.append(&front.encode(self.identity, base, born, None))?;
        let mut index = BlockIndex::new(base, front.bytes());
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

    /// A new file at `path`, which may hold what an attempt before this one left.
    pub(crate) fn create_temporary(&self, path: &Path) -> Result<Box<dyn AppendFile>> {
        Ok(match self.env.create(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.env.remove(path)?;
                self.env.create(path)?
            }
            created => created?,
        })
    }

    /// A new name is not durable until its directory is.
    fn sync_names(&self) -> Result<()> {
        if !seeded(Bug::SegmentNameUnsynced) {
            self.env.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    /// Opens the segment that is at `path`, and of which so many bytes are durable.
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

    /// Gives a segment its name. What can't be tried again, as it is not known how far it got, is
    /// said to be [named](NotCreated::named).
    pub(crate) fn name(&self, unnamed: &Unnamed) -> std::result::Result<(), NotCreated> {
        let path = unnamed.segment.path();
        // Header and dictionary: no blocks were carried over.
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
        // So that errors tell the name that it has now.
        if let Ok(file) = self.env.open_read(path) {
            unnamed.segment.set_named(file);
        }
        Ok(())
    }
}

/// Where a segment is until it has its name.
pub(crate) fn temporary_path(path: &Path) -> PathBuf {
    path.with_extension("log.tmp")
}

impl Carried {
    /// What comes before the blocks of the segment that they are in.
    fn front(&self, dictionaries: &Dictionaries) -> Result<Front> {
        let file = self.file.as_ref();
        let bytes = file.read_at(0, HEADER_BYTES)?;
        let header =
            SegmentHeader::decode(&bytes).map_err(|fault| fault.into_error(file.path()))?;
        let dictionary = match header.zstd && self.end > HEADER_BYTES as u64 {
            true if seeded(Bug::DictionaryNotCarried) => None,
            true => dictionaries.load(file, self.salt)?,
            false => None,
        };
        Ok(Front {
            zstd: header.zstd,
            dictionary,
            unsynced: false,
        })
    }

    /// Appends the blocks to `file`, under headers of their new place.
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
        Ok(file.append(&out)?)
    }
}
