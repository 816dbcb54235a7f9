//! The coordinator: starts the threads of a load, keeps the order of the input, and knows what is
//! acknowledged.

use super::flow::Flow;
use super::input::Input;
use super::parse::Parsed;
use super::write::Failure;
use super::{
    BadDocument, Event, LoadOptions, Observe, Part, Place, Stop, Summary, parse, read, write,
};
use quiredb::{Collection, ErrorKind};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

/// Text (and what it is turned into) between the reader and the last write.
const IN_FLIGHT_BYTES_MAX: usize = 8 << 20;

/// More writers than this gain nothing; with more partitions, a writer has several.
const WRITERS_MAX: usize = 16;

/// What the threads tell the coordinator.
#[derive(Debug)]
pub(super) enum Message {
    /// The reader is done: so many batches are on their way; the error comes after them.
    ReadAll { batches: u64, failed: Option<Stop> },
    /// A batch has been parsed.
    Parsed(Parsed),
    /// A part of a batch has been written.
    Written {
        sequence: u64,
        failures: Vec<Failure>,
    },
    /// A thread has panicked.
    Panicked(&'static str),
}

/// Runs a load to its end, as far as its writes being acknowledged. The time is left to the caller.
pub(super) fn run(
    collection: &Collection,
    inputs: Vec<Input>,
    options: &LoadOptions,
    observe: &mut Observe<'_>,
) -> Summary {
    let flow = Arc::new(Flow::new(IN_FLIGHT_BYTES_MAX));
    let mut coordinator = Coordinator {
        skip_bad: options.skip_bad,
        flow: Arc::clone(&flow),
        writers: Vec::new(),
        parsed: BTreeMap::new(),
        next: 0,
        batches: None,
        in_flight: VecDeque::new(),
        failed_write: false,
        summary: Summary {
            documents: 0,
            bytes: 0,
            skipped: 0,
            time: Duration::ZERO,
            stopped: None,
        },
        observe,
    };
    match start(collection, inputs, options, &flow, &mut coordinator.writers) {
        Ok(messages) => coordinator.run(&messages),
        Err(error) => coordinator.stop(Stop::Thread(error)),
    }
    coordinator.summary
}

/// Starts the threads. They end by themselves when the coordinator drops its side of the channels,
/// the reader at the latest with its next batch; nobody waits for it, since it may be waiting for a
/// terminal.
fn start(
    collection: &Collection,
    inputs: Vec<Input>,
    options: &LoadOptions,
    flow: &Arc<Flow>,
    writers: &mut Vec<Sender<Part>>,
) -> io::Result<Receiver<Message>> {
    let (messages, receiver) = mpsc::channel();
    let writer_count = (collection.settings().partitions as usize).clamp(1, WRITERS_MAX);
    for _ in 0..writer_count {
        let (sender, parts) = mpsc::channel();
        let (collection, durability) = (collection.clone(), options.durability);
        spawn("writer", &messages, move |messages| {
            write::run(&collection, durability, &parts, messages)
        })?;
        writers.push(sender);
    }
    let mut parsers = Vec::new();
    for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
        let (sender, batches) = mpsc::channel();
        let (collection, skip_bad) = (collection.clone(), options.skip_bad);
        spawn("parser", &messages, move |messages| {
            parse::run(&collection, writer_count, skip_bad, &batches, messages);
        })?;
        parsers.push(sender);
    }
    let (flow, options) = (Arc::clone(flow), options.clone());
    spawn("reader", &messages, move |messages| {
        read::run(inputs, &options, &flow, &parsers, messages)
    })?;
    Ok(receiver)
}

/// Starts a thread of the load; should it panic, the coordinator hears of it.
fn spawn(
    name: &'static str,
    messages: &Sender<Message>,
    work: impl FnOnce(&Sender<Message>) + Send + 'static,
) -> io::Result<()> {
    /// Outlives the work, and looks whether it ended well.
    struct Guard(&'static str, Sender<Message>);
    impl Drop for Guard {
        fn drop(&mut self) {
            if thread::panicking() {
                // With no coordinator left there is nobody to tell.
                let _ = self.1.send(Message::Panicked(self.0));
            }
        }
    }
    let guard = Guard(name, messages.clone());
    thread::Builder::new()
        .name(format!("load {name}"))
        .spawn(move || work(&guard.1))?;
    Ok(())
}

struct Coordinator<'a, 'b> {
    skip_bad: bool,
    flow: Arc<Flow>,
    writers: Vec<Sender<Part>>,
    /// Batches that wait for an earlier one, by sequence.
    parsed: BTreeMap<u64, Parsed>,
    /// The batch to hand to the writers next.
    next: u64,
    /// How many there are, and what went wrong after them, once that is known.
    batches: Option<(u64, Option<Stop>)>,
    /// Batches with the writers, in order; the last is `next - 1`.
    in_flight: VecDeque<InFlight>,
    /// A write was refused: what is after it is not acknowledged.
    failed_write: bool,
    summary: Summary,
    observe: &'a mut Observe<'b>,
}

/// A batch with the writers.
struct InFlight {
    sequence: u64,
    file: Arc<str>,
    weight: usize,
    input_bytes: u64,
    end: Option<Place>,
    lines: Vec<u64>,
    parts_left: usize,
    failures: Vec<Failure>,
}

impl Coordinator<'_, '_> {
    fn run(&mut self, messages: &Receiver<Message>) {
        while !self.is_over() {
            match messages.recv() {
                Ok(Message::Parsed(parsed)) => {
                    self.parsed.insert(parsed.sequence, parsed);
                    self.dispatch();
                }
                Ok(Message::Written { sequence, failures }) => self.written(sequence, failures),
                Ok(Message::ReadAll { batches, failed }) => self.batches = Some((batches, failed)),
                Ok(Message::Panicked(thread)) => return self.stop(Stop::Panicked(thread)),
                Err(mpsc::RecvError) => return self.stop(Stop::Panicked("coordinator")),
            }
        }
        if let Some((_, Some(failed))) = self.batches.take() {
            self.stop(failed);
        }
    }

    /// Everything has been written, or everything that was handed out before it stopped.
    fn is_over(&self) -> bool {
        let read_all = self
            .batches
            .as_ref()
            .is_some_and(|(batches, _)| *batches == self.next);
        self.in_flight.is_empty() && (read_all || self.summary.stopped.is_some())
    }

    /// Hands nothing more out. The first reason is the one that counts.
    fn stop(&mut self, reason: Stop) {
        self.summary.stopped.get_or_insert(reason);
        self.flow.close();
        self.parsed.clear();
    }

    /// Hands to the writers what is next in order.
    fn dispatch(&mut self) {
        while self.summary.stopped.is_none()
            && let Some(parsed) = self.parsed.remove(&self.next)
        {
            self.next += 1;
            let mut in_flight = InFlight {
                sequence: parsed.sequence,
                file: parsed.file,
                weight: parsed.weight,
                input_bytes: parsed.input_bytes,
                end: parsed.end,
                lines: parsed.lines,
                parts_left: 0,
                failures: Vec::new(),
            };
            for (writer, part) in self.writers.iter().zip(parsed.parts) {
                // A writer that has gone has panicked, which it says itself.
                if !part.lines.is_empty() && writer.send(part).is_ok() {
                    in_flight.parts_left += 1;
                }
            }
            let file = Arc::clone(&in_flight.file);
            self.in_flight.push_back(in_flight);
            for (line, reason) in parsed.bad {
                self.bad(BadDocument {
                    file: Arc::clone(&file),
                    line,
                    reason,
                });
            }
            self.settle();
        }
    }

    /// Takes note of a part that has been written.
    fn written(&mut self, sequence: u64, mut failures: Vec<Failure>) {
        if let Some(batch) = self
            .in_flight
            .iter_mut()
            .find(|batch| batch.sequence == sequence)
        {
            batch.parts_left -= 1;
            batch.failures.append(&mut failures);
        }
        self.settle();
    }

    /// Acknowledges the batches at the front that have been written whole.
    fn settle(&mut self) {
        while self
            .in_flight
            .front()
            .is_some_and(|batch| batch.parts_left == 0)
            && let Some(batch) = self.in_flight.pop_front()
        {
            self.flow.give(batch.weight);
            let documents = self.settled(batch.file, &batch.lines, batch.failures);
            if self.failed_write {
                // Of a batch with a refused write, or after one, what is before it counts and
                // nothing else.
                self.acknowledge(documents, 0, None);
            } else {
                self.acknowledge(documents, batch.input_bytes, batch.end);
            }
        }
    }

    /// Judges a written batch's failures. Returns how many of its documents are acknowledged.
    fn settled(&mut self, file: Arc<str>, lines: &[u64], mut failures: Vec<Failure>) -> u64 {
        if self.failed_write {
            return 0;
        }
        failures.sort_by_key(|failure| failure.line);
        let mut skipped = 0;
        for Failure { line, error } in failures {
            let is_bad_document = matches!(error.kind(), ErrorKind::Invalid | ErrorKind::TooLarge);
            if !is_bad_document || !self.skip_bad {
                self.failed_write = true;
                let before = lines.partition_point(|other| *other < line);
                if is_bad_document {
                    self.bad(BadDocument {
                        file,
                        line,
                        reason: crate::error::causes(&error),
                    });
                } else {
                    self.stop(Stop::Engine(error));
                }
                return (before as u64).saturating_sub(skipped);
            }
            skipped += 1;
            self.bad(BadDocument {
                file: Arc::clone(&file),
                line,
                reason: crate::error::causes(&error),
            });
        }
        (lines.len() as u64).saturating_sub(skipped)
    }

    fn acknowledge(&mut self, documents: u64, bytes: u64, place: Option<Place>) {
        self.summary.documents += documents;
        self.summary.bytes += bytes;
        if documents > 0 {
            let (documents, bytes) = (self.summary.documents, self.summary.bytes);
            self.tell(&Event::Acknowledged {
                documents,
                bytes,
                place,
            });
        }
    }

    /// A bad document: passed over or the end.
    fn bad(&mut self, bad: BadDocument) {
        if self.skip_bad {
            self.summary.skipped += 1;
            self.tell(&Event::Skipped(&bad));
        } else {
            self.stop(Stop::Bad(bad));
        }
    }

    fn tell(&mut self, event: &Event<'_>) {
        if let Err(error) = (self.observe)(event) {
            self.stop(Stop::Observer(error));
        }
    }
}
