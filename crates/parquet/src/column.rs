//! The values of one column: some rows of them, read one after another.

use crate::value::{Form, Kind, Stored, utf8};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{
    BoolType, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type,
    Int64Type, Int96Type,
};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;

/// A column of a row group.
pub(crate) struct Column {
    values: Values,
    definition_max: i16,
    repetition_max: i16,
    /// The definition levels of the rows that were read; none if all are 0.
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    /// The levels of these rows.
    levels: usize,
    /// The level that is next.
    at: usize,
    /// The value that is next: of the levels that have one.
    value_at: usize,
}

/// The reader of a column and the values that it has read.
enum Values {
    Bool(Typed<BoolType>),
    Int32(Typed<Int32Type>),
    Int64(Typed<Int64Type>),
    Int96(Typed<Int96Type>),
    Float(Typed<FloatType>),
    Double(Typed<DoubleType>),
    Bytes(Typed<ByteArrayType>),
    FixedBytes(Typed<FixedLenByteArrayType>),
}

struct Typed<T: DataType> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
}

impl<T: DataType> Typed<T> {
    fn new(reader: ColumnReaderImpl<T>) -> Typed<T> {
        Typed {
            reader,
            values: Vec::new(),
        }
    }

    /// Reads `rows` rows. Returns how many there were, and their levels.
    fn fill(
        &mut self,
        rows: usize,
        definitions: &mut Vec<i16>,
        repetitions: &mut Vec<i16>,
    ) -> Result<(usize, usize), ParquetError> {
        self.values.clear();
        definitions.clear();
        repetitions.clear();
        let (mut read, mut levels) = (0, 0);
        while read < rows {
            let left = rows - read;
            let values = &mut self.values;
            let (more, _, more_levels) =
                self.reader
                    .read_records(left, Some(definitions), Some(repetitions), values)?;
            if more == 0 {
                break;
            }
            read += more;
            levels += more_levels;
        }
        Ok((read, levels))
    }
}

/// Runs an expression with the typed values of a column.
macro_rules! with_values {
    ($values:expr, $typed:ident => $result:expr) => {
        match $values {
            Values::Bool($typed) => $result,
            Values::Int32($typed) => $result,
            Values::Int64($typed) => $result,
            Values::Int96($typed) => $result,
            Values::Float($typed) => $result,
            Values::Double($typed) => $result,
            Values::Bytes($typed) => $result,
            Values::FixedBytes($typed) => $result,
        }
    };
}

impl Column {
    pub(crate) fn new(reader: ColumnReader, descriptor: &ColumnDescriptor) -> Column {
        Column {
            values: match reader {
                ColumnReader::BoolColumnReader(reader) => Values::Bool(Typed::new(reader)),
                ColumnReader::Int32ColumnReader(reader) => Values::Int32(Typed::new(reader)),
                ColumnReader::Int64ColumnReader(reader) => Values::Int64(Typed::new(reader)),
                ColumnReader::Int96ColumnReader(reader) => Values::Int96(Typed::new(reader)),
                ColumnReader::FloatColumnReader(reader) => Values::Float(Typed::new(reader)),
                ColumnReader::DoubleColumnReader(reader) => Values::Double(Typed::new(reader)),
                ColumnReader::ByteArrayColumnReader(reader) => Values::Bytes(Typed::new(reader)),
                ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                    Values::FixedBytes(Typed::new(reader))
                }
            },
            definition_max: descriptor.max_def_level(),
            repetition_max: descriptor.max_rep_level(),
            definitions: Vec::new(),
            repetitions: Vec::new(),
            levels: 0,
            at: 0,
            value_at: 0,
        }
    }

    /// Reads the next `rows` rows in place of those before. Returns how many there were.
    pub(crate) fn fill(&mut self, rows: usize) -> Result<usize, ParquetError> {
        let (definitions, repetitions) = (&mut self.definitions, &mut self.repetitions);
        let (read, levels) =
            with_values!(&mut self.values, typed => typed.fill(rows, definitions, repetitions))?;
        self.levels = levels;
        (self.at, self.value_at) = (0, 0);
        Ok(read)
    }

    /// The definition level that is next; none behind the last row.
    pub(crate) fn definition(&self) -> Option<i16> {
        match self.definition_max {
            _ if self.at >= self.levels => None,
            0 => Some(0),
            _ => self.definitions.get(self.at).copied(),
        }
    }

    /// The repetition level that is next: 0 begins a row. None behind the last row.
    pub(crate) fn repetition(&self) -> Option<i16> {
        match self.repetition_max {
            _ if self.at >= self.levels => None,
            0 => Some(0),
            _ => self.repetitions.get(self.at).copied(),
        }
    }

    /// Goes to the next level.
    pub(crate) fn advance(&mut self) {
        if self.definition() == Some(self.definition_max) {
            self.value_at += 1;
        }
        self.at += 1;
    }

    /// Appends the text of the value that is next. Bytes without a meaning are text if `as_text`
    /// is set, else base64.
    ///
    /// # Errors
    /// Why it has none; the inner none if the column ends before.
    pub(crate) fn write(
        &self,
        kind: Kind,
        as_text: bool,
        out: &mut String,
    ) -> Option<Result<Form, String>> {
        if let (Kind::Binary, true, Values::Bytes(typed)) = (kind, as_text, &self.values) {
            let bytes = typed.values.get(self.value_at)?.data();
            return Some(utf8(bytes).map(|text| {
                out.push_str(text);
                Form::String
            }));
        }
        with_values!(&self.values, typed => {
            typed.values.get(self.value_at).map(|value| value.write(kind, out))
        })
    }
}
