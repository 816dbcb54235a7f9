//! Salvage: every whole record of a damaged log.
//!
//! # Invariants
//! 1. It only reads. Bytes that the disk can't read count as damage, one sector at a time.
//! 2. A segment is identified by its header. If that is damaged, it is identified by its name and
//!    the identity of the log.

use crate::end_of_log;
use crate::format::header::{HEADER_BYTES, SegmentHeader, parse_segment_name};
use crate::recovery::inspect::{Inspection, SegmentFile};
use crate::{LogIdentity, Result};
use quire_env::{Env, ErrorKind as EnvErrorKind, FileMap, ReadFile};
use quire_model::Position;
use std::path::Path;
use std::sync::Arc;

/// A disk that can't read some bytes can usually read those around them, if they are requested in
/// pieces of this size.
const SECTOR_BYTES: u64 = 4096;

/// Reads every whole record of the log in `dir`, which nobody has open, in order of position, and
/// reports what is damaged or missing. Records up to `known`, or up to what the end-of-log record
/// says, were durable once (0 if that is not known): those that are missing are reported as lost. Without an identity, only segments with
/// whole headers can be read.
///
/// # Errors
/// The directory can't be listed, or a file can't be opened.
pub fn salvage(
    env: &dyn Env,
    dir: &Path,
    identity: Option<LogIdentity>,
    known: Position,
) -> Result<Inspection> {
    let end = end_of_log::read(env, dir, identity);
    let known = end.map_or(known, |end| known.max(end.last()));
    let (mut files, mut misnamed) = (Vec::new(), Vec::new());
    for name in env.list(dir)? {
        if !name.ends_with(".log") {
            continue;
        }
        let path = dir.join(&name);
        let file: Arc<dyn ReadFile> = Arc::new(UnreadableAsZeros(env.open_read(&path)?));
        let named = parse_segment_name(dir, &name).ok().flatten();
        let claimed = header(file.as_ref())?
            .filter(|header| identity.is_none_or(|identity| identity == header.identity))
            .map(|header| header.base);
        let base = match (claimed, named) {
            (Some(base), named) => {
                if named != Some(base) {
                    let what = format!(
                        "not the name of a segment that begins with position {base}; read as that"
                    );
                    misnamed.push((path, what));
                }
                base
            }
            (None, Some(named)) => named,
            (None, None) => {
                misnamed.push((path, "not a segment".to_string()));
                continue;
            }
        };
        let end = None;
        files.push((base, named != Some(base), SegmentFile { file, base, end }));
    }
    // If two files claim to be the same segment, the one with the right name comes first.
    files.sort_by_key(|(base, renamed, _)| (*base, *renamed));
    let first = files.first().map(|(base, ..)| *base);
    let files = files.into_iter().map(|(.., file)| file).collect();
    let mut inspection = Inspection::new(identity, files, known).salvage()?;
    for (path, what) in misnamed {
        inspection.findings.damage(&path, 0, what, None);
    }
    let lost = first.map_or(known, |first| Position(first.0.saturating_sub(1)));
    if lost > Position(0) {
        let what = "the log's first segments are missing".to_string();
        inspection
            .findings
            .damage(dir, 0, what, Some((Position(1), lost)));
    }
    Ok(inspection)
}

/// The identities in the headers of the segments in `dir`, one for each whole header.
///
/// # Errors
/// As of [`salvage`].
pub fn identities(env: &dyn Env, dir: &Path) -> Result<Vec<LogIdentity>> {
    let mut found = Vec::new();
    for name in env.list(dir)? {
        if name.ends_with(".log") {
            let file = UnreadableAsZeros(env.open_read(&dir.join(name))?);
            found.extend(header(&file)?.map(|header| header.identity));
        }
    }
    Ok(found)
}

/// A segment's header, if it is whole.
fn header(file: &dyn ReadFile) -> Result<Option<SegmentHeader>> {
    let length = file.len()?.min(HEADER_BYTES as u64) as usize;
    Ok(SegmentHeader::decode(&file.read_at(0, length)?).ok())
}

/// A file with bytes that may be unreadable. They read as zeros, which no checksum over them
/// accepts.
#[derive(Debug)]
struct UnreadableAsZeros(Arc<dyn ReadFile>);

impl ReadFile for UnreadableAsZeros {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn len(&self) -> quire_env::Result<u64> {
        self.0.len()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> quire_env::Result<()> {
        match self.0.read_exact_at(offset, buffer) {
            Err(error) if error.kind() == EnvErrorKind::Io => {}
            read => return read,
        }
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let length = (SECTOR_BYTES - at % SECTOR_BYTES).min(rest.len() as u64) as usize;
            let (piece, after) = rest.split_at_mut(length);
            match self.0.read_exact_at(at, piece) {
                Err(error) if error.kind() == EnvErrorKind::Io => piece.fill(0),
                read => read?,
            }
            (at, rest) = (at + length as u64, after);
        }
        Ok(())
    }

    fn map_at_random(&self) -> quire_env::Result<FileMap> {
        self.0.map_at_random()
    }
}
