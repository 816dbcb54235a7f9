//! `quire verify`: every byte read, every checksum checked.

use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::size::{Size, counted};
use quiredb::{VerifyReport, Volumes};
use std::path::PathBuf;

/// Read every byte, check every checksum, and that each tree agrees with the log
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each damage is told with its file, its offset and what is lost by it.

Example:
  quire verify ./db

Exit code 1 if anything is damaged.")]
pub(crate) struct Verify {
    /// The database's directory
    db: PathBuf,
}

impl Verify {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        database::require_directory(context, &self.db)?;
        let progress = Progress::bytes(None);
        let report = quiredb::verify(
            context.env.clone(),
            Volumes::single(&self.db),
            &mut |done, total| {
                progress.total(total);
                progress.at(done, String::new);
            },
        );
        progress.finish();
        let report = report.map_err(|source| database::refused(&self.db, source))?;
        if context.out.is_json() {
            context.out.json_line(&report)?;
        } else {
            for line in lines(&report) {
                context.out.line(line)?;
            }
        }
        if report.damage.is_empty() {
            Ok(())
        } else {
            Err(Error::Reported)
        }
    }
}

/// The report for people: each damage, then the whole.
pub(crate) fn lines(report: &VerifyReport) -> Vec<String> {
    let mut lines = Vec::new();
    for damage in &report.damage {
        lines.push(format!(
            "{} at byte {}: {}; lost: {}",
            damage.file, damage.offset, damage.what, damage.lost
        ));
    }
    if report.torn_bytes > 0 {
        lines.push(format!(
            "{} after the last complete write will be cut when the database is opened (a write was interrupted; no damage)",
            Size(report.torn_bytes)
        ));
    }
    let verdict = match report.damage.len() as u64 {
        0 => "no damage".to_owned(),
        damages => counted(damages, "damage", "damages"),
    };
    lines.push(format!(
        "{verdict}: {} in {}, {} of {}",
        counted(report.documents, "document", "documents"),
        counted(report.collections, "collection", "collections"),
        counted(report.files, "file", "files"),
        Size(report.bytes)
    ));
    lines
}
