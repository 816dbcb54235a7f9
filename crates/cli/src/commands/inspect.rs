//! `quire inspect`: shows the parts of a frozen file.

use crate::error::{Error, Result};
use crate::size::{Size, counted};
use crate::{Context, database};
use quiredb::frozen::{FieldInspection, FrozenFile, Inspection, RowsInspection};
use quiredb::operations::FrozenView;
use serde_json::json;
use std::path::PathBuf;

/// Show the parts of frozen files: fields, values, encodings, sizes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
For each field: its uses, the count of documents with a value, the count of different values, and
the bytes of the dictionary (values), of the index (documents by value), and of the column (values
by document). --json has the encodings too.

Examples:
  quire inspect ./cars.quire
  quire inspect ./cars.quire --json")]
pub(crate) struct Inspect {
    /// The file, or a folder of them
    path: PathBuf,
    /// Read every byte and check every checksum
    #[arg(long)]
    verify: bool,
}

impl Inspect {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        database::refuse_server(&self.path)?;
        let failed = |source: quiredb::frozen::Error| Error::Engine {
            context: "cannot inspect".to_owned(),
            source: source.into(),
        };
        let frozen =
            FrozenView::open(&context.env, &self.path).map_err(Error::engine("cannot inspect"))?;
        for file in frozen.files() {
            if self.verify {
                file.verify().map_err(failed)?;
            }
            let inspection = file.inspect().map_err(failed)?;
            match context.out.is_json() {
                true => context.out.json_line(&all_json(file, &inspection))?,
                false => {
                    for line in table(file, &inspection) {
                        context.out.line(line)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Bytes of the dictionary, of the index and of the column of a field.
fn parts(field: &FieldInspection) -> [u64; 3] {
    let mut parts = [0; 3];
    let [values, index, column] = &mut parts;
    for (section, bytes) in &field.sections {
        match *section {
            "values" => *values += bytes,
            "codes" | "starts" => *column += bytes,
            _ => *index += bytes,
        }
    }
    parts
}

/// A line for the file, one for its documents, one for each field.
fn table(file: &FrozenFile, all: &Inspection) -> Vec<String> {
    let documents = counted(all.documents.into(), "document", "documents");
    let mut lines = vec![format!(
        "{}: {documents}, {}",
        file.path().display(),
        Size(all.file_bytes)
    )];
    if all.documents_in_columns > 0 {
        let documents = counted(all.documents_in_columns, "document", "documents");
        lines.push(format!("  {documents} put together from the columns"));
    }
    for (what, rows) in [
        ("documents", &all.document_rows),
        ("payloads", &all.payload_rows),
    ] {
        if let Some(rows) = rows {
            lines.push(format!(
                "  {what}: {} of {} in {}, and {} to find each",
                Size(rows.stored_bytes),
                Size(rows.raw_bytes),
                counted(rows.blocks, "block", "blocks"),
                Size(rows.directory_bytes)
            ));
        }
    }
    let mut rows = vec![
        [
            "field",
            "for",
            "documents",
            "different",
            "values",
            "index",
            "column",
        ]
        .map(str::to_owned),
    ];
    for field in &all.fields {
        let purpose = match (field.filterable, field.sortable) {
            (true, true) => "both",
            (true, false) => "filter",
            (false, true) => "sort",
            (false, false) => "-",
        };
        let [values, index, column] = parts(field).map(|bytes| Size(bytes).to_string());
        rows.push([
            field.path.clone(),
            purpose.to_owned(),
            field.docs.to_string(),
            field.distinct.to_string(),
            values,
            index,
            column,
        ]);
    }
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in &rows {
        let cells = row.iter().zip(widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column {
            0 | 1 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        lines.push(format!("  {}", cells.collect::<Vec<_>>().join("  ")));
    }
    lines
}

fn all_json(file: &FrozenFile, all: &Inspection) -> serde_json::Value {
    json!({
        "path": file.path(),
        "bytes": all.file_bytes,
        "table_bytes": all.table_bytes,
        "documents": all.documents,
        "fields": all.fields.iter().map(field_json).collect::<Vec<_>>(),
        "documents_in_columns": all.documents_in_columns,
        "document_rows": all.document_rows.as_ref().map(rows_json),
        "payload_rows": all.payload_rows.as_ref().map(rows_json),
    })
}

fn field_json(field: &FieldInspection) -> serde_json::Value {
    let [lists, bits, runs] = field.clusters;
    let [line, gaps, block_runs] = field.blocks;
    let sections = field.sections.iter();
    let sections: serde_json::Map<_, _> = sections
        .map(|(name, bytes)| ((*name).to_owned(), json!(bytes)))
        .collect();
    json!({
        "path": field.path,
        "filter": field.filterable,
        "sort": field.sortable,
        "many": field.many,
        "documents": field.docs,
        "distinct": field.distinct,
        "pairs": field.pairs,
        "values_kept": format!("{:?}", field.encoding).to_lowercase(),
        "sets": field.sets,
        "set_clusters": {"lists": lists, "bits": bits, "runs": runs},
        "column_blocks": {"line": line, "gaps": gaps, "runs": block_runs},
        "section_bytes": sections,
    })
}

fn rows_json(rows: &RowsInspection) -> serde_json::Value {
    json!({
        "blocks": rows.blocks,
        "stored_bytes": rows.stored_bytes,
        "raw_bytes": rows.raw_bytes,
        "directory_bytes": rows.directory_bytes,
        "dictionary_bytes": rows.dictionary_bytes,
    })
}
