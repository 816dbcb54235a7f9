//! `quire count`: counts the documents of a collection.

use super::wide::{self, Opened};
use crate::Context;
use crate::error::{Error, Result};
use crate::place::Place;

/// Count the documents of a collection
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  quire count ./db papers")]
pub(crate) struct Count {
    #[command(flatten)]
    place: Place,
    /// The collection
    collection: String,
}

impl Count {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let count = match wide::open(context, &self.place, &self.collection)? {
            Opened::Wide(_database, wide) => wide.count(),
            Opened::Plain(documents) => documents.count(),
        };
        let count = count.map_err(Error::engine("cannot count"))?;
        if context.out.is_json() {
            context.out.line(format_args!("{{\"count\":{count}}}"))
        } else {
            context.out.line(count)
        }
    }
}
