//! CSV: a header row that names the fields, then one document a row.

use crate::batch::{SourceBatch, SourceItem};
use crate::csv_types::{CellType, CsvColumn, CsvOptions, InferredType, write_string};
use crate::keyed_line::KEY;
use crate::source::{Source, TEXT_BYTES_MAX};
use csv::{ByteRecord, ReaderBuilder};
use quiredb::ID;
use std::io::{self, Chain, Cursor, Read};

/// What the csv crate reads ahead.
const BUFFER_BYTES: usize = 64 << 10;

/// Types are inferred from the rows in this much of the input.
const SAMPLE_BYTES: usize = 1 << 20;

/// What the csv crate reads after the input: a row of its own, unless a quote is open, which has
/// it in its cell. The crate itself takes the end of the input for the end of the quote.
const END: &[u8] = b"\nx";

/// Turns rows into JSON objects.
pub(crate) struct CsvSource<R> {
    reader: csv::Reader<Ended<Chain<Cursor<Vec<u8>>, R>>>,
    columns: Vec<CsvColumn>,
    /// The names of the columns, each as JSON with its colon: `"name":`.
    names: Vec<String>,
    record: ByteRecord,
    /// The byte of the input where the reader began.
    start: u64,
}

impl<R: Read> CsvSource<R> {
    /// Reads the header row, and where types are to be inferred, some rows ahead. `reader` is at
    /// byte `start` of the input. The keys of documents are in the column `key_field`.
    ///
    /// # Errors
    /// Of reading, if the header row has an open quote, names a column twice or not in UTF-8, and
    /// if a type is given for a column that is not there. An empty file has no columns and no rows.
    pub(crate) fn new(
        mut reader: R,
        start: u64,
        options: &CsvOptions,
        key_field: &str,
    ) -> io::Result<CsvSource<R>> {
        let mut sample = Vec::new();
        if options.types.others.is_none() {
            let most = SAMPLE_BYTES as u64;
            reader.by_ref().take(most).read_to_end(&mut sample)?;
        }
        let mut types = inferred_types(&sample, options.delimiter).into_iter();
        let mut reader = builder(options.delimiter).from_reader(Ended {
            reader: Cursor::new(sample).chain(reader),
            length: 0,
            end: END,
            left: TEXT_BYTES_MAX,
            is_too_long: false,
        });
        let mut record = ByteRecord::new();
        match read_row(&mut reader, &mut record)? {
            Row::Whole => {}
            Row::Open(why) => return Err(io::Error::other(why)),
            Row::None => record.clear(),
        }
        let mut columns: Vec<CsvColumn> = Vec::with_capacity(record.len());
        for cell in &record {
            let name = std::str::from_utf8(cell)
                .map_err(|_| io::Error::other("the header row is not UTF-8"))?;
            if columns.iter().any(|column| column.name == name) {
                return Err(io::Error::other(format!(
                    "the header row names the field `{name}` twice"
                )));
            }
            let inferred = types.next().unwrap_or_default().get();
            let given = options.types.of(name);
            columns.push(CsvColumn {
                name: name.to_owned(),
                cell_type: given.unwrap_or(match inferred {
                    // A key is an integer or a string.
                    CellType::Decimal | CellType::Boolean if is_key(name, key_field) => {
                        CellType::String
                    }
                    inferred => inferred,
                }),
                is_inferred: given.is_none(),
            });
        }
        let is_absent = |name: &&String| columns.iter().all(|column| column.name != **name);
        if let Some(absent) = options.types.by_name.keys().find(is_absent)
            && !columns.is_empty()
        {
            return Err(io::Error::other(format!(
                "a type is given for the column `{absent}`, which the header row does not name"
            )));
        }
        let json = |column: &CsvColumn| Ok(format!("{}:", serde_json::to_string(&column.name)?));
        Ok(CsvSource {
            reader,
            names: columns.iter().map(json).collect::<io::Result<_>>()?,
            columns,
            record,
            start,
        })
    }

    /// Appends the last record read as a JSON object.
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        if self.record.len() != self.columns.len() {
            return Err(format!(
                "the row has {} cells, the header row {}",
                self.record.len(),
                self.columns.len()
            ));
        }
        out.push(b'{');
        let cells = self.columns.iter().zip(&self.names).zip(&self.record);
        for (index, ((column, name), cell)) in cells.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(name.as_bytes());
            let cell = std::str::from_utf8(cell)
                .map_err(|_| format!("the cell of {:?} is not UTF-8", column.name))?;
            if column.cell_type.write(cell, out) || column.is_inferred && write_string(cell, out) {
                continue;
            }
            return Err(format!(
                "the cell of {:?} is no {}: {cell:?}",
                column.name, column.cell_type
            ));
        }
        out.push(b'}');
        Ok(())
    }
}

/// Whether a column has keys, of this or of another collection.
fn is_key(name: &str, key_field: &str) -> bool {
    name == key_field || name == ID || name == KEY
}

fn builder(delimiter: u8) -> ReaderBuilder {
    let mut builder = ReaderBuilder::new();
    builder
        .delimiter(delimiter)
        .flexible(true)
        .has_headers(false)
        .buffer_capacity(BUFFER_BYTES);
    builder
}

/// The types of the columns, by the rows of a sample. The last row is left out of a full sample, as
/// it may be cut short. Rows that do not fit the header row are bad, and say nothing.
fn inferred_types(sample: &[u8], delimiter: u8) -> Vec<InferredType> {
    let mut types: Vec<InferredType> = Vec::new();
    let mut reader = builder(delimiter).from_reader(sample);
    let (mut record, mut next) = (ByteRecord::new(), ByteRecord::new());
    if matches!(reader.read_byte_record(&mut record), Ok(true)) {
        types.resize(record.len(), InferredType::default());
    }
    let mut has_row = matches!(reader.read_byte_record(&mut record), Ok(true));
    while has_row {
        let has_next = matches!(reader.read_byte_record(&mut next), Ok(true));
        let is_whole = has_next || sample.len() < SAMPLE_BYTES;
        if is_whole && record.len() == types.len() {
            for (cell_type, cell) in types.iter_mut().zip(&record) {
                cell_type.add(std::str::from_utf8(cell).unwrap_or("not UTF-8"));
            }
        }
        std::mem::swap(&mut record, &mut next);
        has_row = has_next;
    }
    types
}

impl<R: Read> Source for CsvSource<R> {
    fn read_into(&mut self, batch: &mut SourceBatch) -> io::Result<bool> {
        self.reader.get_mut().left = TEXT_BYTES_MAX;
        // Blank lines before a row count as its first.
        let line = self.reader.position().line();
        let before = self.start + self.reader.position().byte();
        let row = read_row(&mut self.reader, &mut self.record)?;
        let after = self.reader.position().byte();
        let bytes = before..self.start + after.min(self.reader.get_ref().length);
        let start = batch.text.len();
        let encoded = match row {
            Row::Whole => self.encode(&mut batch.text),
            Row::Open(why) => Err(why),
            Row::None => {
                batch.end.byte = bytes.end;
                return Ok(false);
            }
        };
        let json = match encoded {
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

    fn columns(&self) -> &[CsvColumn] {
        &self.columns
    }
}

fn into_io(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// What there is where a row is read.
enum Row {
    Whole,
    /// The input ends within a quote: what is wrong.
    Open(String),
    None,
}

fn read_row<R: Read>(
    reader: &mut csv::Reader<Ended<R>>,
    record: &mut ByteRecord,
) -> io::Result<Row> {
    let line = reader.position().line();
    match reader.read_byte_record(record) {
        Ok(true) => {}
        Ok(false) => return Ok(Row::None),
        Err(_) if reader.get_ref().is_too_long => {
            return Err(io::Error::other(format!(
                "the row that begins in line {line} is longer than {} MiB; is a quote not closed?",
                TEXT_BYTES_MAX >> 20
            )));
        }
        Err(error) => return Err(into_io(error)),
    }
    // The line end before the last byte of `END` may end a row of the input.
    if reader.position().byte() <= reader.get_ref().length + 1 {
        return Ok(Row::Whole);
    }
    let cell = record.iter().next_back().unwrap_or_default();
    if record.len() == 1 && cell == &END[1..] {
        return Ok(Row::None);
    }
    let lines = cell.iter().filter(|byte| **byte == b'\n').count() as u64;
    Ok(Row::Open(format!(
        "a quote that begins in line {} is not closed",
        reader.position().line() - lines
    )))
}

/// An input and [`END`] after it. Fails a record that is too long, such as one whose quote is
/// never closed.
struct Ended<R> {
    reader: R,
    /// Bytes of the input that were read.
    length: u64,
    /// What is left of [`END`]; the input has ended once it is begun.
    end: &'static [u8],
    /// Bytes that may still be read for this record.
    left: usize,
    is_too_long: bool,
}

impl<R: Read> Read for Ended<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        if self.end.len() == END.len() {
            read = self.reader.read(buffer)?;
            self.length += read as u64;
        }
        if read == 0 {
            return self.end.read(buffer);
        }
        match self.left.checked_sub(read) {
            Some(left) => self.left = left,
            None => {
                self.is_too_long = true;
                return Err(io::Error::other("the row is too long"));
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv_types::ColumnTypes;
    use crate::position::SourcePosition;

    fn documents(input: impl Read) -> io::Result<Vec<(u64, Result<String, String>)>> {
        let strings = CsvOptions {
            types: ColumnTypes {
                others: Some(CellType::String),
                ..ColumnTypes::default()
            },
            ..CsvOptions::default()
        };
        documents_with(input, &strings)
    }

    fn documents_with(
        input: impl Read,
        options: &CsvOptions,
    ) -> io::Result<Vec<(u64, Result<String, String>)>> {
        let mut source = CsvSource::new(input, 0, options, "sku")?;
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
        let expected = "the row that begins in line 2 is longer than 17 MiB";
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn a_quote_that_is_open_at_the_end_makes_its_row_bad() {
        let open = |line: u64| Err(format!("a quote that begins in line {line} is not closed"));
        let good = |a: &str, b: &str| Ok(format!(r#"{{"a":"{a}","b":"{b}"}}"#));
        for (input, expected) in [
            ("a,b\n1,\"x\n2,y\n3,z\n", vec![(2, open(2))]),
            (
                "a,b\n1,2\n\n\"p\nq\",\"x",
                vec![(2, good("1", "2")), (3, open(5))],
            ),
            ("a,b\n1,\"x\"\"", vec![(2, open(2))]),
            ("a,b\n1,\"x\n", vec![(2, open(2))]),
            ("a,b\n1,\"", vec![(2, open(2))]),
            // Closed, and no quotes.
            ("a,b\n1,\"x\"", vec![(2, good("1", "x"))]),
            (
                "a,b\n1,\"x\\n\"\"\"\r\n\n",
                vec![(2, good("1", r#"x\\n\""#))],
            ),
            ("a,b\r1,5\"\r", vec![(2, good("1", "5\\\""))]),
            ("a,b\n1,x\n\n\n", vec![(2, good("1", "x"))]),
            ("\n\n", vec![]),
        ] {
            let found = documents(input.as_bytes()).unwrap();
            let lines = |rows: &[(u64, Result<String, String>)]| {
                let rows = rows.iter().map(|(_, row)| row.clone());
                rows.collect::<Vec<_>>()
            };
            assert_eq!(lines(&found), lines(&expected), "{input:?}");
        }
        let header = documents(&b"id,\"a\n1,2\n"[..]).unwrap_err().to_string();
        assert_eq!(header, open(1).unwrap_err());
        // A row of the input that looks as the end does.
        assert_eq!(
            documents(&b"a\nx"[..]).unwrap(),
            [(2, Ok(r#"{"a":"x"}"#.to_owned()))]
        );
    }

    #[test]
    fn types_are_inferred_and_what_does_not_fit_later_stays_text() {
        let input = "sku\tprice\tstock\tsold\tnote\n1.5\t2.50\t7\ttrue\t\n2\t3\t\tfalse\t\n";
        let tabs = CsvOptions {
            delimiter: b'\t',
            ..CsvOptions::default()
        };
        let rows: Vec<_> = documents_with(input.as_bytes(), &tabs).unwrap();
        let rows: Vec<_> = rows.into_iter().map(|(_, row)| row.unwrap()).collect();
        assert_eq!(
            rows,
            [
                r#"{"sku":"1.5","price":2.50,"stock":7,"sold":true,"note":""}"#,
                r#"{"sku":"2","price":3,"stock":null,"sold":false,"note":""}"#,
            ]
        );
        // Behind the sample.
        let long = (0..SAMPLE_BYTES / 4).map(|_| "123\n").collect::<String>();
        let input = ["n\n", &long, "many\n"].concat();
        let rows = documents_with(input.as_bytes(), &CsvOptions::default()).unwrap();
        assert_eq!(rows[0], (2, Ok(r#"{"n":123}"#.to_owned())));
        assert_eq!(rows.last().unwrap().1, Ok(r#"{"n":"many"}"#.to_owned()));
    }

    #[test]
    fn a_cell_of_another_type_than_the_given_one_is_bad() {
        let of = |types: [(&str, CellType); 1]| CsvOptions {
            types: ColumnTypes {
                by_name: types.map(|(name, of)| (name.to_owned(), of)).into(),
                ..ColumnTypes::default()
            },
            ..CsvOptions::default()
        };
        let input = &b"sku,stock\n1,007\n2,many\n"[..];
        let rows = documents_with(input, &of([("stock", CellType::Integer)])).unwrap();
        assert_eq!(rows[0].1, Ok(r#"{"sku":1,"stock":7}"#.to_owned()));
        let bad = rows[1].1.as_ref().unwrap_err();
        assert_eq!(bad, "the cell of \"stock\" is no integer: \"many\"");
        let rows = documents_with(input, &CsvOptions::default()).unwrap();
        assert_eq!(rows[0].1, Ok(r#"{"sku":1,"stock":"007"}"#.to_owned()));
        assert!(documents_with(input, &of([("stok", CellType::Integer)])).is_err());
        assert_eq!(
            documents_with(&b""[..], &CsvOptions::default()).unwrap(),
            []
        );
    }

    #[test]
    fn a_row_that_the_sample_cuts_says_nothing() {
        let row = "1234567\n";
        let mut input = "sku\n".to_owned() + &row.repeat(SAMPLE_BYTES / row.len() - 1);
        // The sample ends within this row, behind the digits of an integer.
        input += "12.5\n1234567\n";
        let source = CsvSource::new(input.as_bytes(), 0, &CsvOptions::default(), "_id").unwrap();
        assert_eq!(source.columns()[0].cell_type, CellType::Integer);
    }
}
