//! `quire load`: files or standard input into a collection.

use super::indexed::Indexed;
use super::wide;
use crate::error::{Error, Result, causes, with_advice};
use crate::input::{Format, InputArgument, TableArguments};
use crate::link::Link;
use crate::message::print_message;
use crate::place::Place;
use crate::progress::Progress;
use crate::remote::RemoteCollection;
use crate::resume::Resume;
use crate::size::{Size, count, counted};
use crate::{Context, database, files, settings};
use quire_pipeline::{BadDocument, CsvColumn, Event, MadeKeys, OnBad, Options, Summary, Target};
use quiredb::{Collection, CollectionSettings, Database, Durability, ErrorKind};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The value of --key that names no field.
const AUTO: &str = "auto";

/// Bad documents that are shown one by one; of the others only the count is.
const BAD_SHOWN_MAX: u64 = 20;

/// Load documents from files or standard input; creates the database and the collection
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire load ./db papers papers.ndjson
  quire load ./db products a.csv b.csv --key sku --types zip=string,price=decimal
  quire load ./db events events.csv --key auto --resume events.state
  quire load ./db trips ./trips.parquet ./more-trips/ --key trip_id
  zstd -dc papers.ndjson.zst | quire load ./db papers -
  quire load ./db papers *.ndjson --durability none --resume papers.state
  quire load ./db papers dump.ndjson --on-error skip --bad-report bad.ndjson
  quire load http://127.0.0.1:9200 papers papers.ndjson --resume papers.state

A document replaces the one of the same key. A bad document stops the load with its file, line and
reason; the documents before it are kept. With --json, a line {\"acknowledged\":N} means that the
first N documents are as durable as --durability says; the last line sums up.")]
pub(crate) struct Load {
    #[command(flatten)]
    place: Place,
    /// The collection
    collection: String,
    /// The files, and folders of Parquet files; `-` or none is standard input. The name gives the
    /// format: .ndjson, .jsonl, .json, .csv, .tsv or .parquet
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The field that holds the key of each document, fixed when the collection is created; or
    /// `auto`, which makes keys for documents that have none [default: _id]
    #[arg(long, value_name = "FIELD")]
    key: Option<String>,
    /// The format of all inputs, whatever their names
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    tables: TableArguments,
    /// When documents are acknowledged: sync, async, async(MS) or none [default: the collection's,
    /// which is sync]
    #[arg(long)]
    durability: Option<Durability>,
    /// The number of partitions of a new collection, 1 to 1024; `quire split` makes more of them
    /// [default: one for each core]
    #[arg(long, value_name = "P")]
    partitions: Option<u32>,
    /// Which fields of a new collection have a search index: all, none, or some by name, as in
    /// abstract=none [default: all]
    #[arg(long, value_name = "FIELDS")]
    index: Option<Indexed>,
    /// What to do about a bad document
    #[arg(long, value_enum, default_value = "stop")]
    on_error: OnError,
    /// With --on-error skip: stop when more than N documents are bad
    #[arg(long, value_name = "N")]
    bad_max: Option<u64>,
    /// With --on-error skip: append a line of JSON about each bad document to this file
    #[arg(long, value_name = "FILE")]
    bad_report: Option<PathBuf>,
    /// A batch is written when it has this much text …
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    batch_bytes: Size,
    /// … or this many documents
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    batch_documents: usize,
    /// Keep in this file how much of the inputs is durable; a load of the same inputs that was
    /// interrupted continues from there
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Memory that the database may use [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
}

/// What to do about a bad document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OnError {
    /// Stop; the documents before it are kept
    Stop,
    /// Report it, and continue with the next document
    Skip,
}

impl Load {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let inputs = self.inputs()?;
        let total = total_bytes(&inputs)?;
        let options = self.options()?;
        let bad_report = self.bad_report.as_deref().map(BadReport::open);
        let bad_report = bad_report.transpose()?;
        let loading = Loading {
            inputs,
            total,
            options,
            bad_report,
        };
        if let Some(link) = self.place.server(context)? {
            let (collection, is_new) = self.remote_collection(&link)?;
            let loaded = self.load(context, &collection, loading);
            // Another client may be about to write to it: this command drops nothing there.
            if is_new && has_failed(&loaded) && is_unwritten(&collection) {
                print_message(format_args!(
                    "quire: the new collection {0} is empty; `quire drop {1} {0}` removes it",
                    self.collection,
                    link.url()
                ));
            }
            return report(context, &self.collection, &loaded?);
        }
        let database = database::open_or_create(context, self.place.path(), self.memory)?;
        let summary = match wide::find(&database, &self.collection)? {
            Some(wide) => {
                self.check(&wide.settings())?;
                self.load(context, &wide, loading)?
            }
            None => self.load_plain(context, &database, loading)?,
        };
        let closed = database
            .close()
            .map_err(Error::engine("cannot close the database"));
        let result = report(context, &self.collection, &summary);
        result.and(closed)
    }

    /// Loads into a plain collection of this command's database. A load that fails before its first
    /// document leaves no new collection behind: the next one may name another key field.
    fn load_plain(
        &self,
        context: &Context,
        database: &Database,
        loading: Loading,
    ) -> Result<Summary> {
        let existing = database.collection(&self.collection);
        let is_new = existing.is_err_and(|error| error.kind() == ErrorKind::NotFound);
        let collection = self.collection(database)?;
        let loaded = self.load(context, &collection, loading);
        if is_new && has_failed(&loaded) && is_unwritten(&collection) {
            let dropped = database.drop_collection(&self.collection);
            dropped.map_err(Error::engine("cannot drop the new collection"))?;
        }
        loaded
    }

    fn load(
        &self,
        context: &Context,
        collection: &impl Target,
        loading: Loading,
    ) -> Result<Summary> {
        let Loading {
            inputs,
            total,
            mut options,
            bad_report,
        } = loading;
        options.made_keys = self.makes_keys().then(|| MadeKeys::new(&*context.env));
        let keys = options.made_keys.as_ref();
        let open = |path| Resume::open(context.env.clone(), path, collection, &inputs, keys);
        let resume = self.resume.as_deref().map(open).transpose();
        let mut resume = resume.map_err(Error::Usage)?;
        if let Some(resume) = &resume {
            options.from = resume.position();
            options.made_keys = resume.made_keys();
            if resume.before().0 > 0 {
                print_message(format_args!(
                    "quire: continuing after {}",
                    counted(resume.before().0, "document", "documents")
                ));
            }
        }
        let inputs = inputs
            .into_iter()
            .map(|input| input.into_input(&self.tables))
            .collect();
        let mut watcher = Watcher {
            collection,
            progress: Progress::bytes(total),
            prints_json: context.out.is_json(),
            bytes_before: resume.as_ref().map_or(0, |resume| resume.before().1),
            resume: resume.as_mut(),
            bad_report,
            bad: 0,
        };
        let observe = &mut |event: &Event<'_>| watcher.observe(event);
        let mut summary =
            quire_pipeline::load(collection, &*context.env, inputs, &options, observe);
        watcher.finish();
        if let Some(resume) = resume
            && let Err(error) = resume.end(collection, summary.stopped.is_none())
        {
            let stopped = quire_pipeline::Error::Database(error);
            summary.stopped.get_or_insert(stopped);
        }
        Ok(summary)
    }

    /// The options of the pipeline.
    fn options(&self) -> Result<Options> {
        if !(1..=64 << 20).contains(&self.batch_bytes.0)
            || !(1..=1_000_000).contains(&self.batch_documents)
        {
            return Err(Error::Usage(
                "a batch is 1 byte to 64 MiB and 1 to 1,000,000 documents".to_owned(),
            ));
        }
        let skips = self.on_error == OnError::Skip;
        if !skips && (self.bad_max.is_some() || self.bad_report.is_some()) {
            return Err(Error::Usage(
                "--bad-max and --bad-report need --on-error skip".to_owned(),
            ));
        }
        Ok(Options {
            durability: self.durability,
            on_bad: match skips {
                true => OnBad::Skip {
                    max: self.bad_max.unwrap_or(u64::MAX),
                },
                false => OnBad::Stop,
            },
            batch_bytes: usize::try_from(self.batch_bytes.0).unwrap_or(usize::MAX),
            batch_documents: self.batch_documents,
            ..Options::default()
        })
    }

    fn inputs(&self) -> Result<Vec<InputArgument>> {
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
        let mut inputs: Vec<InputArgument> = Vec::new();
        for file in files {
            inputs.extend(InputArgument::at(file, self.format).map_err(Error::Usage)?);
        }
        self.tables.check(&inputs).map_err(Error::Usage)?;
        Ok(inputs)
    }

    /// The collection, created if there is none. If there is one, it must agree with the options
    /// that are fixed at its creation.
    fn collection(&self, database: &Database) -> Result<Collection> {
        let name = &self.collection;
        let collection = database
            .collection_or_create(name, || self.settings())
            .map_err(Error::engine(format!(
                "cannot open the collection `{name}`"
            )))?;
        self.check(&collection.settings())?;
        Ok(collection)
    }

    /// As [`collection`](Load::collection), of a server; and whether it was created.
    fn remote_collection(&self, link: &Link) -> Result<(RemoteCollection, bool)> {
        if self.memory.is_some() {
            return Err(Error::Usage(
                "--memory is of this command's own database; that of a server has the --memory of \
                 `quire serve`"
                    .to_owned(),
            ));
        }
        let name = &self.collection;
        let given = settings::of_new(&self.settings(), self.partitions);
        let mut is_new = false;
        let opened = match RemoteCollection::open(link, name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match RemoteCollection::create(link, name, &given) {
                    // Another client was first.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                        RemoteCollection::open(link, name)
                    }
                    created => {
                        is_new = true;
                        created
                    }
                }
            }
            opened => opened,
        };
        let collection = opened.map_err(Error::engine(format!(
            "cannot open the collection `{name}`"
        )))?;
        self.check(&collection.settings())?;
        Ok((collection, is_new))
    }

    /// Whether documents without a key get one.
    fn makes_keys(&self) -> bool {
        self.key.as_deref() == Some(AUTO)
    }

    /// The field that is named for the keys.
    fn key_field(&self) -> Option<&String> {
        self.key.as_ref().filter(|_| !self.makes_keys())
    }

    /// The settings of a new collection.
    fn settings(&self) -> CollectionSettings {
        let mut settings = CollectionSettings::default();
        settings.key_field = self.key_field().cloned().unwrap_or(settings.key_field);
        settings.partitions = self.partitions.unwrap_or(settings.partitions);
        if let Some(Indexed(fields)) = &self.index {
            settings.index = fields.clone();
        }
        settings
    }

    /// Checks what the options say against the settings of a collection that is there.
    fn check(&self, settings: &CollectionSettings) -> Result<()> {
        let name = &self.collection;
        let key = self.key_field();
        if let Some(key) = key.filter(|key| **key != settings.key_field) {
            return Err(Error::Usage(format!(
                "{name} has its keys in the field `{}`, not `{key}`; the field is fixed when a \
                 collection is created",
                settings.key_field
            )));
        }
        match self
            .partitions
            .filter(|partitions| *partitions != settings.partitions)
        {
            None => Ok(()),
            Some(partitions) => Err(Error::Usage(format!(
                "{name} has {} partitions, not {partitions}: leave the option out; `quire split` \
                 makes more partitions of those that a collection has",
                settings.partitions
            ))),
        }
    }
}

/// Whether a load has stopped, or met bad documents.
fn has_failed(loaded: &Result<Summary>) -> bool {
    match loaded {
        Ok(summary) => summary.stopped.is_some() || summary.progress.bad > 0,
        Err(_) => true,
    }
}

/// Whether nothing was ever written to a collection, as far as that is known.
fn is_unwritten(collection: &impl Target) -> bool {
    let positions = collection.positions();
    positions.is_ok_and(|positions| positions.iter().all(|position| position.0 == 0))
}

/// What a load is of, and how it is to go.
struct Loading {
    inputs: Vec<InputArgument>,
    /// The bytes of all inputs, if they are known.
    total: Option<u64>,
    options: Options,
    bad_report: Option<BadReport>,
}

/// The bytes of all inputs, if each is known. Finds missing files before anything is loaded.
fn total_bytes(inputs: &[InputArgument]) -> Result<Option<u64>> {
    let mut total = Some(0);
    for input in inputs {
        let size = input
            .size()
            .map_err(|error| Error::Failed(format!("cannot read {}: {error}", input.name())))?;
        total = total.zip(size).map(|(total, size)| total + size);
    }
    Ok(total)
}

/// Shows a bar and bad documents on standard error, and with `--json` acknowledgements on standard
/// output. Keeps the state for `--resume`.
struct Watcher<'a, C> {
    collection: &'a C,
    progress: Progress,
    prints_json: bool,
    /// Bytes of input that earlier loads have loaded.
    bytes_before: u64,
    resume: Option<&'a mut Resume>,
    bad_report: Option<BadReport>,
    /// Bad documents so far.
    bad: u64,
}

impl<C: Target> Watcher<'_, C> {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::Acknowledged(progress) => {
                if let Some(resume) = &mut self.resume {
                    let noted = resume.note(self.collection, progress);
                    noted.map_err(io::Error::other)?;
                }
                self.progress.at(self.bytes_before + progress.bytes, || {
                    counted(progress.documents, "document", "documents")
                });
                if self.prints_json {
                    // At once, past any buffer: the reader may rely on it.
                    let mut out = io::stdout().lock();
                    writeln!(out, "{{\"acknowledged\":{}}}", progress.documents)?;
                    out.flush()?;
                }
            }
            Event::Opened { input, columns } => {
                if let [column] = columns
                    && let Some(delimiter) = delimiter_in(&column.name)
                {
                    self.progress.print(format_args!(
                        "quire: {input} has one column, {:?}: --delimiter {delimiter} reads \
                         several",
                        column.name
                    ));
                }
                if let Some(shown) = shown_types(columns) {
                    self.progress
                        .print(format_args!("quire: the columns of {input}: {shown}"));
                }
            }
            Event::Skipped(bad) => {
                self.bad += 1;
                if self.bad <= BAD_SHOWN_MAX {
                    self.progress.print(format_args!("quire: skipped {bad}"));
                }
                if let Some(report) = &mut self.bad_report {
                    report.write(bad)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(self) {
        self.progress.finish();
        if self.bad > BAD_SHOWN_MAX {
            print_message(format_args!(
                "quire: and {} more bad documents skipped",
                count(self.bad - BAD_SHOWN_MAX)
            ));
        }
    }
}

/// What a name of a column has that is a delimiter of other tables, as `--delimiter` takes it.
fn delimiter_in(name: &str) -> Option<&'static str> {
    let delimiters = [(';', "';'"), ('\t', "tab"), ('|', "'|'")];
    let mut found = delimiters
        .into_iter()
        .filter(|(byte, _)| name.contains(*byte));
    found.next().map(|(_, shown)| shown)
}

/// Columns shown in a message.
const COLUMNS_SHOWN_MAX: usize = 40;

/// The columns and their types, if some were inferred.
fn shown_types(columns: &[CsvColumn]) -> Option<String> {
    if !columns.iter().any(|column| column.is_inferred) {
        return None;
    }
    let shown = columns.iter().take(COLUMNS_SHOWN_MAX);
    let shown: Vec<String> = shown
        .map(|column| format!("{} {}", column.name, column.cell_type))
        .collect();
    let more = columns.len().saturating_sub(COLUMNS_SHOWN_MAX);
    Some(match more {
        0 => shown.join(", "),
        _ => format!("{}, and {} more", shown.join(", "), count(more as u64)),
    })
}

/// The file of `--bad-report`.
struct BadReport {
    path: PathBuf,
    file: File,
}

/// A line of it.
#[derive(Debug, Serialize)]
struct BadLine<'a> {
    file: &'a str,
    line: u64,
    byte: u64,
    reason: &'a str,
}

impl BadReport {
    fn open(path: &Path) -> Result<BadReport> {
        let file = files::append(path)
            .map_err(|error| Error::Failed(format!("cannot open {}: {error}", path.display())))?;
        let path = path.to_owned();
        Ok(BadReport { path, file })
    }

    fn write(&mut self, bad: &BadDocument) -> io::Result<()> {
        let line = BadLine {
            file: &bad.input,
            line: bad.line,
            byte: bad.byte,
            reason: &bad.reason,
        };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        let written = self.file.write_all(&text);
        written.map_err(|error| io::Error::other(format!("{}: {error}", self.path.display())))
    }
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

/// Sums up on standard output. A load that stopped early is an error that says where and why.
fn report(context: &mut Context, collection: &str, summary: &Summary) -> Result<()> {
    let progress = &summary.progress;
    if context.out.is_json() {
        context.out.json_line(&SummaryLine {
            documents: progress.documents,
            bytes: progress.bytes,
            seconds: progress.time.as_secs_f64(),
            documents_per_second: progress.documents_per_second(),
            megabytes_per_second: progress.bytes_per_second() as f64 / 1e6,
            skipped: progress.bad,
            peak_memory_bytes: files::peak_memory_bytes(),
        })?;
    } else {
        context.out.line(sentence(summary))?;
    }
    let Some(stopped) = &summary.stopped else {
        return Ok(());
    };
    Err(Error::Failed(format!(
        "stopped after {} in {}: {}",
        counted(progress.documents, "document", "documents"),
        collection,
        reason(stopped)
    )))
}

/// Why a load stopped, with advice for the user.
pub(crate) fn reason(stopped: &quire_pipeline::Error) -> String {
    use quire_pipeline::Error as Stopped;
    match stopped {
        Stopped::Bad(bad) => format!("{bad}; --on-error skip continues after bad documents"),
        Stopped::Database(error) => {
            let mut text = format!("cannot write: {}", with_advice(error));
            if error.kind() == ErrorKind::Full {
                text.push_str("; then load again: what is loaded already is only replaced");
            }
            text
        }
        _ => causes(stopped),
    }
}

/// What a load did, for people.
pub(crate) fn sentence(summary: &Summary) -> String {
    let progress = &summary.progress;
    let mut text = format!(
        "loaded {} ({}) in {:.1} s: {} documents/s, {}/s",
        counted(progress.documents, "document", "documents"),
        Size(progress.bytes),
        progress.time.as_secs_f64(),
        count(progress.documents_per_second()),
        Size(progress.bytes_per_second()),
    );
    if progress.bad > 0 {
        text.push_str(&format!(
            "; skipped {}",
            counted(progress.bad, "bad document", "bad documents")
        ));
    }
    text
}
