//! `quire demo`: the main job on real data that the machine has. A stream of documents goes in
//! while a server answers, every document is served by key over HTTP, one is updated, everything is
//! verified, and frozen to be queried.
//!
//! It goes through the same code as the commands: the pipeline of `quire load`, the server of
//! `quire serve`, the reports of `quire stats` and `quire verify`.

mod crates;
mod documents;
mod frozen;
mod packages;
mod server;

use crate::commands::{load, stats, verify};
use crate::error::{Error, Result, causes};
use crate::load::{Event, Input, LoadOptions};
use crate::output::shortened;
use crate::size::counted;
use crate::{Context, database};
use documents::Documents;
use frozen::Question;
use quiredb::{Collection, CollectionSettings, Env, Found, Key, Volumes};
use serde::Serialize;
use serde_json::Value;
use server::Server;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Documents fetched by key.
const SAMPLES: usize = 3;
/// Those that people know, if there.
const KNOWN_KEYS: [&str; 3] = ["bash", "sqlite3", "postgresql"];
/// How much of a document is shown.
const SHOWN_CHARACTERS: usize = 300;
/// While loading, the server is asked after every so many acknowledgements.
const ACKNOWLEDGED_PER_REQUEST: u64 = 8;

/// Load real data of this machine, serve it over HTTP, update it, verify it, freeze and query it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The data is the machine's Debian package index (apt-cache dumpavail), or the sources of the crates that cargo has
fetched.

Examples:
  quire demo
  quire demo --dir ./demo-db        keep the database there to try more on it")]
pub(crate) struct Demo {
    /// Where to make the database; it is kept. A directory that is absent or empty
    #[arg(long, value_name = "D")]
    dir: Option<PathBuf>,
    /// Keep the database even without --dir
    #[arg(long)]
    keep: bool,
    /// Load at most this many documents
    #[arg(long, value_name = "N")]
    documents: Option<usize>,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    source: String,
    collection: &'static str,
    documents: u64,
    bytes: u64,
    seconds: f64,
    answers_while_loading: u64,
    served: Vec<Value>,
    updated: Value,
    disk_bytes: u64,
    damage: usize,
    frozen: frozen::Report,
}

/// Real documents that this machine has.
struct Source {
    /// What they are.
    title: String,
    /// The command that would load them.
    command: &'static str,
    collection: &'static str,
    question: Question,
    reader: Box<dyn Read + Send>,
}

impl Demo {
    pub(crate) fn run(self, context: &mut Context) -> Result<()> {
        let source = Source::find(self.documents)?;
        let directory = Directory::prepare(context, self.dir, self.keep)?;
        let collection = source.collection;
        let shown = directory.path.display().to_string();
        let title = source.title.clone();
        say(context, format_args!("Quire demo: {title}"))?;

        step(
            context,
            "1. Open a database and serve it",
            &format!("quire serve {shown} --listen 127.0.0.1:0"),
        )?;
        let database = database::open_or_create(context, &directory.path, None)?;
        let documents = database
            .create_collection(collection, CollectionSettings::default())
            .map_err(Error::engine("cannot create the collection"))?;
        let server = Server::start(database.clone())?;
        let url = format!("http://{}/{collection}", server.address);
        say(
            context,
            format_args!("   listening on http://{}", server.address),
        )?;

        step(
            context,
            "2. Load, while it serves",
            &source.command.replace("DB", &shown),
        )?;
        let (input, question) = (Input::Reader(source.title, source.reader), source.question);
        let (summary, answers) =
            load_while_serving(context, &server, collection, &documents, input)?;
        if let Some(stop) = summary.stopped {
            return Err(Error::Failed(format!("the load stopped: {stop}")));
        }
        say(context, format_args!("   {}", load::sentence(&summary)))?;
        say(context, format_args!("   {}", answers.sentence()))?;

        step(
            context,
            "3. Get documents by key",
            &format!("curl {url}/_doc/KEY"),
        )?;
        let keys = sample_keys(&documents)?;
        let mut served = Vec::new();
        for key in &keys {
            let answer = get(&server, collection, key)?;
            say(
                context,
                format_args!(
                    "   {key}: {}",
                    shortened(&answer.to_string(), SHOWN_CHARACTERS)
                ),
            )?;
            served.push(answer);
        }
        let first = keys
            .first()
            .ok_or_else(|| Error::Failed("no documents were loaded".to_owned()))?;

        let patch = r#"{"doc":{"favourite":true}}"#;
        step(
            context,
            "4. Update one and read it back",
            &format!("curl -H 'Content-Type: application/json' {url}/_update/{first} -d '{patch}'"),
        )?;
        let path = format!(
            "/{collection}/_update/{}",
            crate::http::segment(&first.to_string())
        );
        server.request("POST", &path, patch)?;
        let updated = get(&server, collection, first)?;
        if updated
            .get("_source")
            .and_then(|document| document.get("favourite"))
            != Some(&Value::Bool(true))
        {
            return Err(Error::Failed(format!(
                "the update of {first} does not show: {updated}"
            )));
        }
        let version = updated.get("_seq_no").unwrap_or(&Value::Null);
        say(
            context,
            format_args!("   {first} now has \"favourite\":true at position {version}"),
        )?;

        step(
            context,
            "5. Count, and what it takes on disk",
            &format!("curl {url}/_count; quire stats {shown}"),
        )?;
        let counted = server.request("GET", &format!("/{collection}/_count"), "")?;
        say(context, format_args!("   {}", counted.trim()))?;
        database.flush().map_err(Error::engine("cannot flush"))?;
        let stats = database
            .stats()
            .map_err(Error::engine("cannot read the statistics"))?;
        for line in stats::table(&stats) {
            say(context, format_args!("   {line}"))?;
        }

        step(
            context,
            "6. Stop, and verify every byte",
            &format!("quire verify {shown}"),
        )?;
        server.stop()?;
        drop(documents);
        database
            .close()
            .map_err(Error::engine("cannot close the database"))?;
        drop(database);
        let report = quiredb::operations::verify(
            context.env.clone(),
            Volumes::single(&directory.path),
            &Default::default(),
            &mut |_, _| {},
        )
        .map_err(|source| database::refused(&directory.path, source))?;
        for line in verify::lines(&report) {
            say(context, format_args!("   {line}"))?;
        }
        if !report.damage.is_empty() {
            return Err(Error::Failed("the database is damaged".to_owned()));
        }

        let frozen = frozen::show(context, &directory.path, collection, &question)?;

        let answer = format!(
            "GET {url}/_doc/{}\n{updated}",
            crate::http::segment(&first.to_string())
        );
        say(context, format_args!("\nServed over HTTP:\n{answer}\n"))?;
        for line in next_steps(&directory, collection, first) {
            say(context, line)?;
        }
        if context.out.is_json() {
            context.out.json_line(&Report {
                source: title,
                collection,
                documents: summary.documents,
                bytes: summary.bytes,
                seconds: summary.time.as_secs_f64(),
                answers_while_loading: answers.count,
                served,
                updated,
                disk_bytes: stats
                    .collections
                    .iter()
                    .map(|collection| collection.disk_bytes)
                    .sum(),
                damage: report.damage.len(),
                frozen,
            })?;
        }
        Ok(())
    }
}

impl Source {
    fn find(limit: Option<usize>) -> Result<Source> {
        let limit = limit.unwrap_or(usize::MAX);
        if let Some(packages) = packages::available() {
            return Ok(Source {
                title: "this machine's Debian package index (apt-cache dumpavail)".to_owned(),
                command: "apt-cache dumpavail | TO_NDJSON | quire load DB packages -",
                collection: "packages",
                question: Question {
                    fields: None,
                    number: "installed_size",
                    at_least: 100_000,
                    facet: "section",
                },
                reader: Box::new(Documents::new(packages.take(limit))),
            });
        }
        if let Some(files) = crates::fetched() {
            return Ok(Source {
                title: "sources and manifests of the crates that cargo has fetched".to_owned(),
                command: "TO_NDJSON ~/.cargo/registry/src | quire load DB sources -",
                collection: "sources",
                // The text of a file is no value to look for.
                question: Question {
                    fields: Some(&["crate", "version", "path", "kind", "lines", "bytes"]),
                    number: "lines",
                    at_least: 1,
                    facet: "kind",
                },
                reader: Box::new(Documents::new(files.take(limit))),
            });
        }
        Err(Error::Failed(
            "no real data found: `apt-cache dumpavail` prints nothing (apt-get update fetches the index) and cargo has \
             fetched no crates; load data of your own: quire load DB COLLECTION FILE"
                .to_owned(),
        ))
    }
}

/// Answers that the server gave while documents were loaded.
#[derive(Debug, Default)]
struct Answers {
    count: u64,
    slowest: Duration,
}

impl Answers {
    fn sentence(&self) -> String {
        format!(
            "meanwhile the server answered {}, the slowest in {:.1} ms",
            counted(self.count, "GET by key", "GETs by key"),
            self.slowest.as_secs_f64() * 1e3
        )
    }
}

/// Loads the source, and now and then asks the server for a document that is loaded already.
fn load_while_serving(
    context: &Context,
    server: &Server,
    collection: &str,
    documents: &Collection,
    input: Input,
) -> Result<(crate::load::Summary, Answers)> {
    let (env, mut answers, mut acknowledged) = (context.env.clone(), Answers::default(), 0);
    let mut observe = |event: &Event<'_>| -> io::Result<()> {
        if let Event::Acknowledged { .. } = event {
            acknowledged += 1;
            if acknowledged % ACKNOWLEDGED_PER_REQUEST == 1 {
                let key = first_key(documents).map_err(io::Error::other)?;
                let start = env.monotonic();
                get(server, collection, &key).map_err(io::Error::other)?;
                answers.count += 1;
                answers.slowest = answers.slowest.max(env.monotonic().saturating_sub(start));
            }
        }
        Ok(())
    };
    let summary = crate::load::load(
        documents,
        || env.monotonic(),
        vec![input],
        &LoadOptions::default(),
        &mut observe,
    );
    Ok((summary, answers))
}

fn first_key(documents: &Collection) -> Result<Key> {
    let first = documents
        .scan(..)
        .map_err(Error::engine("cannot scan"))?
        .next();
    match first {
        Some(found) => Ok(found.map_err(Error::engine("cannot scan"))?.key),
        None => Err(Error::Failed(
            "a document that was acknowledged is not there".to_owned(),
        )),
    }
}

/// Keys of documents to show: known ones, then the first there are.
fn sample_keys(documents: &Collection) -> Result<Vec<Key>> {
    let mut keys = Vec::new();
    for key in KNOWN_KEYS.iter().filter_map(|key| Key::parse(key).ok()) {
        if documents
            .get(&key)
            .map_err(Error::engine("cannot read"))?
            .is_some()
        {
            keys.push(key);
        }
    }
    for found in documents
        .scan(..)
        .map_err(Error::engine("cannot scan"))?
        .take(SAMPLES)
    {
        let Found { key, .. } = found.map_err(Error::engine("cannot scan"))?;
        if keys.len() < SAMPLES && !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// A document as the server gives it.
fn get(server: &Server, collection: &str, key: &Key) -> Result<Value> {
    let body = server.request(
        "GET",
        &format!(
            "/{collection}/_doc/{}",
            crate::http::segment(&key.to_string())
        ),
        "",
    )?;
    serde_json::from_str(&body)
        .map_err(|error| Error::Failed(format!("the server's answer is no JSON: {error}")))
}

/// Where the database of the demonstration is. Unless it is to be kept, it goes when this does.
struct Directory {
    path: PathBuf,
    env: Arc<dyn Env>,
    keep: bool,
}

impl Directory {
    fn prepare(context: &Context, named: Option<PathBuf>, keep: bool) -> Result<Directory> {
        let keep = keep || named.is_some();
        let path = named.unwrap_or_else(|| {
            std::env::temp_dir().join(format!("quire-demo-{}", std::process::id()))
        });
        let failed = |error| Error::Failed(causes(&error));
        let is_used = context.env.exists(&path).map_err(failed)?
            && !context.env.list(&path).map_err(failed)?.is_empty();
        if is_used {
            return Err(Error::Usage(format!(
                "{} is not empty; name a new directory",
                path.display()
            )));
        }
        Ok(Directory {
            path,
            env: Arc::clone(&context.env),
            keep,
        })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.keep {
            // What is left of a temporary directory is the system's to remove.
            let _ = self.env.remove_dir_all(&self.path);
            let _ = self.env.remove(&frozen::file_of(&self.path));
        }
    }
}

fn next_steps(directory: &Directory, collection: &str, key: &Key) -> Vec<String> {
    if !directory.keep {
        return vec![
            "The database is removed again. To keep one and try more: quire demo --dir ./demo-db"
                .to_owned(),
        ];
    }
    let path = directory.path.display();
    let quire = std::env::args()
        .next()
        .unwrap_or_else(|| "quire".to_owned());
    vec![
        "Try next:".to_owned(),
        format!("  {quire} get {path} {collection} {key}"),
        format!("  {quire} scan {path} {collection} --limit 5 --json"),
        format!("  {quire} tail {path} {collection} --limit 5"),
        format!(
            "  {quire} inspect {}",
            frozen::file_of(&directory.path).display()
        ),
        format!("  {quire} serve {path}"),
    ]
}

/// Announces a step and its command.
fn step(context: &mut Context, title: &str, command: &str) -> Result<()> {
    say(context, format_args!("\n{title}\n   $ {command}"))
}

/// Shows a line at once: on standard output, or beside it where that is for JSON.
fn say(context: &mut Context, line: impl std::fmt::Display) -> Result<()> {
    if context.out.is_json() {
        crate::output::tell(line);
        return Ok(());
    }
    context.out.line(line)?;
    context.out.flush()
}
