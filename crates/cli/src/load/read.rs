//! The reader thread: input files, in order, cut into batches.

use super::batch::Batch;
use super::coordinator::Message;
use super::csv::CsvReader;
use super::flow::Flow;
use super::input::{Format, Input};
use super::ndjson::NdjsonReader;
use super::{LoadOptions, Stop};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Reads documents of one format.
pub(super) trait DocumentReader {
    /// Appends the next document to `batch`, as JSON or as the reason why it can't be; false at the end.
    fn read_into(&mut self, batch: &mut Batch) -> io::Result<bool>;
    /// Whether the next document can be had, in part at least, without waiting for whoever writes the input.
    fn is_buffered(&self) -> bool;
}

/// Reads every input and sends its batches to the parsers in turn. Waits for room in the flow, and ends early when
/// the flow is closed.
pub(super) fn run(
    inputs: Vec<Input>,
    options: &LoadOptions,
    flow: &Flow,
    parsers: &[Sender<Batch>],
    coordinator: &Sender<Message>,
) {
    let mut sequence = 0;
    let mut failed = None;
    for input in inputs {
        let name = input.name().into();
        match read_input(input, options, flow, parsers, &mut sequence) {
            Ok(true) => {}
            Ok(false) => break,
            Err(source) => {
                failed = Some(Stop::Input { name, source });
                break;
            }
        }
    }
    // The coordinator may have gone, having stopped: then nobody needs to know.
    let _ = coordinator.send(Message::ReadAll {
        batches: sequence,
        failed,
    });
}

/// Reads one input; false if the load is over.
fn read_input(
    input: Input,
    options: &LoadOptions,
    flow: &Flow,
    parsers: &[Sender<Batch>],
    sequence: &mut u64,
) -> io::Result<bool> {
    let opened = input.open()?;
    let mut reader: Box<dyn DocumentReader> = match opened.format {
        Format::Ndjson => Box::new(NdjsonReader::new(opened.reader)),
        Format::Csv => Box::new(CsvReader::new(opened.reader)?),
    };
    loop {
        let (batch, outcome) = read_batch(reader.as_mut(), &opened.name, *sequence, options, flow);
        // What was read before an error is loaded all the same.
        if !batch.lines.is_empty() && !send(batch, flow, parsers, sequence) {
            return Ok(false);
        }
        if !outcome? {
            return Ok(true);
        }
    }
}

/// The next batch, and whether more may follow.
fn read_batch(
    reader: &mut dyn DocumentReader,
    name: &Arc<str>,
    sequence: u64,
    options: &LoadOptions,
    flow: &Flow,
) -> (Batch, io::Result<bool>) {
    let mut batch = Batch::new(sequence, Arc::clone(name), options.batch_bytes);
    while batch.text.len() < options.batch_bytes && batch.lines.len() < options.batch_documents {
        // Input that comes drop by drop: rather than wait for a full batch, write what there is.
        if !batch.lines.is_empty()
            && (batch.ends_badly() || !reader.is_buffered() && flow.is_idle())
        {
            break;
        }
        match reader.read_into(&mut batch) {
            Ok(true) => {}
            other => return (batch, other),
        }
    }
    (batch, Ok(true))
}

/// Hands a batch to its parser once there is room; false if the load is over.
fn send(batch: Batch, flow: &Flow, parsers: &[Sender<Batch>], sequence: &mut u64) -> bool {
    let turn = usize::try_from(*sequence % parsers.len().max(1) as u64).unwrap_or(0);
    *sequence += 1;
    flow.take(batch.weight())
        && parsers
            .get(turn)
            .is_some_and(|parser| parser.send(batch).is_ok())
}
