//! A sink that takes `_bulk` requests: Elasticsearch 5 to 8, OpenSearch, Quire.

use crate::bulk_answer;
use crate::bulk_body::BulkForm;
use crate::change::Change;
use crate::http::{Body, Http, segment};
use crate::sink::{Failure, Sink, Verdict};
use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::RwLock;
use serde_json::Value;
use std::io::Write;

/// What answers at the address of a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `elasticsearch`, `opensearch` or `quire`.
    pub flavor: &'static str,
    /// The first number of the version.
    pub major: u32,
    /// The whole version.
    pub version: String,
}

impl Server {
    /// Calls a server to find out what it is.
    ///
    /// # Errors
    /// If it does not answer, or is no server of these.
    pub fn of(http: &Http) -> Result<Server, Failure> {
        let answer = http.call("GET", "/", Body::Empty)?;
        match answer.status {
            200 => {}
            408 | 429 | 500.. => return Err(Failure::Busy(answer.excerpt())),
            _ => return Err(Failure::Final(answer.excerpt())),
        }
        let json = answer.json();
        let version = json["version"]["number"].as_str().unwrap_or_default();
        let major = version.split('.').next().and_then(|part| part.parse().ok());
        let Some(major) = major else {
            return Err(Failure::Final(format!(
                "{} is neither Elasticsearch nor OpenSearch nor Quire",
                http.url()
            )));
        };
        let flavor = match json["version"]["distribution"].as_str() {
            _ if json["quire"].is_object() => "quire",
            Some("opensearch") => "opensearch",
            _ => "elasticsearch",
        };
        Ok(Server {
            flavor,
            major,
            version: version.to_owned(),
        })
    }

    /// The mapping type of documents, for a server that wants one.
    pub fn doc_type(&self) -> Option<&'static str> {
        match (self.flavor, self.major) {
            ("elasticsearch", ..=5) => Some("doc"),
            ("elasticsearch", 6) => Some("_doc"),
            _ => None,
        }
    }
}

/// An index or a collection of a server.
#[derive(Debug)]
pub struct BulkSink {
    http: Http,
    index: String,
    options: BulkOptions,
    /// Known when the server has answered.
    form: RwLock<Option<BulkForm>>,
}

/// How bulks are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkOptions {
    /// Whether bulks are compressed.
    pub gzip: bool,
    /// The mapping type, where it is not the server's usual one.
    pub doc_type: Option<String>,
    /// The most bulks at once.
    pub concurrency_max: usize,
}

impl BulkSink {
    /// The index of this name at a server.
    pub fn new(http: Http, index: impl Into<String>, options: BulkOptions) -> BulkSink {
        BulkSink {
            http,
            index: index.into(),
            options,
            form: RwLock::new(None),
        }
    }

    fn path(&self, rest: &str) -> String {
        format!("/{}/{rest}", segment(&self.index))
    }
}

impl Sink for BulkSink {
    fn send(&self, bulk: &[&Change]) -> Result<Vec<Verdict>, Failure> {
        let form = self.form.read().clone();
        let form = form.ok_or_else(|| Failure::NoAnswer("it was not begun".to_owned()))?;
        let body = form.encode(bulk);
        // Search servers leave out of the answer what nothing here reads.
        let path = match form.is_search {
            true => self.path("_bulk?filter_path=items.*.status,items.*.error"),
            false => self.path("_bulk"),
        };
        let answer = match self.options.gzip {
            false => self.http.call("POST", &path, Body::Lines(&body))?,
            true => {
                let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
                let packed = packed.write_all(&body).and_then(|()| packed.finish());
                let packed = packed.map_err(|error| Failure::Final(error.to_string()))?;
                self.http.call("POST", &path, Body::LinesGzip(&packed))?
            }
        };
        bulk_answer::read(&answer, bulk.len())
    }

    fn concurrency_max(&self) -> usize {
        self.options.concurrency_max
    }

    fn begin(&self, _mark: Option<&Value>) -> Result<(), Failure> {
        let server = Server::of(&self.http)?;
        let form = BulkForm {
            doc_type: match &self.options.doc_type {
                Some(own) => Some(own.clone()),
                None => server.doc_type().map(str::to_owned),
            },
            is_search: server.flavor != "quire",
        };
        *self.form.write() = Some(form);
        Ok(())
    }

    fn finish(&self) -> Result<(), Failure> {
        let answer = self
            .http
            .call("POST", &self.path("_refresh"), Body::Empty)?;
        match answer.status {
            // Nothing was ever written.
            200 | 404 => Ok(()),
            408 | 429 | 500.. => Err(Failure::Busy(answer.excerpt())),
            _ => Err(Failure::Final(answer.excerpt())),
        }
    }
}
