//! `quire verify`: every byte read, every checksum checked.

use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::size::{Size, counted};
use quiredb::{VerifyOptions, VerifyReport, Volumes};
use std::path::PathBuf;
use std::str::FromStr;

/// Read every byte, check every checksum, and that each tree agrees with the log
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each damage is told with its file, its offset and what is lost by it.

Examples:
  quire verify ./db
  quire verify ./db --rate 50MB/s

Exit code 1 if anything is damaged.")]
pub(crate) struct Verify {
    /// The database's directory
    db: PathBuf,
    /// Read no more than so much a second, such as 50MB
    #[arg(long, value_name = "SIZE")]
    rate: Option<Rate>,
}

/// Bytes a second: a size, and `/s` after it or not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate(pub(crate) u64);

impl FromStr for Rate {
    type Err = <Size as FromStr>::Err;

    fn from_str(text: &str) -> std::result::Result<Rate, Self::Err> {
        let size: Size = text.strip_suffix("/s").unwrap_or(text).parse()?;
        Ok(Rate(size.0))
    }
}

impl Verify {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        database::require_directory(context, &self.db)?;
        let progress = Progress::bytes(None);
        let options = VerifyOptions {
            rate_bytes: self.rate.map(|rate| rate.0),
        };
        let report = quiredb::verify_with(
            context.env.clone(),
            Volumes::single(&self.db),
            &options,
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
