//! Rows of a file, as JSON.
//!
//! A step reads the next rows of every column of a row group, as many as have about
//! [`STEP_BYTES`]; then each is put together from the columns by their levels.
//!
//! Source: Melnik et al. 2010, "Dremel", record assembly; here by descent through the schema.

use crate::column::Column;
use crate::error::Error;
use crate::schema::{Node, Repeated, Shape, fields};
use crate::value::{Form, Kind};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};

/// The bytes of rows that a step reads, by what the file says of its row groups.
const STEP_BYTES: u64 = 1 << 20;

/// Rows of a step at most.
const STEP_ROWS_MAX: u64 = 1_024;

/// Turns the text of a value into JSON; false if it can't be.
pub type Cast = Box<dyn Fn(&str, &mut Vec<u8>) -> bool + Send>;

/// A field of the rows.
struct Field {
    node: Node,
    cast: Option<Cast>,
}

/// Reads the rows of a file, in order.
pub struct Rows<R: ChunkReader> {
    reader: SerializedFileReader<R>,
    fields: Vec<Field>,
    columns: Vec<Column>,
    /// The row group that is next.
    group: usize,
    /// Rows of the current row group that are still to be read into the columns.
    group_rows: u64,
    /// Rows of a step.
    step_rows: u64,
    /// Rows in the columns.
    rows: u64,
    /// Rows that were read.
    rows_read: u64,
    rows_total: u64,
    /// The text of a value, whose memory is used again.
    cell: String,
}

impl<R: ChunkReader + 'static> Rows<R> {
    /// Reads what a file says of itself. `cast` may give a conversion for a field that is neither
    /// a list nor has fields of its own.
    ///
    /// # Errors
    /// If the file is none of Parquet, is cut or damaged, or has a schema that can't be read; what
    /// `cast` says against a field, of which it learns whether it has a single value.
    pub fn open(
        file: R,
        mut cast: impl FnMut(&str, bool) -> Result<Option<Cast>, String>,
    ) -> Result<Rows<R>, Error> {
        let reader = SerializedFileReader::new(file).map_err(|error| opening(&error))?;
        let metadata = reader.metadata();
        let schema = metadata.file_metadata().schema_descr();
        let nodes = fields(schema).map_err(Error::File)?.into_iter();
        let fields = nodes.map(|node| {
            let is_scalar = matches!(node.shape, Shape::Scalar(_));
            let cast = cast(&node.name, is_scalar).map_err(Error::File)?;
            Ok(Field { node, cast })
        });
        let fields = fields.collect::<Result<_, Error>>()?;
        let rows = |group: &parquet::file::metadata::RowGroupMetaData| {
            u64::try_from(group.num_rows()).unwrap_or_default()
        };
        let rows_total = metadata.row_groups().iter().map(rows).sum();
        Ok(Rows {
            fields,
            columns: Vec::new(),
            group: 0,
            group_rows: 0,
            step_rows: 1,
            rows: 0,
            rows_read: 0,
            rows_total,
            cell: String::new(),
            reader,
        })
    }

    /// The names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.node.name.as_str())
    }

    /// Rows that were read, and all that there are.
    pub fn progress(&self) -> (u64, u64) {
        (self.rows_read, self.rows_total)
    }

    /// Appends the fields of the next row, `"name":value` with commas between; false if there is
    /// no row.
    ///
    /// # Errors
    /// [`Error::Row`], after which the next row can be read; [`Error::File`]. What was appended is
    /// to be dropped.
    pub fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Error> {
        while self.rows == 0 {
            if !self.step()? {
                return Ok(false);
            }
        }
        self.rows -= 1;
        self.rows_read += 1;
        let mut row = Row {
            columns: &mut self.columns,
            cell: &mut self.cell,
            bad: None,
        };
        let before = self.rows_read - 1;
        let written = self
            .fields
            .iter()
            .enumerate()
            .try_for_each(|(index, field)| {
                if index > 0 {
                    out.push(b',');
                }
                row.write_field(&field.node, field.cast.as_ref(), out)
            });
        written.map_err(|what| Error::contradiction(before, what))?;
        let bad = row.bad;
        // A further level of this row would be taken for the next one.
        let next = |column: &Column| column.repetition().is_none_or(|level| level == 0);
        if !self.columns.iter().all(next) {
            let what = "its columns have different numbers of values";
            return Err(Error::contradiction(before, what));
        }
        match bad {
            Some(why) => Err(Error::Row(why)),
            None => Ok(true),
        }
    }

    /// Reads rows into the columns; false if there are no more.
    fn step(&mut self) -> Result<bool, Error> {
        let damaged = |rows| move |error: ParquetError| Error::damaged(rows, &error);
        let damaged = damaged(self.rows_read);
        if self.group_rows == 0 {
            if self.group >= self.reader.num_row_groups() {
                return Ok(false);
            }
            let group = self.reader.get_row_group(self.group).map_err(damaged)?;
            let metadata = group.metadata();
            self.group_rows = u64::try_from(metadata.num_rows()).unwrap_or_default();
            let bytes = u64::try_from(metadata.total_byte_size()).unwrap_or_default();
            let row_bytes = bytes / self.group_rows.max(1);
            self.step_rows = (STEP_BYTES / row_bytes.max(1)).clamp(1, STEP_ROWS_MAX);
            let schema = metadata.schema_descr();
            self.columns = (0..schema.num_columns())
                .map(|index| {
                    let reader = group.get_column_reader(index)?;
                    Ok(Column::new(reader, &schema.column(index)))
                })
                .collect::<Result<_, ParquetError>>()
                .map_err(damaged)?;
            self.group += 1;
        }
        let rows = self.group_rows.min(self.step_rows);
        for column in &mut self.columns {
            let read = column.fill(rows as usize).map_err(damaged)?;
            if read as u64 != rows {
                let what = "a column has fewer rows than its row group";
                return Err(Error::contradiction(self.rows_read, what));
            }
        }
        self.group_rows -= rows;
        self.rows = rows;
        Ok(true)
    }
}

/// What to say of a file whose own description can't be read.
fn opening(error: &ParquetError) -> Error {
    Error::File(match error {
        ParquetError::EOF(_) | ParquetError::NeedMoreData(_) => {
            format!("it is not a whole Parquet file; was it cut? {error}")
        }
        error => format!("it is no Parquet file that can be read: {error}"),
    })
}

/// One row, as it is written.
struct Row<'r> {
    columns: &'r mut [Column],
    cell: &'r mut String,
    /// The first value that can't be JSON.
    bad: Option<String>,
}

/// What is wrong with a file.
type Contradiction = &'static str;

/// A column ends where another one has a value.
const ENDS: Contradiction = "a column ends in the middle of a row";

impl Row<'_> {
    fn write_field(
        &mut self,
        node: &Node,
        cast: Option<&Cast>,
        out: &mut Vec<u8>,
    ) -> Result<(), Contradiction> {
        write_string(&node.name, out);
        out.push(b':');
        self.write(node, cast, out)
    }

    /// Appends a value, and goes to the next one. Recursion is bounded by the schema's depth.
    fn write(
        &mut self,
        node: &Node,
        cast: Option<&Cast>,
        out: &mut Vec<u8>,
    ) -> Result<(), Contradiction> {
        if let Some(present) = node.present
            && self.definition(node)? < present
        {
            out.extend_from_slice(b"null");
            self.skip(node);
            return Ok(());
        }
        match &node.shape {
            Shape::Scalar(kind) => self.write_scalar(node, *kind, cast, out),
            Shape::Object(fields) => {
                out.push(b'{');
                for (index, field) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    self.write_field(field, None, out)?;
                }
                out.push(b'}');
                Ok(())
            }
            Shape::List(repeated, element) => {
                out.push(b'[');
                self.write_elements(node, *repeated, out, |row, out| {
                    row.write(element, None, out)
                })?;
                out.push(b']');
                Ok(())
            }
            Shape::Map(repeated, key, value) => {
                out.push(b'{');
                self.write_elements(node, *repeated, out, |row, out| {
                    row.write_key(key, out)?;
                    out.push(b':');
                    match value {
                        Some(value) => row.write(value, None, out),
                        None => {
                            out.extend_from_slice(b"null");
                            Ok(())
                        }
                    }
                })?;
                out.push(b'}');
                Ok(())
            }
        }
    }

    /// Appends elements with commas between, until the levels say that the list ends.
    fn write_elements(
        &mut self,
        node: &Node,
        repeated: Repeated,
        out: &mut Vec<u8>,
        mut write: impl FnMut(&mut Self, &mut Vec<u8>) -> Result<(), Contradiction>,
    ) -> Result<(), Contradiction> {
        if self.definition(node)? < repeated.definition {
            self.skip(node);
            return Ok(());
        }
        loop {
            write(self, out)?;
            let next = self.first(node).and_then(Column::repetition);
            if next.is_none_or(|level| level < repeated.repetition) {
                return Ok(());
            }
            out.push(b',');
        }
    }

    /// Appends the key of a map, which is text in JSON.
    fn write_key(&mut self, key: &Node, out: &mut Vec<u8>) -> Result<(), Contradiction> {
        let Shape::Scalar(kind) = key.shape else {
            return Err("the keys of a map are not of one column");
        };
        match key.present {
            Some(present) if self.definition(key)? < present => {
                self.note(key, "a key of the map is null");
                write_string("", out);
                self.skip(key);
            }
            _ => {
                self.read(key, kind, true)?;
                write_string(self.cell, out);
            }
        }
        Ok(())
    }

    fn write_scalar(
        &mut self,
        node: &Node,
        kind: Kind,
        cast: Option<&Cast>,
        out: &mut Vec<u8>,
    ) -> Result<(), Contradiction> {
        let form = self.read(node, kind, cast.is_some())?;
        match (form, cast) {
            (Form::Null, _) => out.extend_from_slice(b"null"),
            (_, Some(cast)) => {
                if !cast(self.cell, out) {
                    self.note(node, &format!("it is of another type: {:?}", self.cell));
                }
            }
            (Form::Bare, _) => out.extend_from_slice(self.cell.as_bytes()),
            (Form::String, _) => write_string(self.cell, out),
        }
        Ok(())
    }

    /// Reads the text of a value into the cell.
    fn read(&mut self, node: &Node, kind: Kind, as_text: bool) -> Result<Form, Contradiction> {
        self.cell.clear();
        let Some(column) = self.columns.get_mut(node.columns.start) else {
            return Err(ENDS);
        };
        let read = column.write(kind, as_text, self.cell).ok_or(ENDS)?;
        column.advance();
        Ok(read.unwrap_or_else(|why| {
            self.note(node, &why);
            Form::Null
        }))
    }

    /// Notes why the row can't be read; the first reason is kept.
    fn note(&mut self, node: &Node, why: &str) {
        let why = || format!("the value of {:?} can't be read: {why}", node.name);
        self.bad.get_or_insert_with(why);
    }

    fn first(&self, node: &Node) -> Option<&Column> {
        self.columns.get(node.columns.start)
    }

    fn definition(&self, node: &Node) -> Result<i16, Contradiction> {
        self.first(node).and_then(Column::definition).ok_or(ENDS)
    }

    /// Goes on over a value that is not there: each column has one level for it.
    fn skip(&mut self, node: &Node) {
        let columns = self.columns.get_mut(node.columns.clone());
        columns.into_iter().flatten().for_each(Column::advance);
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(out, text);
}
