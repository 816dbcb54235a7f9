//! A batch of writes, each key once. Documents that the writes depend on are looked up together,
//! and the writes are committed together. A write is tried again if another client changed its
//! document meanwhile.

use quiredb::{ErrorKind, Found, Key, Within};

use super::exptime::{Lifetime, expiry, seconds_left};
use super::keyspace::{Bucket, Keyspace};
use super::mode::Mode;
use super::outcome::Outcome;
use super::refusal::{NO_ROOM, NOT_ALONE};
use super::request::{Change, Write};
use super::value::{Stored, Values};
use super::words::number;
use crate::access::role::Action;
use crate::collections::api_settings::Use;
use crate::http::buffers::{Buffers, Held, LARGE_BYTES};

/// The most tries. Each failed try means that another write to the same key succeeded.
const ROUNDS_MAX: u32 = 1000;

/// A write that is not done yet.
struct Task<'w, 'a> {
    /// Its index in the batch.
    at: usize,
    write: &'w Write<'a>,
    collection: usize,
    key: Key,
    lifetime: Lifetime,
    /// A patch found no document to change, so the next try puts a new one.
    is_absent: bool,
}

/// Writes to one collection, and for each its task and its outcome if it succeeds.
#[derive(Default)]
struct Part<'w, 'a> {
    writes: Vec<quiredb::Write>,
    then: Vec<(Task<'w, 'a>, Outcome)>,
}

/// What a write has to do, given the present document.
enum Plan {
    /// Write this; then the outcome is this.
    Write(quiredb::Write, Outcome),
    /// Nothing to write.
    Answer(Outcome),
}

/// Executes all writes; returns one outcome for each, in their order.
pub(crate) fn write_all(
    keyspace: &Keyspace,
    buffers: &Buffers,
    writes: &[&Write<'_>],
) -> Vec<Outcome> {
    let mut outcomes = Vec::with_capacity(writes.len());
    let mut collections: Vec<Bucket> = Vec::new();
    let mut tasks = Vec::with_capacity(writes.len());
    let now = keyspace.now_micros();
    for (at, write) in writes.iter().enumerate() {
        let lifetime = write.lifetime(now);
        match prepare(keyspace, &mut collections, write, lifetime) {
            Ok(Some((collection, key))) => {
                tasks.push(Task {
                    at,
                    write,
                    collection,
                    key,
                    lifetime,
                    is_absent: false,
                });
                // This stays only if all tries fail.
                outcomes.push(Outcome::server_error(
                    "too many clients write to this key: try again later",
                ));
            }
            Ok(None) => outcomes.push(outcome_of_absent(write)),
            Err(outcome) => outcomes.push(outcome),
        }
    }
    for _ in 0..ROUNDS_MAX {
        if tasks.is_empty() {
            break;
        }
        tasks = round(keyspace, buffers, &collections, tasks, &mut outcomes);
    }
    outcomes
}

/// The collection of a write, as an index into `collections`, and its key. None if the collection
/// does not exist and the write does not create it.
fn prepare(
    keyspace: &Keyspace,
    collections: &mut Vec<Bucket>,
    write: &Write<'_>,
    lifetime: Lifetime,
) -> Result<Option<(usize, Key)>, Outcome> {
    let (name, key) = keyspace.address(&write.key, Action::Write)?;
    if let Some(known) = collections.iter().position(|known| known.name() == name) {
        return Ok(Some((known, key)));
    }
    let collection = match write.creates(lifetime) {
        true => keyspace.existing_or_new(name).map(Some),
        false => keyspace.existing(name, Use::Write),
    };
    let collection = collection.map_err(|error| Outcome::of_error(&error))?;
    Ok(collection.map(|collection| {
        collections.push(collection);
        (collections.len() - 1, key)
    }))
}

/// Tries each write once; returns those to be tried again.
fn round<'w, 'a>(
    keyspace: &Keyspace,
    buffers: &Buffers,
    collections: &[Bucket],
    tasks: Vec<Task<'w, 'a>>,
    outcomes: &mut [Outcome],
) -> Vec<Task<'w, 'a>> {
    let mut report = |at: usize, outcome: Outcome| {
        if let Some(slot) = outcomes.get_mut(at) {
            *slot = outcome;
        }
    };
    let needs_lookup = |task: &&Task<'_, '_>| !task.is_set(&keyspace.values);
    let keys: Vec<&[u8]> = tasks
        .iter()
        .filter(needs_lookup)
        .map(|task| task.write.key.as_ref())
        .collect();
    let mut found = keyspace.look_up(&keys).into_iter();
    let mut parts = Vec::new();
    parts.resize_with(collections.len(), Part::default);
    // The memory of large documents, until they are written.
    let mut rooms = Vec::new();
    for task in tasks {
        let room = room_for(&keyspace.values, task.write, buffers);
        let plan = match room {
            Err(outcome) => Err(outcome),
            Ok(room) if needs_lookup(&&task) => {
                rooms.extend(room);
                let found = found.next().unwrap_or(Ok(Within::Absent));
                keyspace
                    .resolve(&task.write.key, found, buffers)
                    .and_then(|found| {
                        let (found, room) =
                            found.map_or((None, None), |(found, room)| (Some(found), room));
                        rooms.extend(room);
                        let bucket = collections.get(task.collection);
                        let is_wide = bucket.is_some_and(Bucket::is_wide);
                        plan(keyspace, &task, is_wide, found)
                    })
            }
            Ok(room) => {
                rooms.extend(room);
                plan_set(&keyspace.values, &task)
            }
        };
        match plan {
            Ok(Plan::Write(write, outcome)) => {
                if let Some(part) = parts.get_mut(task.collection) {
                    part.writes.push(write);
                    part.then.push((task, outcome));
                }
            }
            Ok(Plan::Answer(outcome)) | Err(outcome) => report(task.at, outcome),
        }
    }
    let mut again = Vec::new();
    for (collection, Part { writes, then }) in collections.iter().zip(parts) {
        if writes.is_empty() {
            continue;
        }
        let results = collection.write(&keyspace.values, writes);
        assert!(results.len() == then.len(), "each write has one result");
        for ((task, outcome), result) in then.into_iter().zip(results) {
            match result {
                Ok(written) => report(task.at, outcome.with_version(written.version)),
                Err(error) => match error.kind() {
                    ErrorKind::Conflict => again.push(Task {
                        is_absent: false,
                        ..task
                    }),
                    ErrorKind::NotFound => again.push(Task {
                        is_absent: true,
                        ..task
                    }),
                    _ => report(task.at, Outcome::of_error(&error)),
                },
            }
        }
    }
    again
}

/// Reserves what storing a large value takes beside the input that it is in.
fn room_for(
    values: &Values,
    write: &Write<'_>,
    buffers: &Buffers,
) -> Result<Option<Held>, Outcome> {
    match write.change {
        Change::Store { value, .. } if value.len() as u64 > LARGE_BYTES => {
            let held = buffers.hold_now(values.written_bytes(value)?);
            held.map(Some).map_err(|_| Outcome::Refused(NO_ROOM))
        }
        _ => Ok(None),
    }
}

/// Plans a write that sets a value unconditionally: the present document is not needed.
fn plan_set(values: &Values, task: &Task<'_, '_>) -> Result<Plan, Outcome> {
    let Change::Store { value, flags, .. } = task.write.change else {
        return Ok(Plan::Answer(Outcome::NotFound));
    };
    let expires = task.lifetime.expires_micros(None);
    let write = match task.is_absent {
        false => values.set(&task.key, value, flags)?,
        true => {
            let stored = Stored {
                value: value.to_vec(),
                flags,
                is_number: false,
            };
            values.store(&task.key, None, &stored)?
        }
    };
    let write = write.expiring(expiry(expires));
    Ok(Plan::Write(write, Outcome::Stored(Default::default())))
}

/// Plans a write that depends on the present document.
///
/// The value of a row expires alone: its cells are written again with another time.
fn plan(
    keyspace: &Keyspace,
    task: &Task<'_, '_>,
    is_wide: bool,
    found: Option<Found>,
) -> Result<Plan, Outcome> {
    let values = &keyspace.values;
    let (write, is_over) = (task.write, task.lifetime == Lifetime::Over);
    let before = found.as_ref().and_then(|found| found.expires_micros);
    let expires = task.lifetime.expires_micros(before);
    if let (Some(found), Lifetime::Until(_)) = (&found, task.lifetime)
        && !values.is_alone(&found.document)
    {
        return Ok(Plan::Answer(Outcome::Refused(NOT_ALONE)));
    }
    let version = found.as_ref().map(|found| found.version);
    let stored = found.and_then(|found| {
        let stored = values.stored(&found.document)?;
        Some((found, stored))
    });
    let Some((present, stored)) = stored else {
        let Change::Store { value, flags, .. } = write.change else {
            return Ok(Plan::Answer(Outcome::NotFound));
        };
        if !write.creates(task.lifetime) {
            return Ok(Plan::Answer(outcome_of_absent(write)));
        }
        let stored = Stored {
            value: value.to_vec(),
            flags,
            is_number: false,
        };
        let write = values.store(&task.key, version, &stored)?;
        let write = write.expiring(expiry(expires));
        return Ok(Plan::Write(write, Outcome::Stored(Default::default())));
    };
    if write.cas.is_some_and(|cas| cas != present.version.0) {
        return Ok(Plan::Answer(Outcome::Exists));
    }
    let (change, outcome) = match write.change {
        Change::Delete => (None, Outcome::Deleted),
        Change::Touch if is_over => (None, Outcome::Touched),
        Change::Touch if expires == before => return Ok(Plan::Answer(Outcome::Touched)),
        Change::Touch => {
            let touch = match is_wide {
                true => values.store(&task.key, version, &stored)?,
                false => Values::keep(&present)?,
            };
            return Ok(Plan::Write(
                touch.expiring(expiry(expires)),
                Outcome::Touched,
            ));
        }
        Change::Store {
            mode: Mode::Add, ..
        } => return Ok(Plan::Answer(Outcome::NotStored)),
        Change::Store { .. } if is_over => (None, Outcome::Stored(Default::default())),
        Change::Store { mode, value, flags } => {
            let changed = match mode {
                Mode::Append => joined(stored, value, Vec::len),
                Mode::Prepend => joined(stored, value, |_| 0),
                _ => Stored {
                    value: value.to_vec(),
                    flags,
                    is_number: false,
                },
            };
            (Some(changed), Outcome::Stored(Default::default()))
        }
        Change::Count { up, by } => {
            let Some(now) = number(&stored.value) else {
                return Err(Outcome::client_error(
                    "cannot increment or decrement non-numeric value",
                ));
            };
            let value = match up {
                true => now.wrapping_add(by),
                false => now.saturating_sub(by),
            };
            let changed = Stored {
                value: value.to_string().into_bytes(),
                ..stored
            };
            let left = seconds_left(expires, keyspace.now_micros());
            let counted = Outcome::Counted(value, Default::default(), left);
            ((!is_over).then_some(changed), counted)
        }
    };
    let write = match change {
        Some(changed) => {
            // A large one is not held beside the new one.
            drop(present);
            let stored = values.store(&task.key, version, &changed)?;
            stored.expiring(expiry(expires))
        }
        None => values.remove(&present)?,
    };
    Ok(Plan::Write(write, outcome))
}

/// The value with `more` inserted, without another copy of it.
fn joined(mut stored: Stored, more: &[u8], at: impl Fn(&Vec<u8>) -> usize) -> Stored {
    let at = at(&stored.value);
    stored.value.splice(at..at, more.iter().copied());
    stored.is_number = false;
    stored
}

/// The outcome of a write that creates no document, if there is none.
fn outcome_of_absent(write: &Write<'_>) -> Outcome {
    match write.change {
        Change::Store { .. } if write.cas.is_some() => Outcome::NotFound,
        Change::Store {
            mode: Mode::Set | Mode::Add,
            ..
        } => Outcome::Stored(Default::default()),
        Change::Store { .. } => Outcome::NotStored,
        _ => Outcome::NotFound,
    }
}

impl Task<'_, '_> {
    /// Whether it sets a value, whatever the document is.
    fn is_set(&self, values: &Values) -> bool {
        let sets = matches!(
            self.write.change,
            Change::Store {
                mode: Mode::Set,
                ..
            }
        );
        let is_any = match self.lifetime {
            Lifetime::Kept | Lifetime::Over => false,
            Lifetime::Endless => true,
            Lifetime::Until(_) => values.are_documents(),
        };
        sets && is_any && self.write.cas.is_none()
    }
}

impl Write<'_> {
    /// How long the value lives after it.
    fn lifetime(&self, now_micros: i64) -> Lifetime {
        let is_joined = matches!(
            self.change,
            Change::Store {
                mode: Mode::Append | Mode::Prepend,
                ..
            }
        );
        let exptime = self.exptime.filter(|_| !is_joined);
        exptime.map_or(Lifetime::Kept, |exptime| exptime.at(now_micros))
    }

    /// Whether it stores a value if there is none.
    fn creates(&self, lifetime: Lifetime) -> bool {
        let creates = matches!(
            self.change,
            Change::Store {
                mode: Mode::Set | Mode::Add,
                ..
            }
        );
        creates && self.cas.is_none() && lifetime != Lifetime::Over
    }
}

impl Outcome {
    /// The same outcome, with the version that the document has now.
    fn with_version(self, version: quiredb::Position) -> Outcome {
        match self {
            Outcome::Stored(_) => Outcome::Stored(version),
            Outcome::Counted(value, _, left) => Outcome::Counted(value, version, left),
            other => other,
        }
    }
}
