//! A database that is served: the first seven steps of the demonstration.

use super::directory::Directory;
use super::server::Server;
use super::source::Source;
use super::steps::{say, step};
use crate::commands::{load, stats, verify};
use crate::error::{Error, Result};
use crate::size::counted;
use crate::table::shortened;
use crate::{Context, database, http};
use quire_pipeline::{Event, Format, Input, Options, Summary};
use quiredb::operations::{self, VerifyReport};
use quiredb::query::{Options as QueryOptions, field, find};
use quiredb::{Collection, CollectionSettings, Database, DatabaseStats, Found, Key, Volumes};
use serde_json::Value;
use std::io;
use std::time::Duration;

/// Documents that are fetched by key.
const SAMPLES: usize = 3;
/// Keys that people know; the demonstration prefers them.
const KNOWN_KEYS: [&str; 3] = ["bash", "sqlite3", "postgresql"];
/// Characters of a document that are printed.
const SHOWN_CHARACTERS: usize = 300;
/// While it loads, the demonstration sends one request for this many acknowledgements.
const ACKNOWLEDGED_PER_REQUEST: u64 = 8;
/// The change of the update.
const PATCH: &str = r#"{"doc":{"favourite":true}}"#;

/// The search for it.
const SEARCH: &str = r#"{"query":{"term":{"favourite":true}},"_source":false}"#;

/// A database, its server, and the collection of the demonstration.
pub(super) struct Served {
    database: Database,
    documents: Collection,
    server: Server,
    /// The name of the collection.
    collection: &'static str,
    /// The directory of the database, as commands name it.
    shown: String,
}

impl Served {
    /// Opens a new database, and serves it.
    pub(super) fn start(
        context: &mut Context,
        directory: &Directory,
        collection: &'static str,
    ) -> Result<Served> {
        let shown = directory.path.display().to_string();
        let command = format!("quire serve {shown} --listen 127.0.0.1:0");
        step(context, "1. Open a database and serve it", &command)?;
        let database = database::open_or_create(context, &directory.path, None)?;
        let documents = database
            .create_collection(collection, CollectionSettings::default())
            .map_err(Error::engine("cannot create the collection"))?;
        let server = Server::start(database.clone())?;
        let address = server.address;
        say(context, format_args!("   listening on http://{address}"))?;
        Ok(Served {
            database,
            documents,
            server,
            collection,
            shown,
        })
    }

    /// The URL of the collection.
    fn url(&self) -> String {
        format!("http://{}/{}", self.server.address, self.collection)
    }

    /// Loads the source, and sends requests to the server meanwhile. Returns the answers too.
    pub(super) fn load(&self, context: &mut Context, source: Source) -> Result<(Summary, Answers)> {
        let command = source.command.replace("DB", &self.shown);
        step(context, "2. Load, while it serves", &command)?;
        let reader = source.reader;
        let input = Input::new(source.title, Format::Ndjson, || Ok(reader));
        let (env, mut answers, mut acknowledged) = (context.env.clone(), Answers::default(), 0);
        let mut observe = |event: &Event<'_>| -> io::Result<()> {
            if let Event::Acknowledged(_) = event {
                acknowledged += 1;
                if acknowledged % ACKNOWLEDGED_PER_REQUEST == 1 {
                    let key = first_key(&self.documents).map_err(io::Error::other)?;
                    let start = env.monotonic();
                    self.get(&key).map_err(io::Error::other)?;
                    answers.count += 1;
                    let time = env.monotonic().saturating_sub(start);
                    answers.slowest = answers.slowest.max(time);
                }
            }
            Ok(())
        };
        let options = Options::default();
        let inputs = vec![input];
        let summary = quire_pipeline::load(&self.documents, &*env, inputs, &options, &mut observe);
        if let Some(stopped) = &summary.stopped {
            let reason = load::reason(stopped);
            return Err(Error::Failed(format!("the load stopped: {reason}")));
        }
        say(context, format_args!("   {}", load::sentence(&summary)))?;
        say(context, format_args!("   {}", answers.sentence()))?;
        Ok((summary, answers))
    }

    /// Gets a few documents by key. Returns the first key, and the answers.
    pub(super) fn get_samples(&self, context: &mut Context) -> Result<(Key, Vec<Value>)> {
        let command = format!("curl {}/_doc/KEY", self.url());
        step(context, "3. Get documents by key", &command)?;
        let keys = sample_keys(&self.documents)?;
        let mut served = Vec::new();
        for key in &keys {
            let answer = self.get(key)?;
            let shown = shortened(&answer.to_string(), SHOWN_CHARACTERS);
            say(context, format_args!("   {key}: {shown}"))?;
            served.push(answer);
        }
        let first = keys.into_iter().next();
        let first = first.ok_or_else(|| Error::Failed("no documents were loaded".to_owned()))?;
        Ok((first, served))
    }

    /// Updates a document, and reads it back.
    pub(super) fn update(&self, context: &mut Context, key: &Key) -> Result<Value> {
        let command = format!(
            "curl -H 'Content-Type: application/json' {}/_update/{key} -d '{PATCH}'",
            self.url()
        );
        step(context, "4. Update one and read it back", &command)?;
        // The index is level after a flush: a search then tests the update alone.
        let flushed = self.database.flush();
        flushed.map_err(Error::engine("cannot flush"))?;
        let segment = http::segment(&key.to_string());
        let path = format!("/{}/_update/{segment}", self.collection);
        self.server.request("POST", &path, PATCH)?;
        let updated = self.get(key)?;
        let document = updated.get("_source");
        let favourite = document.and_then(|document| document.get("favourite"));
        if favourite != Some(&Value::Bool(true)) {
            return Err(Error::Failed(format!(
                "the update of {key} is not in the answer: {updated}"
            )));
        }
        let position = updated.get("_seq_no").unwrap_or(&Value::Null);
        say(
            context,
            format_args!("   {key} now has \"favourite\":true at position {position}"),
        )?;
        Ok(updated)
    }

    /// Finds the document that was just updated by the field that is new: by the server, and by a
    /// query, whose time is returned.
    pub(super) fn search(&self, context: &mut Context, key: &Key) -> Result<Duration> {
        let command = format!(
            "curl -H 'Content-Type: application/json' {}/_search -d '{SEARCH}'; \
             quire query {} {} --where 'favourite = TRUE' --explain",
            self.url(),
            self.shown,
            self.collection
        );
        step(context, "5. Find it by the index, at once", &command)?;
        let path = format!("/{}/_search", self.collection);
        let answer = self.server.request("POST", &path, SEARCH)?;
        let answer: Value = serde_json::from_str(&answer)
            .map_err(|error| Error::Failed(format!("the server's answer is not JSON: {error}")))?;
        let hit = &answer["hits"]["hits"][0]["_id"];
        if hit.as_str() != Some(key.to_string().as_str()) {
            return Err(Error::Failed(format!(
                "the search for the update of {key} found something else: {answer}"
            )));
        }
        let failed = Error::engine("cannot query");
        let env = context.env.clone();
        let begun = env.monotonic();
        let clock = || env.monotonic();
        let options = QueryOptions {
            clock: Some(&clock),
            ..QueryOptions::default()
        };
        let favourites = find(field("favourite").eq(true)).with_count().prepare();
        let favourites = favourites.map_err(|error| Error::Failed(error.to_string()))?;
        let view = self.documents.view();
        let found = view.and_then(|view| view.query(&favourites, &options));
        let found = found.map_err(failed)?;
        let time = clock().saturating_sub(begun);
        if found.hits.len() != 1 {
            return Err(Error::Failed(format!(
                "the update of {key} is found {} times",
                found.hits.len()
            )));
        }
        say(context, format_args!("   the server finds {key}"))?;
        let explain = found.explain.unwrap_or_default();
        for line in explain.to_string().lines() {
            say(context, format_args!("   {line}"))?;
        }
        let millis = time.as_secs_f64() * 1e3;
        say(context, format_args!("   the query took {millis:.2} ms"))?;
        Ok(time)
    }

    /// Counts the documents, and their bytes on disk.
    pub(super) fn measure(&self, context: &mut Context) -> Result<DatabaseStats> {
        let command = format!("curl {}/_count; quire stats {}", self.url(), self.shown);
        step(context, "6. Count, and measure the disk", &command)?;
        let path = format!("/{}/_count", self.collection);
        let count = self.server.request("GET", &path, "")?;
        say(context, format_args!("   {}", count.trim()))?;
        let flushed = self.database.flush();
        flushed.map_err(Error::engine("cannot flush"))?;
        let stats = self.database.stats();
        let stats = stats.map_err(Error::engine("cannot read the statistics"))?;
        for line in stats::table(&stats) {
            say(context, format_args!("   {line}"))?;
        }
        Ok(stats)
    }

    /// Stops the server, and verifies the database.
    pub(super) fn stop_and_verify(
        self,
        context: &mut Context,
        directory: &Directory,
    ) -> Result<VerifyReport> {
        let command = format!("quire verify {}", self.shown);
        step(context, "7. Stop, and verify every byte", &command)?;
        self.server.stop()?;
        drop(self.documents);
        let closed = self.database.close();
        closed.map_err(Error::engine("cannot close the database"))?;
        drop(self.database);
        let volumes = Volumes::single(&directory.path);
        let report = operations::verify(
            context.env.clone(),
            volumes,
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
        Ok(report)
    }

    /// The URL of a document.
    pub(super) fn url_of(&self, key: &Key) -> String {
        format!("{}/_doc/{}", self.url(), http::segment(&key.to_string()))
    }

    /// A document, from the server.
    fn get(&self, key: &Key) -> Result<Value> {
        let segment = http::segment(&key.to_string());
        let path = format!("/{}/_doc/{segment}", self.collection);
        let body = self.server.request("GET", &path, "")?;
        serde_json::from_str(&body)
            .map_err(|error| Error::Failed(format!("the server's answer is not JSON: {error}")))
    }
}

/// The answers of the server during the load.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) count: u64,
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

/// The key of the first document.
fn first_key(documents: &Collection) -> Result<Key> {
    let first = documents
        .scan(..)
        .map_err(Error::engine("cannot scan"))?
        .next();
    match first {
        Some(found) => Ok(found.map_err(Error::engine("cannot scan"))?.key),
        None => Err(Error::Failed(
            "an acknowledged document is missing".to_owned(),
        )),
    }
}

/// The keys of a few documents: known ones, then the first.
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
