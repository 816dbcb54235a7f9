//! One client's requests, executed in batches: those that one read of its socket returned.
//!
//! # Invariants
//! 1. Requests are answered in their order. Each sees the writes before it on its connection.
//! 2. Consecutive reads are one multi-get. Consecutive writes are one batch with one sync. A batch
//!    of writes has each key once, so that a write can be tried again without overtaking another of
//!    the same key.
//! 3. A write is answered when it is as durable as the collection's setting says.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use quire_model::DOCUMENT_BYTES_MAX;
use quiredb::{Found, Within};

use super::admission::Admission;
use super::counters::{Count, Tally};
use super::exptime::{Exptime, seconds_left};
use super::flow::Flow;
use super::keyspace::Keyspace;
use super::meta::MetaFlags;
use super::mode::Mode;
use super::outcome::{Outcome, Shown, line, push_number};
use super::parse::Parser;
use super::port_state::PortState;
use super::refusal::{CANCELLED, Refusal};
use super::request::{Change, Reply, Request, Write};
use super::stats;
use super::write::write_all;
use crate::access::grant::Grant;
use crate::access::role::Action;
use crate::audit::{AuditedGrant, Event};
use crate::documents::lookup::Group;
use crate::limits::Share;
use crate::slow::SlowRequest;
use crate::tasks::registry::Running;
use crate::tasks::task::{Origin, Sent, Task};

/// Answers of more bytes are sent before the next is made.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// Documents read at a time: at the start, and at the most.
const GROUP_FIRST: usize = 16;
const GROUP_MAX: usize = 64;

/// Where answers are written: a buffer that is sent when it is long.
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
    pub(crate) state: Arc<PortState>,
    keyspace: Keyspace,
    admission: Admission,
    address: Option<SocketAddr>,
    /// What the client takes, if it is limited.
    pub(super) share: Option<Share>,
    pub(crate) tally: Tally,
    group: Group,
    /// The line of keys that is being answered had an error.
    is_get_failed: bool,
    /// The value that is being answered; kept to reuse its memory.
    value: Vec<u8>,
}

impl Session {
    /// The session of a new client, with its parser. The client may have to authenticate first.
    pub(crate) fn new(state: Arc<PortState>, address: Option<SocketAddr>) -> (Session, Parser) {
        let admission = Admission::new(&state.access, address.map(|address| address.ip()));
        let nothing = Arc::new(Grant::nothing());
        let grant = AuditedGrant::memcached(nothing, state.audit.as_ref(), address);
        let session = Session {
            keyspace: Keyspace::new(state.engine.clone(), &state.options, grant),
            tally: Tally::default(),
            group: Group::new(GROUP_FIRST, GROUP_MAX, PIECE_BYTES),
            is_get_failed: false,
            value: Vec::new(),
            state,
            admission,
            address,
            share: None,
        };
        let parser = Parser::new(session.value_bytes_max());
        (session, parser)
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.admission.is_admitted()
    }

    /// Frees what is kept to be reused.
    pub(crate) fn release(&mut self) {
        self.value = Vec::new();
    }

    /// The longest value that the client may send now.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.admission.value_bytes_max(DOCUMENT_BYTES_MAX)
    }

    /// Executes requests in their order. Meanwhile they are listed as running. Blocks.
    ///
    /// # Errors
    /// Of `output`: the client can't be answered.
    pub(crate) fn run(
        &mut self,
        requests: &[Request<'_>],
        output: &mut dyn Output,
    ) -> std::io::Result<Flow> {
        if let Some(grant) = self.admission.grant() {
            self.renew(grant);
        }
        let listed = self.list(requests);
        let flow = self.execute(requests, listed.as_deref(), output);
        if let Some(listed) = listed {
            self.note_if_slow(&listed);
        }
        flow
    }

    /// Puts requests on the list of what is running.
    fn list(&self, requests: &[Request<'_>]) -> Option<Running> {
        let first = requests.first().filter(|_| self.is_admitted())?;
        let request = Origin {
            sent: Sent::Memcached {
                first: first.to_string(),
                count: requests.len(),
            },
            token: self.keyspace.grant.name.clone(),
            address: self.address,
            opaque_id: None,
        };
        let now = self.state.engine.clock();
        Some(self.state.tasks.begin_memcached(request, now))
    }

    /// Notes requests that took long, until their answers were sent or kept to be.
    fn note_if_slow(&self, task: &Task) {
        let Some(log) = &self.state.slow_log else {
            return;
        };
        let now = self.state.engine.now();
        let took = now.saturating_sub(task.begun);
        if log.is_slow(took) {
            let slow = SlowRequest {
                protocol: "memcached",
                address: task.request.address,
                token: &task.request.token,
                request: task.description(),
                status: None,
                took_millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                cpu_micros: None,
                plan: None,
            };
            log.note(&slow, now);
        }
    }

    /// Executes requests. If `task` is cancelled, the rest is not done, and the connection ends.
    fn execute(
        &mut self,
        requests: &[Request<'_>],
        task: Option<&Task>,
        output: &mut dyn Output,
    ) -> std::io::Result<Flow> {
        let mut rest = requests;
        while let Some(first) = rest.first() {
            if task.is_some_and(Task::is_cancelled) {
                self.tally.add(Count::Refused, 1);
                line(CANCELLED.line, output.buffer());
                return Ok(Flow::Close);
            }
            if !self.admission.is_admitted() {
                let flow = self.admission.check(first, output.buffer());
                if let Some(grant) = self.admission.grant() {
                    self.renew(grant);
                }
                self.note_authentication(flow);
                if flow != Flow::Continue {
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
                    let count = read_run(rest).min(self.group.size());
                    self.read(rest.get(..count).unwrap_or_default(), output)?;
                    (Flow::Continue, count)
                }
                other => (self.other(other, output.buffer()), 1),
            };
            if flow != Flow::Continue {
                return Ok(flow);
            }
            rest = rest.get(done..).unwrap_or_default();
        }
        Ok(Flow::Continue)
    }

    /// From now on the client may do this, within the limits of its token.
    fn renew(&mut self, grant: Arc<Grant>) {
        if Arc::ptr_eq(&grant, self.keyspace.grant.grant()) {
            return;
        }
        if let Some(share) = &mut self.share {
            share.has_token(&grant);
        }
        self.keyspace.grant.renew(grant);
    }

    /// Notes in the audit log whether the client was admitted.
    fn note_authentication(&self, flow: Flow) {
        if let Some(audit) = &self.state.audit
            && flow != Flow::Quit
        {
            let is_admitted = self.admission.is_admitted();
            audit.note(&Event {
                event: "authentication",
                protocol: "memcached",
                address: self.address,
                token: is_admitted.then_some(self.keyspace.grant.name.as_str()),
                status: if is_admitted { 200 } else { 401 },
                ..Event::default()
            });
        }
    }

    /// Answers a request that needs no document.
    fn other(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Flow {
        match request {
            Request::MetaNoop => line("MN", out),
            Request::Version => line(&format!("VERSION {}", stats::VERSION), out),
            Request::Verbosity { noreply: false } => line("OK", out),
            Request::Stats | Request::StatsReset
                if self.keyspace.grant.check_all(Action::Read).is_err() =>
            {
                self.keyspace.grant.note_refused("*");
                line("CLIENT_ERROR no permissions for statistics", out);
            }
            Request::Stats => stats::write(&self.state, out),
            Request::StatsReset => {
                self.state.counters.reset();
                line("RESET", out);
            }
            Request::Quit => return Flow::Quit,
            Request::Refused(refusal) => return self.refuse(*refusal, out),
            _ => {}
        }
        Flow::Continue
    }

    fn refuse(&mut self, refusal: Refusal, out: &mut Vec<u8>) -> Flow {
        self.tally.add(Count::Refused, 1);
        self.is_get_failed = false;
        if !refusal.noreply {
            line(refusal.line, out);
        }
        match refusal.closes {
            true => Flow::Close,
            false => Flow::Continue,
        }
    }

    fn read(&mut self, requests: &[Request<'_>], output: &mut dyn Output) -> std::io::Result<()> {
        let slices: Vec<&[u8]> = requests.iter().filter_map(Request::read_key).collect();
        let refused = self.touch(requests, |exptime| exptime != Exptime::AtOnce);
        let mut found = self.keyspace.look_up(&slices).into_iter();
        // What expires at once is read before.
        let ended = self.touch(requests, |exptime| exptime == Exptime::AtOnce);
        let mut value_bytes = 0;
        for request in requests {
            let found = match request {
                Request::GetEnd => {
                    if !std::mem::take(&mut self.is_get_failed) {
                        output.buffer().extend_from_slice(b"END\r\n");
                    }
                    continue;
                }
                _ => found.next().unwrap_or(Ok(Within::Absent)),
            };
            let key = request.read_key().unwrap_or_default();
            let found = match refused.get(key).or(ended.get(key)) {
                Some(outcome) => Err(outcome.clone()),
                None => self.keyspace.resolve(key, found, &self.state.buffers),
            };
            // Kept until a large answer is sent.
            let (found, held) = match found {
                Ok(Some((found, held))) => (Ok(Some(found)), held),
                Ok(None) => (Ok(None), None),
                Err(outcome) => (Err(outcome), None),
            };
            self.answer(request, found, output.buffer());
            value_bytes += self.value.len();
            if held.is_some() {
                self.value = Vec::new();
            }
            output.send_if_long()?;
        }
        if !slices.is_empty() {
            self.group.was(slices.len(), value_bytes);
        }
        Ok(())
    }

    /// Sets when values expire, as those reads say that have such an exptime. Gives what was
    /// refused, by key.
    fn touch(
        &self,
        requests: &[Request<'_>],
        is_wanted: fn(Exptime) -> bool,
    ) -> HashMap<Vec<u8>, Outcome> {
        let touches = requests.iter().filter_map(Request::touch);
        let touches = touches.filter(|touch| touch.exptime.is_some_and(is_wanted));
        let touches: Vec<Write<'_>> = touches.collect();
        let touches: Vec<&Write<'_>> = touches.iter().collect();
        let outcomes = self.write_all(&touches);
        let of_keys = touches.iter().zip(outcomes);
        let refused = of_keys.filter(|(_, outcome)| outcome.is_error());
        refused
            .map(|(touch, outcome)| (touch.key.to_vec(), outcome))
            .collect()
    }

    /// Executes a batch of writes, in which each key is once.
    fn write_all(&self, writes: &[&Write<'_>]) -> Vec<Outcome> {
        match &self.state.write_refusal {
            _ if writes.is_empty() => Vec::new(),
            None => write_all(&self.keyspace, &self.state.buffers, writes),
            Some(reason) => vec![Outcome::server_error(reason); writes.len()],
        }
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
                let flags = self
                    .keyspace
                    .values
                    .read(&found.document, &mut self.value)?;
                Some(Hit {
                    client_flags: flags,
                    version: found.version.0,
                    expires_micros: found.expires_micros,
                })
            }),
            Err(outcome) => return self.answer_failed(request, &outcome, out),
        };
        self.tally.add(hit_or_miss(found.is_some()), 1);
        match request {
            Request::Get {
                key,
                with_cas,
                touch,
            } => {
                if touch.is_some() {
                    self.tally.add(touch_hit_or_miss(found.is_some()), 1);
                }
                // After an error nothing follows in the answer to a line of keys.
                if let Some(found) = found.filter(|_| !self.is_get_failed) {
                    self.answer_get(key, *with_cas, found, out);
                }
            }
            Request::MetaGet { flags, .. } => self.answer_meta_get(*flags, found, out),
            _ => {}
        }
    }

    /// Appends the hit of a text command: its head, then [`Session::value`].
    fn answer_get(&self, key: &[u8], with_cas: bool, found: Hit, out: &mut Vec<u8>) {
        out.extend_from_slice(b"VALUE ");
        out.extend_from_slice(key);
        out.push(b' ');
        push_number(found.client_flags.into(), out);
        out.push(b' ');
        push_number(self.value.len() as u64, out);
        if with_cas {
            out.push(b' ');
            push_number(found.version, out);
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.value);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the answer to a meta get.
    fn answer_meta_get(&self, flags: MetaFlags<'_>, found: Option<Hit>, out: &mut Vec<u8>) {
        let Some(hit) = found else {
            if !flags.quiet {
                out.extend_from_slice(b"EN");
                Shown::default().write(flags, out);
            }
            return;
        };
        if flags.with_value {
            out.extend_from_slice(b"VA ");
            push_number(self.value.len() as u64, out);
        } else {
            out.extend_from_slice(b"HD");
        }
        let shown = Shown {
            version: Some(hit.version),
            size: Some(self.value.len() as u64),
            client_flags: Some(hit.client_flags),
            seconds_left: Some(seconds_left(hit.expires_micros, self.keyspace.now_micros())),
        };
        shown.write(flags, out);
        if flags.with_value {
            out.extend_from_slice(&self.value);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Answers a get that failed. The first error of a line of keys ends the answer to the line:
    /// nothing of it follows, because the client takes the error for its end.
    fn answer_failed(&mut self, request: &Request<'_>, outcome: &Outcome, out: &mut Vec<u8>) {
        self.tally.add(Count::Refused, 1);
        let is_line = matches!(request, Request::Get { .. });
        if !(is_line && std::mem::replace(&mut self.is_get_failed, is_line)) {
            match outcome {
                Outcome::Refused(refusal) => line(refusal.line, out),
                Outcome::Failed(text) => line(text, out),
                _ => {}
            }
        }
    }

    /// Executes a batch of writes and answers them.
    fn write(&mut self, writes: &[&Write<'_>], output: &mut dyn Output) -> std::io::Result<Flow> {
        let outcomes = self.write_all(writes);
        assert!(outcomes.len() == writes.len(), "each write has one outcome");
        let mut flow = Flow::Continue;
        for (write, outcome) in writes.iter().zip(&outcomes) {
            self.count(write, outcome);
            // Writes after one that ends the connection are done, but not answered.
            if flow == Flow::Close {
                continue;
            }
            outcome.answer(write, output.buffer());
            // No answer may be sent, and the client must not miss the error.
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

/// What is known of a value that was found, beside the value.
#[derive(Debug, Clone, Copy)]
struct Hit {
    client_flags: u32,
    version: u64,
    expires_micros: Option<i64>,
}

fn touch_hit_or_miss(is_hit: bool) -> Count {
    match is_hit {
        true => Count::TouchHits,
        false => Count::TouchMisses,
    }
}

fn hit_or_miss(is_hit: bool) -> Count {
    match is_hit {
        true => Count::GetHits,
        false => Count::GetMisses,
    }
}

/// How many reads `requests` begin with. If one of them sets when its value expires, no key is
/// twice among them.
fn read_run(requests: &[Request<'_>]) -> usize {
    let is_read =
        |request: &&Request<'_>| request.read_key().is_some() || **request == Request::GetEnd;
    let run = requests.iter().take_while(is_read);
    if !run.clone().any(|request| request.touch().is_some()) {
        return run.count();
    }
    let mut keys = HashSet::new();
    run.map(Request::read_key)
        .take_while(|key| key.is_none_or(|key| keys.insert(key)))
        .count()
}

/// The writes at the start of `requests`, up to the first key that occurs again.
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
