//! `quire tail`: the changes of a collection, as its log holds them.
//!
//! A database is open in one process at a time, so `--follow` does not hold it: it reads what is
//! new, lets go, and looks again when files of the database have changed and nobody else has it
//! open.

use crate::error::{Error, Result};
use crate::output::{key_json, tell};
use crate::{Context, database, files};
use quiredb::{
    Change, Collection, Database, DatabaseOptions, ErrorKind, Position, Tail as Changes,
};
use std::path::PathBuf;
use std::time::Duration;

/// How often `--follow` looks whether something has changed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Print the changes of a collection, one a line of JSON, each partition's in order
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A line is {\"partition\":P,\"position\":N,\"time_micros\":T,\"key\":K,\"document\":{...}}, or \"deleted\":true in place of the document.

Examples:
  quire tail ./db papers --limit 10
  quire tail ./db papers --from 1000
  quire tail ./db papers --prefix 2101.      of keys that begin so
  quire tail ./db papers --follow            go on with what other commands write, until interrupted")]
pub(crate) struct Tail {
    /// The database's directory
    db: PathBuf,
    /// The collection
    collection: String,
    /// Start at this position of every partition
    #[arg(long, value_name = "POSITION", default_value_t = 1)]
    from: u64,
    /// Wait for more; while another process has the database open, its changes show when it closes
    /// it
    #[arg(long)]
    follow: bool,
    /// Only changes of documents whose key begins with this
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// At most this many changes
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

impl Tail {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let mut left = self.limit.unwrap_or(u64::MAX);
        if !self.follow {
            let database = database::open_existing(context, &self.db)?;
            let collection = database::collection(&database, &self.db, &self.collection)?;
            let mut changes = collection
                .tail(Position(self.from))
                .map_err(Error::engine("cannot read the log"))?;
            return print(context, &mut changes, &self.prefix, &mut left);
        }
        let mut seen: Option<Vec<Position>> = None;
        loop {
            let database = self.open_when_free(context)?;
            let collection = database::collection(&database, &self.db, &self.collection)?;
            let mut changes = self.changes_after(&collection, seen.as_deref())?;
            print(context, &mut changes, &self.prefix, &mut left)?;
            context.out.flush()?;
            if left == 0 {
                return Ok(());
            }
            seen = Some(changes.seen());
            drop((changes, collection, database));
            let state = files::state(&self.db);
            while files::state(&self.db) == state {
                context.env.sleep(LOOK_EVERY);
            }
        }
    }

    fn changes_after(&self, collection: &Collection, seen: Option<&[Position]>) -> Result<Changes> {
        match seen {
            Some(seen) => collection.tail_after(seen),
            None => collection.tail(Position(self.from)),
        }
        .map_err(Error::engine("cannot read the log"))
    }

    /// Opens the database, waiting while it is open elsewhere.
    fn open_when_free(&self, context: &Context) -> Result<Database> {
        database::require_directory(context, &self.db)?;
        let mut told = false;
        loop {
            let options = DatabaseOptions {
                create_if_missing: false,
                retention: false,
                ..DatabaseOptions::default()
            };
            match Database::builder(&self.db)
                .env(context.env.clone())
                .options(options)
                .open()
            {
                Ok(database) => return Ok(database),
                Err(error) if error.kind() == ErrorKind::Locked => {
                    if !told {
                        tell("quire: waiting: the database is open in another process");
                        told = true;
                    }
                    context.env.sleep(LOOK_EVERY);
                }
                Err(error) => return Err(database::refused(&self.db, error)),
            }
        }
    }
}

/// Prints changes of keys that begin with `prefix`, up to the limit.
fn print(context: &mut Context, changes: &mut Changes, prefix: &str, left: &mut u64) -> Result<()> {
    while *left > 0
        && let Some(change) = changes.next()
    {
        let change = change.map_err(Error::engine("cannot read the log"))?;
        if change.key.to_string().starts_with(prefix) {
            context.out.line(as_json(&change))?;
            *left -= 1;
        }
    }
    Ok(())
}

fn as_json(change: &Change) -> String {
    let content = match &change.document {
        Some(document) => format!("\"document\":{}", document.to_json()),
        None => "\"deleted\":true".to_owned(),
    };
    format!(
        "{{\"partition\":{},\"position\":{},\"time_micros\":{},\"key\":{},{content}}}",
        change.partition,
        change.version,
        change.time_micros,
        key_json(&change.key)
    )
}
