//! `quire scan`: prints documents in key order.

use super::key::parse_key;
use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use quiredb::Key;
use std::ops::Bound;
use std::path::PathBuf;

/// Print documents in key order, one a line, as they were written
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Integer keys come before strings; strings are ordered by their bytes.

Examples:
  quire scan ./db papers --limit 10
  quire scan ./db papers --from a --to c
  quire scan ./db papers --prefix 2101. --json              with keys and versions
  quire scan ./db papers > papers.ndjson                    a copy that `quire load` reads")]
pub(crate) struct Scan {
    /// The directory of the database
    db: PathBuf,
    /// The collection
    collection: String,
    /// Start at this key
    #[arg(long, value_name = "KEY", value_parser = parse_key, allow_negative_numbers = true)]
    from: Option<Key>,
    /// End before this key
    #[arg(long, value_name = "KEY", value_parser = parse_key, allow_negative_numbers = true)]
    to: Option<Key>,
    /// Only string keys with this prefix
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
    /// Print at most this many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl Scan {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let prefix = self.prefix.filter(|prefix| !prefix.is_empty());
        let from = match &prefix {
            Some(prefix) => Some(first_of(prefix)?),
            None => self.from,
        };
        let range = (
            from.map_or(Bound::Unbounded, Bound::Included),
            self.to.map_or(Bound::Unbounded, Bound::Excluded),
        );
        let database = database::open_existing(context, &self.db)?;
        let collection = database::collection(&database, &self.db, &self.collection)?;
        let scan = collection
            .scan(range)
            .map_err(Error::engine("cannot scan"))?;
        for found in scan.take(self.limit.unwrap_or(usize::MAX)) {
            let found = found.map_err(Error::engine("cannot scan"))?;
            if let Some(prefix) = &prefix
                && !found
                    .key
                    .as_str()
                    .is_some_and(|key| key.starts_with(prefix.as_str()))
            {
                break;
            }
            context.out.found(&found)?;
        }
        Ok(())
    }
}

/// The first string key that starts with `prefix`.
fn first_of(prefix: &str) -> Result<Key> {
    let parse = |text: &str| Key::parse(text).map_err(|error| Error::Usage(error.to_string()));
    let key = parse(prefix)?;
    if key.as_str().is_some() {
        return Ok(key);
    }
    // The text of an integer is the integer's key. The next string has one more character, the
    // smallest.
    parse(&format!("{prefix}\0"))
}
