//! Inspection: reads every byte of every segment, and reports what is damaged and which records
//! that loses. For a repair it also reports the whole records.
//!
//! # Invariants
//! 1. It changes nothing, and continues past damage, with the next block whose header checksum
//!    holds.
//! 2. Each lost record is named by exactly one [`LogDamage`](crate::LogDamage). Damage that loses
//!    no record (that of a footer) names none.
//! 3. What a crash can leave is not damage. It can leave a torn tail in the newest segment, unless
//!    that was closed; and in the segment before it, all of whose records are in whole blocks,
//!    because its footer is written after its successor is created. Of a log that rotates unsynced,
//!    it can also leave the segments after a torn one (`unsynced.rs`): these are counted and not
//!    read. The end-of-log record says which of it a crash can't have left. Without it, nor is a missing footer damage, which a full disk leaves, nor are other bytes in its
//!    place: a file whose sync failed may lose the fact that it was cut and sealed since.
//! 4. Records are reported in order of position, each once, as recovery would keep them: records of
//!    a group whose end was torn off are not reported. If damage cut a group, its whole records are
//!    reported, and marked as a part.
//! 5. A compacted segment was whole before it had its name: anything wrong in it is damage. No
//!    record is lost where compaction removed it. Segments that it replaced are leftovers, which
//!    are counted and not read.

use crate::LogIdentity;
use crate::error::{Error, ErrorKind, Result};
use crate::format::block::{BlockFault, BlockHeader, BlockKind, Salt};
use crate::format::dictionary::Dictionaries;
use crate::format::footer;
use crate::format::header::{HEADER_BYTES, SegmentHeader, read_header, read_whole_header};
use crate::format::index::BlockIndex;
use crate::format::records::RecordBlock;
use crate::reading::walk::{BlockWalk, Step};
use crate::recovery::findings::{Finding, Findings, VerifySummary};
use crate::recovery::segment_reading::{SegmentReading, Unfinished};
use crate::recovery::unsynced;
use bytes::Bytes;
use quire_env::ReadFile;
use quire_model::Position;
use quire_pack::Dictionary;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// Whether a segment ends with a whole footer. A damaged header does not count as a trace of a
/// crash.
fn is_closed(file: &dyn ReadFile, base: Position, identity: Option<LogIdentity>) -> Result<bool> {
    let Some(header) = read_whole_header(file, base, identity)? else {
        return Ok(true);
    };
    let salt = Salt::new(header.identity, base);
    Ok(footer::load(file, file.len()?, base, salt)?.is_some())
}

fn before(position: Position) -> Position {
    Position(position.0.saturating_sub(1))
}

/// The positions from `from` up to `next`, if there are any.
fn range(from: Position, next: Position) -> Option<(Position, Position)> {
    (from < next).then(|| (from, before(next)))
}

/// A segment to be read.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub(crate) file: Arc<dyn ReadFile>,
    pub(crate) base: Position,
    /// The bytes to read, if the file is still being written.
    pub(crate) end: Option<u64>,
}

/// A log being read from its beginning to its end, a block at a time. Ends after the first error,
/// which can only be an error of the machine.
#[derive(Debug)]
pub struct Inspection {
    identity: Option<LogIdentity>,
    /// Segments that are still to be read.
    files: VecDeque<SegmentFile>,
    reading: Option<SegmentReading>,
    /// The position that the next block should begin with.
    expected: Position,
    /// A compacted segment holds all positions before this one.
    compacted_until: Position,
    /// The newest segment, if it was not closed.
    open_base: Option<Position>,
    /// The newest segment, if it was closed and has no whole footer any more.
    lost_footer: Option<Position>,
    /// Records up to this position are known to have been durable, or written. If they are missing,
    /// that is no torn tail.
    known: Position,
    dictionaries: Dictionaries,
    /// The base of the segment after those to be read, if there is one.
    after: Option<Position>,
    pub(crate) findings: Findings,
}

impl Inspection {
    /// Reads `files`, in this order. Records up to `known` must be there.
    pub(crate) fn new(
        identity: Option<LogIdentity>,
        files: VecDeque<SegmentFile>,
        known: Position,
    ) -> Inspection {
        let first = files.front().map_or(Position(1), |file| file.base);
        Inspection {
            identity,
            files,
            reading: None,
            expected: first,
            compacted_until: Position(0),
            open_base: None,
            lost_footer: None,
            known,
            dictionaries: Dictionaries::default(),
            after: None,
            findings: Findings::new(first, before(first)),
        }
    }

    /// Reads one segment of a log that is open. Records up to `last` must be there. The newest
    /// segment is read up to `file.end`. Any other is followed by the segment with base `after`,
    /// which is the newest one if `newest` says so.
    pub(crate) fn of_open(
        identity: LogIdentity,
        file: SegmentFile,
        last: Position,
        after: Option<Position>,
        newest: bool,
    ) -> Inspection {
        let mut inspection = Inspection::new(Some(identity), VecDeque::from([file]), last);
        inspection.after = after;
        // The segment before the newest may be about to get its footer.
        inspection.open_base = after.filter(|_| newest);
        inspection
    }

    /// Reports the records too.
    pub(crate) fn salvage(mut self) -> Result<Inspection> {
        self.find_open()?;
        self.findings.with_records();
        Ok(self)
    }

    /// Finds out whether the newest segment was closed.
    pub(crate) fn find_open(&mut self) -> Result<()> {
        if let Some(newest) = self.files.back() {
            let closed = is_closed(newest.file.as_ref(), newest.base, self.identity)?;
            self.open_base = (!closed).then_some(newest.base);
        }
        Ok(())
    }

    /// Reports the newest segment if it has no whole footer although the log was `closed` with it.
    pub(crate) fn was_closed(&mut self, closed: Option<Position>) {
        self.lost_footer = closed.filter(|_| closed == self.open_base);
    }

    /// Reports that the footer of the segment with this base is not whole, if it was once.
    fn check_lost_footer(&mut self, path: &Path, base: Position, offset: u64) {
        if self.lost_footer.take_if(|lost| *lost == base).is_some() {
            let what = "the log was closed, and its footer is damaged or missing";
            self.findings.damage(path, offset, what, None);
        }
    }

    /// The totals of what was read so far; at the end, of everything.
    pub fn summary(&self) -> VerifySummary {
        VerifySummary {
            last: before(self.expected),
            ..self.findings.summary
        }
    }

    /// Reads the next block. False at the end.
    fn advance(&mut self) -> Result<bool> {
        if let Some(mut reading) = self.reading.take() {
            let group_continues =
                !self.ends_in_leftovers(&mut reading)? && self.step(&mut reading)?;
            let read = if group_continues {
                reading.walk.offset.min(reading.file_bytes)
            } else {
                reading.file_bytes
            };
            self.findings.read(read.saturating_sub(reading.reported));
            reading.reported = reading.reported.max(read);
            if group_continues {
                self.reading = Some(reading);
            } else {
                self.findings.cut_group();
                self.check_lost_footer(&reading.path, reading.base, reading.walk.offset);
                if reading.next_base.is_none() && self.expected <= self.known {
                    let what = "the log ends before a position that it was durable up to";
                    let lost = range(self.expected, self.known.next());
                    self.findings
                        .damage(&reading.path, reading.file_bytes, what.to_string(), lost);
                    self.expected = self.known.next();
                }
            }
            return Ok(true);
        }
        match self.files.pop_front() {
            Some(file) => self.begin_segment(file).map(|()| true),
            None => Ok(false),
        }
    }

    fn begin_segment(&mut self, file: SegmentFile) -> Result<()> {
        let SegmentFile { file, base, end } = file;
        let next_base = self.files.front().map(|file| file.base).or(self.after);
        let (path, length) = (file.path().to_path_buf(), file.len()?);
        let file_bytes = end.map_or(length, |end| end.min(length));
        if base < self.compacted_until {
            self.findings.skip_file(file_bytes);
            return Ok(());
        }
        self.findings.summary.segments += 1;
        self.findings.summary.disk_bytes += file_bytes;
        if base > self.expected {
            let lost = range(self.expected, base);
            self.findings.damage(
                &path,
                0,
                "a segment is missing before this one".to_string(),
                lost,
            );
        } else if base < self.expected {
            let what =
                format!("records from {base} on are in the segment before it too (duplicated?)");
            self.findings.damage(&path, 0, what, None);
        }
        self.expected = base;
        let Some((identity, header)) = self.header(file.as_ref(), base, next_base)? else {
            self.findings.read(file_bytes);
            return Ok(());
        };
        let (salt, start) = (Salt::new(identity, base), HEADER_BYTES as u64);
        let walk = BlockWalk::new(file.clone(), salt, start.min(file_bytes), file_bytes);
        // If the header is damaged, the footer says the same.
        let compacted = match header {
            Some(header) => header.compacted_end(),
            None => footer::load(file.as_ref(), file_bytes, base, salt)?
                .filter(|index| index.compaction().is_some())
                .map(|index| index.next()),
        };
        self.compacted_until = compacted.unwrap_or(self.compacted_until);
        let next_base = self.files.iter().map(|file| file.base);
        let next_base = next_base.filter(|base| *base >= self.compacted_until).min();
        let next_base = next_base.or(self.after);
        let next = self.files.iter().find(|file| Some(file.base) == next_base);
        let next_is_unsynced = match next {
            Some(next) => unsynced::is_unsynced(next.file.as_ref(), next.base, self.identity)?,
            None => false,
        };
        let (compacted, index) = match compacted {
            Some(_) => (true, Some(BlockIndex::compacted(base, start))),
            None => (false, Some(BlockIndex::new(base, start))),
        };
        let dictionary = match header.is_none_or(|header| header.zstd) {
            true => self.dictionary_of(file.as_ref(), salt, identity)?,
            false => None,
        };
        self.reading = Some(SegmentReading {
            path,
            salt,
            base,
            next_base,
            next_is_unsynced,
            file,
            file_bytes,
            walk,
            dictionary,
            compacted,
            index,
            durable: header.map_or(start, |header| header.born),
            unfinished: None,
            reported: 0,
        });
        Ok(())
    }

    /// The identity in a segment, and its header if that is whole; `None` if its blocks can't be
    /// read.
    fn header(
        &mut self,
        file: &dyn ReadFile,
        base: Position,
        next_base: Option<Position>,
    ) -> Result<Option<(LogIdentity, Option<SegmentHeader>)>> {
        let error = match read_header(file, base, self.identity) {
            Ok(header) => {
                self.identity = Some(header.identity);
                return Ok(Some((header.identity, Some(header))));
            }
            Err(Error::Env(error)) => return Err(Error::Env(error)),
            Err(error) => error,
        };
        // The blocks say everything that a damaged header said, if the identity is known.
        let readable = self.identity.filter(|_| error.kind() == ErrorKind::Corrupt);
        let next = next_base.unwrap_or(base.max(self.known).next());
        let lost = if readable.is_some() {
            None
        } else {
            range(base, next)
        };
        self.findings
            .damage(file.path(), 0, error.to_string(), lost);
        if readable.is_none() {
            self.expected = next;
        }
        Ok(readable.map(|identity| (identity, None)))
    }

    /// Whether the rest of a segment is only what a crash left there, and counts it. The reason can
    /// be that its successor is new or unsynced, or that the file lost the fact that it was cut and
    /// sealed, as a file does whose sync failed.
    fn ends_in_leftovers(&mut self, reading: &mut SegmentReading) -> Result<bool> {
        if reading.compacted
            || reading.next_base != Some(self.expected)
            || reading.footer()?.is_some()
        {
            return Ok(false);
        }
        let footer_is_new = reading.next_base == self.open_base || reading.next_is_unsynced;
        if !footer_is_new && !reading.remainder_is_no_footer(self.expected)? {
            return Ok(false);
        }
        self.findings.summary.torn_bytes += reading.file_bytes.saturating_sub(reading.walk.offset);
        Ok(true)
    }

    /// Reads the next part of a segment. False at its end.
    fn step(&mut self, reading: &mut SegmentReading) -> Result<bool> {
        let offset = reading.walk.offset;
        match reading.walk.step()? {
            Step::Block(header, stored) if header.kind == BlockKind::Footer => {
                self.check_footer(reading, offset, &header, &stored)?;
                Ok(false)
            }
            Step::Block(header, _) if header.kind == BlockKind::Dictionary => {
                self.check_dictionary(reading, offset, &header);
                Ok(true)
            }
            Step::Block(header, stored) => {
                self.check_block(reading, offset, &header, stored);
                Ok(true)
            }
            Step::Fault(fault) => self.judge_fault(reading, offset, fault),
            Step::End if reading.compacted => {
                let next = reading.next_base.unwrap_or(self.expected);
                let what = "compacted segment cut short".to_string();
                self.findings
                    .damage(&reading.path, offset, what, range(self.expected, next));
                self.expected = self.expected.max(next);
                Ok(false)
            }
            Step::End => {
                if reading.next_base.is_some_and(|next| self.expected < next) {
                    let what = "file cut short before its last records";
                    self.findings
                        .damage(&reading.path, offset, what.to_string(), None);
                } else if reading.next_base.is_none()
                    && (offset < reading.durable || self.expected <= self.known)
                {
                    let next = self.expected.max(self.known).next();
                    let lost = range(self.expected, next);
                    self.findings
                        .damage(&reading.path, offset, "file cut short".to_string(), lost);
                    if self.expected <= self.known {
                        self.expected = next;
                    }
                } else if reading.next_base.is_none() {
                    self.count_torn(reading, offset);
                }
                Ok(false)
            }
        }
    }

    /// The dictionary of a segment; if it is damaged, the same one of a later segment.
    fn dictionary_of(
        &self,
        file: &dyn ReadFile,
        salt: Salt,
        identity: LogIdentity,
    ) -> Result<Option<Arc<Dictionary>>> {
        let load = |file: &dyn ReadFile, salt| match self.dictionaries.load(file, salt) {
            // The block walk reports it.
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Err(error)),
            Err(error) => Err(error),
            Ok(found) => Ok(Ok(found)),
        };
        if let Ok(found) = load(file, salt)? {
            return Ok(found);
        }
        let mut held = Vec::new();
        for other in &self.files {
            let salt = Salt::new(identity, other.base);
            held.extend(load(other.file.as_ref(), salt)?);
        }
        Ok(load(file, salt)?.unwrap_or_default())
    }

    /// Checks the block of a dictionary, which was loaded before.
    fn check_dictionary(
        &mut self,
        reading: &mut SegmentReading,
        offset: u64,
        header: &BlockHeader,
    ) {
        reading.durable = reading.durable.max(header.durable);
        if offset != HEADER_BYTES as u64 || reading.dictionary.is_none() {
            let what = "dictionary that can't be used, or is not where one is".to_string();
            self.findings.damage(&reading.path, offset, what, None);
            reading.index = None;
        } else if let Some(index) = &mut reading.index {
            index.begin_at(reading.walk.offset);
        }
    }

    fn check_block(
        &mut self,
        reading: &mut SegmentReading,
        offset: u64,
        header: &BlockHeader,
        stored: Bytes,
    ) {
        reading.durable = reading.durable.max(header.durable);
        let follows = match reading.compacted {
            true => header.kind == BlockKind::Sparse && header.first >= self.expected,
            false => header.kind == BlockKind::Records && header.first == self.expected,
        };
        if !follows {
            let what = format!(
                "block begins with position {}, not {}",
                header.first, self.expected
            );
            self.findings.damage(
                &reading.path,
                offset,
                what,
                range(self.expected, header.first),
            );
            reading.index = None;
            self.findings.cut_group();
        }
        self.expected = header.next();
        match RecordBlock::decode(header, stored, reading.dictionary.as_deref()) {
            Ok(block) => self.findings.block(block),
            Err(fault) => {
                self.findings.cut_group();
                let lost = Some((header.first, header.last()));
                self.findings
                    .damage(&reading.path, offset, fault.what.to_string(), lost);
            }
        }
        reading.unfinished = match (header.group_continues, reading.unfinished.take()) {
            (false, _) => None,
            (true, Some(begun)) => Some(Unfinished {
                blocks: begun.blocks + 1,
                ..begun
            }),
            (true, None) => Some(Unfinished {
                first: header.first,
                offset,
                blocks: 1,
            }),
        };
        let raw_bytes = u64::from(header.raw_length);
        if let Some(index) = &mut reading.index
            && !index.push_at(
                header.first,
                header.records,
                header.positions,
                header.file_bytes(),
                raw_bytes,
            )
        {
            reading.index = None;
        }
    }

    fn check_footer(
        &mut self,
        reading: &mut SegmentReading,
        offset: u64,
        header: &BlockHeader,
        payload: &[u8],
    ) -> Result<()> {
        let found = footer::decode_payload(header, payload, offset, reading.base);
        let compacted = found
            .as_ref()
            .and_then(|found| Some((found.next(), found.compaction()?)));
        if let Some((next, compacted)) = compacted
            && reading.compacted
        {
            // Totals that the blocks do not give.
            if let Some(index) = &mut reading.index {
                index.finish_compacted(next, compacted.removed_bytes);
            }
            self.expected = self.expected.max(next);
        }
        let agrees = match &reading.index {
            Some(index) => found.as_ref() == Some(index),
            None => found.is_some(),
        };
        if !agrees {
            self.findings.damage(
                &reading.path,
                offset,
                "footer does not agree with the blocks".to_string(),
                None,
            );
        } else if reading.footer()?.is_none() {
            let end = reading.walk.offset;
            if reading.next_base.is_some() || reading.compacted {
                self.findings.damage(
                    &reading.path,
                    end,
                    "trailer damaged or cut short".to_string(),
                    None,
                );
            } else {
                self.check_lost_footer(&reading.path, reading.base, offset);
                self.findings.summary.torn_bytes += reading.file_bytes - offset;
            }
        }
        Ok(())
    }

    /// Counts what recovery will cut off: all from `offset` on, and the group that is unfinished
    /// there.
    fn count_torn(&mut self, reading: &SegmentReading, offset: u64) {
        self.check_lost_footer(&reading.path, reading.base, offset);
        let mut from = offset;
        if let Some(group) = &reading.unfinished {
            from = group.offset;
            self.findings.summary.blocks -= group.blocks.min(self.findings.summary.blocks);
            self.findings.summary.records -= self.expected.0.saturating_sub(group.first.0);
            self.expected = group.first;
        }
        self.findings.drop_group();
        self.findings.summary.torn_bytes += reading.file_bytes - from;
    }

    /// Decides whether bytes that are not a block are a torn tail or damage, and moves to the next
    /// block. False if there is none.
    fn judge_fault(
        &mut self,
        reading: &mut SegmentReading,
        offset: u64,
        fault: BlockFault,
    ) -> Result<bool> {
        let expected = self.expected;
        let durable = reading.durable;
        let mut later = |wanted: &mut dyn FnMut(&BlockHeader) -> bool| {
            reading
                .walk
                .find_header(offset + 1, &mut |_, header| wanted(header))
        };
        if reading.next_base.is_none()
            && !reading.compacted
            && !fault.certain
            && durable <= offset
            && expected > self.known
            && later(&mut |header| header.durable > offset)?.is_none()
        {
            self.count_torn(reading, offset);
            return Ok(false);
        }
        reading.unfinished = None;
        let found =
            later(&mut |header| header.kind == BlockKind::Footer || header.first >= expected)?;
        let next = match &found {
            Some((_, header)) if header.kind != BlockKind::Footer => header.first,
            // Only the footer follows, or nothing.
            _ => match (reading.next_base, reading.footer()?) {
                (Some(next_base), _) => next_base.max(expected),
                (None, Some(index)) => index.next().max(expected),
                (None, None) => expected.max(self.known).next(),
            },
        };
        self.findings.damage(
            &reading.path,
            offset,
            fault.what.to_string(),
            range(expected, next),
        );
        self.findings.cut_group();
        self.expected = next;
        reading.index = None;
        match found {
            Some((at, _)) => {
                reading.walk.offset = at;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

impl Iterator for Inspection {
    type Item = Result<Finding>;

    fn next(&mut self) -> Option<Result<Finding>> {
        loop {
            if let Some(finding) = self.findings.pop() {
                return Some(Ok(finding));
            }
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.reading = None;
                    self.files.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}
