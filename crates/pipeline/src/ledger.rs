//! Ledger: which batches are with the writers, and which prefix of the inputs is acknowledged.

use crate::csv_types::CsvColumn;
use crate::error::{BadDocument, Error, reason};
use crate::in_flight::InFlight;
use crate::options::OnBad;
use crate::parse::ParsedBatch;
use crate::position::SourcePosition;
use crate::progress::{Event, Observe, Progress};
use crate::sink::Refusal;
use quiredb::ErrorKind;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Keeps the order of the inputs: documents are acknowledged in this order, whatever the order in
/// which batches are written.
pub(crate) struct Ledger<'a, 'b> {
    on_bad: OnBad,
    now: &'a dyn Fn() -> Duration,
    start: Duration,
    observe: &'a mut Observe<'b>,
    /// Batches with the writers, in order.
    written: VecDeque<WrittenBatch>,
    /// A write was refused: nothing after it is acknowledged.
    is_refused: bool,
    pub(crate) progress: Progress,
    pub(crate) stopped: Option<Error>,
}

/// A batch with the writers.
struct WrittenBatch {
    sequence: u64,
    input: Arc<str>,
    memory_bytes: usize,
    input_bytes: u64,
    end: Option<SourcePosition>,
    lines: Vec<u64>,
    /// Parts that are not written yet.
    parts_left: usize,
    refusals: Vec<Refusal>,
}

impl<'a, 'b> Ledger<'a, 'b> {
    /// Nothing is written yet, and `from` is acknowledged.
    pub(crate) fn new(
        on_bad: OnBad,
        from: SourcePosition,
        now: &'a dyn Fn() -> Duration,
        observe: &'a mut Observe<'b>,
    ) -> Ledger<'a, 'b> {
        Ledger {
            on_bad,
            now,
            start: now(),
            observe,
            written: VecDeque::new(),
            is_refused: false,
            progress: Progress {
                position: from,
                ..Progress::default()
            },
            stopped: None,
        }
    }

    /// Whether no batch is with the writers.
    pub(crate) fn is_settled(&self) -> bool {
        self.written.is_empty()
    }

    /// Reports the columns of an input that is a table.
    pub(crate) fn opened(&mut self, input: &str, columns: &[CsvColumn]) {
        self.report(&Event::Opened { input, columns });
    }

    /// Takes the next batch, `parts` of which went to the writers.
    pub(crate) fn dispatched(&mut self, batch: ParsedBatch, parts: usize) {
        if let Some(last) = self.written.back() {
            assert!(
                last.sequence + 1 == batch.sequence,
                "batches are written in the order of the inputs"
            );
        }
        let mut end = batch.end;
        for bad in batch.bad {
            if !self.skip(bad) {
                // A run that resumes reads it again, and reports it.
                end = None;
                break;
            }
        }
        self.written.push_back(WrittenBatch {
            sequence: batch.sequence,
            input: batch.input,
            memory_bytes: batch.memory_bytes,
            input_bytes: batch.input_bytes,
            end,
            lines: batch.lines,
            parts_left: parts,
            refusals: Vec::new(),
        });
    }

    /// Notes that a part of a batch is written, but for these refusals.
    pub(crate) fn part_written(&mut self, sequence: u64, mut refusals: Vec<Refusal>) {
        let mut batches = self.written.iter_mut();
        if let Some(batch) = batches.find(|batch| batch.sequence == sequence) {
            assert!(batch.parts_left > 0, "a part is written once");
            batch.parts_left -= 1;
            batch.refusals.append(&mut refusals);
        }
    }

    /// Acknowledges the oldest batch, if it is written whole; false if it is not.
    ///
    /// Its memory is released first: who sees the acknowledgement may send one more document and
    /// wait, and the reader passes that on at once only if nothing is in flight.
    pub(crate) fn settle(&mut self, in_flight: &InFlight) -> bool {
        let is_written = |batch: &WrittenBatch| batch.parts_left == 0;
        if !self.written.front().is_some_and(is_written) {
            return false;
        }
        let Some(batch) = self.written.pop_front() else {
            return false;
        };
        let memory_bytes = batch.memory_bytes;
        let (input_bytes, end) = (batch.input_bytes, batch.end);
        let documents = self.documents_settled(batch);
        // Of a batch with a refused write only the documents before it count, and nothing after.
        let (bytes, end) = match self.is_refused {
            true => (0, None),
            false => (input_bytes, end),
        };
        in_flight.release(memory_bytes);
        self.acknowledge(documents, bytes, end);
        true
    }

    /// How many documents of a written batch are acknowledged. Reports those that were refused.
    fn documents_settled(&mut self, batch: WrittenBatch) -> u64 {
        if self.is_refused {
            return 0;
        }
        let mut refusals = batch.refusals;
        refusals.sort_by_key(|refusal| refusal.origin.line);
        let mut skipped = 0;
        for Refusal { origin, error } in refusals {
            let is_skipped = match error.kind() {
                ErrorKind::Invalid | ErrorKind::TooLarge => self.skip(BadDocument {
                    input: Arc::clone(&batch.input),
                    line: origin.line,
                    byte: origin.byte,
                    reason: reason(&error),
                }),
                _ => {
                    self.stop(Error::Database(error));
                    false
                }
            };
            if !is_skipped {
                self.is_refused = true;
                let before = batch.lines.partition_point(|line| *line < origin.line);
                return (before as u64).saturating_sub(skipped);
            }
            skipped += 1;
        }
        (batch.lines.len() as u64).saturating_sub(skipped)
    }

    fn acknowledge(&mut self, documents: u64, bytes: u64, end: Option<SourcePosition>) {
        self.progress.documents += documents;
        self.progress.bytes += bytes;
        if let Some(end) = end {
            assert!(
                (
                    self.progress.position.input,
                    self.progress.position.documents
                ) <= (end.input, end.documents),
                "what is acknowledged grows"
            );
            self.progress.position = end;
        }
        if documents > 0 {
            self.progress.time = (self.now)().saturating_sub(self.start);
            let progress = self.progress;
            self.report(&Event::Acknowledged(&progress));
        }
    }

    /// Skips a bad document, or stops at it and returns false.
    fn skip(&mut self, bad: BadDocument) -> bool {
        match self.on_bad {
            OnBad::Stop => self.stop(Error::Bad(bad)),
            OnBad::Skip { max } if self.progress.bad >= max => {
                self.stop(Error::TooManyBad { max, last: bad });
            }
            OnBad::Skip { .. } => {
                self.progress.bad += 1;
                return self.report(&Event::Skipped(&bad));
            }
        }
        false
    }

    /// Reports an event; false if the observer returns an error, which stops the pipeline.
    fn report(&mut self, event: &Event<'_>) -> bool {
        let reported = (self.observe)(event).map_err(Error::Observer);
        reported.map_err(|error| self.stop(error)).is_ok()
    }

    /// Notes why the pipeline stops. The first reason counts.
    pub(crate) fn stop(&mut self, reason: Error) {
        self.stopped.get_or_insert(reason);
    }

    /// Takes the time for the summary.
    pub(crate) fn finish(&mut self) {
        self.progress.time = (self.now)().saturating_sub(self.start);
    }
}
