//! `quire backup`: a snapshot of a database, while it is written.

use crate::client::{ServerAccess, is_url};
use crate::error::{Error, Result, with_advice};
use crate::http;
use crate::progress::Progress;
use crate::size::{Rate, Size, counted};
use crate::{Context, database};
use quiredb::operations::{BackupOptions, BackupReport, backup};
use quiredb::{Database, ErrorKind};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Add a snapshot of a database to a backup; only what is new is copied
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A snapshot is the whole database at one moment. Writes continue meanwhile. An interrupted
backup leaves the earlier snapshots whole; the next backup uses the files that it copied.

Examples:
  quire backup ./db /backups/db
  quire backup ./db /backups/db --keep 7 --rate 100MB/s
  quire backup http://127.0.0.1:9200 nightly      the server makes it, in its --backup-dir

  quire backups /backups/db                       the snapshots in it
  quire restore /backups/db ./copy                a database of the newest one")]
pub(crate) struct Backup {
    /// The directory of the database, or http(s)://HOST:PORT of its server
    db: String,
    /// The directory of the backup, created if absent; for a server, a name in its --backup-dir
    dest: PathBuf,
    /// Keep this many snapshots, the new one included, and remove older ones [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// The bytes to copy in a second, at most: 64MB/s, or none for no limit [default: 32MiB/s]
    #[arg(long)]
    rate: Option<Rate>,
    #[command(flatten)]
    access: ServerAccess,
}

impl Backup {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        match is_url(&self.db) {
            true => self.make_on_server(context),
            false if !self.access.is_empty() => Err(Error::Usage(
                "--token-file, --ca and --client-cert are for a server: give http://HOST:PORT \
                 instead of a directory"
                    .into(),
            )),
            false => self.make(context),
        }
    }

    /// Makes the backup in this process.
    fn make(&self, context: &mut Context) -> Result<()> {
        let path = Path::new(&self.db);
        let database = database::open_existing(context, path)?;
        let made = self.make_of(&database);
        let closed = database
            .close()
            .map_err(Error::engine("cannot close the database"));
        let report = made?;
        if context.out.is_json() {
            context.out.json_line(&report)?;
        } else {
            context.out.line(sentence(&report))?;
        }
        closed?;
        fail_if_damaged(&report)
    }

    fn make_of(&self, database: &Database) -> Result<BackupReport> {
        let mut options = BackupOptions {
            keep: self.keep,
            ..BackupOptions::default()
        };
        if let Some(Rate(rate)) = self.rate {
            options.rate_bytes = rate;
        }
        let progress = Progress::bytes(None);
        let made = backup(database, &self.dest, &options, &mut |done, total| {
            progress.total(total);
            progress.at(done, String::new);
            ControlFlow::Continue(())
        });
        progress.finish();
        made.map_err(Error::engine(format!("cannot back {} up", self.db)))
    }

    /// Makes the backup on a server.
    fn make_on_server(&self, context: &mut Context) -> Result<()> {
        let client = self.access.client(context, &self.db)?;
        let Some(name) = self.dest.to_str() else {
            return Err(Error::Usage("the backup's name must be UTF-8".into()));
        };
        let mut path = format!("/_backup/{}?", http::segment(name));
        if let Some(keep) = self.keep {
            path.push_str(&format!("keep={keep}&"));
        }
        if let Some(Rate(rate)) = self.rate {
            path.push_str(&format!("rate_bytes={}", rate.unwrap_or(0)));
        }
        client.request("POST", path.trim_end_matches(['?', '&']))?;
        let last = client.wait(context, "/_backup")?;
        if let Some(error) = last.get("error") {
            let reason = error["reason"].as_str().unwrap_or("for no reason given");
            return Err(Error::Failed(format!(
                "the server could not make the backup: {reason}"
            )));
        }
        let report = &last["report"];
        if context.out.is_json() {
            return context.out.json_line(report);
        }
        let number = |name: &str| report[name].as_u64().unwrap_or(0);
        context.out.line(format_args!(
            "snapshot {}: {} of {}, {} copied",
            number("number"),
            counted(number("files"), "file", "files"),
            Size(number("bytes")),
            Size(number("copied_bytes"))
        ))
    }
}

fn sentence(report: &BackupReport) -> String {
    let snapshot = &report.snapshot;
    let mut text = format!(
        "snapshot {}: {} of {}, {} copied",
        snapshot.number,
        counted(snapshot.files, "file", "files"),
        Size(snapshot.bytes),
        Size(report.copied_bytes),
    );
    if !report.removed_snapshots.is_empty() {
        let removed = report.removed_snapshots.len() as u64;
        text.push_str(&format!(
            "; {} removed, {} freed",
            counted(removed, "older snapshot", "older snapshots"),
            Size(report.removed_bytes)
        ));
    }
    text
}

/// The new snapshot is whole; the command fails if others are damaged.
fn fail_if_damaged(report: &BackupReport) -> Result<()> {
    match report.damaged_snapshots.as_slice() {
        [] => Ok(()),
        damaged => Err(Error::Failed(format!(
            "the new snapshot is whole, but older ones are damaged, and nothing is removed while \
             they are there: {}",
            damaged.join("; ")
        ))),
    }
}

/// The error of a backup that can't be read.
pub(super) fn unreadable(path: &Path, source: quiredb::Error) -> Error {
    match source.kind() {
        ErrorKind::NotFound | ErrorKind::Invalid => Error::Failed(with_advice(&source)),
        _ => Error::Engine {
            context: format!("cannot read the backup in {}", path.display()),
            source,
        },
    }
}
