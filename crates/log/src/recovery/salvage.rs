//! Salvaging: every record of a damaged log that is whole.
//!
//! # Invariants
//! 1. Only reads. What the disk can't read is taken for damage, a sector at a time.
//! 2. A segment is known by its header; where that is damaged, by its name and the log's identity.

use crate::format::header::{HEADER_BYTES, SegmentHeader, parse_segment_name};
use crate::recovery::inspect::{Inspection, SegmentFile};
use crate::{LogIdentity, Result};
use quire_env::{Env, ErrorKind as EnvErrorKind, FileMap, ReadFile};
use quire_model::Position;
use std::path::Path;
use std::sync::Arc;

/// A disk that can't read some bytes can mostly read those around them: asked for in pieces of this
/// size.
const SECTOR_BYTES: u64 = 4096;

/// Reads every record of the log in `dir`, which nobody has open, that is whole, in the order of
/// their positions, and says what is damaged or missing. Records up to `known` were durable once (0
/// if that is not known): they are lost if they are not there. Without an identity only segments
/// whose headers are whole can be read.
///
/// # Errors
/// That the directory can't be listed or a file not opened.
pub fn salvage(
    env: &dyn Env,
    dir: &Path,
    identity: Option<LogIdentity>,
    known: Position,
) -> Result<Inspection> {
    let (mut files, mut odd) = (Vec::new(), Vec::new());
    for name in env.list(dir)? {
        if !name.ends_with(".log") {
            continue;
        }
        let path = dir.join(&name);
        let file: Arc<dyn ReadFile> = Arc::new(Patchy(env.open_read(&path)?));
        let named = parse_segment_name(dir, &name).ok().flatten();
        let said = header(file.as_ref())?
            .filter(|header| identity.is_none_or(|identity| identity == header.identity))
            .map(|header| header.base);
        let base = match (said, named) {
            (Some(base), named) => {
                if named != Some(base) {
                    let what = format!(
                        "not the name of a segment that begins with position {base}; read as that"
                    );
                    odd.push((path, what));
                }
                base
            }
            (None, Some(named)) => named,
            (None, None) => {
                odd.push((path, "not a segment".to_string()));
                continue;
            }
        };
        let end = None;
        files.push((base, named != Some(base), SegmentFile { file, base, end }));
    }
    // Of two that say they are the same one, that which has its name comes first.
    files.sort_by_key(|(base, renamed, _)| (*base, *renamed));
    let first = files.first().map(|(base, ..)| *base);
    let files = files.into_iter().map(|(.., file)| file).collect();
    let mut inspection = Inspection::new(identity, files, known).salvage()?;
    for (path, what) in odd {
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

/// The identities that the headers of segments in `dir` say, one for each whole header.
///
/// # Errors
/// As of [`salvage`].
pub fn identities(env: &dyn Env, dir: &Path) -> Result<Vec<LogIdentity>> {
    let mut found = Vec::new();
    for name in env.list(dir)? {
        if name.ends_with(".log") {
            let file = Patchy(env.open_read(&dir.join(name))?);
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

/// A file some of whose bytes may not be readable: they are given as zeros, which no checksum over
/// them takes.
#[derive(Debug)]
struct Patchy(Arc<dyn ReadFile>);

impl ReadFile for Patchy {
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
