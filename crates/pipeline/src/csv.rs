//! CSV: a header row that names the fields, then one document a row. Every value is a JSON string,
//! `""` where the cell is empty: CSV has no types, and none are guessed.

use crate::batch::{SourceBatch, SourceItem};
use crate::source::{Source, TEXT_BYTES_MAX};
use csv::{ByteRecord, ReaderBuilder};
use std::io::{self, Read};

/// What the csv crate reads ahead.
const BUFFER_BYTES: usize = 64 << 10;

/// Turns rows into JSON objects.
pub(crate) struct CsvSource<R> {
    reader: csv::Reader<Bounded<R>>,
    /// The fields, each as JSON with its colon: `"name":`.
    fields: Vec<String>,
    record: ByteRecord,
    /// The byte of the input where the reader began.
    start: u64,
}

impl<R: Read> CsvSource<R> {
    /// Reads the header row. `reader` is at byte `start` of the input.
    ///
    /// # Errors
    /// Of reading, and if a field is named twice or not in UTF-8. An empty file has no fields and
    /// no rows.
    pub(crate) fn new(reader: R, start: u64) -> io::Result<CsvSource<R>> {
        let mut reader = ReaderBuilder::new()
            .flexible(true)
            .has_headers(false)
            .buffer_capacity(BUFFER_BYTES)
            .from_reader(Bounded {
                reader,
                left: TEXT_BYTES_MAX,
            });
        let mut record = ByteRecord::new();
        reader.read_byte_record(&mut record).map_err(into_io)?;
        let mut fields = Vec::with_capacity(record.len());
        for cell in &record {
            let name = std::str::from_utf8(cell)
                .map_err(|_| io::Error::other("the header row is not UTF-8"))?;
            let field = format!("{}:", serde_json::to_string(name)?);
            if fields.contains(&field) {
                return Err(io::Error::other(format!(
                    "the header row names the field `{name}` twice"
                )));
            }
            fields.push(field);
        }
        Ok(CsvSource {
            reader,
            fields,
            record,
            start,
        })
    }

    /// Appends the last record read as a JSON object.
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        if self.record.len() != self.fields.len() {
            return Err(format!(
                "the row has {} cells, the header row {}",
                self.record.len(),
                self.fields.len()
            ));
        }
        out.push(b'{');
        for (index, (field, cell)) in self.fields.iter().zip(&self.record).enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(field.as_bytes());
            let cell = std::str::from_utf8(cell)
                .map_err(|_| format!("the cell of {} is not UTF-8", field.trim_end_matches(':')))?;
            serde_json::to_writer(&mut *out, cell).map_err(|error| error.to_string())?;
        }
        out.push(b'}');
        Ok(())
    }
}

impl<R: Read> Source for CsvSource<R> {
    fn read_into(&mut self, batch: &mut SourceBatch) -> io::Result<bool> {
        self.reader.get_mut().left = TEXT_BYTES_MAX;
        // Blank lines before a row count as its first.
        let line = self.reader.position().line();
        let before = self.start + self.reader.position().byte();
        let more = self
            .reader
            .read_byte_record(&mut self.record)
            .map_err(into_io)?;
        let bytes = before..self.start + self.reader.position().byte();
        if !more {
            batch.end.byte = bytes.end;
            return Ok(false);
        }
        let start = batch.text.len();
        let json = match self.encode(&mut batch.text) {
            Ok(()) => Ok(start..batch.text.len()),
            Err(reason) => {
                batch.text.truncate(start);
                Err(reason)
            }
        };
        batch.push(SourceItem { line, bytes, json });
        Ok(true)
    }

    fn is_buffered(&self) -> bool {
        true
    }
}

fn into_io(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Fails a record without an end, such as one whose quote is never closed.
struct Bounded<R> {
    reader: R,
    /// Bytes that may still be read for this record.
    left: usize,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        match self.left.checked_sub(read) {
            Some(left) => self.left = left,
            None => {
                return Err(io::Error::other(format!(
                    "a row is longer than {} MiB; is a quote not closed?",
                    TEXT_BYTES_MAX >> 20
                )));
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::SourcePosition;

    fn documents(input: impl Read) -> io::Result<Vec<(u64, Result<String, String>)>> {
        let mut source = CsvSource::new(input, 0)?;
        let mut batch = SourceBatch::new(0, "test".into(), SourcePosition::default(), 0);
        while source.read_into(&mut batch)? {}
        let text = |item: &SourceItem| {
            item.json
                .clone()
                .map(|range| String::from_utf8(batch.text[range].to_vec()).unwrap())
        };
        Ok(batch
            .items
            .iter()
            .map(|item| (item.line, text(item)))
            .collect())
    }

    #[test]
    fn rows_become_objects_of_strings() {
        let input =
            "id,na\"me,note\n1,Ann,\n\n2,\"O'Neil, Bob\",\"two\nlines \"\"quoted\"\"\"\n3,é,x\n";
        let expected = vec![
            (2, Ok(r#"{"id":"1","na\"me":"Ann","note":""}"#.to_owned())),
            (
                3,
                Ok(
                    r#"{"id":"2","na\"me":"O'Neil, Bob","note":"two\nlines \"quoted\""}"#
                        .to_owned(),
                ),
            ),
            (6, Ok(r#"{"id":"3","na\"me":"é","note":"x"}"#.to_owned())),
        ];
        assert_eq!(documents(input.as_bytes()).unwrap(), expected);
        assert_eq!(documents(&b""[..]).unwrap(), []);
    }

    #[test]
    fn rows_that_do_not_fit_the_header_are_bad_and_the_rest_is_read() {
        let found = documents(&b"id,name\n1\n2,b,c\n3,\xff\n4,d\n"[..]).unwrap();
        let bad: Vec<u64> = found
            .iter()
            .filter(|(_, json)| json.is_err())
            .map(|(line, _)| *line)
            .collect();
        assert_eq!(bad, [2, 3, 4]);
        assert_eq!(found[3], (5, Ok(r#"{"id":"4","name":"d"}"#.to_owned())));
        assert!(documents(&b"id,id\n"[..]).is_err());
    }

    #[test]
    fn a_quote_that_is_never_closed_is_an_error_and_not_endless_memory() {
        let endless = (&b"id\n\""[..]).chain(io::repeat(b'x'));
        let message = documents(endless).unwrap_err().to_string();
        assert!(message.contains("longer than 17 MiB"), "{message}");
    }
}
