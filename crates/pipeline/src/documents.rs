//! The documents of an input, without a database.

use crate::batch::SourceBatch;
use crate::input::{Format, Input};
use crate::parse::document_of;
use crate::position::SourcePosition;
use quiredb::{Document, ID};
use std::io;

/// The documents of `bytes`: for each the line where it starts, and the document or why it is bad.
/// All are in memory at once.
///
/// # Errors
/// If the input can't be read to its end: compressed bytes, or a bad CSV header row.
pub fn documents_of(
    format: Format,
    bytes: &[u8],
) -> io::Result<Vec<(u64, Result<Document, String>)>> {
    let bytes = io::Cursor::new(bytes.to_vec());
    let input = Input::new("input", format, || Ok(Box::new(bytes)));
    let (mut source, _) = input.open(ID)?;
    let mut batch = SourceBatch::new(0, "input".into(), SourcePosition::default(), 0);
    while source.read_into(&mut batch)? {}
    let documents = batch
        .items
        .iter()
        .map(|item| (item.line, document_of(item, &batch.text)));
    Ok(documents.collect())
}
