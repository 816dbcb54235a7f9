//! A folder of Parquet files, as Spark, Hive and pyarrow write them: one table in many files.

use crate::files;
use std::io;
use std::path::{Path, PathBuf};

/// Folders are nested no deeper.
const DEPTH_MAX: usize = 32;

/// What a folder of rows without a value is named after.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// A file of the table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) file: PathBuf,
    /// The fields that all of its rows have, each with its JSON: a folder `year=2024` has the
    /// field `year`.
    pub(crate) fields: Vec<(String, String)>,
}

/// The Parquet files of a folder and those below it, by name. Files and folders whose names begin
/// with `_` or `.` are not of the table.
///
/// # Errors
/// Of the system; if folders are nested too deeply.
pub(crate) fn parts(folder: &Path) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    add(folder, &[], 0, &mut parts)?;
    Ok(parts)
}

/// Recursion is bounded by [`DEPTH_MAX`].
fn add(
    folder: &Path,
    fields: &[(String, String)],
    depth: usize,
    parts: &mut Vec<Part>,
) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(io::Error::other(format!(
            "{} is nested deeper than {DEPTH_MAX} folders",
            folder.display()
        )));
    }
    for path in files::entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(['_', '.']) {
            continue;
        }
        if files::is_directory(&path) {
            let mut fields = fields.to_vec();
            fields.extend(name.split_once('=').map(|(name, value)| field(name, value)));
            add(&path, &fields, depth + 1, parts)?;
        } else if name.ends_with(".parquet") || name.ends_with(".pq") {
            let fields = fields.to_vec();
            parts.push(Part { file: path, fields });
        }
    }
    Ok(())
}

/// The field of a folder `name=value`: a number if it is written as one.
fn field(name: &str, value: &str) -> (String, String) {
    let value = decoded(value);
    let is_integer = |text: &str| {
        let number = text.parse::<i64>();
        number.is_ok_and(|number| number.to_string() == text)
    };
    let json = match value.as_str() {
        NULL => "null".to_owned(),
        text if is_integer(text) => text.to_owned(),
        text => serde_json::Value::from(text).to_string(),
    };
    (decoded(name), json)
}

/// A name with the bytes that `%XX` stands for.
fn decoded(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((plain, escaped)) = rest.split_once('%') {
        bytes.extend_from_slice(plain.as_bytes());
        let hex = escaped.get(..2);
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(b'%'));
        rest = byte.and_then(|_| escaped.get(2..)).unwrap_or(escaped);
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_name_fields() {
        for (name, value, json) in [
            ("year", "2024", "2024"),
            ("month", "07", r#""07""#),
            ("city", "S%C3%A3o%20Paulo 100%", "\"S\u{e3}o Paulo 100%\""),
            ("day", NULL, "null"),
        ] {
            assert_eq!(field(name, value), (name.to_owned(), json.to_owned()));
        }
    }
}
