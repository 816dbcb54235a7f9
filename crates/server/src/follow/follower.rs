//! The follower: a thread that copies its leader and then follows it. A server beside it serves
//! what it has.

use std::fmt::Display;
use std::io::Read;
use std::net::Shutdown;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use parking_lot::Mutex;
use quiredb::operations::{Applied, FollowerDir, Frame, IncomingCopy, Replica};
use quiredb::{Database, DatabaseOptions, Env, Error, ErrorKind, Result};
use serde_json::Value;

use super::client::{Remote, Response};
use super::client_tls::ClientTlsFiles;
use super::status::{FollowStatus, FollowerActivity};
use crate::engine::Engine;
use crate::ids::follower_id;

/// Files of a copy that are received at once.
const FILES_AT_ONCE: usize = 4;

/// The leader sends a message several times a second. If none comes for this long, the connection
/// is taken as lost.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The pause before the next try: after the first failure, and at most.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Messages received and not yet applied.
const FRAMES_AHEAD: usize = 2;

/// The longest list of files to copy.
const PLAN_BYTES_MAX: u64 = 256 << 20;

/// How long readers of a replaced copy may go on before it is closed.
const GRACE: Duration = Duration::from_secs(10);

/// How a follower is run.
#[derive(Clone)]
pub struct FollowOptions {
    /// The leader, as `http://HOST:PORT` or `https://HOST:PORT`.
    pub leader: String,
    /// The leader's token, if it has one.
    pub token: Option<String>,
    /// For a leader that speaks TLS: whom to trust, and the follower's own certificate.
    pub tls: ClientTlsFiles,
    /// The follower's directory; made if it is absent or empty.
    pub dir: PathBuf,
    /// How its databases are opened.
    pub database: DatabaseOptions,
}

/// Never shows the token.
impl std::fmt::Debug for FollowOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FollowOptions")
            .field("leader", &self.leader)
            .field("token", &self.token.as_ref().map(|_| "(hidden)"))
            .field("tls", &self.tls)
            .field("dir", &self.dir)
            .field("database", &self.database)
            .finish()
    }
}

/// A follower of a leader, to be served with [`serve_follower`](crate::serve_follower()).
pub struct Follower {
    env: Arc<dyn Env>,
    leader: Remote,
    /// Identifies this follower's copies at the leader while it runs.
    id: String,
    options: DatabaseOptions,
    dir: FollowerDir,
    replica: Option<Replica>,
    status: Arc<FollowStatus>,
    /// Serves the copy, once there is one.
    engine: Option<Engine>,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("status", &self.status)
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl Follower {
    /// Opens the follower's directory, and the copy in it if there is one.
    ///
    /// # Errors
    /// `Invalid` if the address of the leader is malformed, the files for TLS can't be used, or the
    /// directory holds something else; `Locked` if another process uses the directory; `Corrupt`,
    /// `Full` or `Io`.
    pub fn open(env: Arc<dyn Env>, options: FollowOptions) -> Result<Follower> {
        let leader = Remote::new(&env, &options.leader, options.token, &options.tls)
            .map_err(|error| Error::Invalid(error.to_string()))?;
        let dir = FollowerDir::open(Arc::clone(&env), &options.dir)?;
        let mut follower = Follower {
            id: follower_id(&*env),
            env,
            options: DatabaseOptions {
                create_if_missing: false,
                retention: false,
                ..options.database
            },
            status: Arc::new(FollowStatus::new(leader.url())),
            leader,
            dir,
            replica: None,
            engine: None,
        };
        if let Some(path) = follower.dir.current() {
            follower.replica = Some(Replica::new(follower.open_database(path)?));
        }
        Ok(follower)
    }

    fn open_database(&self, path: PathBuf) -> Result<Database> {
        Database::builder(path)
            .env(Arc::clone(&self.env))
            .options(self.options.clone())
            .open()
    }

    /// What is known of following.
    pub(crate) fn status(&self) -> Arc<FollowStatus> {
        Arc::clone(&self.status)
    }

    /// The database that it holds, if it has a copy.
    pub(crate) fn into_database(self) -> Option<Database> {
        self.replica.map(|replica| replica.database().clone())
    }

    /// Copies and follows until it is told to stop, or fails for good. Blocks. `serve` begins to
    /// serve the first database that there is.
    pub(crate) fn run(&mut self, serve: impl FnOnce(Database) -> Engine) -> Result<()> {
        let mut serve = Some(serve);
        let mut pause = PAUSE_FIRST;
        while !self.status.stopping.is_set() {
            if let Some(replica) = &self.replica
                && let Some(serve) = serve.take()
            {
                self.engine = Some(serve(replica.database().clone()));
            }
            let before = self.status.progress();
            let done = match self.replica.is_some() {
                true => self.follow(),
                false => self.copy(),
            };
            match done {
                Ok(()) => pause = PAUSE_FIRST,
                Err(_) if self.status.stopping.is_set() => break,
                Err(error) if is_transient(&error) => {
                    if self.status.progress() > before {
                        pause = PAUSE_FIRST;
                    }
                    let text = error.to_string();
                    if self.status.set_error(&text) {
                        tracing::warn!("{text}; trying again");
                    }
                    self.env.sleep(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Follows until the connection ends, or the leader no longer has the records that come next;
    /// then it starts over from a new copy.
    fn follow(&mut self) -> Result<()> {
        let Some(replica) = &mut self.replica else {
            return Ok(());
        };
        let hello = replica.hello()?;
        let answer = call(&self.leader, "POST", "/_follow", &hello)?;
        self.status.connects.fetch_add(1, Ordering::Relaxed);
        let (status, env) = (&self.status, &self.env);
        let socket = answer
            .socket()
            .map_err(|error| no_answer(&self.leader, &error))?;
        let ended = std::thread::scope(|threads| {
            let (sender, receiver) = sync_channel(FRAMES_AHEAD);
            threads.spawn(move || {
                let mut answer = answer;
                loop {
                    let frame = Frame::read(&mut answer).transpose();
                    let is_last = !matches!(frame, Some(Ok(_)));
                    if frame.is_none_or(|frame| sender.send(frame).is_err()) || is_last {
                        break;
                    }
                }
            });
            let ended = loop {
                let Ok(frame) = receiver.recv() else {
                    break Err(Error::Leader(format!(
                        "{} ended the connection",
                        status.leader
                    )));
                };
                match frame.and_then(|frame| replica.apply(frame)) {
                    Ok(Applied::StartOver(why)) => break Ok(why),
                    Ok(Applied::Records(records, delay)) => {
                        status.delays.note(delay);
                        status.records.fetch_add(records, Ordering::Relaxed);
                    }
                    Ok(Applied::Other) => {}
                    Err(error) => break Err(error),
                }
                status.set_activity(FollowerActivity::Following);
                status.set_lag(replica.lag(), env.monotonic());
                if status.stopping.is_set() {
                    break Err(Error::Closed);
                }
            };
            // The other thread may be blocked in a read.
            let _ = socket.shutdown(Shutdown::Both);
            drop(receiver);
            ended
        });
        replica.disconnected();
        let why = ended?;
        tracing::warn!(
            "starting over from a new copy of {}: {why}",
            self.status.leader
        );
        self.status.set_started_over(&why);
        self.copy()
    }

    /// Copies the leader, and serves the copy in place of the one before.
    fn copy(&mut self) -> Result<()> {
        self.status.set_activity(FollowerActivity::Copying);
        let leader = self.leader.clone();
        let request = |method: &str, path: &str| call(&leader, method, path, b"");
        let path = format!("/_follow/copy/{}", self.id);
        let plan = request("POST", &path)?.text(PLAN_BYTES_MAX);
        let plan = plan.map_err(|error| no_answer(&leader, &error))?;
        let copy = self.dir.begin_copy(plan.as_bytes())?;
        let missing = copy.missing()?;
        let (files, bytes) = copy.size();
        tracing::info!(files, bytes, missing = missing.len(), "copying the leader");
        receive_all(&copy, &missing, &self.status, &|index| {
            request("GET", &format!("{path}/{index}"))
        })?;
        // If this fails, the leader releases the files when the lease ends.
        let _ = request("DELETE", &path);
        let database = self
            .dir
            .finish_copy(&copy)
            .and_then(|path| self.open_database(path))?;
        self.replica = Some(Replica::new(database.clone()));
        self.status.copies.fetch_add(1, Ordering::Relaxed);
        if let Some(engine) = &self.engine {
            let before = engine.replace_database(database);
            self.retire(before)?;
        }
        self.dir.remove_older()
    }

    /// Closes a copy that is no longer served, once its readers have ended.
    fn retire(&self, before: Database) -> Result<()> {
        let end = self.env.monotonic().saturating_add(GRACE);
        while !before.is_unshared() && self.env.monotonic() < end {
            self.env.sleep(Duration::from_millis(5));
        }
        before.close()
    }
}

/// Receives the missing files, several at once.
fn receive_all(
    copy: &IncomingCopy,
    missing: &[usize],
    status: &FollowStatus,
    request: &(dyn Fn(usize) -> Result<Response> + Sync),
) -> Result<()> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let stop = || status.stopping.is_set() || failed.lock().is_some();
    let progress = |bytes| {
        status.copied_bytes.fetch_add(bytes, Ordering::Relaxed);
        match stop() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let receive_files = || {
        while !stop() {
            let Some(index) = missing.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let receive = || {
                let mut source: Box<dyn Read> = Box::new(request(*index)?);
                copy.receive(*index, &mut source, &progress)
            };
            if let Err(error) = receive() {
                failed.lock().get_or_insert(error);
            }
        }
    };
    std::thread::scope(|threads| {
        for _ in 0..FILES_AT_ONCE.min(missing.len()) {
            threads.spawn(receive_files);
        }
    });
    match failed.into_inner() {
        Some(error) => Err(error),
        None if status.stopping.is_set() => Err(Error::Closed),
        None => Ok(()),
    }
}

/// Sends a request to the leader.
fn call(leader: &Remote, method: &str, path: &str, body: &[u8]) -> Result<Response> {
    let response = leader
        .request(method, path, body, TIMEOUT)
        .map_err(|error| no_answer(leader, &error))?;
    let status = response.status;
    if (200..300).contains(&status) {
        return Ok(response);
    }
    let body = response.text(1 << 20).unwrap_or_default();
    let json: Value = serde_json::from_str(&body).unwrap_or_default();
    let reason = json["error"]["reason"].as_str().or(json["error"].as_str());
    let reason = reason.unwrap_or(body.trim());
    let what = format!("{} refuses with status {status}: {reason}", leader.url());
    Err(match status {
        // The same request would be refused again.
        400..=403 | 405 => Error::Invalid(what),
        _ => Error::Leader(what),
    })
}

fn no_answer(leader: &Remote, error: &dyn Display) -> Error {
    Error::Leader(format!("no answer from {}: {error}", leader.url()))
}

/// Whether a later try may succeed.
fn is_transient(error: &Error) -> bool {
    matches!(error, Error::Leader(_)) || error.kind() == ErrorKind::Full
}
