//! The file of a pipe: its source and its sinks, in TOML.

use crate::bulk_sink::{BulkOptions, BulkSink};
use crate::document_config::{FieldsConfig, JoinConfig};
use crate::error::{Error, Result};
use crate::file_sink::FileSink;
use crate::file_source::FileSource;
use crate::http::{Access, Body, Http, segment};
use crate::http_source::{HttpOptions, HttpSource};
use crate::mapped_source::MappedSource;
use crate::mapping::Mapping;
use crate::nearest::suggestion;
use crate::reindex_config::ReindexConfig;
use crate::server_source::ServerSource;
use crate::ship::Target;
use crate::sink::Sink;
use crate::topic::Source;
use crate::transform::Transform;
use quire_env::Env;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Kinds of sinks. The first three are told apart by what the server says of itself.
const KINDS: [&str; 6] = [
    "opensearch",
    "elasticsearch",
    "quire",
    "kafka",
    "ndjson",
    "parquet",
];

const TIMEOUT_S: u64 = 60;
const EVERY_S: u64 = 10;
const DEAD_LETTERS_MAX: u64 = 1_000;
const FILE_BYTES: u64 = 1 << 30;

/// The same of Parquet: bytes of the lines that a file is made of.
#[cfg(feature = "parquet")]
const PARQUET_FILE_BYTES: u64 = 128 << 20;

/// Bulks at once when they are tuned, and bounds of what may be set.
const CONCURRENCY_TUNED: usize = 16;
const CONCURRENCY_MAX: usize = 64;
const BULK_BYTES_MAX: usize = 64 << 20;
const UNDER_WAY_BYTES_MAX: usize = 256 << 20;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipeConfig {
    /// The folder of positions and dead letters; by default the file's name with `.state` added.
    pub state: Option<PathBuf>,
    /// `HOST:PORT` where a run serves its metrics and its health.
    pub listen: Option<String>,
    /// Where changes come from.
    pub source: SourceConfig,
    /// Where they go.
    #[serde(rename = "sink", default)]
    pub sinks: Vec<SinkConfig>,
    /// How the index of a sink is built anew.
    pub reindex: Option<ReindexConfig>,
}

/// Kinds of sources that are named; a collection and files are told by what is set.
const SOURCE_KINDS: [&str; 4] = ["http", "kafka", "mysql", "postgres"];

/// Where changes come from: a collection of a server (`url`) or of a directory, files, or what
/// `type` names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    /// `http`, `kafka`, `mysql` or `postgres`; none for a collection or files.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// A Quire server.
    pub url: Option<String>,
    /// The directory of a database that no other process has open.
    pub directory: Option<PathBuf>,
    /// The collection there.
    pub collection: Option<String>,
    /// Files of JSON lines, CSV or Parquet, in their order; the last one of lines may grow.
    pub files: Option<Vec<PathBuf>>,
    /// A folder of such files, in the order of their names; more may come.
    pub folder: Option<PathBuf>,
    /// The field with the key of a document in files, where it is `_id` by default, or in records
    /// of `kafka`, where it is the record's key by default.
    pub key_field: Option<String>,
    /// Of `http`: the field whose value in the last document is what `{cursor}` in `url` is next.
    pub cursor_field: Option<String>,
    /// Of `http`: what `{cursor}` is first; empty by default.
    pub first_cursor: Option<String>,
    /// Of `http`: documents in which this field is true are deletions.
    pub deleted_field: Option<String>,
    /// Of `http`: where the array of documents is in an answer, names with dots between; by default
    /// the answer is the array, or has a document on each line.
    pub items: Option<String>,
    /// Of `http`: seconds between two questions that were not answered by documents; 10 by default.
    pub every_s: Option<u64>,
    /// Of `kafka`.
    pub topic: Option<String>,
    /// Of `mysql`: `DATABASE.TABLE`; of `postgres`: `SCHEMA.TABLE`.
    pub table: Option<String>,
    /// Which columns or fields the documents have, and what their keys are.
    pub document: Option<FieldsConfig>,
    /// Of `mysql`: rows of other tables that are fields of the document.
    #[serde(rename = "join", default)]
    pub joins: Vec<JoinConfig>,
    /// Of `postgres`: the publication; by default one with the table's name, which is made.
    pub publication: Option<String>,
    /// Of `postgres`: `disable`, `prefer`, `require`, `verify-ca` or `verify-full`; the last by
    /// default with `ca`, else `prefer`.
    pub sslmode: Option<String>,
    /// Of `kafka`: how the user is authenticated: `scram-sha-512`, by default with `user`,
    /// `scram-sha-256` or `plain`.
    pub sasl: Option<String>,
    /// Of `kafka`, `mysql` and `postgres`: the user, and a file with the password.
    pub user: Option<String>,
    /// See `user`.
    pub password_file: Option<PathBuf>,
    /// What is done when the source no longer has what comes after the stored position: `stop`, by
    /// default, or `snapshot`, which reads everything anew.
    pub on_lost_position: Option<String>,
    /// A file with the server's token.
    pub token_file: Option<PathBuf>,
    /// For TLS: the certificates to trust (PEM).
    pub ca: Option<PathBuf>,
    /// Seconds to wait for an answer; 60 by default.
    pub timeout_s: Option<u64>,
}

/// Where changes go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkConfig {
    /// Names its files and its progress.
    pub name: String,
    /// `opensearch`, `elasticsearch`, `quire`, `kafka`, `ndjson` or `parquet`.
    pub kind: String,
    /// The server.
    pub url: Option<String>,
    /// The index, or the collection.
    pub index: Option<String>,
    /// Of `kafka`.
    pub topic: Option<String>,
    /// Of `kafka`: how records are compressed; `zstd` by default.
    pub compression: Option<String>,
    /// Of `kafka`: as in [`SourceConfig`].
    pub sasl: Option<String>,
    /// The mapping type, for Elasticsearch before 7; `doc` in 5 and `_doc` in 6 by default.
    pub doc_type: Option<String>,
    /// The user of basic authentication, or of `kafka`.
    pub user: Option<String>,
    /// A file with the user's password.
    pub password_file: Option<PathBuf>,
    /// A file with a bearer token.
    pub token_file: Option<PathBuf>,
    /// For https: the certificates to trust (PEM).
    pub ca: Option<PathBuf>,
    /// Whether bulks are compressed; not by default.
    pub gzip: Option<bool>,
    /// Seconds to wait for an answer; 60 by default.
    pub timeout_s: Option<u64>,
    /// Bytes of a bulk; found by measuring by default.
    pub bulk_bytes: Option<usize>,
    /// Bulks at once; found by measuring by default.
    pub concurrency: Option<usize>,
    /// The folder of files.
    pub directory: Option<PathBuf>,
    /// Bytes of lines after which a new file begins; 1 GiB by default, 128 MiB of Parquet.
    pub file_bytes: Option<u64>,
    /// Documents that may be refused in a run; 1,000 by default.
    pub dead_letters_max: Option<u64>,
}

impl PipeConfig {
    /// Reads a file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// If it can't be read, or is wrong: with the line and the key that was perhaps meant.
    pub fn read(env: &dyn Env, path: &Path) -> Result<PipeConfig> {
        let bytes = env.read(path, CONFIG_BYTES_MAX)?;
        let wrong = |why: &str| Error::Config(format!("{}: {}", path.display(), why.trim_end()));
        let text = String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8"))?;
        let mut config = PipeConfig::parse(&text).map_err(|why| wrong(&why))?;
        config.resolve(quire_env::parent_of(path));
        if config.state.is_none() {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(".state");
            config.state = Some(path.with_file_name(name));
        }
        Ok(config)
    }

    /// Reads the text of a file.
    fn parse(text: &str) -> Result<PipeConfig, String> {
        let parsed: Result<PipeConfig, toml::de::Error> = toml::from_str(text);
        let config = parsed.map_err(|error| {
            let hint = unknown_key(error.message());
            format!("{}{hint}", error.to_string().trim_end())
        })?;
        config.check()?;
        Ok(config)
    }

    /// The folder of positions and dead letters.
    pub fn state(&self) -> PathBuf {
        self.state.clone().unwrap_or_default()
    }

    fn check(&self) -> Result<(), String> {
        self.source.check()?;
        if self.sinks.is_empty() {
            return Err("there is no sink: add a part that begins with [[sink]]".to_owned());
        }
        let (mut names, mut folders) = (BTreeSet::new(), BTreeMap::new());
        for sink in &self.sinks {
            sink.check()
                .map_err(|why| format!("sink {:?}: {why}", sink.name))?;
            if !names.insert(&sink.name) {
                return Err(format!("two sinks are named {:?}", sink.name));
            }
            let Some(folder) = sink.directory.as_deref().map(plain) else {
                continue;
            };
            if let Some(other) = folders.insert(folder, &sink.name) {
                let name = &sink.name;
                return Err(format!(
                    "sinks {other:?} and {name:?} have one folder: each would cut the other's files"
                ));
            }
        }
        match &self.reindex {
            Some(reindex) => reindex.check().and(self.reindex_sink().map(drop)),
            None => Ok(()),
        }
    }

    /// The sink whose index is built anew.
    ///
    /// # Errors
    /// If it is not clear which one: a sentence that says what to set.
    pub fn reindex_sink(&self) -> Result<&SinkConfig, String> {
        let named = self.reindex.as_ref().and_then(|part| part.sink.as_ref());
        let mut fitting = self
            .sinks
            .iter()
            .filter(|sink| sink.index.is_some() && named.is_none_or(|name| *name == sink.name));
        match (fitting.next(), fitting.next(), named) {
            (Some(sink), None, _) => Ok(sink),
            (None, _, Some(name)) => Err(format!(
                "[reindex] sink is {name:?}, and no sink of a server has that name"
            )),
            (None, _, None) => Err("no sink is a server, whose index could be built".to_owned()),
            (Some(_), Some(_), _) => {
                Err("several sinks are servers: name one in [reindex], as sink".to_owned())
            }
        }
    }

    /// Makes paths relative to the folder of the file.
    fn resolve(&mut self, folder: &Path) {
        let source = &mut self.source;
        let module = source.document.iter_mut().map(|config| &mut config.module);
        let index_file = self.reindex.iter_mut().map(|part| &mut part.index_file);
        let own = [
            &mut self.state,
            &mut source.directory,
            &mut source.folder,
            &mut source.token_file,
            &mut source.password_file,
            &mut source.ca,
        ];
        let sinks = self.sinks.iter_mut().flat_map(|sink| {
            [
                &mut sink.password_file,
                &mut sink.token_file,
                &mut sink.ca,
                &mut sink.directory,
            ]
        });
        let files = source.files.iter_mut().flatten();
        let own = own.into_iter().chain(index_file).chain(module);
        let paths = own.chain(sinks).flatten().chain(files);
        for path in paths.filter(|_| folder != Path::new(".")) {
            *path = folder.join(&path);
        }
    }
}

/// What is done when a source no longer has what comes after the stored position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLostPosition {
    /// The run ends with an error.
    Stop,
    /// All that is there is read anew. What was deleted meanwhile stays in the sinks.
    Snapshot,
}

impl SourceConfig {
    /// What is done when the source no longer has what comes after the stored position.
    ///
    /// # Errors
    /// If it is neither of the two.
    pub fn on_lost_position(&self) -> Result<OnLostPosition> {
        match self.on_lost_position.as_deref() {
            None | Some("stop") => Ok(OnLostPosition::Stop),
            Some("snapshot") => Ok(OnLostPosition::Snapshot),
            Some(_) => Err(Error::Config(
                "[source]: on_lost_position must be \"stop\" or \"snapshot\"".to_owned(),
            )),
        }
    }

    fn check(&self) -> Result<(), String> {
        let collection = self.collection.is_some();
        let place = (&self.url, &self.directory, &self.files);
        if self.kind.as_deref() != Some("mysql") && !self.joins.is_empty() {
            return Err("[[source.join]] needs type mysql".to_owned());
        }
        let mapping = self
            .mapping()
            .map_err(|why| format!("[source.document]: {why}"))?;
        let is_of_files = self.files.is_some() || self.folder.is_some();
        let is_of_files = is_of_files || self.kind.as_deref() == Some("http");
        if !is_of_files && mapping.is_some_and(|found| found.needs_document_for_key()) {
            return Err(
                "[source.document] key: a deletion has no fields, so keys are made of {_key} only, \
                 but for files and http"
                    .to_owned(),
            );
        }
        for join in &self.joins {
            join.check()
                .map_err(|why| format!("join {:?}: {why}", join.field))?;
        }
        if self.folder.is_some() && (place != (&None, &None, &None) || self.kind.is_some()) {
            return Err("[source] needs folder alone, or another place".to_owned());
        }
        if let Some(kind) = &self.kind {
            if !SOURCE_KINDS.contains(&kind.as_str()) {
                let hint = suggestion(kind, SOURCE_KINDS);
                let kinds = SOURCE_KINDS.join(", ");
                return Err(format!("[source] type {kind:?} is none of {kinds}{hint}"));
            }
            if kind == "http" {
                let is_cursor_named = self.cursor_field.is_some();
                return match (place, &self.topic, &self.table) {
                    ((Some(_), None, None), None, None) if !collection && is_cursor_named => Ok(()),
                    _ => Err(
                        "[source] of type http needs url and cursor_field, and no other place"
                            .to_owned(),
                    ),
                };
            }
            let (what, named, other) = match kind.as_str() {
                "kafka" => ("topic", &self.topic, &self.table),
                _ => ("table", &self.table, &self.topic),
            };
            return match (place, named, other) {
                ((Some(_), None, None), Some(_), None) if !collection => Ok(()),
                _ => Err(format!(
                    "[source] of type {kind} needs url and {what}, and no other place"
                )),
            };
        }
        match place {
            (Some(_), None, None) | (None, Some(_), None) if collection => Ok(()),
            (Some(_), None, None) | (None, Some(_), None) => {
                Err("[source] needs collection, the name of the collection".to_owned())
            }
            (None, None, Some(files)) if !files.is_empty() && !collection => Ok(()),
            (None, None, None) if self.folder.is_some() && !collection => Ok(()),
            _ => Err(
                "[source] needs one of: url and collection; directory and collection; files; \
                 folder; type"
                    .to_owned(),
            ),
        }
    }

    /// How the source's server is called.
    fn access(&self) -> Access {
        Access {
            url: self.url.clone().unwrap_or_default(),
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            token_file: self.token_file.clone(),
            ca: self.ca.clone(),
            timeout: Duration::from_secs(self.timeout_s.unwrap_or(TIMEOUT_S)),
        }
    }

    fn http_options(&self) -> HttpOptions {
        HttpOptions {
            access: self.access(),
            key_field: self.key_field.clone().unwrap_or_else(|| "_id".to_owned()),
            cursor_field: self.cursor_field.clone().unwrap_or_default(),
            first_cursor: self.first_cursor.clone().unwrap_or_default(),
            deleted_field: self.deleted_field.clone(),
            items: self.items.clone(),
            every: Duration::from_secs(self.every_s.unwrap_or(EVERY_S)),
        }
    }

    /// What the source's documents become, where it does not see to that itself.
    fn mapping(&self) -> Result<Option<Mapping>, String> {
        let maps_fields = self.kind.as_deref() != Some("mysql");
        let config = self.document.as_ref();
        config.map_or(Ok(None), |config| Mapping::new(config, maps_fields))
    }

    /// A source that was opened, with its documents mapped as the file says.
    ///
    /// # Errors
    /// If the file is wrong, or a module that it names.
    pub fn mapped(&self, env: &dyn Env, source: Box<dyn Source>) -> Result<Box<dyn Source>> {
        let module = self
            .document
            .as_ref()
            .and_then(|config| config.module.as_ref());
        let transform = module.map(|path| Transform::read(env, path)).transpose()?;
        Ok(match (transform, self.mapping().map_err(Error::Config)?) {
            (None, None) => source,
            (transform, mapping) => Box::new(MappedSource::of(source, transform, mapping)),
        })
    }

    /// The source of a server or of files; none for a directory, or one with another type than
    /// `http`, which the caller opens.
    ///
    /// # Errors
    /// If the server can't be called so.
    pub fn open(&self, env: &Arc<dyn Env>) -> Result<Option<Box<dyn Source>>> {
        if self.kind.as_deref() == Some("http") {
            let source = HttpSource::new(Arc::clone(env), self.http_options());
            let source = source.map_err(|why| Error::Config(format!("[source]: {why}")))?;
            return Ok(Some(Box::new(source)));
        }
        let key_field = self.key_field.as_deref().unwrap_or("_id");
        if let Some(folder) = &self.folder {
            let source = FileSource::of_folder(Arc::clone(env), folder.clone(), key_field);
            return Ok(Some(Box::new(source)));
        }
        if let Some(files) = &self.files {
            let source = FileSource::new(Arc::clone(env), files.clone(), key_field);
            return Ok(Some(Box::new(source)));
        }
        let (Some(_), Some(collection)) = (&self.url, &self.collection) else {
            return Ok(None);
        };
        let http = Http::new(&**env, &self.access(), 1);
        let http = http.map_err(|why| Error::Config(format!("[source]: {why}")))?;
        Ok(Some(Box::new(ServerSource::new(http, collection))))
    }
}

impl SinkConfig {
    fn check(&self) -> Result<(), String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if self.name.is_empty() || !self.name.bytes().all(is_name) {
            return Err("the name must be of letters, digits, - and _".to_owned());
        }
        if !KINDS.contains(&self.kind.as_str()) {
            let hint = suggestion(&self.kind, KINDS);
            let kinds = KINDS.join(", ");
            return Err(format!("kind {:?} is none of {kinds}{hint}", self.kind));
        }
        let has = [
            ("url", self.url.is_some()),
            ("index", self.index.is_some()),
            ("topic", self.topic.is_some()),
            ("directory", self.directory.is_some()),
        ];
        let needs: &[&str] = match self.kind.as_str() {
            "ndjson" | "parquet" => &["directory"],
            "kafka" => &["url", "topic"],
            _ => &["url", "index"],
        };
        if has
            .iter()
            .any(|(key, is_there)| needs.contains(key) != *is_there)
        {
            let others = has.iter().map(|(key, _)| *key);
            let others: Vec<&str> = others.filter(|key| !needs.contains(key)).collect();
            return Err(format!(
                "kind {} needs {}, and no {}",
                self.kind,
                needs.join(" and "),
                others.join(", ")
            ));
        }
        let within = |what: &str, value: Option<usize>, min: usize, max: usize| match value {
            Some(value) if !(min..=max).contains(&value) => Err(format!(
                "{what} is {value}, and must be from {min} to {max}"
            )),
            _ => Ok(()),
        };
        within("bulk_bytes", self.bulk_bytes, 1024, BULK_BYTES_MAX)?;
        within("concurrency", self.concurrency, 1, CONCURRENCY_MAX)?;
        let under_way = self.bulk_bytes.zip(self.concurrency);
        let under_way = under_way.map(|(bytes, count)| bytes * count);
        within(
            "bulk_bytes times concurrency",
            under_way,
            1,
            UNDER_WAY_BYTES_MAX,
        )
    }

    /// A client of the sink's server.
    ///
    /// # Errors
    /// If the server can't be called so.
    pub fn http(&self, env: &dyn Env) -> Result<Http> {
        let access = Access {
            url: self.url.clone().unwrap_or_default(),
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            token_file: self.token_file.clone(),
            ca: self.ca.clone(),
            timeout: self.timeout(),
        };
        Http::new(env, &access, self.concurrency_max())
            .map_err(|why| Error::Config(format!("sink {:?}: {why}", self.name)))
    }

    /// Whether it is the collection that the source reads: what it is sent it would read again,
    /// for ever. A server that does not answer does not say so.
    ///
    /// # Errors
    /// If the server can't be called so.
    pub fn is_read_by(&self, env: &dyn Env, source: &dyn Source) -> Result<bool> {
        let (Some(url), Some(index)) = (&self.url, &self.index) else {
            return Ok(false);
        };
        let Ok(Some(read)) = source.collection_at(url) else {
            return Ok(false);
        };
        let path = format!("/{}/_stats/docs", segment(index));
        let answer = self.http(env)?.call("GET", &path, Body::Empty);
        let answer = answer.map(|answer| answer.json()).unwrap_or_default();
        Ok(answer["indices"][&read].is_object())
    }

    /// The most bulks at once.
    pub fn concurrency_max(&self) -> usize {
        self.concurrency.unwrap_or(CONCURRENCY_TUNED)
    }

    /// Seconds to wait for an answer.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s.unwrap_or(TIMEOUT_S))
    }

    /// A search server, Quire, or files, to ship to. Does not call it yet.
    ///
    /// # Errors
    /// If the server can't be called so.
    pub fn target(&self, env: &Arc<dyn Env>) -> Result<Target> {
        let sink: Arc<dyn Sink> = match (&self.directory, &self.index) {
            (Some(directory), _) => Arc::new(self.files(env, directory)?),
            (None, index) => Arc::new(BulkSink::new(
                self.http(&**env)?,
                index.clone().unwrap_or_default(),
                BulkOptions {
                    gzip: self.gzip.unwrap_or(false),
                    doc_type: self.doc_type.clone(),
                    concurrency_max: self.concurrency_max(),
                },
            )),
        };
        Ok(self.target_of(sink))
    }

    /// The files of a folder.
    fn files(&self, env: &Arc<dyn Env>, directory: &Path) -> Result<FileSink> {
        let (env, directory) = (Arc::clone(env), directory.to_owned());
        if self.kind != "parquet" {
            let bytes = self.file_bytes.unwrap_or(FILE_BYTES);
            return Ok(FileSink::lines(env, directory, bytes));
        }
        #[cfg(feature = "parquet")]
        {
            let bytes = self.file_bytes.unwrap_or(PARQUET_FILE_BYTES);
            Ok(FileSink::parquet(env, directory, bytes))
        }
        #[cfg(not(feature = "parquet"))]
        Err(Error::Config(format!(
            "sink {:?}: this program was built without the feature `parquet`",
            self.name
        )))
    }

    /// A sink that the caller made, to ship to as the file says.
    pub fn target_of(&self, sink: Arc<dyn Sink>) -> Target {
        Target {
            name: self.name.clone(),
            sink,
            bulk_bytes: self.bulk_bytes,
            concurrency: self.concurrency,
            dead_letters_max: self.dead_letters_max.unwrap_or(DEAD_LETTERS_MAX),
        }
    }
}

/// A path without parts that say nothing.
fn plain(path: &Path) -> PathBuf {
    let parts = path.components();
    parts.filter(|part| *part != Component::CurDir).collect()
}

/// What was perhaps meant by an unknown key, from the message that names it and the known ones.
fn unknown_key(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    match names.next() {
        Some(name) if message.starts_with("unknown field") => suggestion(name, names),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[source]
url = "http://127.0.0.1:9200"
collection = "tracks"

[[sink]]
name = "search"
kind = "opensearch"
url = "http://127.0.0.1:9201"
index = "tracks"
"#;

    #[test]
    fn a_mistake_is_reported_with_its_line_and_the_key_that_was_meant() {
        PipeConfig::parse(GOOD).unwrap();
        for (from, to, parts) in [
            (
                "index =",
                "idnex =",
                &["line 10", "did you mean \"index\"?"][..],
            ),
            (
                "collection =",
                "colection =",
                &["line 4", "\"collection\"?"],
            ),
            (
                "\"opensearch\"",
                "\"opensaerch\"",
                &["sink \"search\"", "\"opensearch\"?"],
            ),
            (
                "collection = \"tracks\"",
                "",
                &["[source] needs collection"],
            ),
            ("index = \"tracks\"", "", &["needs url and index"]),
            (
                "index =",
                "bulk_bytes = 7\nindex =",
                &["bulk_bytes is 7", "1024"],
            ),
            ("\"search\"", "\"a/b\"", &["must be of letters"]),
            (
                "\"opensearch\"",
                "\"kafka\"",
                &["kind kafka needs url and topic, and no index, directory"],
            ),
        ] {
            let why = PipeConfig::parse(&GOOD.replace(from, to)).unwrap_err();
            for part in parts {
                assert!(why.contains(part), "{part} is not in: {why}");
            }
        }
        let none = GOOD.split("[[sink]]").next().unwrap();
        assert!(PipeConfig::parse(none).unwrap_err().contains("[[sink]]"));
    }

    #[test]
    fn sinks_of_one_folder_and_bulks_that_do_not_fit_in_memory_are_refused() {
        let files = |name: &str, directory: &str| {
            format!("[[sink]]\nname = {name:?}\nkind = \"ndjson\"\ndirectory = {directory:?}\n")
        };
        let two = |one: &str, other: &str| {
            PipeConfig::parse(&format!("{GOOD}{}{}", files("a", one), files("b", other)))
        };
        two("out/a", "out/b").unwrap();
        for other in ["out", "./out", "out/", "out/."] {
            let why = two("out", other).unwrap_err();
            assert!(
                why.contains("\"a\" and \"b\"") && why.contains("folder"),
                "{why}"
            );
        }
        let with = |bulk_bytes: u64, concurrency: u64| {
            let set = format!("bulk_bytes = {bulk_bytes}\nconcurrency = {concurrency}\nindex =");
            PipeConfig::parse(&GOOD.replace("index =", &set))
        };
        with(4 << 20, 64).unwrap();
        let why = with(64 << 20, 64).unwrap_err();
        assert!(why.contains("bulk_bytes times concurrency"), "{why}");
    }

    #[test]
    fn paths_are_relative_to_the_folder_of_the_file() {
        let text = GOOD.replace("url = \"http://127.0.0.1:9200\"", "directory = \"db\"");
        let mut config = PipeConfig::parse(&text).unwrap();
        config.resolve(Path::new("/etc/pipes"));
        assert_eq!(config.source.directory, Some("/etc/pipes/db".into()));
    }
}
