//! Run: the threads of a pipeline, and the coordinator that puts batches back in order.

use crate::batch::SourceBatch;
use crate::csv_types::CsvColumn;
use crate::error::Error;
use crate::in_flight::InFlight;
use crate::input::Input;
use crate::ledger::Ledger;
use crate::options::{OnBad, Options};
use crate::parse::{ParsedBatch, Parser, Part};
use crate::progress::{Observe, Summary};
use crate::read::Reader;
use crate::sink::{Refusal, write_parts};
use crate::target::Target;
use quiredb::Env;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

/// What the threads tell the coordinator.
enum Message {
    /// The reader opens a table with these columns.
    Opened {
        input: Arc<str>,
        columns: Vec<CsvColumn>,
    },
    /// The reader has ended after this many batches; an error comes after them.
    ReadAll { batches: u64, failed: Option<Error> },
    /// A batch has been parsed.
    Parsed(ParsedBatch),
    /// A part of a batch has been written, but for these refusals.
    Written {
        sequence: u64,
        refusals: Vec<Refusal>,
    },
    /// A thread panicked.
    Panicked(&'static str),
}

/// Loads the documents of `inputs`, in order, into `target`, then makes all that was written
/// durable. A document replaces the one of the same key; of the documents of one key, the last
/// wins. `env` is the machine, which gives the time.
///
/// Blocks until the end. What can go wrong is in [`Summary::stopped`].
pub fn load(
    target: &impl Target,
    env: &dyn Env,
    inputs: Vec<Input>,
    options: &Options,
    observe: &mut Observe<'_>,
) -> Summary {
    let now = || env.monotonic();
    let mut ledger = Ledger::new(options.on_bad, options.from, &now, observe);
    let in_flight = Arc::new(InFlight::new(options.in_flight_bytes_max));
    match start(target, inputs, options, &in_flight) {
        Ok((messages, writers)) => {
            let coordinator = Coordinator {
                ledger: &mut ledger,
                in_flight,
                writers,
                parsed: BTreeMap::new(),
                next: 0,
                read_all: None,
            };
            coordinator.run(&messages);
        }
        Err(error) => ledger.stop(Error::Thread(error)),
    }
    if let Err(error) = target.sync() {
        ledger.stop(Error::Database(error));
    }
    ledger.finish();
    Summary {
        progress: ledger.progress,
        stopped: ledger.stopped,
    }
}

/// Starts the threads. They end when the coordinator drops its ends of the channels, the reader
/// with its next batch. Nothing joins them: the reader may wait for a terminal.
fn start(
    target: &impl Target,
    inputs: Vec<Input>,
    options: &Options,
    in_flight: &Arc<InFlight>,
) -> io::Result<(Receiver<Message>, Vec<Sender<Part>>)> {
    let (messages, receiver) = mpsc::channel();
    let writer_count = (target.writers() as usize).min(options.writers_max).max(1);
    let mut writers = Vec::new();
    for _ in 0..writer_count {
        let (sender, parts) = mpsc::channel();
        let (target, durability) = (target.clone(), options.durability);
        spawn("writer", &messages, move |messages| {
            write_parts(&target, durability, &parts, |sequence, refusals| {
                let written = Message::Written { sequence, refusals };
                messages.send(written).is_ok()
            });
        })?;
        writers.push(sender);
    }
    let parser = Parser {
        target: target.clone(),
        key_field: target.settings().key_field.clone(),
        made_keys: options.made_keys.clone(),
        writers: writer_count,
        stops_at_bad: options.on_bad == OnBad::Stop,
    };
    let mut parsers: Vec<Sender<SourceBatch>> = Vec::new();
    for _ in 0..options.parsers.max(1) {
        let (sender, batches) = mpsc::channel();
        let parser = parser.clone();
        spawn("parser", &messages, move |messages| {
            for batch in batches {
                if messages.send(Message::Parsed(parser.parse(batch))).is_err() {
                    return;
                }
            }
        })?;
        parsers.push(sender);
    }
    let (in_flight, options) = (Arc::clone(in_flight), options.clone());
    let key_field = target.settings().key_field.clone();
    spawn("reader", &messages, move |messages| {
        let mut turns = (0..parsers.len()).cycle();
        let mut reader = Reader {
            options: &options,
            key_field: &key_field,
            in_flight: &in_flight,
            send: |batch| {
                let parser = turns.next().and_then(|turn| parsers.get(turn));
                parser.is_some_and(|parser| parser.send(batch).is_ok())
            },
            opened: |input, columns| {
                // If the coordinator has stopped, nothing is to be reported.
                let _ = messages.send(Message::Opened { input, columns });
            },
            batches: 0,
        };
        let failed = reader.run(inputs).err();
        let batches = reader.batches;
        // If the coordinator has stopped, nothing is to be reported.
        let _ = messages.send(Message::ReadAll { batches, failed });
    })?;
    Ok((receiver, writers))
}

/// Starts a thread. If it panics, the coordinator gets a message.
fn spawn(
    name: &'static str,
    messages: &Sender<Message>,
    work: impl FnOnce(&Sender<Message>) + Send + 'static,
) -> io::Result<()> {
    /// Is dropped after the work, also by a panic.
    struct Guard(&'static str, Sender<Message>);
    impl Drop for Guard {
        fn drop(&mut self) {
            if thread::panicking() {
                // If the coordinator has stopped, nothing is to be reported.
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

struct Coordinator<'l, 'a, 'b> {
    ledger: &'l mut Ledger<'a, 'b>,
    in_flight: Arc<InFlight>,
    writers: Vec<Sender<Part>>,
    /// Batches that wait for an earlier one, by sequence.
    parsed: BTreeMap<u64, ParsedBatch>,
    /// The sequence of the batch that goes to the writers next.
    next: u64,
    /// The count of batches, and what went wrong after them, once the reader has ended.
    read_all: Option<(u64, Option<Error>)>,
}

impl Coordinator<'_, '_, '_> {
    fn run(mut self, messages: &Receiver<Message>) {
        while !self.is_over() {
            match messages.recv() {
                Ok(Message::Opened { input, columns }) => self.ledger.opened(&input, &columns),
                Ok(Message::Parsed(batch)) => {
                    self.parsed.insert(batch.sequence, batch);
                    self.dispatch();
                }
                Ok(Message::Written { sequence, refusals }) => {
                    self.ledger.part_written(sequence, refusals);
                    self.settle();
                }
                Ok(Message::ReadAll { batches, failed }) => self.read_all = Some((batches, failed)),
                Ok(Message::Panicked(thread)) => {
                    self.ledger.stop(Error::Panicked(thread));
                    break;
                }
                Err(mpsc::RecvError) => {
                    self.ledger.stop(Error::Panicked("coordinator"));
                    break;
                }
            }
        }
        if let Some((_, Some(failed))) = self.read_all.take() {
            self.ledger.stop(failed);
        }
        self.in_flight.close();
    }

    /// Whether every batch is written, or, if the pipeline has stopped, every one that went to the
    /// writers.
    fn is_over(&self) -> bool {
        let is_all_dispatched = match &self.read_all {
            Some((batches, _)) => *batches == self.next,
            None => false,
        };
        self.ledger.is_settled() && (is_all_dispatched || self.ledger.stopped.is_some())
    }

    /// Hands the parsed batches to the writers, as far as they are in order.
    fn dispatch(&mut self) {
        while self.ledger.stopped.is_none()
            && let Some(mut batch) = self.parsed.remove(&self.next)
        {
            self.next += 1;
            let mut parts = 0;
            let shares = std::mem::take(&mut batch.parts);
            for (writer, part) in self.writers.iter().zip(shares) {
                // A writer that is gone has panicked, and has said so.
                if !part.groups.is_empty() && writer.send(part).is_ok() {
                    parts += 1;
                }
            }
            self.ledger.dispatched(batch, parts);
            self.settle();
        }
    }

    /// Acknowledges what is written, and makes room for more.
    fn settle(&mut self) {
        while self.ledger.settle(&self.in_flight) {}
        if self.ledger.stopped.is_some() {
            self.in_flight.close();
            self.parsed.clear();
        }
    }
}
