//! Findings: what an inspection of a log reports, and the totals of it.

use crate::format::records::RecordBlock;
use bytes::Bytes;
use quire_model::Position;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// One thing that is wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogDamage {
    /// The segment file.
    pub path: PathBuf,
    /// Byte offset in the file.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
    /// The first and last position lost by it; `None` if no record is lost. Damage at the end of
    /// the newest segment may have lost more: nothing says how many records followed.
    pub lost: Option<(Position, Position)>,
}

/// What a verification read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifySummary {
    /// Segment files.
    pub segments: u64,
    /// Whole blocks of records.
    pub blocks: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of all segment files, and of the file of the end-of-log record.
    pub disk_bytes: u64,
    /// Position of the first record that should be there; one past `last` if there is none.
    pub first: Position,
    /// Position of the last record that is there, or that anything proves was there.
    pub last: Position,
    /// Bytes that the next opening will remove: a torn tail, or segments that were compacted into
    /// another one. They are not damage.
    pub torn_bytes: u64,
    /// The number of damages reported.
    pub damages: u64,
}

/// One report of an inspection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Finding {
    /// This number of further bytes was read.
    Read(u64),
    /// Something is wrong.
    Damage(LogDamage),
    /// A whole record. Only a [`salvage`](crate::salvage) reports records.
    Record(Position, Bytes),
    /// The records from the first position to the last, which are reported next, are a part of a
    /// group whose other records are lost. Only a [`salvage`](crate::salvage) reports parts.
    Part(Position, Position),
}

/// The records that a salvage keeps until it knows where their group ends.
#[derive(Debug)]
struct Salvage {
    /// Blocks of the group whose end was not read yet.
    held: Vec<RecordBlock>,
    /// Records before this position were reported.
    next: Position,
}

/// Findings that were not handed out yet, and the totals so far.
#[derive(Debug)]
pub(crate) struct Findings {
    queue: VecDeque<Finding>,
    pub(crate) summary: VerifySummary,
    salvage: Option<Salvage>,
}

impl Findings {
    /// No findings yet, of a log whose first record should have position `first`.
    pub(crate) fn new(first: Position, last: Position) -> Findings {
        Findings {
            queue: VecDeque::new(),
            summary: VerifySummary {
                segments: 0,
                blocks: 0,
                records: 0,
                disk_bytes: 0,
                first,
                last,
                torn_bytes: 0,
                damages: 0,
            },
            salvage: None,
        }
    }

    /// Reports records too, from now on.
    pub(crate) fn with_records(&mut self) {
        self.salvage = Some(Salvage {
            held: Vec::new(),
            next: Position(1),
        });
    }

    /// Takes the oldest finding.
    pub(crate) fn pop(&mut self) -> Option<Finding> {
        self.queue.pop_front()
    }

    /// Reports that `bytes` more were read.
    pub(crate) fn read(&mut self, bytes: u64) {
        self.queue.push_back(Finding::Read(bytes));
    }

    /// Reports damage.
    pub(crate) fn damage(
        &mut self,
        path: &Path,
        offset: u64,
        what: impl Into<String>,
        lost: Option<(Position, Position)>,
    ) {
        self.summary.damages += 1;
        self.queue.push_back(Finding::Damage(LogDamage {
            path: path.to_path_buf(),
            offset,
            what: what.into(),
            lost,
        }));
    }

    /// Counts a file of `file_bytes` that was read.
    pub(crate) fn count_file(&mut self, file_bytes: u64) {
        self.summary.disk_bytes += file_bytes;
        self.read(file_bytes);
    }

    /// Counts a file of `file_bytes` that the next opening will remove, and that is not read.
    pub(crate) fn skip_file(&mut self, file_bytes: u64) {
        self.summary.disk_bytes += file_bytes;
        self.summary.torn_bytes += file_bytes;
        self.read(file_bytes);
    }

    /// Counts a whole block. Its records are reported once their group is known to be complete.
    pub(crate) fn block(&mut self, block: RecordBlock) {
        self.summary.blocks += 1;
        self.summary.records += u64::from(block.records());
        let group_continues = block.group_continues();
        if let Some(salvage) = &mut self.salvage {
            salvage.held.push(block);
        }
        if !group_continues {
            self.report_held();
        }
    }

    /// Reports the whole records of a group whose other records are lost.
    pub(crate) fn cut_group(&mut self) {
        let held = self.salvage.as_ref().map(|salvage| &salvage.held);
        if let Some((first, last)) =
            held.and_then(|held| Some((held.first()?.first(), held.last()?.last())))
        {
            self.queue.push_back(Finding::Part(first, last));
            self.report_held();
        }
    }

    /// Reports no record of the group whose end was torn off: recovery cuts it off.
    pub(crate) fn drop_group(&mut self) {
        if let Some(salvage) = &mut self.salvage {
            salvage.held.clear();
        }
    }

    fn report_held(&mut self) {
        let Some(salvage) = &mut self.salvage else {
            return;
        };
        for block in salvage.held.drain(..) {
            let mut position = salvage.next.max(block.first());
            while let Some((at, record)) = block.next_record(position) {
                debug_assert!(at >= salvage.next, "each record is reported once, in order");
                self.queue.push_back(Finding::Record(at, record));
                position = at.next();
            }
            salvage.next = salvage.next.max(block.last().next());
        }
    }
}
