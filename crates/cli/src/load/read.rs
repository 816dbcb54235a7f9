//! The reader thread: input files, in order, cut into batches.

use super::batch::Batch;
use super::coordinator::Message;
use super::csv::CsvReader;
use super::flow::Flow;
use super::input::{Format, Input};
use super::ndjson::NdjsonReader;
use super::{LoadOptions, Place, Stop};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Reads documents of one format.
pub(super) trait DocumentReader {
    /// Appends the next document to `batch`, as JSON or as the reason why it can't be; false at the
    /// end.
    fn read_into(&mut self, batch: &mut Batch) -> io::Result<bool>;
    /// Whether the next document can be had, in part at least, without waiting for whoever writes
    /// the input.
    fn is_buffered(&self) -> bool;
}

/// Reads every input and sends its batches to the parsers in turn. Waits for room in the flow, and
/// ends early when the flow is closed.
pub(super) fn run(
    inputs: Vec<Input>,
    options: &LoadOptions,
    flow: &Flow,
    parsers: &[Sender<Batch>],
    coordinator: &Sender<Message>,
) {
    let mut sequence = 0;
    let mut failed = None;
    for (number, input) in inputs.into_iter().enumerate().skip(options.from.input) {
        let name = input.name().into();
        let mut place = Place {
            input: number,
            documents: 0,
        };
        match read_input(input, &mut place, options, flow, parsers, &mut sequence) {
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
    place: &mut Place,
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
    if place.input == options.from.input {
        pass_over(reader.as_mut(), options.from.documents)?;
        place.documents = options.from.documents;
    }
    loop {
        let batch = Batch::new(
            *sequence,
            *place,
            Arc::clone(&opened.name),
            options.batch_bytes,
        );
        let (batch, outcome) = read_batch(reader.as_mut(), batch, options, flow);
        *place = batch.end();
        // What was read before an error is loaded all the same.
        if !batch.lines.is_empty() && !send(batch, flow, parsers, sequence) {
            return Ok(false);
        }
        if !outcome? {
            return Ok(true);
        }
    }
}

/// Reads so many documents that an earlier load has read.
fn pass_over(reader: &mut dyn DocumentReader, documents: u64) -> io::Result<()> {
    let mut passed = Batch::new(0, Place::default(), "".into(), 0);
    for number in 0..documents {
        passed.text.clear();
        passed.lines.clear();
        if !reader.read_into(&mut passed)? {
            let what = format!(
                "it ends after {number} documents, of which {documents} were loaded before"
            );
            return Err(io::Error::other(what));
        }
    }
    Ok(())
}

/// Fills a batch with what is next; and whether more may follow.
fn read_batch(
    reader: &mut dyn DocumentReader,
    mut batch: Batch,
    options: &LoadOptions,
    flow: &Flow,
) -> (Batch, io::Result<bool>) {
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
