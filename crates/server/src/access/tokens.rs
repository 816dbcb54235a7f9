//! A file of named tokens. Commands and servers change it; a running server reads it again when it
//! has changed.
//!
//! # Invariants
//! 1. A file that is damaged or gone opens nothing: opening it fails, and a server that has it open
//!    keeps the tokens that it read last, and says so.
//! 2. The file is changed under a lock (`FILE.lock`), from what is in it at that moment, and is
//!    replaced whole.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;
use quiredb::Env;

use super::grant::Grant;
use super::record::{TOKENS_MAX, TokenRecord, decode, encode};
use super::role::Role;
use super::secret::{Hash, new_secret};
use crate::audit::{Audit, Event};
use crate::limits::Limit;

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long, and how often, the lock of the file is tried for.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(25);

/// Why tokens can't be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// The file can't be used.
    #[error("cannot use the tokens in {path}: {reason}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why, in words.
        reason: String,
    },
    /// What is requested can't be.
    #[error("{0}")]
    Invalid(String),
    /// There is a token of this name.
    #[error("there is a token `{0}` already; revoke it first, or choose another name")]
    Exists(String),
    /// There is no token of this name.
    #[error("there is no token `{0}`")]
    Missing(String),
}

/// A token to be made.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// By which it is listed and revoked: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// What its holder may do.
    pub role: Role,
    /// In which collections: patterns, in which `*` stands for any text.
    pub collections: Vec<String>,
    /// How long it lives; none: until it is revoked.
    pub lifetime: Option<Duration>,
    /// What its holders may take together; none: what the server allows each token.
    pub limit: Option<Limit>,
}

/// A file of tokens. A clone is another handle to the same.
#[derive(Clone)]
pub struct Tokens {
    env: Arc<dyn Env>,
    path: Arc<PathBuf>,
    state: Arc<RwLock<State>>,
    /// Where changes that others made in the file are noted.
    audit: Arc<OnceLock<Audit>>,
}

/// The tokens as they were read last.
struct State {
    records: Vec<TokenRecord>,
    grants: HashMap<Hash, Arc<Grant>>,
    /// Of the file that was read, or that could not be.
    stamp: Option<Stamp>,
    /// When the file was looked at last, by the monotonic clock.
    looked: Duration,
}

/// What tells whether the file has changed.
type Stamp = (u64, [u64; 2], i64);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("path", &self.path).finish()
    }
}

impl Tokens {
    /// Opens a file that exists.
    ///
    /// # Errors
    /// If it can't be read or is damaged.
    pub fn open(env: Arc<dyn Env>, path: &Path) -> Result<Tokens, TokensError> {
        let stamp = stamp(&*env, path);
        let records = read(&*env, path)?;
        let state = State::new(records, stamp, env.monotonic());
        Ok(Tokens {
            path: Arc::new(path.to_path_buf()),
            state: Arc::new(RwLock::new(state)),
            audit: Arc::default(),
            env,
        })
    }

    /// Opens a file; makes an empty one if there is none.
    ///
    /// # Errors
    /// As [`Tokens::open`]; if it can't be made.
    pub fn open_or_create(env: Arc<dyn Env>, path: &Path) -> Result<Tokens, TokensError> {
        let exists = env.exists(path);
        if !exists.map_err(|error| failed(path, &error))? {
            let empty = encode(&[]).map_err(TokensError::Invalid)?;
            let made = env.replace(path, &empty);
            made.map_err(|error| failed(path, &error))?;
        }
        Tokens::open(env, path)
    }

    /// Notes from now on what others change in the file, such as commands.
    pub(crate) fn note_changes(&self, audit: &Audit) {
        // Those who open it twice mean the same log.
        let _ = self.audit.set(audit.clone());
    }

    /// Notes the difference of what was read before and what is in the file now.
    fn note(&self, before: &[TokenRecord], now: &[TokenRecord]) {
        let Some(audit) = self.audit.get() else {
            return;
        };
        let changes = [("DELETE", before, now), ("PUT", now, before)];
        for (method, with, without) in changes {
            let known: HashSet<_> = without.iter().map(|one| (&one.name, &one.sha256)).collect();
            let changed = with
                .iter()
                .filter(|one| !known.contains(&(&one.name, &one.sha256)));
            for record in changed {
                audit.note(&Event {
                    event: "admin",
                    protocol: "file",
                    method: Some(method),
                    path: Some(&format!("/_quire/tokens/{}", record.name)),
                    status: 200,
                    ..Event::default()
                });
            }
        }
    }

    /// Makes a token. Returns its secret, which can't be had again.
    ///
    /// # Errors
    /// If there is one of this name, or it can't be as requested; if the file can't be changed.
    pub fn create(&self, new: NewToken) -> Result<String, TokensError> {
        let secret = new_secret(&*self.env);
        let created_micros = self.env.now_micros();
        let life = |life: Duration| i64::try_from(life.as_micros()).unwrap_or(i64::MAX);
        let expires_micros = new
            .lifetime
            .map(|lifetime| created_micros.saturating_add(life(lifetime)));
        let record = TokenRecord {
            name: new.name,
            sha256: Hash::of(secret.as_bytes()).to_hex(),
            role: new.role,
            collections: new.collections,
            created_micros,
            expires_micros,
            limit: new.limit,
        };
        record.check().map_err(TokensError::Invalid)?;
        self.change(|records| {
            if records.iter().any(|other| other.name == record.name) {
                return Err(TokensError::Exists(record.name));
            }
            if records.len() >= TOKENS_MAX {
                let what = format!("there are {TOKENS_MAX} tokens already; revoke some");
                return Err(TokensError::Invalid(what));
            }
            records.push(record);
            Ok(())
        })?;
        Ok(secret)
    }

    /// Revokes a token: from now on nobody is admitted with it.
    ///
    /// # Errors
    /// If there is none of this name; if the file can't be changed.
    pub fn revoke(&self, name: &str) -> Result<(), TokensError> {
        self.change(|records| {
            let before = records.len();
            records.retain(|record| record.name != name);
            match records.len() < before {
                true => Ok(()),
                false => Err(TokensError::Missing(name.to_owned())),
            }
        })
    }

    /// The tokens, in the order in which they were made, those that have expired included.
    pub fn list(&self) -> Vec<TokenRecord> {
        self.look();
        self.state.read().records.clone()
    }

    /// What the holder of a secret may do. None if there is no such token, or it has expired.
    pub(crate) fn grant(&self, secret: &[u8]) -> Option<Arc<Grant>> {
        self.by_hash(&Hash::of(secret))
    }

    /// What the token with this hash grants now.
    pub(crate) fn by_hash(&self, hash: &Hash) -> Option<Arc<Grant>> {
        self.look();
        let grant = self.state.read().grants.get(hash).cloned()?;
        let has_expired = grant
            .expires_micros
            .is_some_and(|expires| expires <= self.env.now_micros());
        (!has_expired).then_some(grant)
    }

    /// Reads the file again if it has changed, and was not looked at a moment ago.
    fn look(&self) {
        let now = self.env.monotonic();
        let is_due = |state: &State| now.saturating_sub(state.looked) >= LOOK_EVERY;
        if !is_due(&self.state.read()) {
            return;
        }
        let mut state = self.state.write();
        if !is_due(&state) {
            return;
        }
        state.looked = now;
        let stamp = stamp(&*self.env, &self.path);
        if stamp == state.stamp {
            return;
        }
        match read(&*self.env, &self.path) {
            Ok(records) => {
                self.note(&state.records, &records);
                *state = State::new(records, stamp, now);
            }
            Err(error) => {
                tracing::warn!("{error}; the tokens that were read before stay in force");
                state.stamp = stamp;
            }
        }
    }

    /// Changes the file under its lock.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<TokenRecord>) -> Result<(), TokensError>,
    ) -> Result<(), TokensError> {
        let path = &**self.path;
        let mut lock_path = OsString::from(path);
        lock_path.push(".lock");
        let mut tries = 1;
        let _lock = loop {
            match self.env.lock(Path::new(&lock_path)) {
                Ok(lock) => break lock,
                Err(error) if tries == LOCK_TRIES => return Err(failed(path, &error)),
                Err(_) => {
                    tries += 1;
                    self.env.sleep(LOCK_PAUSE);
                }
            }
        };
        let mut records = read(&*self.env, path)?;
        let found = records.clone();
        change(&mut records)?;
        let bytes = encode(&records).map_err(TokensError::Invalid)?;
        let replaced = self.env.replace(path, &bytes);
        replaced.map_err(|error| failed(path, &error))?;
        let stamp = stamp(&*self.env, path);
        let mut state = self.state.write();
        self.note(&state.records, &found);
        *state = State::new(records, stamp, self.env.monotonic());
        Ok(())
    }
}

impl State {
    fn new(records: Vec<TokenRecord>, stamp: Option<Stamp>, looked: Duration) -> State {
        let grants = records.iter().filter_map(TokenRecord::grant);
        let grants = grants
            .map(|(hash, grant)| (hash, Arc::new(grant)))
            .collect();
        State {
            records,
            grants,
            stamp,
            looked,
        }
    }
}

fn read(env: &dyn Env, path: &Path) -> Result<Vec<TokenRecord>, TokensError> {
    let bytes = env.read(path, FILE_BYTES_MAX);
    let bytes = bytes.map_err(|error| failed(path, &error))?;
    decode(&bytes).map_err(|reason| TokensError::File {
        path: path.to_path_buf(),
        reason,
    })
}

fn stamp(env: &dyn Env, path: &Path) -> Option<Stamp> {
    let stamp = env.stamp(path).ok()?;
    Some((stamp.bytes, stamp.identity, stamp.changed))
}

fn failed(path: &Path, error: &dyn std::error::Error) -> TokensError {
    let mut reason = error.to_string();
    if let Some(source) = error.source() {
        reason = format!("{reason}: {source}");
    }
    TokensError::File {
        path: path.to_path_buf(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::role::Action;
    use quiredb::SimEnv;

    fn new(name: &str, lifetime: Option<Duration>) -> NewToken {
        NewToken {
            name: name.to_owned(),
            role: Role::Read,
            collections: vec!["logs-*".to_owned()],
            lifetime,
            limit: None,
        }
    }

    fn env() -> (Arc<dyn Env>, PathBuf) {
        let env: Arc<dyn Env> = SimEnv::new(5);
        let dir = Path::new("/etc-quire");
        env.create_dir_all(dir).unwrap();
        (env, dir.join("tokens"))
    }

    #[test]
    fn a_token_is_known_until_it_is_revoked_or_expires() {
        let (env, path) = env();
        assert!(Tokens::open(Arc::clone(&env), &path).is_err());
        let tokens = Tokens::open_or_create(Arc::clone(&env), &path).unwrap();
        let lasting = tokens.create(new("lasting", None)).unwrap();
        let brief = Duration::from_secs(60);
        let brief = tokens.create(new("brief", Some(brief))).unwrap();
        for secret in [&lasting, &brief] {
            let grant = tokens.grant(secret.as_bytes()).unwrap();
            assert!(grant.check(Action::Read, "logs-1").is_ok());
            assert!(grant.check(Action::Read, "cars").is_err());
        }
        assert!(tokens.grant(b"").is_none() && tokens.grant(b"quire_wrong").is_none());
        env.sleep(Duration::from_secs(61));
        assert!(tokens.grant(brief.as_bytes()).is_none());
        assert!(tokens.grant(lasting.as_bytes()).is_some());
        assert_eq!(tokens.list().len(), 2);
        tokens.revoke("lasting").unwrap();
        assert!(tokens.grant(lasting.as_bytes()).is_none());
        assert!(matches!(
            tokens.revoke("lasting"),
            Err(TokensError::Missing(_))
        ));
        let again = tokens.create(new("brief", None));
        assert!(matches!(again, Err(TokensError::Exists(_))));
        let text = String::from_utf8(env.read(&path, 1 << 20).unwrap()).unwrap();
        assert!(!text.contains(&brief) && !text.contains(&brief[6..]));
    }

    #[test]
    fn changes_of_another_process_are_seen_and_damage_opens_nothing() {
        let (env, path) = env();
        let here = Tokens::open_or_create(Arc::clone(&env), &path).unwrap();
        let there = Tokens::open(Arc::clone(&env), &path).unwrap();
        let secret = there.create(new("one", None)).unwrap();
        let other = here.create(new("two", None)).unwrap();
        env.sleep(LOOK_EVERY);
        for tokens in [&here, &there] {
            assert!(tokens.grant(secret.as_bytes()).is_some());
            assert!(tokens.grant(other.as_bytes()).is_some());
        }
        for damage in [Some(&b"quire-tokens 1 00000000\n{\"tokens\":[]}"[..]), None] {
            match damage {
                Some(bytes) => env.replace(&path, bytes).unwrap(),
                None => env.remove(&path).unwrap(),
            }
            env.sleep(LOOK_EVERY);
            assert!(here.grant(secret.as_bytes()).is_some());
            assert!(here.grant(b"anything").is_none());
            assert!(here.create(new("three", None)).is_err());
            assert!(Tokens::open(Arc::clone(&env), &path).is_err());
        }
    }
}
