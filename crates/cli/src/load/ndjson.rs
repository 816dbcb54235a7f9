//! NDJSON: one JSON object a line. Blank lines are passed over.

use super::batch::{Batch, Line};
use super::read::DocumentReader;
use std::io::{self, BufRead, BufReader, Read};

/// The longest line: the largest document (16 MiB) and room for the white space it may be written
/// with.
pub(super) const LINE_BYTES_MAX: usize = 17 << 20;

/// Cuts a stream at its line ends.
pub(super) struct NdjsonReader<R> {
    reader: BufReader<R>,
    line: u64,
    /// The rest of the present line is to be thrown away.
    in_long_line: bool,
}

impl<R: Read> NdjsonReader<R> {
    /// From the start of `reader`.
    pub(super) fn new(reader: BufReader<R>) -> NdjsonReader<R> {
        NdjsonReader {
            reader,
            line: 0,
            in_long_line: false,
        }
    }
}

impl<R: Read> DocumentReader for NdjsonReader<R> {
    fn read_into(&mut self, batch: &mut Batch) -> io::Result<bool> {
        if self.in_long_line {
            batch.input_bytes += self.reader.skip_until(b'\n')? as u64;
            self.in_long_line = false;
        }
        loop {
            let start = batch.text.len();
            let read = (&mut self.reader)
                .take(LINE_BYTES_MAX as u64)
                .read_until(b'\n', &mut batch.text)?;
            if read == 0 {
                return Ok(false);
            }
            self.line += 1;
            batch.input_bytes += read as u64;
            let ended = batch.text.ends_with(b"\n");
            if !ended && read == LINE_BYTES_MAX {
                batch.text.truncate(start);
                self.in_long_line = true;
                let reason = format!("the line is longer than {} MiB", LINE_BYTES_MAX >> 20);
                batch.lines.push(Line {
                    number: self.line,
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
                continue;
            }
            batch.lines.push(Line {
                number: self.line,
                json: Ok(start..end),
            });
            return Ok(true);
        }
    }

    fn is_buffered(&self) -> bool {
        !self.reader.buffer().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Place;

    /// (line number, text or reason) of every document of `input`.
    fn documents(input: impl Read) -> Vec<(u64, String)> {
        let mut reader = NdjsonReader::new(BufReader::with_capacity(7, input));
        let mut batch = Batch::new(0, Place::default(), "test".into(), 0);
        while reader.read_into(&mut batch).unwrap() {}
        let text = |line: &Line| match &line.json {
            Ok(range) => String::from_utf8(batch.text[range.clone()].to_vec()).unwrap(),
            Err(reason) => reason.clone(),
        };
        batch
            .lines
            .iter()
            .map(|line| (line.number, text(line)))
            .collect()
    }

    #[test]
    fn lines_are_cut_and_blank_ones_passed_over() {
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
        let fits = vec![b'x'; LINE_BYTES_MAX - 1];
        let long = io::repeat(b'y').take(3 * LINE_BYTES_MAX as u64);
        let input = (&fits[..])
            .chain(&b"\n"[..])
            .chain(long)
            .chain(&b"\n{}\n"[..]);
        let found = documents(input);
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].0, found[0].1.len()), (1, LINE_BYTES_MAX - 1));
        assert!(found[1].1.contains("longer than 17 MiB"));
        assert_eq!(found[2], (3, "{}".to_owned()));
    }
}
