//! A batch of writes, each key once: looked up together where they depend on what is there,
//! committed together, and again where another client came between.

use quiredb::{Collection, CollectionSettings, ErrorKind, Found, Key};

use super::outcome::Outcome;
use super::request::{Change, Mode, Write};
use super::session::Session;
use super::value::{Stored, Values};
use super::words::number;

/// More is not tried: each time somebody else's write to the same key was done in between.
const ROUNDS_MAX: u32 = 1000;

/// A write that is yet to be done.
struct Task<'w, 'a> {
    /// Which one it is, counted from 0.
    at: usize,
    write: &'w Write<'a>,
    collection: usize,
    key: Key,
    /// A patch found no document to change.
    is_absent: bool,
}

/// Writes to one collection, and of each the task it is for and what it comes to.
#[derive(Default)]
struct Part<'w, 'a> {
    writes: Vec<quiredb::Write>,
    then: Vec<(Task<'w, 'a>, Outcome)>,
}

/// What a write comes to, given the document as it is.
enum Plan {
    /// To be written, and then this.
    Write(quiredb::Write, Outcome),
    /// Nothing to be written.
    Answer(Outcome),
}

/// Does all writes; one outcome for each, in their order.
pub(crate) fn write_all(session: &Session, writes: &[&Write<'_>]) -> Vec<Outcome> {
    if let Some(following) = &session.server.following {
        return vec![Outcome::server_error(&following.refusal()); writes.len()];
    }
    let mut outcomes = Vec::with_capacity(writes.len());
    let mut collections = Vec::new();
    let mut tasks = Vec::with_capacity(writes.len());
    for (at, write) in writes.iter().enumerate() {
        match prepare(session, &mut collections, write) {
            Ok(Some((collection, key))) => {
                tasks.push(Task {
                    at,
                    write,
                    collection,
                    key,
                    is_absent: false,
                });
                // Stays only if it is never done.
                outcomes.push(Outcome::server_error("too many clients write to this key"));
            }
            Ok(None) => outcomes.push(of_nothing(write)),
            Err(outcome) => outcomes.push(outcome),
        }
    }
    for _ in 0..ROUNDS_MAX {
        if tasks.is_empty() {
            break;
        }
        tasks = round(session, &collections, tasks, &mut outcomes);
    }
    outcomes
}

/// The collection, by its place in `collections`, and the key of a write; none if there is no such
/// collection, nor to be one.
fn prepare(
    session: &Session,
    collections: &mut Vec<Collection>,
    write: &Write<'_>,
) -> Result<Option<(usize, Key)>, Outcome> {
    let (name, key) = session.place(&write.key)?;
    if let Some(known) = collections.iter().position(|known| known.name() == name) {
        return Ok(Some((known, key)));
    }
    let collection = match write.makes_a_document() {
        true => session
            .server
            .database()
            .collection_or_create(name, CollectionSettings::default)
            .map(Some),
        false => session.existing(name),
    };
    let collection = collection.map_err(|error| failed(&error))?;
    Ok(collection.map(|collection| {
        collections.push(collection);
        (collections.len() - 1, key)
    }))
}

/// Does what can be done at once; returns what is to be tried again.
fn round<'w, 'a>(
    session: &Session,
    collections: &[Collection],
    tasks: Vec<Task<'w, 'a>>,
    outcomes: &mut [Outcome],
) -> Vec<Task<'w, 'a>> {
    let mut report = |at: usize, outcome: Outcome| {
        if let Some(slot) = outcomes.get_mut(at) {
            *slot = outcome;
        }
    };
    let looks = |task: &&Task<'_, '_>| !task.write.is_set();
    let keys: Vec<&[u8]> = tasks
        .iter()
        .filter(looks)
        .map(|task| task.write.key.as_ref())
        .collect();
    let mut found = session.look_up(&keys).into_iter();
    let mut parts = Vec::new();
    parts.resize_with(collections.len(), Part::default);
    for task in tasks {
        let plan = if looks(&&task) {
            let found = found.next().unwrap_or(Ok(None));
            found.and_then(|found| plan(&session.values, &task, found.as_ref()))
        } else {
            plan_set(&session.values, &task)
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
        let results = collection.batch().writes(writes).write();
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
                    _ => report(task.at, failed(&error)),
                },
            }
        }
    }
    again
}

/// What sets a value, whatever is there: nothing has to be read.
fn plan_set(values: &Values, task: &Task<'_, '_>) -> Result<Plan, Outcome> {
    let Change::Store { value, flags, .. } = task.write.change else {
        return Ok(Plan::Answer(Outcome::NotFound));
    };
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
    Ok(Plan::Write(write, Outcome::Stored(Default::default())))
}

/// What a write comes to that depends on what is there.
fn plan(values: &Values, task: &Task<'_, '_>, found: Option<&Found>) -> Result<Plan, Outcome> {
    let write = task.write;
    let stored = found.and_then(|found| Some((found, values.stored(&found.document)?)));
    let Some((present, stored)) = stored else {
        let Change::Store { value, flags, .. } = write.change else {
            return Ok(Plan::Answer(Outcome::NotFound));
        };
        if !write.makes_a_document() {
            return Ok(Plan::Answer(of_nothing(write)));
        }
        let stored = Stored {
            value: value.to_vec(),
            flags,
            is_number: false,
        };
        let write = values.store(&task.key, found, &stored)?;
        return Ok(Plan::Write(write, Outcome::Stored(Default::default())));
    };
    if write.cas.is_some_and(|cas| cas != present.version.0) {
        return Ok(Plan::Answer(Outcome::Exists));
    }
    let (change, outcome) = match write.change {
        Change::Delete => (None, Outcome::Deleted),
        Change::Touch if !write.expires_at_once => return Ok(Plan::Answer(Outcome::Touched)),
        Change::Touch => (None, Outcome::Touched),
        Change::Store {
            mode: Mode::Add, ..
        } => return Ok(Plan::Answer(Outcome::NotStored)),
        Change::Store { .. } if write.expires_at_once => {
            (None, Outcome::Stored(Default::default()))
        }
        Change::Store { mode, value, flags } => {
            let changed = match mode {
                Mode::Append => joined(&stored, &stored.value, value),
                Mode::Prepend => joined(&stored, value, &stored.value),
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
            (Some(changed), Outcome::Counted(value, Default::default()))
        }
    };
    let write = match change {
        Some(changed) => values.store(&task.key, found, &changed)?,
        None => values.remove(present)?,
    };
    Ok(Plan::Write(write, outcome))
}

fn joined(stored: &Stored, first: &[u8], second: &[u8]) -> Stored {
    Stored {
        value: [first, second].concat(),
        flags: stored.flags,
        is_number: false,
    }
}

/// What a write comes to that makes no document, where there is none.
fn of_nothing(write: &Write<'_>) -> Outcome {
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

fn failed(error: &quiredb::Error) -> Outcome {
    match error.kind() {
        ErrorKind::Invalid => Outcome::client_error(&error.to_string()),
        ErrorKind::TooLarge => Outcome::Refused(super::request::TOO_LARGE),
        _ => Outcome::server_error(&error.to_string()),
    }
}

impl Write<'_> {
    /// Whether it sets a value whatever is there.
    fn is_set(&self) -> bool {
        let sets = matches!(
            self.change,
            Change::Store {
                mode: Mode::Set,
                ..
            }
        );
        sets && self.cas.is_none() && !self.expires_at_once
    }

    /// Whether it stores a value where there is none.
    fn makes_a_document(&self) -> bool {
        let makes = matches!(
            self.change,
            Change::Store {
                mode: Mode::Set | Mode::Add,
                ..
            }
        );
        makes && self.cas.is_none() && !self.expires_at_once
    }
}

impl Outcome {
    /// The same, of the version that the document has now.
    fn with_version(self, version: quiredb::Position) -> Outcome {
        match self {
            Outcome::Stored(_) => Outcome::Stored(version),
            Outcome::Counted(value, _) => Outcome::Counted(value, version),
            other => other,
        }
    }
}
