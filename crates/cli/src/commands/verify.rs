//! `quire verify`: reads every byte and checks every checksum.

use crate::Context;
use crate::client::{ServerAccess, is_url};
use crate::database;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::size::{Rate, Size, counted};
use quiredb::Volumes;
use quiredb::operations::{VerifyOptions, VerifyReport};
use std::path::Path;

/// Read every byte; check every checksum, and that the trees agree with the log
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each damage is reported with its file, its offset and the loss.

Examples:
  quire verify ./db
  quire verify ./db --rate 50MB/s
  quire verify http://127.0.0.1:9200      the server reads, and continues to serve

Exit code 1 if anything is damaged.")]
pub(crate) struct Verify {
    /// The directory of a database, or of keys and values; or http(s)://HOST:PORT of its server
    db: String,
    /// The bytes to read in a second, at most: 50MB/s, or none for no limit [default: none; for a
    /// server 64MiB/s]
    #[arg(long)]
    rate: Option<Rate>,
    #[command(flatten)]
    access: ServerAccess,
}

impl Verify {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let report = match is_url(&self.db) {
            true => self.verify_on_server(context)?,
            false => self.verify_here(context, Path::new(&self.db))?,
        };
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

    /// Verifies in this process.
    fn verify_here(&self, context: &Context, db: &Path) -> Result<VerifyReport> {
        database::require_directory(context, db)?;
        let progress = Progress::bytes(None);
        let options = VerifyOptions {
            rate_bytes: self.rate.and_then(|rate| rate.0),
        };
        let report = quiredb::operations::verify(
            context.env.clone(),
            Volumes::single(db),
            &options,
            &mut |done, total| {
                progress.total(total);
                progress.at(done, String::new);
            },
        );
        progress.finish();
        report.map_err(|source| database::refused(db, source))
    }

    /// Verifies on a server.
    fn verify_on_server(&self, context: &Context) -> Result<VerifyReport> {
        let client = self.access.client(context, &self.db)?;
        let path = match self.rate {
            Some(Rate(rate)) => format!("/_verify?rate_bytes={}", rate.unwrap_or(0)),
            None => "/_verify".to_string(),
        };
        client.request("POST", &path)?;
        let mut last = client.wait(context, "/_verify")?;
        if let Some(error) = last.get("error") {
            let reason = error["reason"].as_str().unwrap_or("for no reason given");
            return Err(Error::Failed(format!(
                "the server could not verify the database: {reason}"
            )));
        }
        serde_json::from_value(last["report"].take()).map_err(|error| {
            Error::Failed(format!("the answer of the server is not a report: {error}"))
        })
    }
}

/// The report for people: each damage, then the sum.
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
            "{} after the last complete write will be cut when the database is opened (a write was \
             interrupted; no damage)",
            Size(report.torn_bytes)
        ));
    }
    let verdict = match report.damage.len() as u64 {
        0 => "no damage".to_owned(),
        damages => counted(damages, "damage", "damages"),
    };
    // Keys and values are in no collection.
    let documents = match report.collections {
        0 => String::new(),
        collections => format!(
            "{} in {}, ",
            counted(report.documents, "document", "documents"),
            counted(collections, "collection", "collections")
        ),
    };
    lines.push(format!(
        "{verdict}: {documents}{} of {}",
        counted(report.files, "file", "files"),
        Size(report.bytes)
    ));
    lines
}
