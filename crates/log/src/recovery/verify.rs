//! Verification: an inspection of a log that nobody has open.

use crate::end_of_log;
use crate::format::header::{parse_segment_name, segment_path};
use crate::recovery::findings::{Finding, LogDamage, VerifySummary};
use crate::recovery::inspect::{Inspection, SegmentFile};
use crate::recovery::unsynced;
use crate::{LogIdentity, Result};
use quire_env::Env;
use std::collections::VecDeque;
use std::path::Path;

/// Reads every byte of the log in `dir`, which nobody has open. Reports each damage to `on_damage`,
/// and to `progress` the number of bytes read since its last call. With no `identity`, all segments
/// must have that of the first readable one. A directory without segments is a whole log of no
/// records.
///
/// # Errors
/// Only those of the machine: a file that can't be read, and so on.
pub fn verify(
    env: &dyn Env,
    dir: &Path,
    identity: Option<LogIdentity>,
    on_damage: &mut dyn FnMut(LogDamage),
    progress: &mut dyn FnMut(u64),
) -> Result<VerifySummary> {
    let mut inspection = inspect_closed(env, dir, identity)?;
    for finding in &mut inspection {
        match finding? {
            Finding::Read(bytes) => progress(bytes),
            Finding::Damage(damage) => on_damage(damage),
            Finding::Record(..) | Finding::Part(..) => {}
        }
    }
    Ok(inspection.summary())
}

/// The inspection of the log in `dir`, which nobody has open.
fn inspect_closed(env: &dyn Env, dir: &Path, identity: Option<LogIdentity>) -> Result<Inspection> {
    let (mut bases, mut misnamed) = (Vec::new(), Vec::new());
    for name in env.list(dir)? {
        match parse_segment_name(dir, &name) {
            Ok(base) => bases.extend(base),
            Err(error) => misnamed.push((dir.join(&name), error.to_string())),
        }
    }
    bases.sort_unstable();
    let kept = unsynced::segments_kept(env, dir, identity, &bases)?;
    let torn_off = bases.split_off(kept);
    let mut files = VecDeque::new();
    for base in bases {
        let file = env.open_read(&segment_path(dir, base))?;
        files.push_back(SegmentFile {
            file,
            base,
            end: None,
        });
    }
    let end = end_of_log::read(env, dir, identity)?;
    let mut inspection = Inspection::new(identity, files, end.last());
    inspection.find_open()?;
    inspection.findings.count_file(end.file_bytes);
    if end.is_damaged() {
        let what = "the end-of-log record is damaged: a torn tail can't be told from damage";
        let path = end_of_log::path(dir);
        inspection.findings.damage(&path, 0, what, None);
    }
    inspection.was_closed(end.record.and_then(|record| record.closed));
    for base in torn_off {
        let file_bytes = env.open_read(&segment_path(dir, base))?.len()?;
        inspection.findings.skip_file(file_bytes);
    }
    for (path, what) in misnamed {
        inspection.findings.damage(&path, 0, what, None);
    }
    Ok(inspection)
}
