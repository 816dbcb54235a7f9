//! Documents in the format that `--format` names.

use crate::error::{Error, Result};
use crate::message::print_message;
use crate::rows::{Row, Rows};
use std::io::Write;

/// How documents are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DocumentFormat {
    /// Columns for people, as wide as the terminal
    Table,
    /// A row that names the fields, then one document a row
    Csv,
    /// One JSON object a line
    Ndjson,
    /// One JSON array
    Json,
}

/// Documents that are being printed.
pub(crate) enum Documents {
    /// As they come.
    Lines,
    /// An array; whether it has a document yet.
    Array(bool),
    /// Rows under columns.
    Rows(Rows),
}

impl Documents {
    /// Begins a list of documents; `fields` are those that are wanted, in their order.
    pub(crate) fn new(format: DocumentFormat, fields: &Option<Vec<String>>) -> Documents {
        let fields = fields.clone().unwrap_or_default();
        match format {
            DocumentFormat::Table => Documents::Rows(Rows::table(fields)),
            DocumentFormat::Csv => Documents::Rows(Rows::csv(fields)),
            DocumentFormat::Ndjson => Documents::Lines,
            DocumentFormat::Json => Documents::Array(false),
        }
    }

    /// Prints a document, which is given as JSON, or keeps it until the columns are known.
    pub(crate) fn add(&mut self, json: &str, out: &mut dyn Write) -> Result<()> {
        match self {
            Documents::Lines => writeln!(out, "{json}").map_err(Error::Output),
            Documents::Array(has_some) => {
                let before = if *has_some { ",\n" } else { "[\n" };
                *has_some = true;
                write!(out, "{before}{json}").map_err(Error::Output)
            }
            Documents::Rows(rows) => rows.add(Row::of(json)?, out),
        }
    }

    /// Prints what is left.
    pub(crate) fn end(self, out: &mut dyn Write) -> Result<()> {
        match self {
            Documents::Lines => Ok(()),
            Documents::Array(false) => writeln!(out, "[]").map_err(Error::Output),
            Documents::Array(true) => writeln!(out, "\n]").map_err(Error::Output),
            Documents::Rows(rows) => {
                if let Some(left_out) = rows.end(out)? {
                    print_message(left_out);
                }
                Ok(())
            }
        }
    }
}
