//! `quire demo`: the main use of Quire, on real data of this machine. A stream of documents is
//! loaded while a server answers; documents are served by key over HTTP, one is updated and found
//! by what is new in it, everything is verified, frozen, and queried.
//!
//! It runs the code of the commands: the pipeline of `quire load`, the server of `quire serve`, the
//! reports of `quire stats` and `quire verify`.

mod crates;
mod directory;
mod documents;
mod frozen;
mod packages;
mod served;
mod server;
mod source;
mod steps;

use crate::Context;
use crate::error::Result;
use directory::Directory;
use quiredb::Key;
use serde::Serialize;
use serde_json::Value;
use served::Served;
use source::Source;
use std::path::PathBuf;
use steps::say;

/// Load real data of this machine, serve it over HTTP, update, search, verify and freeze it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The data is the Debian package index of this machine (apt-cache dumpavail), or the sources of the
crates that cargo has fetched.

Examples:
  quire demo
  quire demo --dir ./demo-db        keep the database, to try more")]
pub(crate) struct Demo {
    /// The directory of the database, absent or empty; it is kept
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
    found_micros: u128,
    disk_bytes: u64,
    damage: usize,
    frozen: frozen::Report,
}

impl Demo {
    pub(crate) fn run(self, context: &mut Context) -> Result<()> {
        let source = Source::find(self.documents)?;
        let directory = Directory::prepare(context, self.dir, self.keep)?;
        let (collection, title) = (source.collection, source.title.clone());
        let question = source.question.clone();
        say(context, format_args!("Quire demo: {title}"))?;

        let open = Served::start(context, &directory, collection)?;
        let (summary, answers) = open.load(context, source)?;
        let (key, served) = open.get_samples(context)?;
        let updated = open.update(context, &key)?;
        let found = open.search(context, &key)?;
        let stats = open.measure(context)?;
        let url = open.url_of(&key);
        let verified = open.stop_and_verify(context, &directory)?;
        let frozen = frozen::show(context, &directory.path, collection, &question)?;

        say(
            context,
            format_args!("\nServed over HTTP:\nGET {url}\n{updated}\n"),
        )?;
        for line in next_steps(&directory, collection, &key) {
            say(context, line)?;
        }
        if context.out.is_json() {
            let disk_bytes = stats.collections.iter().map(|each| each.disk_bytes);
            context.out.json_line(&Report {
                source: title,
                collection,
                documents: summary.progress.documents,
                bytes: summary.progress.bytes,
                seconds: summary.progress.time.as_secs_f64(),
                answers_while_loading: answers.count,
                served,
                updated,
                found_micros: found.as_micros(),
                disk_bytes: disk_bytes.sum(),
                damage: verified.damage.len(),
                frozen,
            })?;
        }
        Ok(())
    }
}

/// Commands to try next.
fn next_steps(directory: &Directory, collection: &str, key: &Key) -> Vec<String> {
    if !directory.keep {
        return vec![
            "The database is removed. To keep one and try more: quire demo --dir ./demo-db"
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
