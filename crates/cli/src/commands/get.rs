//! `quire get`: prints documents by key.

use super::key::parse_key;
use super::wide::{self, Opened};
use crate::Context;
use crate::error::{Error, Result};
use crate::message::print_message;
use crate::output::key_json;
use crate::place::Place;
use quiredb::Key;

/// Print documents by key, one a line, as they were written
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire get ./db papers 2101.00001
  quire get ./db papers 2101.00001 2101.00002 --json      with key and version
  quire get http://127.0.0.1:9200 papers 2101.00001       of a server

Exit code 1 if a key has no document; the other documents are printed.")]
pub(crate) struct Get {
    #[command(flatten)]
    place: Place,
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
        let documents = match wide::open(context, &self.place, &self.collection)? {
            Opened::Wide(_database, wide) => {
                return wide::get(context, &wide, &self.keys, &self.columns);
            }
            Opened::Plain(documents) => documents,
        };
        wide::refuse_columns(&self.collection, &self.columns)?;
        let mut missing = false;
        documents.get(&self.keys, &mut |key, found| {
            if let Some(found) = found {
                return context.out.found(&found.origin, &found.document);
            }
            missing = true;
            print_message(format_args!(
                "quire: no document {key} in {}",
                self.collection
            ));
            match context.out.is_json() {
                true => context.out.line(format_args!(
                    "{{\"key\":{},\"found\":false}}",
                    key_json(key)
                )),
                false => Ok(()),
            }
        })?;
        if missing {
            Err(Error::Reported)
        } else {
            Ok(())
        }
    }
}
