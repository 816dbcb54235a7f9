//! `quire scan`: prints documents in key order.

use super::key::parse_key;
use super::wide::{self, Opened};
use crate::Context;
use crate::documents::DocumentFormat;
use crate::error::{Error, Result};
use crate::message::print_message;
use crate::place::{Place, Scanned};
use crate::remote::Wanted;
use crate::size::counted;
use quiredb::Key;

/// Contradicting documents that are named one by one; of the others only the count is.
const NAMED_MAX: u64 = 10;

/// Print documents in key order, one a line, each with its key
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Integer keys come before strings; strings are ordered by their bytes.
A document is printed as it was written. One that does not have its key in the key field has it in
front, as \"_key\", and after it its external version, as \"_version\"; `quire load` takes both out
again.

Examples:
  quire scan ./db papers --limit 10
  quire scan ./db papers --from a --to c
  quire scan ./db papers --prefix 2101. --json              with keys and versions
  quire scan ./db papers --format csv > papers.csv          for a spreadsheet
  quire scan ./db papers > papers.ndjson                    a copy that `quire load` reads
  quire scan ./db pages --columns title,visits              of a wide collection")]
pub(crate) struct Scan {
    #[command(flatten)]
    place: Place,
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
    /// How documents are printed [default: one JSON object a line, which `quire load` reads]
    #[arg(long)]
    format: Option<DocumentFormat>,
    /// Of a wide collection: these columns of all rows that have one of them. Its rows come in no
    /// order of keys
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        conflicts_with_all = ["from", "to", "prefix"]
    )]
    columns: Vec<String>,
}

impl Scan {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        if let Some(format) = self.format {
            context.out.start_documents(format, &None)?;
        }
        let prefix = self.prefix.filter(|prefix| !prefix.is_empty());
        let from = match &prefix {
            Some(prefix) => Some(first_of(prefix)?),
            None => self.from,
        };
        let is_part = from.is_some() || self.to.is_some();
        let documents = match wide::open(context, &self.place, &self.collection)? {
            Opened::Wide(..) if is_part => {
                return Err(Error::Usage(
                    "a wide collection is scanned whole: leave --from, --to and --prefix out"
                        .to_owned(),
                ));
            }
            Opened::Wide(_database, wide) => {
                return wide::scan(context, &wide, &self.columns, self.limit);
            }
            Opened::Plain(documents) => documents,
        };
        wide::refuse_columns(&self.collection, &self.columns)?;
        let wanted = Wanted {
            from,
            to: self.to,
            prefix,
            limit: self.limit,
        };
        let key_field = documents.settings().key_field.clone();
        let mut contradicting = 0;
        documents.scan(&wanted, &mut |scanned| match scanned {
            Scanned::Document(found) => {
                context
                    .out
                    .keyed(&key_field, &found.origin, &found.document)
            }
            Scanned::Contradiction(why) => {
                contradicting += 1;
                if contradicting <= NAMED_MAX {
                    print_message(format_args!("quire: warning: {why}"));
                }
                Ok(())
            }
        })?;
        if contradicting > 0 {
            print_message(format_args!(
                "quire: warning: {} written by an earlier version: `quire load` refuses to copy \
                 them until they are put again, each under one key",
                counted(contradicting, "such document was", "such documents were")
            ));
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
