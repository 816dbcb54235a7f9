//! `quire repair`: copies the undamaged documents of a database to a new one, and reports the rest.

use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::size::{Size, counted};
use quiredb::Volumes;
use quiredb::operations::{RepairEvent, RepairReport};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Copy the undamaged documents of a damaged database to a new one
#[derive(Debug, clap::Args)]
#[command(after_help = "\
DB is only read. NEW-DB gets the newest undamaged version of each document. The report has a line
of JSON for each damaged file, each lost position or document, and each guess.

Example:
  quire repair ./db ./db-repaired
  quire verify ./db-repaired

Exit code 0 if nothing was lost, 1 if anything was; the new database is written in both cases.")]
pub(crate) struct Repair {
    /// The directory of the damaged database
    db: PathBuf,
    /// The directory of the new database: absent or empty
    new_db: PathBuf,
    /// The file of the report [default: NEW-DB.report.ndjson]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl Repair {
    #[allow(
        clippy::disallowed_methods,
        reason = "the report is the user's file, not the engine's"
    )]
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        database::require_directory(context, &self.db)?;
        let path = self.report.clone().unwrap_or_else(|| beside(&self.new_db));
        let failed = |error: std::io::Error| {
            Error::Failed(format!(
                "cannot write the report {}: {error}",
                path.display()
            ))
        };
        let mut file = BufWriter::new(File::create(&path).map_err(failed)?);
        let progress = Progress::bytes(None);
        let mut written = Ok(());
        let report = quiredb::operations::repair(
            context.env.clone(),
            Volumes::single(&self.db),
            Volumes::single(&self.new_db),
            &mut |event| {
                if let RepairEvent::Progress { done, total } = event {
                    progress.total(total);
                    progress.at(done, String::new);
                } else if written.is_ok() {
                    written = json_line(&mut file, &event);
                }
            },
        );
        progress.finish();
        let report = report.map_err(|source| database::refused(&self.db, source))?;
        written
            .and_then(|()| json_line(&mut file, &report))
            .and_then(|()| file.flush())
            .and_then(|()| file.get_ref().sync_all())
            .map_err(failed)?;
        if context.out.is_json() {
            context.out.json_line(&report)?;
        } else {
            for line in lines(&report, &self.new_db, &path) {
                context.out.line(line)?;
            }
        }
        if report.is_whole() {
            Ok(())
        } else {
            Err(Error::Reported)
        }
    }
}

/// The default path of the report.
fn beside(new_db: &Path) -> PathBuf {
    let mut name = new_db.components().as_path().as_os_str().to_os_string();
    name.push(".report.ndjson");
    PathBuf::from(name)
}

fn json_line(file: &mut impl Write, line: &impl serde::Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *file, line)?;
    file.write_all(b"\n")
}

/// The report for people.
fn lines(report: &RepairReport, new_db: &Path, path: &Path) -> Vec<String> {
    let mut lines = vec![format!(
        "salvaged {} in {} from {} of {}",
        counted(report.documents, "document", "documents"),
        counted(report.collections, "collection", "collections"),
        counted(report.records, "record", "records"),
        Size(report.bytes)
    )];
    let losses = [
        (
            report.keys_older,
            "document",
            "documents",
            "older than it was: the newest version is lost",
        ),
        (report.keys_lost, "document", "documents", "lost altogether"),
        (
            report.keys_deleted,
            "document",
            "documents",
            "deleted, as the index says, though the log lost the deletion",
        ),
        (
            report.positions_unknown,
            "lost record",
            "lost records",
            "of which nothing says what documents they changed",
        ),
        (
            report.rows_torn,
            "row",
            "rows",
            "of which some column groups lost cells",
        ),
        (
            report.tables_lost,
            "table file",
            "table files",
            "of wide collections lost: nothing else has what was in them",
        ),
        (
            report.ends_unknown,
            "partition",
            "partitions",
            "of which nothing says whether the log went on",
        ),
        (
            report.guesses,
            "name or setting",
            "names or settings",
            "guessed, for want of a whole catalog",
        ),
    ];
    for (count, one, many, what) in losses {
        if count > 0 {
            lines.push(format!("{} {what}", counted(count, one, many)));
        }
    }
    lines.push(match (report.is_whole(), report.damages) {
        (true, 0) => format!(
            "nothing was damaged; the new database is {}",
            new_db.display()
        ),
        (true, damages) => format!(
            "{}, and nothing lost by it; the new database is {}",
            counted(damages, "damage", "damages"),
            new_db.display()
        ),
        (false, _) => format!(
            "{} lost; the new database is {}; what was lost is in {}",
            counted(report.positions_lost, "record", "records"),
            new_db.display(),
            path.display()
        ),
    });
    lines
}
