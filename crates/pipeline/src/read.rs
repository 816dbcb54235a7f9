//! Read: the inputs, in order, cut into batches.

use crate::batch::SourceBatch;
use crate::csv_types::CsvColumn;
use crate::error::Error;
use crate::in_flight::InFlight;
use crate::input::{Input, Wait};
use crate::options::Options;
use crate::position::SourcePosition;
use crate::source::Source;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for an input before looking whether the pipeline has become idle.
const SILENCE: Duration = Duration::from_millis(10);

/// Reads inputs and hands batches on. It waits while too much is in flight.
pub(crate) struct Reader<'a, F, O> {
    pub(crate) options: &'a Options,
    /// The field that has the keys of documents.
    pub(crate) key_field: &'a str,
    pub(crate) in_flight: &'a InFlight,
    /// Takes a batch; false if the pipeline has stopped.
    pub(crate) send: F,
    /// Is told the columns of an input that is a table.
    pub(crate) opened: O,
    /// Batches that were sent.
    pub(crate) batches: u64,
}

impl<F: FnMut(SourceBatch) -> bool, O: FnMut(Arc<str>, Vec<CsvColumn>)> Reader<'_, F, O> {
    /// Reads all inputs from the position in the options. Ends early if the pipeline has stopped.
    ///
    /// # Errors
    /// [`Error::Input`]; what was read before it has been sent.
    pub(crate) fn run(&mut self, inputs: Vec<Input>) -> Result<(), Error> {
        let from = self.options.from;
        for (index, input) in inputs.into_iter().enumerate().skip(from.input) {
            let name: Arc<str> = input.name().into();
            let documents = if index == from.input {
                from.documents
            } else {
                0
            };
            let start = SourcePosition {
                input: index,
                documents,
                byte: 0,
            };
            match self.read_input(input, &name, start) {
                Ok(true) => {}
                Ok(false) => break,
                Err(source) => return Err(Error::Input { name, source }),
            }
        }
        Ok(())
    }

    /// Reads one input from the document that `position` counts to; false if the pipeline has
    /// stopped.
    fn read_input(
        &mut self,
        input: Input,
        name: &Arc<str>,
        mut position: SourcePosition,
    ) -> io::Result<bool> {
        let mut input = input;
        let wait = input.wait.take();
        let (mut source, start) = input.open(self.key_field)?;
        if !source.columns().is_empty() {
            (self.opened)(Arc::clone(name), source.columns().to_vec());
        }
        position.byte = skip_documents(source.as_mut(), position.documents)?.unwrap_or(start);
        loop {
            let batch_bytes = self.options.batch_bytes;
            let mut batch = SourceBatch::new(self.batches, Arc::clone(name), position, batch_bytes);
            let more = self.fill(source.as_mut(), wait.as_deref(), &mut batch);
            position = batch.end;
            // What was read before an error is loaded all the same.
            if !batch.items.is_empty() && !self.hand_on(batch) {
                return Ok(false);
            }
            if !more? {
                return Ok(true);
            }
        }
    }

    /// Fills a batch with the next documents. Returns whether more may follow.
    fn fill(
        &self,
        source: &mut dyn Source,
        wait: Option<&Wait>,
        batch: &mut SourceBatch,
    ) -> io::Result<bool> {
        let options = self.options;
        while batch.text.len() < options.batch_bytes && batch.items.len() < options.batch_documents
        {
            if !batch.items.is_empty()
                && (batch.ends_badly() || !source.is_buffered() && self.is_slow(wait))
            {
                break;
            }
            if !source.read_into(batch)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the pipeline has nothing to do before the next document comes: then what there is
    /// is written, rather than wait for a full batch.
    fn is_slow(&self, wait: Option<&Wait>) -> bool {
        while !self.in_flight.is_idle() {
            if wait.is_none_or(|wait| wait(SILENCE)) {
                return false;
            }
        }
        true
    }

    /// Sends a batch once there is room; false if the pipeline has stopped.
    fn hand_on(&mut self, batch: SourceBatch) -> bool {
        self.batches += 1;
        self.in_flight.take(batch.memory_bytes()) && (self.send)(batch)
    }
}

/// Reads `documents` documents, which were loaded before. Returns the byte behind the last.
fn skip_documents(source: &mut dyn Source, documents: u64) -> io::Result<Option<u64>> {
    let mut skipped = SourceBatch::new(0, "".into(), SourcePosition::default(), 0);
    for count in 0..documents {
        skipped.text.clear();
        skipped.items.clear();
        if !source.read_into(&mut skipped)? {
            return Err(io::Error::other(format!(
                "it ends after {count} documents, of which {documents} were loaded before"
            )));
        }
    }
    Ok((documents > 0).then_some(skipped.end.byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Format;
    use crate::options::OnBad;
    use std::io::Read;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    /// Gives the pieces that are sent, and says when it waits for one.
    struct Pieces {
        pieces: Receiver<&'static str>,
        waits: Sender<()>,
    }

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.waits.send(()).unwrap();
            let Ok(piece) = self.pieces.recv() else {
                return Ok(0);
            };
            buffer[..piece.len()].copy_from_slice(piece.as_bytes());
            Ok(piece.len())
        }
    }

    #[test]
    fn what_was_read_is_sent_when_the_pipeline_falls_idle_and_the_input_is_silent() {
        let (pieces, received) = channel();
        let (waits, waited) = channel();
        let (sent, batches) = channel();
        let in_flight = Arc::new(InFlight::new(1000));
        // An earlier batch is with the writers.
        assert!(in_flight.take(10));
        let reader_in_flight = Arc::clone(&in_flight);
        let (silent, silences) = channel();
        let run = move || {
            let options = Options {
                on_bad: OnBad::Stop,
                ..Options::default()
            };
            let reader = Pieces {
                pieces: received,
                waits,
            };
            let open = || Ok(Box::new(reader) as Box<dyn Read + Send>);
            let input = Input::new("pipe", Format::Ndjson, open).waiting_with(move |_| {
                // If the test is over, nobody waits for this.
                let _ = silent.send(());
                thread::yield_now();
                false
            });
            let mut reader = Reader {
                options: &options,
                key_field: "_id",
                in_flight: &reader_in_flight,
                send: |batch: SourceBatch| sent.send(batch.text).is_ok(),
                opened: |_, _| {},
                batches: 0,
            };
            reader.run(vec![input])
        };
        thread::Builder::new().spawn(run).unwrap();
        // The end of the second line is still to come.
        pieces.send("{\"_id\":1}\n{\"_id\"").unwrap();
        waited.recv().unwrap();
        silences.recv().unwrap();
        assert!(batches.try_recv().is_err());
        in_flight.release(10);
        assert_eq!(batches.recv().unwrap(), b"{\"_id\":1}\n");
        pieces.send(":2}\n").unwrap();
        drop(pieces);
        in_flight.close();
    }
}
