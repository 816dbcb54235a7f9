//! `quire freeze`: writes a collection, as of one moment, to frozen files with indexes.

use super::wide;
use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::field_names::fields_of;
use crate::message::print_message;
use crate::progress::Progress;
use crate::size::{Size, count, counted};
use quiredb::frozen::FieldSpec;
use quiredb::operations::{
    FreezeOptions, FreezeProgress, FreezeReport, freeze as freeze_whole, freeze_by_partition,
};
use quiredb::query::Path as Field;
use quiredb::{Codec, View};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How the name of a frozen file ends.
const SUFFIX: &str = "quire";

/// Freeze a collection: write its documents to an immutable file with indexes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file has the documents as of one moment; writes continue meanwhile. When it is complete, it
gets its name and replaces a file of that name. Without --full, --filter and --sort every field is
indexed for both uses, at most 1,000 fields, but for long text that is another in each document;
each document is then read twice.
See docs/FREEZING.md.

Examples:
  quire freeze ./db cars ./cars.quire
  quire freeze ./db cars ./cars.quire --filter mark,at.city --full price,added
  quire freeze ./db cars ./cars --by-partition           a folder, with a file for each partition

  quire query ./cars.quire --where \"mark = 'audi'\" --order 'price desc'
  quire inspect ./cars.quire")]
pub(crate) struct Freeze {
    /// The directory of the database
    db: PathBuf,
    /// The collection
    collection: String,
    /// The file to write, NAME.quire; with --by-partition, the folder
    out: PathBuf,
    /// Write a new folder, with a file for each partition of the collection
    #[arg(long)]
    by_partition: bool,
    /// Fields to filter by, to sort by and to aggregate, separated by commas
    #[arg(long, value_name = "FIELDS")]
    full: Vec<String>,
    /// Fields to filter by
    #[arg(long, value_name = "FIELDS")]
    filter: Vec<String>,
    /// Fields to sort by and to aggregate
    #[arg(long, value_name = "FIELDS")]
    sort: Vec<String>,
    /// Index long text too, where no fields are named
    #[arg(long, conflicts_with_all = ["full", "filter", "sort"])]
    long_text: bool,
    /// How documents are compressed: none, lz4, zstd or zstd(LEVEL), 1 to 19
    #[arg(long, default_value_t = Codec::default())]
    codec: Codec,
    /// Leave the documents themselves out: the file counts, aggregates and gives keys
    #[arg(long)]
    no_documents: bool,
    /// Memory for building, 8MiB or more; the rest goes to temporary files beside OUT
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    memory: Size,
}

impl Freeze {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let is_named = self.out.extension().is_some_and(|end| end == SUFFIX);
        if !self.by_partition && !is_named {
            return Err(Error::Usage(format!(
                "{} does not end with .{SUFFIX}: give the file that ending, or use --by-partition \
                 for a folder",
                self.out.display()
            )));
        }
        let options = FreezeOptions {
            fields: self.fields()?,
            long_text: self.long_text,
            codec: self.codec,
            documents: !self.no_documents,
            memory_bytes: usize::try_from(self.memory.0).unwrap_or(usize::MAX),
        };
        let database = database::open_existing(context, &self.db)?;
        let view = match wide::find(&database, &self.collection)? {
            Some(wide) => wide.view(),
            None => database::collection(&database, &self.db, &self.collection)?.view(),
        };
        let view = view.map_err(Error::engine("cannot freeze"))?;
        let start = context.env.monotonic();
        let report = freeze(&view, &self.out, self.by_partition, &options)?;
        let seconds = (context.env.monotonic().saturating_sub(start)).as_secs_f64();
        for path in &report.unused {
            print_message(format_args!(
                "quire: no document has a value in the field {path:?}; check its name"
            ));
        }
        for path in &report.long_texts {
            print_message(format_args!(
                "quire: {path:?} is long text, another in each document: it has no index, and \
                 --long-text gives it one"
            ));
        }
        if context.out.is_json() {
            return context.out.json_line(&report_json(&report, seconds));
        }
        let sentence = sentence(&report);
        context.out.line(format_args!(
            "{sentence} in {seconds:.1} s: {}",
            self.out.display()
        ))
    }

    /// The fields that the options name; none if they name none.
    ///
    /// # Errors
    /// A name is no field's.
    fn fields(&self) -> Result<Option<Vec<FieldSpec>>> {
        let mut fields = BTreeMap::<Field, FieldSpec>::new();
        for (names, filterable, sortable) in [
            (&self.full, true, true),
            (&self.filter, true, false),
            (&self.sort, false, true),
        ] {
            for path in fields_of(names)? {
                let field = fields.entry(path.clone()).or_insert_with(|| FieldSpec {
                    path: path.as_str().to_owned(),
                    filterable: false,
                    sortable: false,
                });
                field.filterable |= filterable;
                field.sortable |= sortable;
            }
        }
        Ok((!fields.is_empty()).then(|| fields.into_values().collect()))
    }
}

/// Freezes a view, and shows a progress bar.
///
/// # Errors
/// Of damage, of the options, of the disk.
pub(crate) fn freeze(
    view: &View,
    out: &Path,
    by_partition: bool,
    options: &FreezeOptions,
) -> Result<FreezeReport> {
    let bar = Progress::documents(view.count());
    let mut progress = |progress| match progress {
        FreezeProgress::Looked(documents) => bar.at(documents, || "finding the fields".into()),
        FreezeProgress::Frozen(documents) => bar.at(documents, || "freezing".into()),
    };
    let report = match by_partition {
        true => freeze_by_partition(view, out, options, &mut progress),
        false => freeze_whole(view, out, options, &mut progress),
    };
    bar.finish();
    report.map_err(Error::engine("cannot freeze"))
}

fn bytes(report: &FreezeReport) -> u64 {
    report.files.iter().map(|(_, bytes)| bytes).sum()
}

/// `froze 5 documents with 9 fields: 1 file of 2.3 kB`.
pub(crate) fn sentence(report: &FreezeReport) -> String {
    let files = report.files.len() as u64;
    format!(
        "froze {} with {}: {} of {}",
        counted(report.documents, "document", "documents"),
        counted(report.fields.len() as u64, "field", "fields"),
        match files {
            1 => "1 file".to_owned(),
            _ => format!("{} files", count(files)),
        },
        Size(bytes(report)),
    )
}

fn report_json(report: &FreezeReport, seconds: f64) -> serde_json::Value {
    let files = report.files.iter();
    let files: Vec<_> = files
        .map(|(path, bytes)| json!({"path": path, "bytes": bytes}))
        .collect();
    let fields = report.fields.iter();
    let fields: Vec<_> = fields
        .map(
            |field| json!({"path": field.path, "filter": field.filterable, "sort": field.sortable}),
        )
        .collect();
    json!({
        "documents": report.documents,
        "bytes": bytes(report),
        "seconds": seconds,
        "files": files,
        "fields": fields,
        "unused": report.unused,
        "long_texts": report.long_texts,
    })
}
