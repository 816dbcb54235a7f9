//! Measures an encoding before it is made, so that memory can be reserved for it: arrays of small
//! values take up to four times their text.

use crate::encoder::{DuplicateName, Output, write_number};
use crate::float::Number;
use crate::layout::{self, SCAN_FIELDS_MAX, VERSION, Width, buckets};
use smallvec::SmallVec;

/// The length of a document being measured.
pub(crate) struct Measure {
    bytes: usize,
    /// The arrays and objects that are open, the innermost last.
    open: SmallVec<[OpenContainer; 16]>,
    /// Scratch for numbers and lengths.
    scratch: Vec<u8>,
}

struct OpenContainer {
    start: usize,
    items: usize,
    last_end: usize,
}

impl Measure {
    pub(crate) fn new() -> Measure {
        Measure {
            bytes: size_of_val(&VERSION),
            open: SmallVec::new(),
            scratch: Vec::new(),
        }
    }

    /// Bytes of the document.
    pub(crate) fn finish(self) -> usize {
        self.bytes
    }

    /// Ends the innermost array or object. Returns the number of its items.
    fn end(&mut self) -> usize {
        let Some(ended) = self.open.pop() else {
            return 0;
        };
        let width = Width::of(ended.last_end.max(1));
        self.bytes += (ended.items + 1) * width.bytes();
        ended.items
    }
}

impl Output for Measure {
    type Open = ();

    fn begin(&mut self) {
        self.open.push(OpenContainer {
            start: self.bytes,
            items: 0,
            last_end: 0,
        });
        self.bytes += 1;
    }

    fn end_item(&mut self, (): ()) {
        if let Some(open) = self.open.last_mut() {
            open.items += 1;
            open.last_end = self.bytes - open.start;
        }
    }

    fn name(&mut self, name: &[u8]) {
        self.scratch.clear();
        layout::write_leb128(name.len(), &mut self.scratch);
        self.bytes += self.scratch.len() + name.len();
    }

    fn null(&mut self) {
        self.bytes += 1;
    }

    fn bool(&mut self, _: bool) {
        self.bytes += 1;
    }

    fn number(&mut self, number: Number<'_>) {
        self.scratch.clear();
        write_number(number, &mut self.scratch);
        self.bytes += self.scratch.len();
    }

    fn string(&mut self, text: &[u8]) {
        self.bytes += 1 + text.len();
    }

    fn end_array(&mut self, (): ()) {
        self.end();
    }

    /// Names are not compared: the encoder refuses those that are there twice.
    fn end_object(&mut self, (): ()) -> Result<(), DuplicateName> {
        let fields = self.end();
        if fields > SCAN_FIELDS_MAX {
            self.bytes += (buckets(fields) + fields) * Width::of(fields).bytes();
        }
        Ok(())
    }
}
