//! `quire fields`: shows which fields documents have.

use super::wide::{self, Opened};
use crate::Context;
use crate::error::{Error, Result};
use crate::place::Place;
use crate::progress::Progress;
use crate::size::{Size, count};
use crate::table;
use quiredb::{CollectionFields, FieldStats};
use std::ops::ControlFlow;

/// Show the fields of a collection's documents: types, documents, values, examples, index sizes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
From the index if it has all fields, else by reading every document. `~` marks an estimate.
Of a wide collection, members of families are left out.

Example:
  quire fields ./db papers")]
pub(crate) struct Fields {
    #[command(flatten)]
    place: Place,
    /// The collection
    collection: String,
}

impl Fields {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let opened = wide::open(context, &self.place, &self.collection)?;
        let counted = match &opened {
            Opened::Wide(_database, wide) => wide.count(),
            Opened::Plain(documents) => documents.count(),
        };
        let counted = counted.map_err(Error::engine("cannot count the documents"))?;
        let progress = Progress::documents(counted);
        let mut see = |read| {
            progress.at(read, String::new);
            ControlFlow::Continue(())
        };
        let found = match &opened {
            Opened::Wide(_database, wide) => wide.fields_with(&mut see),
            Opened::Plain(documents) => documents.fields(&mut see),
        };
        progress.finish();
        let found = found.map_err(Error::engine("cannot read the fields"))?;
        if context.out.is_json() {
            return context.out.json_line(&found);
        }
        for line in lines(&found) {
            context.out.line(line)?;
        }
        if found.omitted > 0 {
            context.out.line(format_args!(
                "there are more than {} fields: the others are left out",
                count(found.fields.len() as u64)
            ))?;
        }
        Ok(())
    }
}

fn lines(found: &CollectionFields) -> Vec<String> {
    let names = ["field", "types", "documents", "values", "index", "examples"];
    let mut rows = vec![names.map(str::to_owned).to_vec()];
    rows.extend(found.fields.iter().map(|field| row(field, found)));
    table::aligned(&rows, &[1, 5])
}

fn row(field: &FieldStats, found: &CollectionFields) -> Vec<String> {
    let types: Vec<&str> = field.types.iter().map(|one| one.name()).collect();
    let several = if field.several { ", several" } else { "" };
    let about = if field.estimated { "~" } else { "" };
    let index = match found.from_index {
        true => format!("~{}", Size(field.index_bytes)),
        false => String::from("-"),
    };
    vec![
        field.path.clone(),
        format!("{}{several}", types.join(", ")),
        count(field.documents),
        format!("{about}{}", count(field.values)),
        index,
        field.examples.join(", "),
    ]
}
