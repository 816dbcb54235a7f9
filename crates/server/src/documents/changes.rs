//! `_changes`: the changes of a collection after a position of each partition, and new changes
//! while the caller waits.
//!
//! The answer is lines of JSON: the changes, as `quire tail` prints them, then a last line,
//! `{"cursor":"…"}`. The cursor is the last position seen of each partition, between commas. The
//! server keeps no state of a caller: a request with a cursor continues after it and misses
//! nothing.
//!
//! The collection may be split at any time, also while a request waits. A cursor from before is
//! expanded to the partitions of now. A number of a partition means another one then, so a request
//! for one partition ends with what it has.

use std::sync::Arc;
use std::time::Duration;

use quiredb::wide::WideCollection;
use quiredb::{Collection, ErrorKind, Logged, Position, Tail};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::net::stop::StopFlag;

/// Changes in an answer: by default, and at most.
const LIMIT_DEFAULT: usize = 1_000;
const LIMIT_MAX: usize = 100_000;

/// An answer ends after this many bytes, or after this many changes were read.
const ANSWER_BYTES: usize = 4 << 20;
const CHANGES_READ_MAX: usize = 100_000;

/// What reading changes holds: their lines, in a buffer that may grow to twice as much.
const HELD_BYTES: usize = 2 * ANSWER_BYTES;

/// What a large document takes: itself, and its line in a buffer that may grow to twice as much.
const LARGE_COPIES: u64 = 3;

/// The longest that a caller may wait.
const WAIT_MS_MAX: u64 = 60_000;

/// How often a waiting request checks for new changes. A check costs a few atomic reads.
const CHECK_EVERY: Duration = Duration::from_millis(2);

/// What changes use of the server.
pub(crate) struct ChangesState {
    pub(crate) engine: Engine,
    pub(crate) stopping: StopFlag,
    /// Has one permit: of the requests that read changes, the one whose turn it is. How long the
    /// next change of a partition is, is known when it was read.
    pub(crate) reading: Arc<Semaphore>,
}

/// A collection whose changes are read.
#[derive(Clone)]
enum Tailed {
    Plain(Collection),
    Wide(WideCollection),
}

impl Tailed {
    fn open(engine: &Engine, name: &str) -> Outcome<Tailed> {
        match engine.wide(name)? {
            Some(wide) => Ok(Tailed::Wide(wide)),
            None => engine.collection(name).map(Tailed::Plain),
        }
    }

    fn positions(&self) -> Vec<Position> {
        match self {
            Tailed::Plain(collection) => collection.positions(),
            Tailed::Wide(collection) => collection.positions(),
        }
    }

    fn spread(&self, seen: &[Position]) -> quiredb::Result<Vec<Position>> {
        match self {
            Tailed::Plain(collection) => collection.spread(seen),
            Tailed::Wide(collection) => collection.spread(seen),
        }
    }
}

/// A request for changes.
#[derive(Debug, Clone)]
struct Wanted {
    seen: Vec<Position>,
    partition: Option<u32>,
    prefix: String,
    limit: usize,
    /// Whether the partitions were split or merged, and one is wanted: nothing more is read.
    is_over: bool,
}

impl Wanted {
    /// Has what was seen be of the partitions that there are now, if their number is this.
    fn expand(&mut self, collection: &Tailed, partitions: usize) {
        if partitions == self.seen.len() {
            return;
        }
        if let Ok(seen) = collection.spread(&self.seen) {
            self.seen = seen;
        }
        self.is_over = self.partition.is_some();
    }
}

/// `GET /{collection}/_changes`
pub(crate) async fn changes(call: Call<ChangesState>) -> Outcome<Answer> {
    let name = call.collection();
    let ChangesState {
        engine,
        stopping,
        reading,
    } = &call.state;
    let opened = {
        let name = name.clone();
        engine
            .read(move |engine| Tailed::open(engine, &name))
            .await??
    };
    let mut wanted = wanted(&call, &opened)?;
    let wait = call.params.number("wait_ms")?.unwrap_or(0);
    if wait > WAIT_MS_MAX {
        return Err(Failure::illegal_argument(format!(
            "parameter [wait_ms] is [{wait}], and must be at most {WAIT_MS_MAX}"
        )));
    }
    // For no change it needs not wait.
    let wait = if wanted.limit == 0 { 0 } else { wait };
    let end = Instant::now() + Duration::from_millis(wait);
    let mut large_bytes = 0;
    loop {
        let (collection, name) = (opened.clone(), name.clone());
        let bytes = HELD_BYTES
            .saturating_add(large_bytes)
            .min(call.buffers.bytes());
        let held = call.buffers.hold(bytes, call.body_timeout).await?;
        // The semaphore is never closed.
        let turn = Arc::clone(reading).acquire_owned().await.ok();
        let read_changes = engine.read(move |_| {
            let _turn = turn;
            let read = read(&collection, &mut wanted, large_bytes);
            // The reservation goes with the read, which ends even if no caller waits for it.
            read.map(|lines| (lines, wanted, held))
                .map_err(|error| Failure::engine(&error, Some(&name)))
        });
        let (read, mut held);
        (read, wanted, held) = read_changes.await??;
        let lines = match read {
            Read::Lines(lines) => lines,
            Read::Large(bytes) => {
                large_bytes = bytes;
                continue;
            }
        };
        // No request waits for new changes while it holds memory.
        held.resize(lines.capacity())?;
        while lines.is_empty() && !wanted.is_over && !is_new(&opened, &wanted) {
            if Instant::now() >= end || stopping.is_set() {
                break;
            }
            tokio::time::sleep(CHECK_EVERY).await;
        }
        let is_last = !lines.is_empty() || wanted.is_over || Instant::now() >= end;
        if is_last || !is_new(&opened, &wanted) {
            wanted.expand(&opened, opened.positions().len());
            return Ok(Answer::lines(with_cursor(lines, &wanted.seen), held));
        }
    }
}

fn wanted(call: &Call<ChangesState>, collection: &Tailed) -> Outcome<Wanted> {
    let partitions = collection.positions().len();
    let wrong = |what: String| Err(Failure::illegal_argument(what));
    let begin = || collection.spread(&vec![Position(0); partitions]);
    let seen = match call.params.text("after") {
        None | Some("") => begin().map_err(|error| Failure::engine(&error, None))?,
        Some(cursor) => {
            let seen = cursor.split(',').map(|one| one.parse().map(Position));
            let seen: Option<Vec<_>> = seen.collect::<Result<_, _>>().ok();
            match seen.and_then(|seen| collection.spread(&seen).ok()) {
                Some(seen) => seen,
                None => {
                    return wrong(format!(
                        "parameter [after] is [{cursor}], and must be {partitions} positions \
                         between commas, as in a cursor; or as many as there were before a \
                         split or a merge"
                    ));
                }
            }
        }
    };
    let partition = call.params.number("partition")?;
    if let Some(partition) = partition.filter(|number: &u32| *number as usize >= partitions) {
        return wrong(format!(
            "parameter [partition] is [{partition}], and must be less than {partitions}, the \
             number of partitions"
        ));
    }
    // With 0 there are no changes, and the cursor is one of now.
    let limit = call.params.number("limit")?.unwrap_or(LIMIT_DEFAULT);
    if limit > LIMIT_MAX {
        return wrong(format!("parameter [limit] must be from 0 to {LIMIT_MAX}"));
    }
    Ok(Wanted {
        seen,
        partition,
        prefix: call.params.text("prefix").unwrap_or_default().to_owned(),
        limit,
        is_over: false,
    })
}

/// Whether there may be changes that were not read.
fn is_new(collection: &Tailed, wanted: &Wanted) -> bool {
    let positions = collection.positions();
    if positions.len() != wanted.seen.len() {
        // The next read expands what was seen.
        return true;
    }
    let mut all = positions.iter().zip(&wanted.seen).enumerate();
    all.any(|(number, (position, seen))| {
        position > seen && wanted.partition.is_none_or(|only| only as usize == number)
    })
}

/// What reading changes gave.
enum Read {
    Lines(Vec<u8>),
    /// Nothing, as there are large documents: the bytes that reading takes beside.
    Large(usize),
}

/// Reads the changes after those seen, as lines, and advances what was seen. Documents that take
/// more than `large_bytes_max` together are not read, and a large one ends the answer. So does a
/// split of the collection, whose old partitions are closed.
fn read(collection: &Tailed, wanted: &mut Wanted, large_bytes_max: usize) -> quiredb::Result<Read> {
    let now = collection.positions();
    wanted.expand(collection, now.len());
    if wanted.is_over || wanted.seen.len() != now.len() {
        return Ok(Read::Lines(Vec::new()));
    }
    let mut from = wanted.seen.clone();
    if let Some(only) = wanted.partition {
        // Nothing of the other partitions is to be read.
        for (number, (seen, now)) in from.iter_mut().zip(now).enumerate() {
            if number != only as usize {
                *seen = now;
            }
        }
    }
    match collection {
        Tailed::Plain(plain) => {
            let changes = plain.tail_after(&from)?;
            read_from(changes, collection, "", wanted, large_bytes_max)
        }
        Tailed::Wide(wide) => {
            let (changes, settings) = (wide.tail_after(&from)?, wide.settings());
            let key_field = &settings.key_field;
            read_from(changes, collection, key_field, wanted, large_bytes_max)
        }
    }
}

/// As [`read`], of these changes.
fn read_from<C: Logged>(
    mut changes: Tail<C>,
    collection: &Tailed,
    key_field: &str,
    wanted: &mut Wanted,
    large_bytes_max: usize,
) -> quiredb::Result<Read> {
    let mut lines = Vec::new();
    // They may have been split or merged just now.
    let partitions = changes.seen().len();
    wanted.expand(collection, partitions);
    if wanted.is_over || wanted.seen.len() != partitions {
        return Ok(Read::Lines(lines));
    }
    let large_bytes = match changes.held_bytes() {
        bytes if bytes <= ANSWER_BYTES as u64 => 0,
        bytes => usize::try_from(LARGE_COPIES * bytes).unwrap_or(usize::MAX),
    };
    if large_bytes > large_bytes_max {
        return Ok(Read::Large(large_bytes));
    }
    let (mut found, mut read_count) = (0, 0);
    while found < wanted.limit && read_count < CHANGES_READ_MAX && lines.len() < ANSWER_BYTES {
        let is_large = changes.next_bytes() > ANSWER_BYTES as u64;
        if is_large && read_count > 0 {
            break;
        }
        let change = match changes.next() {
            None => break,
            Some(Err(error))
                if error.kind() == ErrorKind::Closed
                    && collection.positions().len() != partitions =>
            {
                break;
            }
            Some(change) => change?,
        };
        read_count += 1;
        if wanted
            .partition
            .is_none_or(|only| only == change.partition())
            && change.key().to_string().starts_with(&wanted.prefix)
        {
            change.write_json(key_field, &mut lines);
            lines.push(b'\n');
            found += 1;
        }
        if is_large {
            break;
        }
    }
    for (number, seen) in changes.seen().into_iter().enumerate() {
        if wanted.partition.is_none_or(|only| only as usize == number)
            && let Some(place) = wanted.seen.get_mut(number)
        {
            *place = seen;
        }
    }
    Ok(Read::Lines(lines))
}

fn with_cursor(mut lines: Vec<u8>, seen: &[Position]) -> Vec<u8> {
    let seen: Vec<String> = seen.iter().map(ToString::to_string).collect();
    let last = format!("{{\"cursor\":\"{}\"}}\n", seen.join(","));
    lines.extend_from_slice(last.as_bytes());
    lines
}
