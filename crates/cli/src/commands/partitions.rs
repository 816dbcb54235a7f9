//! `quire split` and `quire merge`: give a collection more partitions or fewer, while it is read
//! and written.
//!
//! An interrupt ends it, and the collection is then as it was: in a directory, and on a server, by
//! cancelling its task there.

use super::wide::{self, Opened};
use crate::Context;
use crate::error::{Error, Result};
use crate::http::segment;
use crate::link::{Link, Repeat, Request};
use crate::place::{self, Documents, Place, no_collection};
use crate::progress::Progress;
use crate::signals::Interrupt;
use crate::size::{count, counted};
use quire_pipeline::Target;
use quiredb::{Database, ErrorKind, PartitionsProgress};
use serde_json::{Value, json};
use std::time::Duration;

/// The most partitions of a collection.
const PARTITIONS_MAX: u32 = 1024;

/// What splits and merges are called on a server's list of tasks.
const ACTION: &str = "quire:admin/partitions";

/// The time between two requests for the progress of a server.
const POLL: Duration = Duration::from_millis(200);

/// Split the partitions of a collection: more of them are written in parallel afterwards
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each partition becomes two, or more. All documents are written once more, beside what is there: this
needs as much free room on the disk as the collection takes. A server reads and writes the
collection meanwhile. Versions of documents stay, and readers of changes go on where they are.
`quire merge` makes fewer of them.

An interrupt (Ctrl-C) ends it: the collection is then as it was.

Examples:
  quire split ./db papers                                    twice as many partitions
  quire split ./db papers --partitions 8
  quire split http://127.0.0.1:9200 papers --partitions 8    the server splits, and serves on")]
pub(crate) struct Split {
    #[command(flatten)]
    place: Place,
    /// The collection
    collection: String,
    /// How many partitions it gets: a multiple of those it has, up to 1024 [default: twice as many]
    #[arg(long, value_name = "P")]
    partitions: Option<u32>,
}

impl Split {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let work = Work {
            kind: Kind::Split,
            place: self.place,
            collection: self.collection,
            partitions: self.partitions,
        };
        work.run(context)
    }
}

/// Merge the partitions of a collection: fewer of them have fewer files, memtables and syncs
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Neighbouring partitions become one. All documents are written once more, beside what is there: this
needs as much free room on the disk as the collection takes. A server reads and writes the
collection meanwhile. Documents get higher versions, and readers of changes go on where they are:
they may see some changes once more.

An interrupt (Ctrl-C) ends it: the collection is then as it was.

Examples:
  quire merge ./db papers                                    half as many partitions
  quire merge ./db papers --partitions 1
  quire merge http://127.0.0.1:9200 papers --partitions 2    the server merges, and serves on")]
pub(crate) struct Merge {
    #[command(flatten)]
    place: Place,
    /// The collection
    collection: String,
    /// How many partitions it keeps, which divides their number [default: half of them]
    #[arg(long, value_name = "P")]
    partitions: Option<u32>,
}

impl Merge {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let work = Work {
            kind: Kind::Merge,
            place: self.place,
            collection: self.collection,
            partitions: self.partitions,
        };
        work.run(context)
    }
}

/// Whether there are more partitions afterwards, or fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Split,
    Merge,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Split => "split",
            Kind::Merge => "merge",
        }
    }

    fn done(self) -> &'static str {
        match self {
            Kind::Split => "split",
            Kind::Merge => "merged",
        }
    }

    /// The number of partitions that a collection is to have.
    ///
    /// # Errors
    /// If it can't get that number so.
    fn wanted(self, name: &str, now: u32, given: Option<u32>) -> Result<u32> {
        match self {
            Kind::Split => more(name, now, given),
            Kind::Merge => fewer(name, now, given),
        }
    }
}

/// What is to be done.
struct Work {
    kind: Kind,
    place: Place,
    collection: String,
    partitions: Option<u32>,
}

/// What was done.
struct Done {
    before: u64,
    partitions: u64,
}

impl Work {
    fn run(self, context: &mut Context) -> Result<()> {
        let begun = context.env.monotonic();
        let done = match self.place.server(context)? {
            Some(link) => self.run_on_server(context, &link)?,
            None => self.run_here(context)?,
        };
        let seconds = (context.env.monotonic().saturating_sub(begun)).as_secs_f64();
        let Done { before, partitions } = done;
        let name = &self.collection;
        if context.out.is_json() {
            return context.out.json_line(&json!({
                self.kind.name(): name,
                "partitions_before": before,
                "partitions": partitions,
                "seconds": seconds,
            }));
        }
        context.out.line(format_args!(
            "{} {name}: {}, {before} before, in {seconds:.1} s",
            self.kind.done(),
            counted(partitions, "partition", "partitions")
        ))
    }

    /// Does it in this process.
    fn run_here(&self, context: &Context) -> Result<Done> {
        let name = &self.collection;
        let (database, settings) = match wide::open(context, &self.place, name)? {
            Opened::Plain(Documents::Directory {
                database,
                collection,
            }) => (database, collection.settings()),
            Opened::Wide(database, collection) => (database, collection.settings()),
            Opened::Plain(Documents::Server(_)) => {
                let what = format!("`{name}` is in a directory, and was opened on a server");
                return Err(Error::Failed(what));
            }
        };
        let before = settings.partitions;
        let wanted = self.kind.wanted(name, before, self.partitions)?;
        let interrupt = Interrupt::watch()?;
        self.change(&database, wanted, &interrupt)?;
        let closed = database.close();
        closed.map_err(Error::engine("cannot close the database"))?;
        Ok(Done {
            before: before.into(),
            partitions: wanted.into(),
        })
    }

    /// Has a server do it, and waits for the end.
    fn run_on_server(&self, context: &Context, link: &Link) -> Result<Done> {
        let (name, what) = (&self.collection, self.kind.name());
        let interrupt = Interrupt::watch()?;
        // A server splits where no number is given, and merges where a lower one is.
        let count = match (self.kind, self.partitions) {
            (Kind::Split, None) => None,
            _ => {
                let collection = place::remote_collection(link, name)?;
                let now = collection.positions();
                let now = now
                    .map_err(Error::engine("cannot see the partitions"))?
                    .len();
                let now = u32::try_from(now).unwrap_or(u32::MAX);
                Some(self.kind.wanted(name, now, self.partitions)?)
            }
        };
        let count = count.map(|count| format!("&count={count}"));
        let begun = link.whole(Request {
            method: "POST",
            path: &format!(
                "/{}/_partitions?wait_for_completion=false{}",
                segment(name),
                count.unwrap_or_default()
            ),
            body: b"",
            repeat: Repeat::IfNothingDone,
        });
        let begun = begun.map_err(|source| match source.kind() {
            ErrorKind::NotFound => no_collection(link, name),
            _ => Error::Engine {
                context: format!("cannot {what} `{name}`"),
                source,
            },
        })?;
        let begun = json_of(link, &begun)?;
        let task = begun["task"].as_str().ok_or_else(|| strange(link))?;
        let bar = Progress::stages();
        let ended = ended(context, link, task, &interrupt, &bar);
        bar.finish();
        let ended = ended?.ok_or_else(|| {
            Error::Failed(format!(
                "the server was stopped meanwhile, and the {what} of `{name}` with it: the \
                 collection is as it was, unless this was at the very end; `quire collections {} \
                 --json` shows its partitions",
                link.url()
            ))
        })?;
        let error = &ended["error"];
        match error["type"].as_str() {
            None => {}
            Some("task_cancelled_exception") => return Err(self.interrupted()),
            Some(_) => {
                let reason = error["reason"].as_str().unwrap_or("for no reason given");
                return Err(Error::Failed(format!(
                    "the server could not {what} `{name}`: {reason}"
                )));
            }
        }
        let number = |member: &str| {
            let number = ended["response"][member].as_u64();
            number.ok_or_else(|| strange(link))
        };
        Ok(Done {
            before: number("partitions_before")?,
            partitions: number("partitions")?,
        })
    }

    /// Does it to a collection of a directory, and shows how far it is.
    fn change(&self, database: &Database, partitions: u32, interrupt: &Interrupt) -> Result<()> {
        let name = &self.collection;
        let bar = Progress::stages();
        let watch = |progress: PartitionsProgress| {
            let PartitionsProgress {
                stage, done, total, ..
            } = progress;
            show(&bar, stage.name(), done, total);
            !interrupt.is_set()
        };
        let done = match self.kind {
            Kind::Split => database.split_collection(name, partitions, &watch),
            Kind::Merge => database.merge_collection(name, partitions, &watch),
        };
        bar.finish();
        match done {
            Ok(()) => Ok(()),
            Err(quiredb::Error::Stopped) => Err(self.interrupted()),
            Err(source) => Err(Error::Engine {
                context: format!("cannot {} `{name}`, which is as it was", self.kind.name()),
                source,
            }),
        }
    }

    fn interrupted(&self) -> Error {
        let (what, name) = (self.kind.name(), &self.collection);
        Error::Failed(format!(
            "the {what} was ended before its end: `{name}` is as it was"
        ))
    }
}

/// The number of partitions that a collection is to be split into.
fn more(name: &str, now: u32, given: Option<u32>) -> Result<u32> {
    let wanted = given.unwrap_or(now.saturating_mul(2));
    if wanted > now && wanted.is_multiple_of(now) && wanted <= PARTITIONS_MAX {
        return Ok(wanted);
    }
    let mut next = (2..=4).map(|times| now.saturating_mul(times));
    let which = match next.next().filter(|twice| *twice <= PARTITIONS_MAX) {
        None => "that is as many as a collection can have".to_owned(),
        Some(twice) => {
            let more = next.filter(|more| *more <= PARTITIONS_MAX);
            let all: Vec<String> = [twice]
                .into_iter()
                .chain(more)
                .map(|one| one.to_string())
                .collect();
            format!(
                "--partitions must be a multiple of that, up to {PARTITIONS_MAX}: {} and so on; \
                 `quire merge` makes fewer of them",
                all.join(", ")
            )
        }
    };
    Err(Error::Usage(format!(
        "`{name}` has {}: {which}",
        counted(now.into(), "partition", "partitions")
    )))
}

/// The number of partitions that those of a collection are to be merged into.
fn fewer(name: &str, now: u32, given: Option<u32>) -> Result<u32> {
    let divisors: Vec<u32> = (1..now).filter(|one| now.is_multiple_of(*one)).collect();
    let wanted = match given {
        Some(given) => divisors.contains(&given).then_some(given),
        None => divisors.last().copied(),
    };
    wanted.ok_or_else(|| {
        let which = match divisors.is_empty() {
            true => "there is nothing to merge".to_owned(),
            false => {
                let all: Vec<String> = divisors.iter().map(u32::to_string).collect();
                format!(
                    "--partitions must be a number that divides it: {}; `quire split` makes more \
                     of them",
                    all.join(", ")
                )
            }
        };
        Error::Usage(format!(
            "`{name}` has {}: {which}",
            counted(now.into(), "partition", "partitions")
        ))
    })
}

/// Waits for the end of it on a server, and shows how far it is. An interrupt cancels it. None
/// if the server does not know the task: it was started again, and its tasks with it.
fn ended(
    context: &Context,
    link: &Link,
    task: &str,
    interrupt: &Interrupt,
    bar: &Progress,
) -> Result<Option<Value>> {
    let path = format!("/_tasks/{}", segment(task));
    let mut is_cancelled = false;
    loop {
        let state = match link.whole(Request::get(&path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            state => state.map_err(Error::engine("cannot see how far it is"))?,
        };
        let state = json_of(link, &state)?;
        if state["task"]["action"] != ACTION {
            return Ok(None);
        }
        if state["completed"] == true {
            return Ok(Some(state));
        }
        let status = &state["task"]["status"];
        let number = |name: &str| status[name].as_u64().unwrap_or(0);
        let stage = status["stage"].as_str().unwrap_or("waiting");
        show(bar, stage, number("done"), number("total"));
        if interrupt.is_set() && !is_cancelled {
            let cancelled = link.whole(Request::post(&format!("{path}/_cancel"), b""));
            match cancelled {
                Ok(_) => is_cancelled = true,
                // It has ended just now: the next look shows how.
                Err(error) if error.kind() == ErrorKind::NotFound => is_cancelled = true,
                Err(source) => {
                    let context = format!(
                        "cannot end it; it goes on, as task {task} of {}",
                        link.url()
                    );
                    return Err(Error::Engine { context, source });
                }
            }
        }
        context.env.sleep(POLL);
    }
}

/// Shows how far a stage is.
fn show(bar: &Progress, stage: &str, done: u64, total: u64) {
    // What has no parts is at its end.
    bar.total(total.max(1));
    bar.at(if total == 0 { 1 } else { done }, || match stage {
        "copying" => format!("copying: {} of {} entries", count(done), count(total)),
        "indexing" => format!("indexing: {} of {} documents", count(done), count(total)),
        stage => stage.to_owned(),
    });
}

fn json_of(link: &Link, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|_| strange(link))
}

/// The error of an answer that no server of this version gives.
fn strange(link: &Link) -> Error {
    Error::Failed(format!(
        "the answer of {} is not understood: it is no server of this version of Quire",
        link.url()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_gets_a_multiple_of_its_partitions() {
        for (now, given, expected) in [
            (2, None, Some(4)),
            (2, Some(6), Some(6)),
            (3, Some(1023), Some(1023)),
            (2, Some(2), None),
            (2, Some(3), None),
            (4, Some(2), None),
            (4, Some(0), None),
            (600, None, None),
            (2, Some(1026), None),
        ] {
            assert_eq!(more("c", now, given).ok(), expected, "{now} {given:?}");
        }
        let refused = |now, given| more("c", now, given).unwrap_err().to_string();
        assert!(refused(300, Some(7)).contains(": 600, 900 and so on"));
        assert!(refused(1024, None).contains("as many as a collection can have"));
    }

    #[test]
    fn partitions_are_merged_into_a_number_that_divides_theirs() {
        for (now, given, expected) in [
            (8, None, Some(4)),
            (9, None, Some(3)),
            (8, Some(1), Some(1)),
            (7, None, Some(1)),
            (1, None, None),
            (8, Some(3), None),
            (8, Some(8), None),
            (8, Some(0), None),
            (8, Some(16), None),
        ] {
            assert_eq!(fewer("c", now, given).ok(), expected, "{now} {given:?}");
        }
        let refused = |now, given| fewer("c", now, given).unwrap_err().to_string();
        assert!(refused(8, Some(3)).contains(": 1, 2, 4; "));
        assert!(refused(1, None).contains("nothing to merge"));
    }
}
