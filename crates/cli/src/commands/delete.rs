//! `quire delete`: deletes documents by key.

use super::key::parse_key;
use super::wide::{self, Opened};
use crate::Context;
use crate::error::{Error, Result};
use crate::message::print_message;
use crate::place::Place;
use quiredb::{Effect, Key, Position, Write};

/// Delete documents by key
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire delete ./db papers 2101.00001 2101.00002
  quire delete ./db papers 2101.00001 --if-version 17

Exit code 1 if a key has no document, or its version is not that of --if-version.")]
pub(crate) struct Delete {
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
    /// Delete only if this is the version of the document
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
}

impl Delete {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        if self.if_version.is_some() && self.keys.len() > 1 {
            return Err(Error::Usage("--if-version goes with one key".to_owned()));
        }
        let documents = match wide::open(context, &self.place, &self.collection)? {
            Opened::Wide(_database, wide) => {
                return wide::delete(context, &wide, &self.keys, self.if_version);
            }
            Opened::Plain(documents) => documents,
        };
        let mut missing = false;
        for key in self.keys {
            let mut write = Write::delete(key.clone());
            if let Some(version) = self.if_version {
                write = write.if_version(Position(version));
            }
            let written = documents
                .write(write)
                .map_err(Error::engine(format!("cannot delete {key}")))?;
            if written.effect == Effect::Unchanged {
                missing = true;
                print_message(format_args!(
                    "quire: no document {key} in {}",
                    self.collection
                ));
            }
            context.out.written(&key, &written)?;
        }
        documents
            .sync()
            .map_err(Error::engine("cannot make the deletions durable"))?;
        if missing {
            Err(Error::Reported)
        } else {
            Ok(())
        }
    }
}
