//! `quire tail`: prints the changes of a collection from its log.
//!
//! A database is open in one process at a time, so `--follow` does not keep it open: it reads the
//! new changes, closes the database, and opens it again when its files have changed and no other
//! process has it open.

use super::wide;
use crate::error::{Error, Result};
use crate::link::Link;
use crate::message::print_message;
use crate::place::{self, Place};
use crate::{Context, database, files};
use quire_pipeline::Target;
use quiredb::wide::WideCollection;
use quiredb::{
    Collection, Database, DatabaseOptions, ErrorKind, Logged, Position, Tail as Changes,
    is_at_or_before,
};
use std::path::Path;
use std::time::Duration;

/// How often `--follow` checks for changed files.
const POLL: Duration = Duration::from_millis(100);

/// How long a server waits for changes before it answers that there are none.
const WAIT_MS: u64 = 30_000;

/// Changes that a server sends together.
const CHANGES_AT_ONCE: u64 = 10_000;

/// Print the changes of a collection as lines of JSON, in the order of each partition
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A line is {\"partition\":P,\"position\":N,\"time_micros\":T,\"key\":K,\"document\":{...}};
a deletion has \"deleted\":true in place of the document. A document with an external version has it
as \"version\". Of a wide collection, which keeps its changes with --log-retention-age, a patch has
\"patch\":[...], the cells that it changed.

Examples:
  quire tail ./db papers --limit 10
  quire tail ./db papers --from 1000
  quire tail ./db papers --prefix 2101.      of keys with this prefix
  quire tail ./db papers --follow            and the changes of other commands, until interrupted")]
pub(crate) struct Tail {
    #[command(flatten)]
    place: Place,
    /// The collection
    collection: String,
    /// Start at this position of every partition
    #[arg(long, value_name = "POSITION", default_value_t = 1)]
    from: u64,
    /// Wait for more changes; those of another process are printed when it closes the database
    #[arg(long)]
    follow: bool,
    /// Only changes of documents whose key has this prefix
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// Print at most this many changes
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// A collection whose changes are printed.
enum Tailed {
    Plain(Collection),
    Wide(WideCollection),
}

impl Tailed {
    fn open(database: &Database, db: &Path, name: &str) -> Result<Tailed> {
        match wide::find(database, name)? {
            Some(wide) => Ok(Tailed::Wide(wide)),
            None => database::collection(database, db, name).map(Tailed::Plain),
        }
    }
}

impl Tail {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let mut left = self.limit.unwrap_or(u64::MAX);
        if let Some(link) = self.place.server(context)? {
            return self.run_on_server(context, &link, left);
        }
        let db = self.place.path();
        if !self.follow {
            let database = database::open_existing(context, db)?;
            let collection = Tailed::open(&database, db, &self.collection)?;
            self.print_after(context, &collection, None, &mut left)?;
            return Ok(());
        }
        let mut seen: Option<Vec<Position>> = None;
        loop {
            let database = self.open_when_free(context)?;
            let collection = Tailed::open(&database, db, &self.collection)?;
            let printed = self.print_after(context, &collection, seen.as_deref(), &mut left)?;
            context.out.flush()?;
            if left == 0 {
                return Ok(());
            }
            seen = Some(printed);
            drop((collection, database));
            let state = files::state(db);
            while files::state(db) == state {
                context.env.sleep(POLL);
            }
        }
    }

    /// Prints the changes of a server's collection, which are lines already.
    fn run_on_server(&self, context: &mut Context, link: &Link, mut left: u64) -> Result<()> {
        let collection = place::remote_collection(link, &self.collection)?;
        let before = self.from.saturating_sub(1).to_string();
        let end = collection.positions();
        let mut end = end.map_err(Error::engine("cannot read the log"))?;
        let mut cursor = vec![before; end.len()].join(",");
        let wait_ms = if self.follow { WAIT_MS } else { 0 };
        while left > 0 {
            let limit = left.min(CHANGES_AT_ONCE);
            let read = collection.changes(&cursor, &self.prefix, limit, wait_ms);
            let (lines, next) = read.map_err(Error::engine("cannot read the log"))?;
            left -= lines.len() as u64;
            for line in &lines {
                context.out.line(line)?;
            }
            context.out.flush()?;
            cursor = next;
            let seen = positions_of(&cursor);
            if seen.len() < end.len() {
                // Partitions were merged: what was at their ends is not at the same positions.
                let now = collection.positions();
                end = now.map_err(Error::engine("cannot read the log"))?;
            }
            if !self.follow && is_at_or_before(&end, &seen) {
                break;
            }
        }
        Ok(())
    }

    /// Prints the changes after those seen, up to the limit. Returns what was seen then.
    fn print_after(
        &self,
        context: &mut Context,
        collection: &Tailed,
        seen: Option<&[Position]>,
        left: &mut u64,
    ) -> Result<Vec<Position>> {
        let from = Position(self.from);
        match collection {
            Tailed::Plain(plain) => {
                let changes = seen.map_or_else(|| plain.tail(from), |seen| plain.tail_after(seen));
                self.print(context, changes, "", left)
            }
            Tailed::Wide(wide) => {
                let changes = seen.map_or_else(|| wide.tail(from), |seen| wide.tail_after(seen));
                self.print(context, changes, &wide.settings().key_field, left)
            }
        }
    }

    /// Prints changes of keys with the prefix, up to the limit. Returns what was seen then.
    fn print<C: Logged>(
        &self,
        context: &mut Context,
        changes: quiredb::Result<Changes<C>>,
        key_field: &str,
        left: &mut u64,
    ) -> Result<Vec<Position>> {
        let unread = || Error::engine("cannot read the log");
        let mut changes = changes.map_err(unread())?;
        let mut line = Vec::new();
        while *left > 0
            && let Some(change) = changes.next()
        {
            let change = change.map_err(unread())?;
            if change.key().to_string().starts_with(&self.prefix) {
                line.clear();
                change.write_json(key_field, &mut line);
                context.out.line(String::from_utf8_lossy(&line))?;
                *left -= 1;
            }
        }
        Ok(changes.seen())
    }

    /// Opens the database; waits while it is open in another process.
    fn open_when_free(&self, context: &Context) -> Result<Database> {
        let db = self.place.path();
        database::require_directory(context, db)?;
        let mut is_reported = false;
        loop {
            let options = DatabaseOptions {
                create_if_missing: false,
                retention: false,
                ..DatabaseOptions::default()
            };
            match Database::builder(db)
                .env(context.env.clone())
                .options(options)
                .open()
            {
                Ok(database) => return Ok(database),
                Err(error) if error.kind() == ErrorKind::Locked => {
                    if !is_reported {
                        print_message("quire: waiting: the database is open in another process");
                        is_reported = true;
                    }
                    context.env.sleep(POLL);
                }
                Err(error) => return Err(database::refused(db, error)),
            }
        }
    }
}

/// The positions of a cursor.
fn positions_of(cursor: &str) -> Vec<Position> {
    let seen = cursor.split(',').map(|seen| seen.parse().unwrap_or(0));
    seen.map(Position).collect()
}
