//! A database under faults: the clients that write to it, and the comparison of its contents with
//! their answers.

use super::book::{Book, Contents, Held, Promise};
use super::client::{Allowed, Client, Style, Told};
use super::content::Document;
use super::loader::Loader;
use super::process::{Killed, Quire, Server, text_of};
use super::round::Round;
use super::trouble::{Result, Trouble, While, failed};
use crate::http::Connection;
use serde::Deserialize;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The schema of documents as clients write them.
const WIDE: &str = r#"{
    "properties": {
        "client": {"type": "integer"},
        "n": {"type": "integer"},
        "words": {"type": "integer", "group": "words"},
        "text": {"type": "string", "group": "texts"}
    },
    "groups": {"texts": {"tiers": {"hot": "ssd", "cold": "hdd", "after": "1s"}}}
}"#;

#[derive(Debug)]
pub(crate) struct Siege {
    pub(crate) database: PathBuf,
    /// As `--durability` takes it.
    pub(crate) durability: &'static str,
    /// At first.
    pub(crate) partitions: u32,
    /// Whether the collection is wide. Its texts move between tiers.
    is_wide: bool,
    /// What its search index has, if it is wide, as `--index` takes it. `quire verify` compares it
    /// with the rows.
    index: &'static str,
    pub(crate) clients: Vec<Client>,
    pub(crate) loader: Loader,
    counted: Told,
}

impl Siege {
    /// A database that does not exist yet, and the number of its clients.
    pub(crate) fn new(
        round: &mut Round<'_>,
        database: PathBuf,
        durability: &'static str,
        clients: u64,
        style: Style,
    ) -> Siege {
        let partitions = 1 + round.random.below(3) as u32;
        Siege::of_partitions(round, database, durability, clients, style, partitions)
    }

    /// As [`new`](Siege::new), with this number of partitions, the greatest that there will be.
    pub(crate) fn of_partitions(
        round: &mut Round<'_>,
        database: PathBuf,
        durability: &'static str,
        clients: u64,
        style: Style,
        partitions: u32,
    ) -> Siege {
        let random = &mut round.random;
        let client = |number| Client::new(number, partitions, style, random);
        let clients: Vec<_> = (1..=clients).map(client).collect();
        Siege {
            database,
            durability,
            partitions,
            is_wide: false,
            index: "none",
            loader: Loader::new(
                clients.len() as u64 + 1,
                partitions,
                style,
                &mut round.random,
            ),
            clients,
            counted: Told::default(),
        }
    }

    /// Has the collection be wide, in one of three rounds.
    pub(crate) fn may_be_wide(mut self, round: &mut Round<'_>) -> Siege {
        self.is_wide = round.random.one_in(3);
        if self.is_wide {
            self.index = round.random.pick(&["none", "all", "none,n=all,text=all"]);
            let books = self.clients.iter_mut().map(|client| &mut client.book);
            books.for_each(Book::are_rows);
        }
        self
    }

    /// Has the collection begin with this number of partitions; they are split and merged.
    pub(crate) fn begin_with(mut self, partitions: u32) -> Siege {
        self.partitions = partitions;
        let books = self.clients.iter_mut().map(|client| &mut client.book);
        books.for_each(Book::are_merged);
        self
    }

    /// Makes the database and its collection, durably.
    ///
    /// # Errors
    /// It can't be made.
    pub(crate) fn create(&self, quire: &Quire) -> Result<()> {
        let partitions = self.partitions.to_string();
        let database = text_of(&self.database)?;
        let schema = self.database.with_file_name("schema.json");
        let cold = text_of(&self.database.with_file_name("cold"))?.to_owned();
        let cold = format!("cold={cold}:hdd");
        let mut words = vec![
            "create",
            database,
            "docs",
            "--partitions",
            &partitions,
            "--durability",
            self.durability,
        ];
        if self.is_wide {
            std::fs::write(&schema, WIDE).during("write a schema")?;
            words.extend(["--wide", "--schema", text_of(&schema)?]);
            words.extend(["--volume", &cold, "--index", self.index]);
        }
        quire.ok(&words).map(drop)
    }

    /// Lets the clients work on a server until `strike` returns.
    ///
    /// # Errors
    /// Errors of `strike`, and a wrong answer.
    pub(crate) fn serve(
        &mut self,
        server: &mut Server,
        allowed: Allowed,
        strike: impl FnOnce(&mut Server) -> Result<()>,
    ) -> Result<()> {
        let (over, address) = (AtomicBool::new(false), server.address);
        let (struck, worked) = thread::scope(|threads| {
            let working: Vec<_> = self
                .clients
                .iter_mut()
                .map(|client| threads.spawn(|| client.work(address, allowed, &over)))
                .collect();
            let struck = strike(server);
            over.store(true, Ordering::Relaxed);
            let worked: Vec<_> = working
                .into_iter()
                .map(thread::ScopedJoinHandle::join)
                .collect();
            (struck, worked)
        });
        for worked in worked {
            worked.unwrap_or_else(|_| failed("a client panicked"))?;
        }
        struck
    }

    /// Loads documents by the command until `strike` returns. Returns how it ended, if not by
    /// SIGKILL.
    ///
    /// # Errors
    /// Errors of `strike`; it ended by another signal.
    pub(crate) fn load(
        &mut self,
        quire: &Quire,
        arguments: &[&str],
        strike: impl FnOnce(&mut Killed) -> Result<()>,
    ) -> Result<Option<ExitStatus>> {
        let mut words = vec!["--durability", self.durability];
        words.extend_from_slice(arguments);
        self.loader
            .load(quire, &self.database, &words, u64::MAX, strike)
    }

    /// Loads documents of this many bytes to the end. Returns all that the database then has.
    ///
    /// # Errors
    /// The load does not succeed; the database has not what was loaded.
    pub(crate) fn load_whole(
        &mut self,
        round: &mut Round<'_>,
        arguments: &[&str],
        bytes_max: u64,
    ) -> Result<Contents> {
        let wait = |process: &mut Killed| process.0.wait().during("wait for quire load").map(drop);
        let loaded = self
            .loader
            .load(&round.quire, &self.database, arguments, bytes_max, wait)?;
        if !loaded.is_some_and(|status| status.success()) {
            let said = round.quire.last_words();
            return failed(format!("quire load ended early: {said}"));
        }
        let contents = self.contents(&round.quire)?;
        self.settle(round, &contents, Promise::All)?;
        Ok(contents)
    }

    /// Opens the database as it was left, reads all of it, and compares.
    ///
    /// # Errors
    /// It does not open, is damaged, or holds what it should not.
    pub(crate) fn check(&mut self, round: &mut Round<'_>, promise: Promise) -> Result<()> {
        let database = text_of(&self.database)?.to_owned();
        if round.random.one_in(3) {
            // The recovery itself is killed, or ends and another one follows.
            if let Some(mut server) = round.quire.try_serve(&self.database, &[])? {
                round.rest(round.random.clone().millis(0, 20))?;
                server.kill()?;
                round.tally.crashes += 1;
            }
        }
        round.quire.ok(&["verify", &database, "--json"])?;
        let contents = self.contents(&round.quire)?;
        self.settle(round, &contents, promise)?;
        round.tally.recoveries += 1;
        if round.random.one_in(3) {
            let mut server = round.quire.serve(&self.database, &[])?;
            self.read_all(round, &server, contents.len() as u64)?;
            server.stop()?;
        }
        Ok(())
    }

    /// All documents, by `quire scan`, which must succeed.
    ///
    /// # Errors
    /// It does not; a document is not as its client wrote it.
    pub(crate) fn contents(&self, quire: &Quire) -> Result<Contents> {
        let (contents, status) = self.scan(quire)?;
        match status.success() {
            true => Ok(contents),
            false => failed(format!("quire scan: {status}; {}", quire.last_words())),
        }
    }

    /// The documents that `quire scan` prints before it ends, and how it ends.
    ///
    /// # Errors
    /// A document is not as its client wrote it.
    pub(crate) fn scan(&self, quire: &Quire) -> Result<(Contents, ExitStatus)> {
        let mut contents = Contents::new();
        let database = text_of(&self.database)?;
        let status = quire.lines(&["scan", database, "docs", "--json"], |line| {
            let found: Found<'_> =
                serde_json::from_str(line).during("read what quire scan says")?;
            found.document.check(&found.key)?;
            let held = Held {
                n: found.document.n,
                version: found.version,
            };
            match contents.insert(found.key, held) {
                None => Ok(()),
                Some(_) => failed(format!("a document is there twice: {line}")),
            }
        })?;
        Ok((contents, status))
    }

    /// Compares the contents with the writes of every client.
    ///
    /// # Errors
    /// They do not agree.
    pub(crate) fn settle(
        &mut self,
        round: &mut Round<'_>,
        contents: &Contents,
        promise: Promise,
    ) -> Result<()> {
        for client in &mut self.clients {
            round.tally.operations += client.book.settle(contents, promise)?;
        }
        round.tally.operations += self.loader.book.settle(contents, promise)?;
        self.count(round);
        Ok(())
    }

    /// Adds the counts of what clients sent and read since the last time.
    fn count(&mut self, round: &mut Round<'_>) {
        let mut told = Told {
            bytes: self.loader.bytes,
            ..Told::default()
        };
        for client in &self.clients {
            told.reads += client.told.reads;
            told.bytes += client.told.bytes;
        }
        round.tally.reads += told.reads - self.counted.reads;
        round.tally.bytes += told.bytes - self.counted.bytes;
        self.counted = told;
    }

    /// Reads every key from a server at rest; it holds `documents` documents.
    ///
    /// # Errors
    /// A wrong answer.
    pub(crate) fn read_all(
        &mut self,
        round: &mut Round<'_>,
        server: &Server,
        documents: u64,
    ) -> Result<()> {
        for client in &mut self.clients {
            client.read_all(server.address)?;
        }
        let mut connection = Connection::open(server.address).during("connect to the server")?;
        let (status, answer) = connection
            .request("GET", "/docs/_count", b"")
            .during("count")?;
        let answer = String::from_utf8_lossy(&answer);
        if status != 200 || !answer.contains(&format!("\"count\":{documents},")) {
            return failed(format!(
                "{documents} documents were counted as {status} {answer}"
            ));
        }
        self.count(round);
        Ok(())
    }

    /// The totals of all clients so far.
    pub(crate) fn told(&self) -> Told {
        let mut told = Told::default();
        for client in &self.clients {
            told.writes += client.told.writes;
            told.reads += client.told.reads;
            told.full += client.told.full;
            told.errors += client.told.errors;
            told.bytes += client.told.bytes;
        }
        told
    }
}

/// A line of `quire scan --json`.
#[derive(Deserialize)]
struct Found<'a> {
    key: String,
    version: u64,
    #[serde(borrow)]
    document: Document<'a>,
}

/// What a database promises after a crash, by its durability. `async` is due within its time, which
/// may take longer on a busy machine: writes older than a second must be there.
pub(crate) fn promise(durability: &str, crashed: std::time::Instant) -> Promise {
    match durability {
        "sync" => Promise::All,
        "none" => Promise::Prefix,
        _ => crashed
            .checked_sub(Duration::from_secs(1))
            .map_or(Promise::Prefix, Promise::Before),
    }
}

/// Fails unless something was done: a round that tests nothing must not pass.
///
/// # Errors
/// Nothing was done.
pub(crate) fn require_work(round: &Round<'_>) -> Result<()> {
    match round.tally.operations {
        0 => Err(Trouble::Failed(
            "nothing was acknowledged in the whole round".into(),
        )),
        _ => Ok(()),
    }
}
