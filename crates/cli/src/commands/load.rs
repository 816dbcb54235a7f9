//! `quire load`: files or standard input into a collection.

use crate::error::{Error, Result};
use crate::load::{BadDocument, Event, Format, Input, LoadOptions, Resume, Stop, Summary, load};
use crate::output::tell;
use crate::progress::Progress;
use crate::size::{Size, count, counted, per_second};
use crate::{Context, database, files};
use quiredb::{Collection, CollectionSettings, Database, Durability, ErrorKind};
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;

/// Bad documents told one by one; of the others only the number.
const BAD_TOLD_MAX: u64 = 20;

/// Load documents from files or standard input, creating database and collection where absent
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire load ./db papers papers.ndjson
  quire load ./db products a.csv b.csv --key sku
  zstd -dc papers.ndjson.zst | quire load ./db papers -
  quire load ./db papers *.ndjson --durability none --resume papers.state
  quire load ./db papers dump.ndjson --durability none --on-error skip

A document replaces the one of the same key. What can't be read stops the load with its file, line and reason;
everything before it is kept. With --json, a line {\"acknowledged\":N} says that the first N documents are as durable
as --durability asks for; the last line sums up.")]
pub(crate) struct Load {
    /// The database's directory
    db: PathBuf,
    /// The collection
    collection: String,
    /// The files; `-` or none reads standard input. Formats by name: .ndjson, .jsonl, .json and
    /// .csv
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The field that holds each document's key; fixed when the collection is created [default:
    /// _id]
    #[arg(long, value_name = "FIELD")]
    key: Option<String>,
    /// The format of all inputs, whatever their names
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// When documents are acknowledged: sync, async, async(MS) or none [default: the collection's,
    /// which is sync]
    #[arg(long)]
    durability: Option<Durability>,
    /// How many parts a new collection is split into, 1 to 1024; fixed for good [default: one a
    /// core]
    #[arg(long, value_name = "P")]
    partitions: Option<u32>,
    /// What to do about a bad document
    #[arg(long, value_enum, default_value = "stop")]
    on_error: OnError,
    /// Write after so many bytes of input …
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    batch_bytes: Size,
    /// … or so many documents
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    batch_documents: usize,
    /// Keeps in this file how far the inputs are durable; a load of the same inputs that was
    /// interrupted goes on from there
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Memory that the database may use [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
}

/// What to do about a bad document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OnError {
    /// End there; what is before it is kept
    Stop,
    /// Tell, and go on with the next one
    Skip,
}

impl Load {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let inputs = self.inputs()?;
        let total = total_bytes(&inputs)?;
        if !(1..=64 << 20).contains(&self.batch_bytes.0)
            || !(1..=1_000_000).contains(&self.batch_documents)
        {
            return Err(Error::Usage(
                "a batch is 1 byte to 64 MiB and 1 to 1,000,000 documents".to_owned(),
            ));
        }
        let mut options = LoadOptions {
            durability: self.durability,
            skip_bad: self.on_error == OnError::Skip,
            batch_bytes: usize::try_from(self.batch_bytes.0).unwrap_or(usize::MAX),
            batch_documents: self.batch_documents,
            ..LoadOptions::default()
        };
        let database = database::open_or_create(context, &self.db, self.memory)?;
        let collection = self.collection(&database)?;
        let open = |path| Resume::open(context.env.clone(), path, &collection, &inputs);
        let resume = self.resume.as_deref().map(open).transpose();
        let mut resume = resume.map_err(Error::Usage)?;
        if let Some(resume) = &resume {
            options.from = resume.place();
            if resume.before().0 > 0 {
                tell(format_args!(
                    "quire: going on after {}",
                    counted(resume.before().0, "document", "documents")
                ));
            }
        }
        let mut summary =
            run_with_progress(context, &collection, inputs, &options, total, &mut resume);
        if let Some(resume) = resume
            && let Err(error) = resume.end(&collection, summary.stopped.is_none())
        {
            summary.stopped.get_or_insert(Stop::Engine(error));
        }
        let closed = database
            .close()
            .map_err(Error::engine("cannot close the database"));
        let result = report(context, &collection, &summary);
        result.and(closed)
    }

    fn inputs(&self) -> Result<Vec<Input>> {
        let stdin = [PathBuf::from("-")];
        let files = if self.files.is_empty() {
            &stdin[..]
        } else {
            &self.files
        };
        if files.iter().filter(|file| **file == *"-").count() > 1 {
            return Err(Error::Usage(
                "standard input can be read once; `-` is given twice".to_owned(),
            ));
        }
        files
            .iter()
            .map(|file| Input::from_argument(file, self.format).map_err(Error::Usage))
            .collect()
    }

    /// The collection, made where there is none. What is fixed at creation must agree where there
    /// is one.
    fn collection(&self, database: &Database) -> Result<Collection> {
        let name = &self.collection;
        let settings = || {
            let mut settings = CollectionSettings::default();
            settings.key_field = self.key.clone().unwrap_or(settings.key_field);
            settings.partitions = self.partitions.unwrap_or(settings.partitions);
            settings
        };
        let collection = database
            .collection_or_create(name, settings)
            .map_err(Error::engine(format!(
                "cannot open the collection `{name}`"
            )))?;
        let settings = collection.settings();
        if let Some(key) = self.key.as_ref().filter(|key| **key != settings.key_field) {
            return Err(Error::Usage(format!(
                "{name} keeps its keys in the field `{}`, not `{key}`; the field is fixed when a collection is created",
                settings.key_field
            )));
        }
        if let Some(partitions) = self
            .partitions
            .filter(|partitions| *partitions != settings.partitions)
        {
            return Err(Error::Usage(format!(
                "{name} has {} partitions, not {partitions}; their number is fixed when a collection is created",
                settings.partitions
            )));
        }
        Ok(collection)
    }
}

/// Bytes of all inputs, where each is known. Finds files that are not there before anything is
/// loaded.
fn total_bytes(inputs: &[Input]) -> Result<Option<u64>> {
    let mut total = Some(0);
    for input in inputs {
        let size = input
            .size()
            .map_err(|error| Error::Failed(format!("cannot read {}: {error}", input.name())))?;
        total = total.zip(size).map(|(total, size)| total + size);
    }
    Ok(total)
}

/// Loads, showing a bar and bad documents on standard error, and acknowledgements on standard
/// output with `--json`.
fn run_with_progress(
    context: &Context,
    collection: &Collection,
    inputs: Vec<Input>,
    options: &LoadOptions,
    total: Option<u64>,
    resume: &mut Option<Resume>,
) -> Summary {
    let bytes_before = resume.as_ref().map_or(0, |resume| resume.before().1);
    let progress = Progress::bytes(total);
    let (json, mut bad_count) = (context.out.is_json(), 0);
    let mut observe = |event: &Event<'_>| -> io::Result<()> {
        match event {
            Event::Acknowledged {
                documents,
                bytes,
                place,
            } => {
                if let (Some(resume), Some(place)) = (&mut *resume, place) {
                    resume
                        .note(collection, *place, *documents, *bytes)
                        .map_err(io::Error::other)?;
                }
                progress.at(bytes_before + *bytes, || {
                    counted(*documents, "document", "documents")
                });
                if json {
                    // At once, past any buffer: whoever reads it may rely on it.
                    let mut out = io::stdout().lock();
                    writeln!(out, "{{\"acknowledged\":{documents}}}")?;
                    out.flush()?;
                }
            }
            Event::Skipped(bad) => {
                bad_count += 1;
                if bad_count <= BAD_TOLD_MAX {
                    tell_bad(&progress, bad);
                }
            }
        }
        Ok(())
    };
    let env = context.env.clone();
    let summary = load(
        collection,
        || env.monotonic(),
        inputs,
        options,
        &mut observe,
    );
    progress.finish();
    if bad_count > BAD_TOLD_MAX {
        tell(format_args!(
            "quire: and {} more bad documents skipped",
            count(bad_count - BAD_TOLD_MAX)
        ));
    }
    summary
}

fn tell_bad(progress: &Progress, bad: &BadDocument) {
    progress.tell(format_args!("quire: skipped {bad}"));
}

/// The last line of `--json`.
#[derive(Debug, Serialize)]
struct SummaryLine {
    documents: u64,
    bytes: u64,
    seconds: f64,
    documents_per_second: u64,
    megabytes_per_second: f64,
    skipped: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory_bytes: Option<u64>,
}

/// Sums up on standard output; a load that ended early is an error that says where.
fn report(context: &mut Context, collection: &Collection, summary: &Summary) -> Result<()> {
    let rate = per_second(summary.documents, summary.time);
    let seconds = summary.time.as_secs_f64();
    if context.out.is_json() {
        context.out.json_line(&SummaryLine {
            documents: summary.documents,
            bytes: summary.bytes,
            seconds,
            documents_per_second: rate,
            megabytes_per_second: per_second(summary.bytes, summary.time) as f64 / 1e6,
            skipped: summary.skipped,
            peak_memory_bytes: files::peak_memory_bytes(),
        })?;
    } else {
        context.out.line(sentence(summary))?;
    }
    let Some(stop) = &summary.stopped else {
        return Ok(());
    };
    let mut message = stop.to_string();
    match stop {
        Stop::Bad(_) => message.push_str("; --on-error skip goes on after bad documents"),
        Stop::Engine(error) if error.kind() == ErrorKind::Full => {
            message.push_str("; then load again: what is loaded already is only replaced");
        }
        _ => {}
    }
    Err(Error::Failed(format!(
        "stopped after {} in {}: {message}",
        counted(summary.documents, "document", "documents"),
        collection.name()
    )))
}

/// What a load did, for people.
pub(crate) fn sentence(summary: &Summary) -> String {
    let mut text = format!(
        "loaded {} ({}) in {:.1} s: {} documents/s, {}/s",
        counted(summary.documents, "document", "documents"),
        Size(summary.bytes),
        summary.time.as_secs_f64(),
        count(per_second(summary.documents, summary.time)),
        Size(per_second(summary.bytes, summary.time)),
    );
    if summary.skipped > 0 {
        text.push_str(&format!(
            "; skipped {}",
            counted(summary.skipped, "bad document", "bad documents")
        ));
    }
    text
}
