//! `quire drop`: removes a collection and all its documents.

use crate::Context;
use crate::error::{Error, Result};
use crate::place::{Documents, Place};
use crate::size;

/// Remove a collection and all its documents
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  quire drop ./db papers --yes")]
pub(crate) struct Drop {
    #[command(flatten)]
    place: Place,
    /// The collection
    collection: String,
    /// Confirm: nothing can undo this
    #[arg(long)]
    yes: bool,
}

impl Drop {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let opened = self.place.open(context, &self.collection)?;
        let documents = opened.count().map_err(Error::engine("cannot count"))?;
        let name = &self.collection;
        let counted = size::counted(documents, "document", "documents");
        if !self.yes {
            return Err(Error::Usage(format!(
                "this would remove {name} and its {counted} for good; say --yes to do it"
            )));
        }
        match &opened {
            Documents::Directory { database, .. } => database.drop_collection(name),
            Documents::Server(collection) => collection.drop_it(),
        }
        .map_err(Error::engine(format!(
            "cannot drop the collection `{name}`"
        )))?;
        if context.out.is_json() {
            context.out.line(format_args!(
                "{{\"dropped\":\"{name}\",\"documents\":{documents}}}"
            ))
        } else {
            context.out.line(format_args!("dropped {name}, {counted}"))
        }
    }
}
