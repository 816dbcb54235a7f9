//! The way of changes to one sink: a reader, a coordinator, and workers that send bulks.
//!
//! ```text
//!            changes             bulks, no key in two of them
//!   reader ──────────► coordinator ─────────────────────────► workers ──► sink
//!      ▲                 │    ▲                                  │
//!      └──── credits ────┘    └────────── settled bulks ─────────┘
//! ```
//!
//! # Invariants
//! 1. The stored cursor is only ever after changes that the sink acknowledged, or that are durable
//!    among the dead letters. So a kill at any moment loses nothing; what comes twice is harmless
//!    by external versions, by the sink's mark, or by the order of a key's changes.
//! 2. Memory is bounded: the reader needs a credit for each read, and the coordinator returns it
//!    only when less than two bulks wait. Nothing is cut while too many bulks are behind one that
//!    is not settled.
//! 3. A source that was split is opened anew when all that was read before is settled and stored.
//!    So all that waits and is under way has the partitions of one reader, whose place is stored
//!    with the cursor.

use crate::batcher::{Batcher, Bulk};
use crate::change::{Change, Cursor};
use crate::checkpoint::Checkpoint;
use crate::delays::Delays;
use crate::deliver::Delivery;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::sink::Failure;
use crate::topic::{Source, Topic};
use crate::tuner::Tuner;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// Bytes of a read, and reads ahead.
const READ_BYTES: usize = 4 << 20;
const CREDITS: usize = 2;

/// The longest wait of a reader at the end of a topic.
const READ_WAIT: Duration = Duration::from_secs(1);

/// How long changes wait for more, before a bulk is sent that is not full.
const LINGER: Duration = Duration::from_millis(10);

/// How often the coordinator wakes up when nothing happens.
const TICK: Duration = Duration::from_millis(200);

/// How often the cursor is stored.
const STORE_EVERY: Duration = Duration::from_secs(1);

/// What the coordinator is sent.
enum Event {
    Opened {
        cursor: Cursor,
        place: Option<Value>,
    },
    Read {
        changes: Vec<Change>,
        place: Option<Value>,
        end: Option<Cursor>,
    },
    /// The source was split; the reader waits for leave to open it anew.
    Split,
    Settled {
        bulk: Bulk,
        mark: Option<Value>,
    },
    Failed(Error),
}

/// What the reader may do.
enum Credit {
    /// Read once. This place is stored.
    Read(Option<Value>),
    /// Open the source anew: all that it has read is settled and stored.
    Open,
}

/// What a lane is made of.
pub(crate) struct Lane<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) delivery: &'a Delivery<'a>,
    pub(crate) checkpoint_path: &'a Path,
    /// Ends when the sink is level.
    pub(crate) once: bool,
    pub(crate) report_every: Duration,
    pub(crate) observe: &'a (dyn Fn(&Progress) + Sync),
}

/// The coordinator's state.
struct Coordinator<'l, 'a> {
    lane: &'l Lane<'a>,
    batcher: Batcher,
    tuner: Tuner,
    checkpoint: Checkpoint,
    /// Changes that were shipped, and refused, before this run.
    before: (u64, u64),
    /// The reader was at the end when it last read.
    at_end: bool,
    end: Option<Cursor>,
    /// Places of the source, each with the number of changes after which it is.
    places: VecDeque<(u64, Value)>,
    /// The last of them that all before is settled of.
    place: Option<Value>,
    read: u64,
    rejections: u64,
    stored_at: Duration,
    reported_at: Duration,
    reported: (u64, u64),
    bytes: u64,
    /// Delays of all changes, and of those since the last report.
    delays: Delays,
    new_delays: Delays,
    /// Since when changes wait that would not fill a bulk.
    waiting_since: Option<Duration>,
    /// Credits that the reader gets when there is room.
    owed: usize,
    /// The source was split, and is opened anew when all that was read is stored.
    is_split: bool,
}

impl Lane<'_> {
    /// Ships from the stored cursor on, until level if so wanted, else until stopped.
    ///
    /// # Errors
    /// Of the source, the sink, or a file. What was acknowledged is stored.
    pub(crate) fn run(&self, checkpoint: Checkpoint, tuner: Tuner) -> Result<Progress> {
        let cursor = checkpoint.cursor();
        let workers = self.delivery.sink.concurrency_max();
        let (event_out, events) = mpsc::channel();
        let (bulk_out, bulks) = mpsc::channel::<Bulk>();
        let (credit_out, credits) = mpsc::channel::<Credit>();
        let bulks = Mutex::new(bulks);
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for number in 0..workers {
                let (events, bulks) = (event_out.clone(), &bulks);
                let name = format!("{}-{number}", self.delivery.name);
                let worker = thread::Builder::new().name(name);
                let worker = worker.spawn_scoped(scope, move || self.work(bulks, &events));
                threads.push(worker.map_err(Error::Thread)?);
            }
            let reader = thread::Builder::new().name(format!("{}-reader", self.delivery.name));
            let from = (cursor.clone(), checkpoint.place.clone());
            let reader = reader
                .spawn_scoped(scope, move || self.read(from, &credits, &event_out))
                .map_err(Error::Thread)?;
            let now = self.delivery.env.monotonic();
            threads.push(reader);
            let mut coordinator = Coordinator {
                lane: self,
                // A place may move without a change: the mark stays then.
                batcher: Batcher::new(cursor, checkpoint.mark.clone()),
                tuner,
                before: (checkpoint.changes, checkpoint.dead_letters),
                place: checkpoint.place.clone(),
                checkpoint,
                at_end: false,
                end: None,
                places: VecDeque::new(),
                read: 0,
                rejections: 0,
                stored_at: now,
                reported_at: now,
                reported: (0, 0),
                bytes: 0,
                delays: Delays::default(),
                new_delays: Delays::default(),
                waiting_since: None,
                owed: 0,
                is_split: false,
            };
            let mut done = coordinator.run(&events, &bulk_out, &credit_out, &threads);
            if done.is_err() {
                self.delivery.failed.store(true, Ordering::Relaxed);
            }
            // Ends the threads.
            drop((bulk_out, credit_out));
            for thread in threads {
                if thread.join().is_err() {
                    done = Err(Error::Panicked(self.delivery.name.to_owned()));
                }
            }
            // What the workers settled while they ended counts too.
            for event in events.try_iter() {
                if let Event::Settled { bulk, mark } = event {
                    coordinator.settled(&bulk, mark);
                }
            }
            let stored = coordinator.store();
            let progress = coordinator.progress();
            (self.observe)(&progress);
            done.and(stored).map(|()| progress)
        })
    }

    fn work(&self, bulks: &Mutex<Receiver<Bulk>>, events: &Sender<Event>) {
        loop {
            let bulk = bulks.lock().recv();
            let Ok(bulk) = bulk else { return };
            let event = match self.delivery.deliver(&bulk) {
                Ok(()) => Event::Settled {
                    mark: self.delivery.sink.mark(),
                    bulk,
                },
                Err(error) => Event::Failed(error),
            };
            // A coordinator that is gone needs nothing.
            let _ = events.send(event);
        }
    }

    fn read(
        &self,
        from: (Cursor, Option<Value>),
        credits: &Receiver<Credit>,
        events: &Sender<Event>,
    ) {
        if let Err(error) = self.read_on(from, credits, events) {
            let _ = events.send(Event::Failed(error));
        }
    }

    fn read_on(
        &self,
        (mut cursor, mut place): (Cursor, Option<Value>),
        credits: &Receiver<Credit>,
        events: &Sender<Event>,
    ) -> Result<()> {
        loop {
            let mut topic = self.until_it_answers(|| self.source.open(place.as_ref()))?;
            cursor = topic.resumed(cursor, place.as_ref())?;
            let _ = events.send(Event::Opened {
                cursor: cursor.clone(),
                place: topic.place(),
            });
            match self.read_topic(&mut *topic, &mut cursor, credits, events) {
                Err(Error::SourceSplit) => {}
                end => return end,
            }
            place = topic.place();
            let _ = events.send(Event::Split);
            // Credits to read were for the reader before.
            loop {
                match credits.recv() {
                    Ok(Credit::Open) => break,
                    Ok(Credit::Read(_)) => {}
                    Err(_) => return Ok(()),
                }
            }
        }
    }

    /// Reads until the coordinator is gone, and moves the cursor.
    fn read_topic(
        &self,
        topic: &mut dyn Topic,
        cursor: &mut Cursor,
        credits: &Receiver<Credit>,
        events: &Sender<Event>,
    ) -> Result<()> {
        let wait = match self.once {
            true => Duration::ZERO,
            false => READ_WAIT,
        };
        while let Ok(credit) = credits.recv() {
            if let Credit::Read(Some(stored)) = credit {
                topic.stored(&stored);
            }
            let changes = self.until_it_answers(|| topic.read(cursor, READ_BYTES, wait))?;
            for change in &changes {
                cursor.advance(change.partition, change.position);
            }
            let (place, end) = (topic.place(), topic.end());
            let _ = events.send(Event::Read {
                changes,
                place,
                end,
            });
        }
        Ok(())
    }

    fn until_it_answers<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        let mut attempts = 0;
        loop {
            match call() {
                Err(Error::SourceAway(why)) => {
                    attempts += 1;
                    *self.delivery.waiting_for.lock() = Some(format!("the source: {why}"));
                    self.delivery.wait(attempts)?;
                }
                done => {
                    if attempts > 0 {
                        *self.delivery.waiting_for.lock() = None;
                    }
                    return done;
                }
            }
        }
    }
}

impl Coordinator<'_, '_> {
    fn run(
        &mut self,
        events: &Receiver<Event>,
        bulks: &Sender<Bulk>,
        credits: &Sender<Credit>,
        threads: &[ScopedJoinHandle<'_, ()>],
    ) -> Result<()> {
        loop {
            self.dispatch(bulks);
            if self.at_end && self.lane.once && self.batcher.is_level() {
                return Ok(());
            }
            if self.lane.delivery.is_stopped() {
                return Err(Error::Stopped);
            }
            let room = 2 * self.tuner.setting().bulk_bytes;
            while self.owed > 0 && self.batcher.waiting_bytes() < room {
                self.owed -= 1;
                // A reader that is gone has said why.
                let _ = credits.send(Credit::Read(self.checkpoint.place.clone()));
            }
            if self.is_split && self.is_all_stored() {
                self.is_split = false;
                let _ = credits.send(Credit::Open);
            }
            let timeout = match self.batcher.waiting_bytes() {
                0 => TICK,
                _ => LINGER,
            };
            match events.recv_timeout(timeout) {
                Ok(event) => self.take(event)?,
                Err(RecvTimeoutError::Timeout)
                    if !threads.iter().any(ScopedJoinHandle::is_finished) => {}
                // A thread ends before the coordinator only if it has said why, or panicked.
                Err(_) => match events.try_recv() {
                    Ok(event) => self.take(event)?,
                    Err(_) => return Err(self.panicked()),
                },
            }
            self.store_and_report()?;
        }
    }

    fn panicked(&self) -> Error {
        Error::Panicked(self.lane.delivery.name.to_owned())
    }

    /// Gives bulks to the workers: full ones, and a smaller one when its changes waited for long
    /// enough or no more come.
    fn dispatch(&mut self, bulks: &Sender<Bulk>) {
        let setting = self.tuner.setting();
        let now = self.lane.delivery.env.monotonic();
        while self.batcher.under_way() < setting.concurrency {
            let waited = self.waiting_since.map(|since| now.saturating_sub(since));
            let is_partial = self.at_end || waited.is_some_and(|waited| waited >= LINGER);
            let Some(bulk) = self.batcher.cut(setting.bulk_bytes, is_partial) else {
                self.tuner.starved();
                break;
            };
            self.waiting_since = None;
            // The workers end after the coordinator.
            let _ = bulks.send(bulk);
        }
        if self.batcher.waiting_bytes() > 0 {
            self.waiting_since.get_or_insert(now);
        }
    }

    fn take(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Opened { cursor, place } => {
                self.begin_at(cursor, place)?;
                self.owed = CREDITS;
            }
            Event::Split => {
                (self.at_end, self.end) = (false, None);
                (self.is_split, self.owed) = (true, 0);
            }
            Event::Read {
                changes,
                place,
                end,
            } => {
                self.at_end = changes.is_empty();
                self.end = end;
                self.read += changes.len() as u64;
                if self.places.back().is_some_and(|last| last.0 == self.read) {
                    self.places.pop_back();
                }
                self.places.extend(place.map(|place| (self.read, place)));
                self.batcher.add(changes);
                if !(self.at_end && self.lane.once) {
                    self.owed += 1;
                }
            }
            Event::Settled { bulk, mark } => self.settled(&bulk, mark),
            Event::Failed(error) => return Err(error),
        }
        let rejections = self.lane.delivery.tally.rejections.load(Ordering::Relaxed);
        if rejections > self.rejections {
            self.rejections = rejections;
            self.tuner.rejected();
        }
        Ok(())
    }

    /// Whether all that was read is settled, and the cursor after it is stored.
    fn is_all_stored(&self) -> bool {
        self.batcher.is_level() && self.batcher.settled().cursor == self.checkpoint.cursor()
    }

    /// Stores where the source is when it is opened, before anything is sent: another run that
    /// began later would not learn of what was deleted meanwhile, or would number files otherwise.
    /// The cursor is the stored one, as this reader has it.
    fn begin_at(&mut self, cursor: Cursor, place: Option<Value>) -> Result<()> {
        self.batcher.begin_at(cursor.clone());
        // Those of a reader before go with its cursors.
        self.places.clear();
        if place.is_none() {
            return Ok(());
        }
        self.place.clone_from(&place);
        if self.checkpoint.place == place {
            return Ok(());
        }
        self.checkpoint.set_cursor(&cursor);
        self.checkpoint.place = place;
        let env = self.lane.delivery.env;
        self.checkpoint.store(env, self.lane.checkpoint_path)
    }

    fn settled(&mut self, bulk: &Bulk, mark: Option<Value>) {
        self.batcher.settle(bulk, mark);
        self.bytes += bulk.bytes as u64;
        let now_micros = self.lane.delivery.env.now_micros();
        let times = bulk.changes.iter().map(|change| change.time_micros);
        for committed in times.filter(|time| *time > 0) {
            let delay = (now_micros - committed).max(0).unsigned_abs();
            self.delays.add(delay);
            self.new_delays.add(delay);
        }
        let now = self.lane.delivery.env.monotonic();
        self.tuner.settled(bulk.bytes, now);
    }

    fn store_and_report(&mut self) -> Result<()> {
        let now = self.lane.delivery.env.monotonic();
        // Nothing is read of a source that was split until all before is stored.
        let is_waited_for = self.is_split && self.batcher.is_level();
        let every = if is_waited_for { TICK } else { STORE_EVERY };
        if now.saturating_sub(self.stored_at) >= every {
            self.store()?;
        }
        if now.saturating_sub(self.reported_at) >= self.lane.report_every {
            let progress = self.progress();
            (self.lane.observe)(&progress);
        }
        Ok(())
    }

    /// Stores the cursor, if it moved and the sink has made durable what is before it.
    fn store(&mut self) -> Result<()> {
        let delivery = self.lane.delivery;
        self.stored_at = delivery.env.monotonic();
        let settled = self.batcher.settled().clone();
        let mut place = None;
        while self
            .places
            .front()
            .is_some_and(|(after, _)| *after <= settled.changes)
        {
            place = self.places.pop_front().map(|(_, place)| place);
        }
        if let Some(place) = place {
            self.place = Some(place);
        }
        if settled.cursor == self.checkpoint.cursor() && self.place == self.checkpoint.place {
            return Ok(());
        }
        match delivery.sink.sync() {
            Ok(()) => {}
            // The next attempt is a second later; until then the cursor stays.
            Err(Failure::Busy(why) | Failure::NoAnswer(why)) => {
                *delivery.waiting_for.lock() = Some(why);
                return Ok(());
            }
            Err(Failure::TooLarge(reason) | Failure::Refused(reason) | Failure::Final(reason)) => {
                return Err(self.failed(reason));
            }
        }
        self.checkpoint.set_cursor(&settled.cursor);
        self.checkpoint.place.clone_from(&self.place);
        self.checkpoint.mark = settled.mark;
        self.checkpoint.changes = self.before.0 + settled.changes;
        self.checkpoint.dead_letters =
            self.before.1 + delivery.tally.dead_letters.load(Ordering::Relaxed);
        self.checkpoint
            .store(delivery.env, self.lane.checkpoint_path)?;
        let told = delivery.sink.stored(self.checkpoint.mark.as_ref());
        told.map_err(|failure| self.failed(failure.reason().to_owned()))
    }

    fn failed(&self, reason: String) -> Error {
        Error::Sink {
            sink: self.lane.delivery.name.to_owned(),
            reason,
        }
    }

    fn progress(&mut self) -> Progress {
        let delivery = self.lane.delivery;
        let now = delivery.env.monotonic();
        let seconds = now.saturating_sub(self.reported_at).as_secs_f64().max(1e-3);
        let settled = self.batcher.settled();
        let counted = (settled.changes, self.bytes);
        let is_level = self.at_end && self.batcher.is_level();
        let lag_seconds = match (is_level, settled.time_micros) {
            (true, _) => Some(0.0),
            (false, 0) => None,
            (false, at) => Some((delivery.env.now_micros() - at).max(0) as f64 / 1e6),
        };
        let (setting, tally) = (self.tuner.setting(), &delivery.tally);
        let progress = Progress {
            sink: delivery.name.to_owned(),
            changes: settled.changes,
            bytes: self.bytes,
            changes_per_second: (counted.0 - self.reported.0) as f64 / seconds,
            bytes_per_second: (counted.1 - self.reported.1) as f64 / seconds,
            lag_changes: self.end.as_ref().map(|end| settled.cursor.distance(end)),
            lag_seconds,
            is_level,
            delay_p50_seconds: self.new_delays.quantile_seconds(0.5),
            delay_p99_seconds: self.new_delays.quantile_seconds(0.99),
            delays: self.delays.clone(),
            waiting_bytes: self.batcher.waiting_bytes(),
            under_way: self.batcher.under_way(),
            bulk_bytes: setting.bulk_bytes,
            concurrency: setting.concurrency,
            retries: tally.retries.load(Ordering::Relaxed),
            had: tally.had.load(Ordering::Relaxed),
            dead_letters: tally.dead_letters.load(Ordering::Relaxed),
            waiting_for: delivery.waiting_for.lock().clone(),
            failed: None,
            best: self.tuner.best(),
            curve: self.tuner.curve(),
        };
        (self.reported_at, self.reported) = (now, counted);
        self.new_delays = Delays::default();
        progress
    }
}
