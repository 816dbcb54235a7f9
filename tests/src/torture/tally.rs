//! The totals of a run: for each kind of round, and in all.

use serde::Serialize;
use std::ops::AddAssign;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Tally {
    pub(crate) rounds: u64,
    pub(crate) skipped: u64,
    pub(crate) failures: u64,
    /// Simulated histories.
    pub(crate) histories: u64,
    /// Processes killed, and power cuts.
    pub(crate) crashes: u64,
    /// Errors injected into a process: by a system call, a full disk, a flipped bit.
    pub(crate) faults: u64,
    /// Databases opened after a crash or a fault and compared with what was acknowledged.
    pub(crate) recoveries: u64,
    /// Writes acknowledged and compared with what was found later; operations of histories.
    pub(crate) operations: u64,
    /// Answers to reads, each compared with what was written.
    pub(crate) reads: u64,
    /// Bytes of documents written; bytes written to simulated disks.
    pub(crate) bytes: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.rounds += other.rounds;
        self.skipped += other.skipped;
        self.failures += other.failures;
        self.histories += other.histories;
        self.crashes += other.crashes;
        self.faults += other.faults;
        self.recoveries += other.recoveries;
        self.operations += other.operations;
        self.reads += other.reads;
        self.bytes += other.bytes;
    }
}

/// The names and widths of the columns.
const COLUMNS: [(&str, usize); 10] = [
    ("rounds", 7),
    ("skipped", 8),
    ("failed", 7),
    ("histories", 10),
    ("crashes", 8),
    ("faults", 8),
    ("recoveries", 11),
    ("operations", 12),
    ("reads", 11),
    ("MB", 8),
];

/// The head of a table of tallies.
pub(crate) fn head() -> String {
    let mut head = format!("{:<10}", "");
    for (name, width) in COLUMNS {
        head.push_str(&format!("{name:>width$}"));
    }
    head
}

impl Tally {
    /// A row of the table.
    pub(crate) fn row(&self, name: &str) -> String {
        let cells = [
            self.rounds,
            self.skipped,
            self.failures,
            self.histories,
            self.crashes,
            self.faults,
            self.recoveries,
            self.operations,
            self.reads,
            self.bytes / 1_000_000,
        ];
        let mut row = format!("{name:<10}");
        for (cell, (_, width)) in cells.into_iter().zip(COLUMNS) {
            row.push_str(&format!("{cell:>width$}"));
        }
        row
    }
}
