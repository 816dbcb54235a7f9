//! A table file open for reading, without cache or tree: its checked ends, and blocks by handle.

use super::block::Block;
use super::filter;
use super::footer::{FOOTER_BYTES, Footer, HEADER_BYTES};
use super::frame::{self, Handle, Opened, TRAILER_BYTES};
use super::properties::Properties;
use super::ranges;
use crate::range_tombstones::RangeTombstones;
use crate::{Error, Result, TableDamage, TableMeta};
use quire_env::{Env, ReadFile};
use std::path::Path;
use std::sync::Arc;

/// Index blocks and filter pages lie beside each other, and are few: this many bytes are read
/// along with one.
const NEIGHBOURS_BYTES: u64 = 64 << 10;

/// A table file without cache or tree: the checked ends, and blocks by handle.
#[derive(Debug)]
pub(super) struct TableFile {
    pub(super) io: Arc<dyn ReadFile>,
    pub(super) bytes: u64,
    pub(super) footer: Footer,
    pub(super) properties: Properties,
    pub(super) top: Block,
    /// The ranges of keys that it deletes from older runs, and the bytes of memory that they take.
    pub(super) tombstones: (RangeTombstones, u64),
    /// CRCs of the top index and the properties.
    pub(super) end_crcs: [u32; 2],
}

/// A corrupt file, and how.
pub(super) fn corrupt(
    path: &Path,
    what: &'static str,
    offset: u64,
    expected: u64,
    found: u64,
) -> Error {
    Error::Corrupt {
        path: path.to_path_buf(),
        what,
        offset,
        expected,
        found,
    }
}

impl TableFile {
    /// Opens the file and checks footer, properties and top index, and that they are those of
    /// `meta`.
    pub(super) fn open(env: &dyn Env, path: &Path, meta: &TableMeta) -> Result<TableFile> {
        let io = env.open_read(path)?;
        let bytes = io.len()?;
        if bytes != meta.bytes || bytes < (HEADER_BYTES + FOOTER_BYTES) as u64 {
            return Err(corrupt(
                path,
                "length of a table file",
                bytes,
                meta.bytes,
                bytes,
            ));
        }
        let footer_offset = bytes - FOOTER_BYTES as u64;
        let mut footer = [0; FOOTER_BYTES];
        io.read_exact_at(footer_offset, &mut footer)?;
        let footer = Footer::decode(&footer, footer_offset, path)?;
        if footer.digest != meta.digest {
            return Err(corrupt(
                path,
                "digest of a table file",
                footer_offset + 8,
                meta.digest,
                footer.digest,
            ));
        }
        let top = read_frame(
            io.as_ref(),
            footer.salt,
            Handle {
                offset: footer.top_offset,
                bytes: footer.properties_offset - footer.top_offset,
            },
        )?;
        let end = read_frame(
            io.as_ref(),
            footer.salt,
            Handle {
                offset: footer.properties_offset,
                bytes: footer_offset - footer.properties_offset,
            },
        )?;
        let end_crcs = [top.crc, end.crc];
        let properties = Properties::decode(&end.contents, footer.version)
            .map_err(|damage| damage.in_file(path, footer.properties_offset))?;
        let top =
            Block::parse(top.contents).map_err(|damage| damage.in_file(path, footer.top_offset))?;
        let mut file = TableFile {
            io,
            bytes,
            footer,
            properties,
            top,
            tombstones: (RangeTombstones::default(), 0),
            end_crcs,
        };
        file.check_properties(meta)?;
        if let Some(handle) = file.ranges() {
            let contents = file.read(handle)?.contents;
            file.tombstones = ranges::decode(&contents, file.properties.ranges)
                .map_err(file.damaged(handle.offset))?;
        }
        Ok(file)
    }

    /// Where the deleted ranges are, if there are any.
    pub(super) fn ranges(&self) -> Option<Handle> {
        let properties = &self.properties;
        (properties.ranges > 0).then(|| Handle {
            offset: properties.ranges_offset,
            bytes: properties.filter_offset - properties.ranges_offset,
        })
    }

    /// Compares the properties with the file's shape and with `meta`.
    fn check_properties(&self, meta: &TableMeta) -> Result<()> {
        let properties = &self.properties;
        let wrong = |what, expected, found| {
            Err(corrupt(
                self.io.path(),
                what,
                self.footer.properties_offset,
                expected,
                found,
            ))
        };
        let counts = [
            ("entries of a table", meta.entries, properties.entries),
            (
                "tombstones of a table",
                meta.tombstones,
                properties.tombstones,
            ),
            ("operands of a table", meta.operands, properties.operands),
            (
                "bytes of filter pages",
                filter_bytes(properties),
                properties
                    .index_offset
                    .wrapping_sub(properties.filter_offset),
            ),
        ];
        for (what, expected, found) in counts {
            if expected != found {
                return wrong(what, expected, found);
            }
        }
        if properties.ranges_offset > properties.filter_offset {
            return wrong(
                "offset of the deleted ranges",
                properties.filter_offset,
                properties.ranges_offset,
            );
        }
        if properties.filter_offset > properties.index_offset {
            return wrong(
                "offset of the filter",
                properties.index_offset,
                properties.filter_offset,
            );
        }
        if properties.index_offset > self.footer.top_offset {
            return wrong(
                "offset of the index",
                self.footer.top_offset,
                properties.index_offset,
            );
        }
        if properties.filter.probes > filter::PROBES_MAX {
            return wrong(
                "probes of a filter",
                u64::from(filter::PROBES_MAX),
                u64::from(properties.filter.probes),
            );
        }
        if properties.smallest != meta.smallest || properties.largest != meta.largest {
            return wrong("key range of a table", meta.entries, properties.entries);
        }
        Ok(())
    }

    /// The frame at `handle`, read from the file and checked.
    pub(super) fn read(&self, handle: Handle) -> Result<Opened> {
        self.check(handle)?;
        read_frame(self.io.as_ref(), self.footer.salt, handle)
    }

    /// The same for a frame whose neighbours will be read too: the system begins to read some
    /// of them.
    pub(super) fn read_among_others(&self, handle: Handle) -> Result<Opened> {
        let start = handle.offset / NEIGHBOURS_BYTES * NEIGHBOURS_BYTES;
        self.io.will_need(start, NEIGHBOURS_BYTES);
        self.read(handle)
    }

    /// Refuses a handle that leads out of the file: nothing of its length is allocated.
    pub(super) fn check(&self, handle: Handle) -> Result<()> {
        if handle.end() > self.bytes {
            return Err(corrupt(
                self.io.path(),
                "end of a block",
                handle.offset,
                self.bytes,
                handle.end(),
            ));
        }
        Ok(())
    }

    /// Adds file and offset to damage found in the block at `offset`.
    pub(super) fn damaged(&self, offset: u64) -> impl Fn(TableDamage) -> Error {
        move |damage| damage.in_file(self.io.path(), offset)
    }

    /// Where the filter page numbered `page` is.
    pub(super) fn filter_page(&self, page: u32) -> Handle {
        Handle {
            offset: self.properties.filter_offset
                + u64::from(page)
                    * (self.properties.filter.whole_page_bytes() + TRAILER_BYTES) as u64,
            bytes: (self.properties.filter.page_bytes(page) + TRAILER_BYTES) as u64,
        }
    }
}

/// Stored bytes of all filter pages.
fn filter_bytes(properties: &Properties) -> u64 {
    let shape = properties.filter;
    u64::from(shape.lines) * filter::LINE_BYTES as u64
        + u64::from(shape.pages()) * TRAILER_BYTES as u64
}

fn read_frame(file: &dyn ReadFile, salt: u64, handle: Handle) -> Result<Opened> {
    let too_long = |_| {
        corrupt(
            file.path(),
            "length of a block",
            handle.offset,
            usize::MAX as u64,
            handle.bytes,
        )
    };
    let stored = file.read_at(
        handle.offset,
        usize::try_from(handle.bytes).map_err(too_long)?,
    )?;
    frame::open(salt, handle.offset, &stored)
        .map_err(|damage| damage.in_file(file.path(), handle.offset))
}
