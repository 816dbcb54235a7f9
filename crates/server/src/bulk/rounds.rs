//! Rounds: the items of a batch are done, each with an outcome of its own. The writes of a round
//! are acknowledged together: one sync for each partition.
//!
//! An update depends on the document as it is: the document is read, merged and written on
//! condition that no other write came between. So an update waits for the next round if an item
//! before it writes the same key, and every item after an update of its key waits too. A batch
//! without updates is one round.

use super::action::Op;
use super::item::{Done, Item, not_done};
use super::prepare::{Collections, Prepared, Task, Work, prepare};
use crate::audit::AuditedGrant;
use crate::documents::ack::{Ack, write_failure};
use crate::documents::lookup::get_held_now;
use crate::documents::tally;
use crate::documents::update::{Plan, Update};
use crate::engine::Engine;
use crate::http::buffers::{Buffers, Held};
use crate::http::failure::{Failure, Outcome};
use quire_pipeline::{Grouper, write_groups};
use quiredb::{Action, Collection, ErrorKind, Key, Usage, Use, Write, Written};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Bytes of merged documents that one round holds; the updates after them wait for the next.
const MERGED_BYTES_MAX: usize = 8 << 20;

/// Bytes of documents that the answer to one batch shows.
pub(super) const SHOWN_BYTES_MAX: usize = 4 << 20;

/// Applies items. Returns the outcome of each, in their order. Blocks.
pub(super) fn apply(
    engine: &Engine,
    by: &AuditedGrant,
    buffers: &Buffers,
    items: Vec<Item>,
) -> Vec<Done> {
    let Prepared {
        done,
        mut tasks,
        collections,
        rows,
    } = prepare(engine, by, items);
    let mut outcomes = Outcomes {
        done,
        shown_bytes: 0,
    };
    rows.apply(engine, &mut outcomes.done);
    while !tasks.is_empty() {
        tasks = round(&collections, buffers, tasks, &mut outcomes);
    }
    outcomes.done
}

/// Does what can be done now, and returns the rest. The first task is always done, or loses a
/// retry, so rounds end.
fn round(
    collections: &Collections,
    buffers: &Buffers,
    tasks: Vec<Task>,
    outcomes: &mut Outcomes,
) -> Vec<Task> {
    let (now, updates, mut later) = split(tasks);
    let mut writes = RoundWrites::new(collections);
    for Task {
        item, index, work, ..
    } in now
    {
        if let Work::Write(write) = work {
            let origin = Origin {
                item,
                update: None,
                shown: None,
            };
            writes.push(index, write, origin);
        }
    }
    let (mut merged_bytes, mut rooms) = (0, Vec::new());
    for task in updates {
        let Task {
            item,
            index,
            key,
            work,
        } = task;
        let Work::Update(update) = work else {
            continue;
        };
        if merged_bytes > MERGED_BYTES_MAX {
            let work = Work::Update(update);
            later.push(Task {
                item,
                index,
                key,
                work,
            });
            continue;
        }
        let planned = plan(collections, buffers, &mut rooms, &index, &key, &update);
        let planned = planned.and_then(|(plan, shown)| {
            outcomes.make_room(shown.as_deref())?;
            Ok((plan, shown))
        });
        match planned {
            Ok((Plan::Write(write), shown)) => {
                let update = Some((key, update));
                let origin = Origin {
                    item,
                    update,
                    shown,
                };
                merged_bytes += writes.push(index, write, origin);
            }
            Ok((Plan::Noop(ack), shown)) => {
                outcomes.show(item, shown);
                outcomes.set_counted(item, Ok(ack), collections.get(&index));
            }
            Err(failure) => outcomes.set_counted(item, Err(failure), collections.get(&index)),
        }
    }
    writes.write(&mut later, outcomes);
    drop(rooms);
    later.sort_unstable_by_key(|task| task.item);
    later
}

/// What an update does to the document as it is now, and what the answer shows of it then. The
/// memory for a large one goes to `rooms`.
fn plan(
    collections: &Collections,
    buffers: &Buffers,
    rooms: &mut Vec<Held>,
    index: &Arc<str>,
    key: &Key,
    update: &Update,
) -> Outcome<(Plan, Option<Vec<u8>>)> {
    let collection = collections.get(index).ok_or_else(not_done)?;
    let current = get_held_now(collection, buffers, key)?;
    let (current, room) = current.map_or((None, None), |(found, room)| (Some(found), room));
    rooms.extend(room);
    let plan = update.plan(index, key, current.as_ref())?;
    let document = match (&plan, &current) {
        (Plan::Write(write), _) => match &write.action {
            Action::Put(document) => Some(document),
            _ => None,
        },
        (Plan::Noop(_), current) => current.as_ref().map(|found| &found.document),
    };
    let shown = document.and_then(|document| update.shown(document));
    Ok((plan, shown))
}

/// Where a write comes from.
struct Origin {
    item: usize,
    /// The update that made the write, and its key.
    update: Option<(Key, Box<Update>)>,
    /// What the answer shows of the document once it is written.
    shown: Option<Vec<u8>>,
}

/// The writes of a round, grouped by collection and partition.
struct RoundWrites<'a> {
    collections: &'a Collections,
    groupers: BTreeMap<Arc<str>, Grouper<'a, Origin>>,
}

impl<'a> RoundWrites<'a> {
    fn new(collections: &'a Collections) -> RoundWrites<'a> {
        RoundWrites {
            collections,
            groupers: BTreeMap::new(),
        }
    }

    /// Adds a write. Returns the bytes of its document.
    fn push(&mut self, index: Arc<str>, write: Write, origin: Origin) -> usize {
        let Some(collection) = self.collections.get(&index) else {
            return 0;
        };
        let grouper = self.groupers.entry(index);
        let grouper = grouper.or_insert_with(|| Grouper::new(collection));
        let before = grouper.bytes();
        grouper.push(write, origin);
        grouper.bytes().saturating_sub(before)
    }

    /// Does the writes. Updates that lost against another write go to `later`.
    fn write(self, later: &mut Vec<Task>, outcomes: &mut Outcomes) {
        for (index, grouper) in self.groupers {
            let Some(collection) = self.collections.get(&index) else {
                continue;
            };
            let usage = collection.usage();
            let (using, mut indexed, mut deleted) = (usage.begin(Use::Index), 0, 0);
            for (origin, result) in write_groups(collection, grouper.finish(), None) {
                let Origin {
                    item,
                    update,
                    shown,
                } = origin;
                match (result, update) {
                    (Err(error), Some((key, mut update)))
                        if error.kind() == ErrorKind::Conflict && update.retries > 0 =>
                    {
                        update.retries -= 1;
                        outcomes.shown_bytes -= shown.map_or(0, |shown| shown.len());
                        later.push(Task {
                            item,
                            index: Arc::clone(&index),
                            key,
                            work: Work::Update(update),
                        });
                    }
                    (result, _) => {
                        if result.is_ok() {
                            outcomes.show(item, shown);
                        }
                        outcomes.set_written(item, result);
                        match outcomes.count(item, usage) {
                            Some(Use::Delete) => deleted += 1,
                            Some(_) => indexed += 1,
                            None => {}
                        }
                    }
                }
            }
            using.end_as_both((Use::Index, indexed), (Use::Delete, deleted));
        }
    }
}

/// The outcomes of a batch.
struct Outcomes {
    /// By item.
    done: Vec<Done>,
    /// The bytes of the documents that the answer shows.
    shown_bytes: usize,
}

impl Outcomes {
    /// Counts the bytes of a document that the answer is to show.
    ///
    /// # Errors
    /// 413 if they are too many for one batch.
    fn make_room(&mut self, shown: Option<&[u8]>) -> Outcome<()> {
        let bytes = self.shown_bytes + shown.map_or(0, <[u8]>::len);
        if bytes > SHOWN_BYTES_MAX {
            return Err(Failure::too_large(format!(
                "the documents that the answer shows take more than {SHOWN_BYTES_MAX} bytes: \
                 update without [_source], or fewer at a time"
            )));
        }
        self.shown_bytes = bytes;
        Ok(())
    }

    /// Has the answer show a document.
    fn show(&mut self, item: usize, shown: Option<Vec<u8>>) {
        if let Some(done) = self.done.get_mut(item) {
            done.shown = shown;
        }
    }

    fn set(&mut self, item: usize, outcome: Outcome<Ack>) {
        if let Some(done) = self.done.get_mut(item) {
            done.outcome = outcome;
        }
    }

    /// As [`set`](Outcomes::set), of an item that is not written to this collection.
    fn set_counted(&mut self, item: usize, outcome: Outcome<Ack>, of: Option<&Collection>) {
        self.set(item, outcome);
        if let Some(collection) = of {
            self.count(item, collection.usage());
        }
    }

    /// Counts the outcome of an item: what was written, if something was.
    fn count(&self, item: usize, usage: &Usage) -> Option<Use> {
        let done = self.done.get(item)?;
        let what = match done.op {
            Op::Delete => Use::Delete,
            _ => Use::Index,
        };
        tally::is_done(usage, what, done.outcome.as_ref().copied()).then_some(what)
    }

    fn set_written(&mut self, item: usize, result: quiredb::Result<Written>) {
        let Some(done) = self.done.get_mut(item) else {
            return;
        };
        done.outcome = match result {
            Ok(written) if done.op == Op::Delete => Ok(Ack::delete(written)),
            Ok(written) => Ok(Ack::put(written)),
            Err(error) => {
                let id = done.id.as_deref().unwrap_or_default();
                Err(write_failure(&error, &done.index, id))
            }
        };
    }
}

/// The writes of a round, its updates, and the tasks that wait for the next round.
fn split(tasks: Vec<Task>) -> (Vec<Task>, Vec<Task>, Vec<Task>) {
    let (mut updates, mut later) = (Vec::new(), Vec::new());
    if !tasks
        .iter()
        .any(|task| matches!(task.work, Work::Update(_)))
    {
        return (tasks, updates, later);
    }
    let mut now = Vec::with_capacity(tasks.len());
    let (mut written, mut waiting) = (HashSet::new(), HashSet::new());
    for task in tasks {
        let target = (Arc::clone(&task.index), task.key.clone());
        if waiting.contains(&target) {
            later.push(task);
        } else if matches!(task.work, Work::Write(_)) {
            written.insert(target);
            now.push(task);
        } else {
            if written.contains(&target) {
                later.push(task)
            } else {
                updates.push(task)
            }
            waiting.insert(target);
        }
    }
    (now, updates, later)
}
