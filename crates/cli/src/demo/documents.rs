//! Documents of this process as bytes of NDJSON, which the pipeline reads like a file.

use serde_json::{Map, Value};
use std::io::{self, Read};

/// A JSON object, its fields in order.
pub(super) type Object = Map<String, Value>;

/// Objects as NDJSON.
pub(super) struct Documents<I> {
    objects: I,
    line: Vec<u8>,
    /// Bytes of the line that have been read.
    read: usize,
}

impl<I> Documents<I> {
    /// Of these objects.
    pub(super) fn new(objects: I) -> Documents<I> {
        Documents {
            objects,
            line: Vec::new(),
            read: 0,
        }
    }
}

impl<I: Iterator<Item = io::Result<Object>>> Read for Documents<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.line.len() {
            let Some(object) = self.objects.next() else {
                return Ok(0);
            };
            self.line.clear();
            self.read = 0;
            serde_json::to_writer(&mut self.line, &object?)?;
            self.line.push(b'\n');
        }
        let read = self
            .line
            .get(self.read..)
            .unwrap_or_default()
            .read(buffer)?;
        self.read += read;
        Ok(read)
    }
}
