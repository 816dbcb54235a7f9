//! `quire get`: prints documents by key.

use super::key::parse_key;
use super::wide;
use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::message::print_message;
use crate::output::key_json;
use quiredb::Key;
use std::path::PathBuf;

/// The count of keys that are looked up together; it bounds the documents in memory.
const KEYS_AT_ONCE: usize = 64;

/// Print documents by key, one a line, as they were written
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire get ./db papers 2101.00001
  quire get ./db papers 2101.00001 2101.00002 --json      with key and version

Exit code 1 if a key has no document; the other documents are printed.")]
pub(crate) struct Get {
    /// The directory of the database
    db: PathBuf,
    /// The collection
    collection: String,
    /// The keys
    #[arg(
        required = true,
        value_name = "KEY",
        value_parser = parse_key,
        allow_negative_numbers = true
    )]
    keys: Vec<Key>,
    /// Of a wide collection: these columns only; no group of others is read
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    columns: Vec<String>,
}

impl Get {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let database = database::open_existing(context, &self.db)?;
        if let Some(wide) = wide::find(&database, &self.collection)? {
            return wide::get(context, &wide, &self.keys, &self.columns);
        }
        wide::refuse_columns(&self.collection, &self.columns)?;
        let collection = database::collection(&database, &self.db, &self.collection)?;
        let mut missing = false;
        for keys in self.keys.chunks(KEYS_AT_ONCE) {
            let found = collection
                .get_many(keys)
                .map_err(Error::engine("cannot read"))?;
            for (key, found) in keys.iter().zip(found) {
                if let Some(found) = found {
                    context.out.found(&found)?;
                    continue;
                }
                missing = true;
                print_message(format_args!(
                    "quire: no document {key} in {}",
                    self.collection
                ));
                if context.out.is_json() {
                    context.out.line(format_args!(
                        "{{\"key\":{},\"found\":false}}",
                        key_json(key)
                    ))?;
                }
            }
        }
        if missing {
            Err(Error::Reported)
        } else {
            Ok(())
        }
    }
}
