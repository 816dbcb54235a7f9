//! NDJSON: one JSON object a line. Blank lines are skipped.

use crate::batch::{SourceBatch, SourceItem};
use crate::source::{Source, TEXT_BYTES_MAX};
use std::io::{self, BufRead, BufReader, Read};

/// Cuts a stream at its line ends.
pub(crate) struct NdjsonSource<R> {
    reader: BufReader<R>,
    /// Lines that have been read.
    lines: u64,
    /// Bytes of the input that have been read.
    bytes: u64,
    /// The last line was too long, and its rest is still to be skipped.
    in_long_line: bool,
}

impl<R: Read> NdjsonSource<R> {
    /// Reads `reader` from its start, which is at byte `start` of the input.
    pub(crate) fn new(reader: BufReader<R>, start: u64) -> NdjsonSource<R> {
        NdjsonSource {
            reader,
            lines: 0,
            bytes: start,
            in_long_line: false,
        }
    }
}

impl<R: Read> Source for NdjsonSource<R> {
    fn read_into(&mut self, batch: &mut SourceBatch) -> io::Result<bool> {
        if self.in_long_line {
            self.bytes += self.reader.skip_until(b'\n')? as u64;
            batch.end.byte = self.bytes;
            self.in_long_line = false;
        }
        loop {
            let start = batch.text.len();
            let read = (&mut self.reader)
                .take(TEXT_BYTES_MAX as u64)
                .read_until(b'\n', &mut batch.text)?;
            if read == 0 {
                return Ok(false);
            }
            self.lines += 1;
            let bytes = self.bytes..self.bytes + read as u64;
            self.bytes = bytes.end;
            let ended = batch.text.ends_with(b"\n");
            if !ended && read == TEXT_BYTES_MAX {
                batch.text.truncate(start);
                self.in_long_line = true;
                let reason = format!("the line is longer than {} MiB", TEXT_BYTES_MAX >> 20);
                batch.push(SourceItem {
                    line: self.lines,
                    bytes,
                    json: Err(reason),
                });
                return Ok(true);
            }
            let end = batch.text.len() - usize::from(ended);
            if batch
                .text
                .get(start..end)
                .is_none_or(|line| line.iter().all(u8::is_ascii_whitespace))
            {
                batch.text.truncate(start);
                batch.end.byte = bytes.end;
                continue;
            }
            batch.push(SourceItem {
                line: self.lines,
                bytes,
                json: Ok(start..end),
            });
            return Ok(true);
        }
    }

    fn is_buffered(&self) -> bool {
        memchr::memchr(b'\n', self.reader.buffer()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::SourcePosition;

    /// (line, text or reason) of every document of `input`.
    fn documents(input: impl Read) -> Vec<(u64, String)> {
        let mut source = NdjsonSource::new(BufReader::with_capacity(7, input), 0);
        let mut batch = SourceBatch::new(0, "test".into(), SourcePosition::default(), 0);
        while source.read_into(&mut batch).unwrap() {}
        let text = |item: &SourceItem| match &item.json {
            Ok(range) => String::from_utf8(batch.text[range.clone()].to_vec()).unwrap(),
            Err(reason) => reason.clone(),
        };
        batch
            .items
            .iter()
            .map(|item| (item.line, text(item)))
            .collect()
    }

    #[test]
    fn lines_are_cut_and_blank_ones_skipped() {
        let expected = vec![
            (1, "{\"a\":1}".to_owned()),
            (4, "{}".to_owned()),
            (5, "x".to_owned()),
        ];
        assert_eq!(documents(&b"{\"a\":1}\n\n \t\r\n{}\nx"[..]), expected);
        assert_eq!(documents(&b""[..]), []);
    }

    #[test]
    fn a_line_beyond_the_limit_is_an_error_and_the_next_one_is_read() {
        let fits = vec![b'x'; TEXT_BYTES_MAX - 1];
        let long = io::repeat(b'y').take(3 * TEXT_BYTES_MAX as u64);
        let input = (&fits[..])
            .chain(&b"\n"[..])
            .chain(long)
            .chain(&b"\n{}\n"[..]);
        let found = documents(input);
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].0, found[0].1.len()), (1, TEXT_BYTES_MAX - 1));
        assert!(found[1].1.contains("longer than 17 MiB"));
        assert_eq!(found[2], (3, "{}".to_owned()));
    }
}
