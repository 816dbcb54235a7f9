//! One client's requests, done in batches: all that one read of its socket brought.
//!
//! # Invariants
//! 1. Requests are answered in their order, and each sees what those before it on its connection
//!    did.
//! 2. Reads that follow each other are one multi-get, writes that follow each other one batch with
//!    one sync. A batch of writes has each key once, so that any of them can be tried again without
//!    overtaking another.
//! 3. A write is answered when it is as durable as its collection says.

use std::collections::HashSet;
use std::sync::Arc;

use quire_model::DOCUMENT_BYTES_MAX;
use quiredb::{Collection, ErrorKind, Found, Key};

use super::admission::Admission;
use super::counters::{Count, Tally};
use super::outcome::{Outcome, Shown, line, push_number};
use super::parse::Parser;
use super::request::{Change, Mode, Refusal, Reply, Request, Write};
use super::stats;
use super::value::Values;
use super::write::write_all;
use crate::documents::lookup::{Group, get_each};
use crate::state::Server;

/// Answers of more bytes are sent before the next is made.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// Documents read at a time: at the start, and at the most.
const GROUP_FIRST: usize = 16;
const GROUP_MAX: usize = 64;

/// Whether a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    On,
    /// It has come to its end: the client said so.
    Quit,
    /// What follows can't be understood, or must not be.
    Close,
}

/// Where answers go: a buffer that is sent when it is long.
pub(crate) trait Output {
    /// The buffer.
    fn buffer(&mut self) -> &mut Vec<u8>;

    /// Sends what is in the buffer.
    fn send(&mut self) -> std::io::Result<()>;

    /// Sends what is in the buffer, if it is long.
    fn send_if_long(&mut self) -> std::io::Result<()> {
        if self.buffer().len() >= PIECE_BYTES {
            self.send()?;
        }
        Ok(())
    }
}

/// One client's state.
pub(crate) struct Session {
    pub(crate) server: Arc<Server>,
    /// The collection of all keys, if they do not name theirs.
    collection: Option<String>,
    pub(crate) values: Values,
    admission: Admission,
    pub(crate) tally: Tally,
    group: Group,
    /// The line of keys that is being answered has been answered with an error.
    is_get_failed: bool,
    value: Vec<u8>,
}

impl Session {
    /// For a new client, with its parser. It may have to say who it is first.
    pub(crate) fn new(server: Arc<Server>) -> (Session, Parser) {
        let options = server.options.memcached.clone().unwrap_or_default();
        let admission = Admission::new(server.options.token.as_deref());
        let session = Session {
            collection: options.collection,
            values: Values::new(options.field.as_deref()),
            tally: Tally::default(),
            group: Group::new(GROUP_FIRST, GROUP_MAX, PIECE_BYTES),
            is_get_failed: false,
            value: Vec::new(),
            server,
            admission,
        };
        let parser = Parser::new(session.value_bytes_max());
        (session, parser)
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.admission.is_admitted()
    }

    /// The longest value that the client may send now.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.admission.value_bytes_max(DOCUMENT_BYTES_MAX)
    }

    /// Does requests in their order. Blocks.
    ///
    /// # Errors
    /// The client's socket's: it can't be answered.
    pub(crate) fn run(
        &mut self,
        requests: &[Request<'_>],
        output: &mut dyn Output,
    ) -> std::io::Result<Flow> {
        let mut rest = requests;
        while let Some(first) = rest.first() {
            if !self.admission.is_admitted() {
                let flow = self.admission.judge(first, output.buffer());
                if flow != Flow::On {
                    self.tally.add(Count::Refused, 1);
                    return Ok(flow);
                }
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let (flow, done) = match first {
                Request::Write(_) => {
                    let run = write_run(rest);
                    (self.write(&run, output)?, run.len())
                }
                Request::Get { .. } | Request::GetEnd | Request::MetaGet { .. } => {
                    let is_read = |request: &&Request<'_>| {
                        request.read_key().is_some() || **request == Request::GetEnd
                    };
                    let count = rest.iter().take_while(is_read).count();
                    let count = count.min(self.group.size());
                    self.read(rest.get(..count).unwrap_or_default(), output)?;
                    (Flow::On, count)
                }
                other => (self.other(other, output.buffer()), 1),
            };
            if flow != Flow::On {
                return Ok(flow);
            }
            rest = rest.get(done..).unwrap_or_default();
        }
        Ok(Flow::On)
    }

    /// What needs no document.
    fn other(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Flow {
        match request {
            Request::MetaNoop => line("MN", out),
            Request::Version => line(&format!("VERSION {}", stats::VERSION), out),
            Request::Verbosity { noreply: false } => line("OK", out),
            Request::Stats => stats::write(&self.server, out),
            Request::StatsReset => {
                self.server.memcached.reset();
                line("RESET", out);
            }
            Request::Quit => return Flow::Quit,
            Request::Refused(refusal) => return self.refuse(*refusal, out),
            _ => {}
        }
        Flow::On
    }

    fn refuse(&mut self, refusal: Refusal, out: &mut Vec<u8>) -> Flow {
        self.tally.add(Count::Refused, 1);
        self.is_get_failed = false;
        if !refusal.noreply {
            line(refusal.line, out);
        }
        match refusal.closes {
            true => Flow::Close,
            false => Flow::On,
        }
    }

    /// The collection and the key that a client's key stands for.
    pub(crate) fn place<'a>(&'a self, key: &'a [u8]) -> Result<(&'a str, Key), Outcome> {
        let text =
            std::str::from_utf8(key).map_err(|_| Outcome::client_error("the key is not UTF-8"))?;
        let (collection, id) = match &self.collection {
            Some(collection) => (collection.as_str(), text),
            None => text.split_once(':').ok_or_else(|| {
                Outcome::client_error("the key names no collection: it must be collection:key")
            })?,
        };
        let key = Key::parse(id).map_err(|error| Outcome::client_error(&error.to_string()))?;
        Ok((collection, key))
    }

    /// Looks up the documents of many keys; each that can't be had says why.
    pub(crate) fn look_up(&self, keys: &[&[u8]]) -> Vec<Result<Option<Found>, Outcome>> {
        let mut results: Vec<Result<Option<Found>, Outcome>> = Vec::with_capacity(keys.len());
        // Of each collection: where in the results its keys are.
        let mut parts: Vec<(&str, Vec<usize>, Vec<Key>)> = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            let result = self.place(key).map(|(collection, key)| {
                let known = parts.iter().position(|(name, ..)| *name == collection);
                match known.and_then(|known| parts.get_mut(known)) {
                    Some((_, indices, keys)) => {
                        indices.push(at);
                        keys.push(key);
                    }
                    None => parts.push((collection, vec![at], vec![key])),
                }
                None
            });
            results.push(result);
        }
        for (name, indices, keys) in parts {
            let found = match self.existing(name) {
                Ok(Some(collection)) => get_each(&collection, &keys),
                Ok(None) => continue,
                Err(error) => vec![Err(error); keys.len()],
            };
            for (at, found) in indices.into_iter().zip(found) {
                if let Some(result) = results.get_mut(at) {
                    *result = found.map_err(|error| Outcome::server_error(&error.to_string()));
                }
            }
        }
        results
    }

    /// The collection of this name, if there is one.
    pub(crate) fn existing(&self, name: &str) -> quiredb::Result<Option<Collection>> {
        match self.server.database().collection(name) {
            Ok(collection) => Ok(Some(collection)),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::Invalid => Ok(None),
                _ => Err(error),
            },
        }
    }

    fn read(&mut self, requests: &[Request<'_>], output: &mut dyn Output) -> std::io::Result<()> {
        let slices: Vec<&[u8]> = requests.iter().filter_map(Request::read_key).collect();
        let mut found = self.look_up(&slices).into_iter();
        let mut value_bytes = 0;
        for request in requests {
            let found = match request {
                Request::GetEnd => {
                    if !std::mem::take(&mut self.is_get_failed) {
                        output.buffer().extend_from_slice(b"END\r\n");
                    }
                    continue;
                }
                _ => found.next().unwrap_or(Ok(None)),
            };
            self.answer(request, found, output.buffer());
            value_bytes += self.value.len();
            output.send_if_long()?;
        }
        if !slices.is_empty() {
            self.group.was(slices.len(), value_bytes);
        }
        Ok(())
    }

    /// Appends the answer to a get of one key.
    fn answer(
        &mut self,
        request: &Request<'_>,
        found: Result<Option<Found>, Outcome>,
        out: &mut Vec<u8>,
    ) {
        self.value.clear();
        let found = match found {
            Ok(found) => found.and_then(|found| {
                let flags = self.values.read(&found.document, &mut self.value)?;
                Some((flags, found.version.0))
            }),
            Err(outcome) => return self.answer_failed(request, &outcome, out),
        };
        let is_hit = found.is_some();
        self.tally.add(hit_or_miss(is_hit), 1);
        match (request, found) {
            (
                Request::Get {
                    key,
                    with_cas,
                    is_touch,
                },
                found,
            ) => {
                if *is_touch {
                    let touched = if is_hit {
                        Count::TouchHits
                    } else {
                        Count::TouchMisses
                    };
                    self.tally.add(touched, 1);
                }
                let Some((flags, version)) = found.filter(|_| !self.is_get_failed) else {
                    return;
                };
                out.extend_from_slice(b"VALUE ");
                out.extend_from_slice(key);
                out.push(b' ');
                push_number(flags.into(), out);
                out.push(b' ');
                push_number(self.value.len() as u64, out);
                if *with_cas {
                    out.push(b' ');
                    push_number(version, out);
                }
                out.extend_from_slice(b"\r\n");
            }
            (Request::MetaGet { flags, .. }, Some((client_flags, version))) => {
                if flags.with_value {
                    out.extend_from_slice(b"VA ");
                    push_number(self.value.len() as u64, out);
                } else {
                    out.extend_from_slice(b"HD");
                }
                let shown = Shown {
                    version: Some(version),
                    size: Some(self.value.len() as u64),
                    client_flags: Some(client_flags),
                    lives_for_ever: true,
                };
                shown.write(*flags, out);
                if !flags.with_value {
                    return;
                }
            }
            (Request::MetaGet { flags, .. }, None) => {
                if !flags.quiet {
                    out.extend_from_slice(b"EN");
                    Shown::default().write(*flags, out);
                }
                return;
            }
            _ => return,
        }
        out.extend_from_slice(&self.value);
        out.extend_from_slice(b"\r\n");
    }

    /// Of a line of keys the first error is the last that is said: the client takes it for the end
    /// of the answer.
    fn answer_failed(&mut self, request: &Request<'_>, outcome: &Outcome, out: &mut Vec<u8>) {
        self.tally.add(Count::Refused, 1);
        let is_line = matches!(request, Request::Get { .. });
        if !(is_line && std::mem::replace(&mut self.is_get_failed, is_line))
            && let Outcome::Failed(text) = outcome
        {
            line(text, out);
        }
    }

    /// Does a batch of writes and answers them.
    fn write(&mut self, writes: &[&Write<'_>], output: &mut dyn Output) -> std::io::Result<Flow> {
        let outcomes = write_all(self, writes);
        let mut flow = Flow::On;
        for (write, outcome) in writes.iter().zip(&outcomes) {
            self.count(write, outcome);
            // Those after one that ends the connection may have been done with it, but are not
            // answered.
            if flow == Flow::Close {
                continue;
            }
            outcome.answer(write, output.buffer());
            // Nobody may be told, and it must not be missed.
            if outcome.is_error() && write.reply == (Reply::Text { noreply: true }) {
                tracing::debug!(?outcome, "a memcached request without reply failed");
                flow = Flow::Close;
            }
            output.send_if_long()?;
        }
        Ok(flow)
    }

    fn count(&mut self, write: &Write<'_>, outcome: &Outcome) {
        let is_missing = matches!(outcome, Outcome::NotFound);
        let pick = |hit, miss| if is_missing { miss } else { hit };
        if outcome.is_error() {
            return self.tally.add(Count::Refused, 1);
        }
        match write.change {
            Change::Store {
                mode: Mode::Set, ..
            } if write.cas.is_some() => {
                let count = match outcome {
                    Outcome::Exists => Count::CasBadValue,
                    _ => pick(Count::CasHits, Count::CasMisses),
                };
                self.tally.add(count, 1);
                self.tally.add(Count::Sets, 1);
            }
            Change::Store { .. } => self.tally.add(Count::Sets, 1),
            Change::Delete => self
                .tally
                .add(pick(Count::DeleteHits, Count::DeleteMisses), 1),
            Change::Touch => self
                .tally
                .add(pick(Count::TouchHits, Count::TouchMisses), 1),
            Change::Count { up: true, .. } => {
                self.tally.add(pick(Count::IncrHits, Count::IncrMisses), 1);
            }
            Change::Count { up: false, .. } => {
                self.tally.add(pick(Count::DecrHits, Count::DecrMisses), 1);
            }
        }
    }
}

fn hit_or_miss(is_hit: bool) -> Count {
    match is_hit {
        true => Count::GetHits,
        false => Count::GetMisses,
    }
}

/// The writes that requests begin with, up to the first key that comes again.
fn write_run<'r, 'a>(requests: &'r [Request<'a>]) -> Vec<&'r Write<'a>> {
    let mut keys = HashSet::new();
    let mut run = Vec::new();
    for request in requests {
        match request {
            Request::Write(write) if keys.insert(write.key.as_ref()) => run.push(write),
            _ => break,
        }
    }
    run
}
