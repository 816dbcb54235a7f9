//! Scrubbing: a background duty of an open database that reads everything once a period, so that
//! bytes which rot on a disk are found while there is still a copy.
//!
//! # Invariants
//! 1. A slice at a time, with pauses that spread a pass evenly over the period; past the block
//!    cache.
//! 2. Where it is, and what it has found, is kept in the file `SCRUB`: after a restart it goes on
//!    with the next file. The file is no more than a note: if it is damaged or missing, a new pass
//!    begins.
//! 3. It keeps nothing alive: no file but the one that it reads, and not the database.
//!
//! # Layout of `SCRUB`
//! A sealed text file (see `sealed.rs`) of the kind `quire-scrub`, version 1.

use crate::damage::Damage;
use crate::stats::ScrubStats;
use crate::{Error, ErrorKind};
use parking_lot::Mutex;
use quire_env::{Env, IoClass, IoScope, JobClass};
use quire_store::{AnyStore, FileInspection, Inspected, StoreFile, seal, unseal};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The name of the note in the database's directory.
const SCRUB_NAME: &str = "SCRUB";
const NAME: &str = "quire-scrub";
const VERSION: u32 = 1;
const SCRUB_BYTES_MAX: u64 = 16 << 20;
/// The least bytes of a slice; at a high rate, a slice is what the rate reads in a second.
const SLICE_BYTES_MIN: u64 = 1 << 20;
/// How long after it was first opened a database is first scrubbed.
const FIRST: Duration = Duration::from_secs(3600);
/// How long after opening it goes on at the earliest.
const PAUSE: Duration = Duration::from_secs(60);
/// How long it waits while another thread opens or creates a collection.
const BUSY: Duration = Duration::from_secs(1);
/// The note is written this often at most, unless something was found.
const SAVE_MICROS: i64 = 60_000_000;
/// The most damages that are kept; where there are more, `quire verify` reports all of them.
const DAMAGES_MAX: usize = 1000;

/// A file's place in a pass: collection, partition, and its order there.
type Cursor = (String, u32, (bool, u64));

/// What is kept.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Notes {
    passes: u64,
    last_pass_micros: Option<i64>,
    last_pass_bytes: u64,
    pass_bytes: u64,
    /// The last file that the present pass has come to the end of.
    cursor: Option<Cursor>,
    /// When the next slice is due: microseconds since 1970 UTC.
    next_micros: i64,
    /// With the number of the pass that found it.
    damage: Vec<(u64, Damage)>,
    #[serde(skip)]
    saved_micros: i64,
    /// There is more than was saved.
    #[serde(skip)]
    changed: bool,
    /// And it is worth saving at once.
    #[serde(skip)]
    urgent: bool,
    #[serde(skip)]
    stopped: bool,
}

/// The pass under way.
#[derive(Debug, Default)]
struct Work {
    begun: bool,
    files: VecDeque<(Cursor, StoreFile)>,
    reading: Option<(Cursor, FileInspection)>,
    /// Bytes of all files.
    total: u64,
}

/// Scrubs one database.
pub(crate) struct Scrubber {
    env: Arc<dyn Env>,
    source: Box<dyn ScrubSource>,
    path: PathBuf,
    period: Duration,
    /// Held during a slice.
    work: Mutex<Work>,
    /// Held for a moment, and while the note is written.
    notes: Mutex<Notes>,
}

/// What a scrub reads: the collections of an open database. No call waits for another thread.
pub(crate) trait ScrubSource: Send + Sync {
    /// The names of the collections, sorted.
    fn collections(&self) -> Result<Vec<String>, Ended>;

    /// The partitions of a collection, by number. It is opened if it is not open yet; or the error
    /// of that.
    fn partitions(&self, collection: &str) -> Result<crate::Result<Stores>, Ended>;
}

/// The stores of a collection's partitions.
pub(crate) type Stores = Vec<Arc<dyn AnyStore>>;

/// Why a slice did not come to its end.
pub(crate) enum Ended {
    /// The database is gone.
    Gone,
    /// Another thread is opening or creating a collection.
    Busy,
}

impl Scrubber {
    /// Begins to scrub, in the background.
    pub(crate) fn start(
        env: Arc<dyn Env>,
        source: Box<dyn ScrubSource>,
        root: &Path,
        period: Duration,
    ) -> Arc<Scrubber> {
        let path = root.join(SCRUB_NAME);
        let notes = env.read(&path, SCRUB_BYTES_MAX).ok();
        let notes = notes.as_deref().and_then(decode);
        let delay = match &notes {
            None => FIRST.min(period),
            Some(notes) => {
                let left = notes.next_micros.saturating_sub(env.now_micros());
                let left = Duration::from_micros(u64::try_from(left).unwrap_or(0));
                left.clamp(PAUSE.min(period), period)
            }
        };
        let scrubber = Arc::new(Scrubber {
            env,
            source,
            path,
            period,
            work: Mutex::default(),
            notes: Mutex::new(notes.unwrap_or_default()),
        });
        scrubber.schedule(delay);
        scrubber
    }

    /// Ends: nothing is written any more when this returns.
    pub(crate) fn stop(&self) {
        let mut notes = self.notes.lock();
        if !notes.stopped && notes.changed {
            self.save(&mut notes);
        }
        notes.stopped = true;
    }

    pub(crate) fn stats(&self) -> ScrubStats {
        let notes = self.notes.lock();
        ScrubStats {
            period_seconds: self.period.as_secs(),
            passes: notes.passes,
            last_pass_micros: notes.last_pass_micros,
            last_pass_bytes: notes.last_pass_bytes,
            pass_bytes: notes.pass_bytes,
            damage: notes
                .damage
                .iter()
                .map(|(_, found)| found.clone())
                .collect(),
        }
    }

    fn schedule(self: &Arc<Self>, delay: Duration) {
        let me = Arc::downgrade(self);
        let job = move || {
            if let Some(me) = me.upgrade() {
                me.tick();
            }
        };
        self.env
            .schedule(JobClass::Compaction, delay, Box::new(job));
    }

    fn tick(self: &Arc<Self>) {
        if self.notes.lock().stopped {
            return;
        }
        let _io = IoScope::enter(IoClass::Background);
        let mut work = self.work.lock();
        let delay = match self.slice(&mut work) {
            Ok(delay) => delay,
            Err(Ended::Busy) => BUSY,
            Err(Ended::Gone) => return,
        };
        drop(work);
        let mut notes = self.notes.lock();
        let (now, delay_micros) = (self.env.now_micros(), i64::try_from(delay.as_micros()));
        notes.next_micros = now.saturating_add(delay_micros.unwrap_or(i64::MAX));
        notes.changed = true;
        let due = now.saturating_sub(notes.saved_micros) >= SAVE_MICROS;
        if !notes.stopped && (due || notes.urgent) {
            self.save(&mut notes);
        }
        drop(notes);
        self.schedule(delay);
    }

    /// Reads a slice. Returns how long the pause after it is to be.
    fn slice(&self, work: &mut Work) -> Result<Duration, Ended> {
        if !work.begun {
            self.begin(work)?;
        }
        let share = |bytes: u64| {
            let part = bytes as f64 / work.total.max(1) as f64;
            self.period.mul_f64(part.clamp(0.0, 1.0))
        };
        let second = work.total as f64 / self.period.as_secs_f64().max(1.0);
        let slice_bytes = SLICE_BYTES_MIN.max(second as u64);
        let mut read = 0;
        while read < slice_bytes {
            let Some((cursor, inspection)) = &mut work.reading else {
                let Some((cursor, file)) = work.files.pop_front() else {
                    self.end_pass();
                    let pause = if work.total == 0 {
                        self.period
                    } else {
                        share(read)
                    };
                    *work = Work::default();
                    return Ok(pause);
                };
                // It was compacted into one that was read since.
                if self.notes.lock().cursor.as_ref() >= Some(&cursor) {
                    continue;
                }
                match self.open(&cursor, &file) {
                    Ok(reading) => {
                        work.reading = reading.map(|reading| {
                            let (name, partition, _) = cursor;
                            ((name, partition, reading.order()), reading)
                        });
                    }
                    Err(ended) => {
                        work.files.push_front((cursor, file));
                        return Err(ended);
                    }
                }
                continue;
            };
            match inspection.next() {
                Some(Ok(Inspected::Read(bytes))) => {
                    read += bytes;
                    self.notes.lock().pass_bytes += bytes;
                }
                Some(Ok(Inspected::Damage(found))) => self.note(found.into()),
                Some(Err(error)) => {
                    let error = Error::from(quire_collection::Error::from(error));
                    self.failed(cursor, &error);
                }
                None => {
                    self.notes.lock().cursor = Some(cursor.clone());
                    work.reading = None;
                }
            }
        }
        Ok(share(read))
    }

    /// Lists the files of a pass: those after the one that it had come to.
    fn begin(&self, work: &mut Work) -> Result<(), Ended> {
        let mut listed = Work::default();
        let after = self.notes.lock().cursor.clone();
        for name in self.source.collections()? {
            let partitions = match self.source.partitions(&name)? {
                Ok(partitions) => partitions,
                Err(error) => {
                    self.failed(&(name, 0, (false, 0)), &error);
                    continue;
                }
            };
            for (number, partition) in (0..).zip(partitions) {
                for file in partition.files() {
                    listed.total += file.bytes;
                    let cursor = (name.clone(), number, file.order());
                    if after.as_ref().is_none_or(|after| *after < cursor) {
                        listed.files.push_back((cursor, file));
                    }
                }
            }
        }
        listed.begun = true;
        *work = listed;
        Ok(())
    }

    /// Opens a file; `None` if it is gone, or can't be opened.
    fn open(&self, cursor: &Cursor, file: &StoreFile) -> Result<Option<FileInspection>, Ended> {
        let partitions = match self.source.partitions(&cursor.0)? {
            Ok(partitions) => partitions,
            Err(error) => {
                self.failed(cursor, &error);
                return Ok(None);
            }
        };
        let partition = partitions.get(cursor.1 as usize);
        match partition.map(|partition| partition.inspect(file)) {
            Some(Ok(inspection)) => Ok(inspection),
            Some(Err(error)) => {
                self.failed(cursor, &Error::from(error));
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn end_pass(&self) {
        let mut notes = self.notes.lock();
        let pass = notes.passes;
        notes.damage.retain(|(found, _)| *found == pass);
        notes.passes += 1;
        notes.last_pass_micros = Some(self.env.now_micros());
        notes.last_pass_bytes = std::mem::take(&mut notes.pass_bytes);
        notes.cursor = None;
        notes.urgent = true;
        tracing::info!(
            bytes = notes.last_pass_bytes,
            damages = notes.damage.len(),
            "a scrub has read everything"
        );
    }

    /// What could not be read is damage too, unless it is not there any more.
    fn failed(&self, cursor: &Cursor, error: &Error) {
        if matches!(error.kind(), ErrorKind::Closed | ErrorKind::NotFound) {
            return;
        }
        let (collection, partition, _) = cursor;
        let what = format!("collection {collection}, partition {partition}: {error}");
        let root = self.path.parent().unwrap_or(Path::new(""));
        self.note(Damage::new(root, 0, what, "what can't be read"));
    }

    /// Keeps a damage, and tells it if it is new.
    fn note(&self, found: Damage) {
        let mut notes = self.notes.lock();
        let pass = notes.passes;
        if let Some((seen, _)) = notes.damage.iter_mut().find(|(_, known)| *known == found) {
            *seen = pass;
            return;
        }
        tracing::error!(
            file = found.file,
            offset = found.offset,
            what = found.what,
            "a scrub has found damage"
        );
        if notes.damage.len() < DAMAGES_MAX {
            notes.damage.push((pass, found));
            notes.urgent = true;
        }
    }

    /// Writes the note. One that can't be written costs a part of a pass after the next restart.
    fn save(&self, notes: &mut Notes) {
        notes.saved_micros = self.env.now_micros();
        (notes.changed, notes.urgent) = (false, false);
        if let Err(error) = self.env.replace(&self.path, &encode(notes)) {
            tracing::debug!(%error, "where scrubbing is could not be noted");
        }
    }
}

fn encode(notes: &Notes) -> Vec<u8> {
    seal(NAME, VERSION, &serde_json::json!(notes).to_string())
}

fn decode(bytes: &[u8]) -> Option<Notes> {
    let json = unseal(NAME, VERSION, "note of the scrub", bytes).ok()?;
    serde_json::from_str(json).ok()
}
