//! Writes the document encoding, front to back in one pass: see [`layout`](crate::layout).
//!
//! The items of an array or object are written one after another. When it ends, and the width of
//! its offsets is known, its tables are written behind them. Beside the output, only the ends of
//! the items of open containers are held.

use crate::float::{Float, Number, Repr};
use crate::layout::{self, SCAN_FIELDS_MAX, VERSION, Width, bucket, buckets, split_entry, tag};
use smallvec::SmallVec;

/// A document being written.
pub(crate) struct Encoder {
    out: Vec<u8>,
    /// Ends of the items written so far of every open container, the innermost last, each from its
    /// container's tag.
    ends: SmallVec<[u32; 64]>,
    /// Scratch of the index: bucket in the high half, entry number in the low.
    listed: SmallVec<[u64; 32]>,
}

/// An array or object that is open: where it starts, in the output and in the ends.
#[derive(Clone, Copy)]
#[must_use]
pub(crate) struct Open {
    start: usize,
    first_end: usize,
}

/// An object has this field twice.
#[derive(Debug)]
pub(crate) struct DuplicateName(pub(crate) Vec<u8>);

/// What the values of a JSON text are given to, in their order.
pub(crate) trait Output {
    /// An array or object that is open.
    type Open: Copy;

    /// Starts an array or object.
    fn begin(&mut self) -> Self::Open;

    /// Ends an item of `open`: a value of an array, a name and value of an object.
    fn end_item(&mut self, open: Self::Open);

    /// A field's name; its value comes next.
    fn name(&mut self, name: &[u8]);

    fn null(&mut self);

    fn bool(&mut self, value: bool);

    fn number(&mut self, number: Number<'_>);

    fn string(&mut self, text: &[u8]);

    /// Ends an array.
    fn end_array(&mut self, open: Self::Open);

    /// Ends an object, unless two of its fields have one name.
    fn end_object(&mut self, open: Self::Open) -> Result<(), DuplicateName>;
}

impl Encoder {
    /// An encoder with room for `bytes`.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let mut out = Vec::with_capacity(bytes);
        out.push(VERSION);
        Self {
            out,
            ends: SmallVec::new(),
            listed: SmallVec::new(),
        }
    }

    /// The finished document.
    pub(crate) fn finish(self) -> Vec<u8> {
        assert!(self.ends.is_empty(), "every array and object has ended");
        self.out
    }

    /// A value that is encoded already.
    pub(crate) fn value(&mut self, encoded: &[u8]) {
        self.out.extend_from_slice(encoded);
    }

    fn write_ends(&mut self, open: Open) -> Width {
        let ends = self.ends.get(open.first_end..).unwrap_or_default();
        let width = Width::of(ends.last().map_or(1, |end| *end as usize));
        self.out.reserve((ends.len() + 1) * width.bytes());
        for end in ends {
            write(&mut self.out, width, *end);
        }
        width
    }

    fn close(&mut self, open: Open, tag: u8, width: Width) {
        assert!(
            open.first_end <= self.ends.len(),
            "containers end innermost first"
        );
        let count = self.ends.len() - open.first_end;
        write(&mut self.out, width, count as u32);
        if let Some(first) = self.out.get_mut(open.start) {
            *first = tag + width as u8;
        }
        self.ends.truncate(open.first_end);
    }

    fn check_few_names(&self, open: Open) -> Result<(), DuplicateName> {
        let (container, ends) = self.items(open);
        let mut names = [&[][..]; SCAN_FIELDS_MAX];
        for (index, place) in names.iter_mut().enumerate().take(ends.len()) {
            *place = name(container, ends, index);
        }
        let names = names.get(..ends.len()).unwrap_or_default();
        for (index, name) in names.iter().enumerate() {
            if names.iter().take(index).any(|earlier| earlier == name) {
                return Err(DuplicateName(name.to_vec()));
            }
        }
        Ok(())
    }

    /// Fills `listed` with the entries of `open` in the order of the index.
    fn list_names(&mut self, open: Open) -> Result<(), DuplicateName> {
        let mut listed = std::mem::take(&mut self.listed);
        listed.clear();
        let (container, ends) = self.items(open);
        let buckets = buckets(ends.len());
        listed.extend((0..ends.len()).map(|index| {
            let bucket = bucket(name(container, ends, index), buckets);
            (bucket as u64) << 32 | index as u64
        }));
        listed.sort_unstable();
        let mut rest = listed.as_mut_slice();
        while let Some(first) = rest.first() {
            let bucket = first >> 32;
            let size = rest
                .iter()
                .position(|other| other >> 32 != bucket)
                .unwrap_or(rest.len());
            let (same, others) = rest.split_at_mut(size);
            let name = |listed: u64| name(container, ends, listed as u32 as usize);
            if same.len() > 1 {
                same.sort_unstable_by(|a, b| name(*a).cmp(name(*b)));
                let mut pairs = same.iter().zip(same.iter().skip(1));
                if let Some((twice, _)) = pairs.find(|(a, b)| name(**a) == name(**b)) {
                    return Err(DuplicateName(name(*twice).to_vec()));
                }
            }
            rest = others;
        }
        self.listed = listed;
        Ok(())
    }

    fn write_index(&mut self) {
        let width = Width::of(self.listed.len());
        let buckets = buckets(self.listed.len());
        self.out
            .reserve((buckets + self.listed.len()) * width.bytes());
        let mut end = 0;
        for bucket in 0..buckets as u64 {
            let rest = self.listed.get(end..).unwrap_or_default();
            end += rest
                .iter()
                .take_while(|listed| **listed >> 32 == bucket)
                .count();
            write(&mut self.out, width, end as u32);
        }
        debug_assert!(end == self.listed.len(), "every name is in a bucket");
        for listed in &self.listed {
            write(&mut self.out, width, *listed as u32);
        }
    }

    /// The bytes of `open` so far, and the ends of its items in them.
    fn items(&self, open: Open) -> (&[u8], &[u32]) {
        let container = self.out.get(open.start..).unwrap_or_default();
        (
            container,
            self.ends.get(open.first_end..).unwrap_or_default(),
        )
    }
}

impl Output for Encoder {
    type Open = Open;

    fn begin(&mut self) -> Open {
        let open = Open {
            start: self.out.len(),
            first_end: self.ends.len(),
        };
        self.out.push(tag::NULL);
        open
    }

    fn end_item(&mut self, open: Open) {
        // Fits: inputs are bounded by 16 MiB of text, and no encoding is more than a few times its
        // text.
        let end = self.out.len() - open.start;
        debug_assert!(u32::try_from(end).is_ok(), "an end fits 32 bits");
        debug_assert!(
            self.ends.len() >= open.first_end,
            "containers end innermost first"
        );
        self.ends.push(end as u32);
    }

    fn name(&mut self, name: &[u8]) {
        layout::write_leb128(name.len(), &mut self.out);
        self.out.extend_from_slice(name);
    }

    fn null(&mut self) {
        self.out.push(tag::NULL);
    }

    fn bool(&mut self, value: bool) {
        self.out.push(if value { tag::TRUE } else { tag::FALSE });
    }

    fn number(&mut self, number: Number<'_>) {
        write_number(number, &mut self.out);
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(tag::STRING);
        self.out.extend_from_slice(text);
    }

    fn end_array(&mut self, open: Open) {
        let width = self.write_ends(open);
        self.close(open, tag::ARRAY, width);
    }

    fn end_object(&mut self, open: Open) -> Result<(), DuplicateName> {
        let width = if self.ends.len() - open.first_end <= SCAN_FIELDS_MAX {
            self.check_few_names(open)?;
            self.write_ends(open)
        } else {
            self.list_names(open)?;
            let width = self.write_ends(open);
            self.write_index();
            width
        };
        self.close(open, tag::OBJECT, width);
        Ok(())
    }
}

/// Appends a number's encoding.
pub(crate) fn write_number(number: Number<'_>, out: &mut Vec<u8>) {
    match number {
        Number::Int(value) => {
            out.push(tag::INT);
            layout::write_int(value, out);
        }
        Number::UInt(value) => {
            out.push(tag::UINT);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Number::Float(Float(Repr::Decimal {
            negative,
            digits,
            scale,
        })) => {
            out.push(tag::DECIMAL);
            out.push(if negative { scale | 0x80 } else { scale });
            layout::write_uint(digits, out);
        }
        Number::Float(Float(Repr::Text(text))) => {
            out.push(tag::NUMBER);
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// The name of entry `index` of the object that starts `container`.
fn name<'a>(container: &'a [u8], ends: &[u32], index: usize) -> &'a [u8] {
    let start = index
        .checked_sub(1)
        .and_then(|before| ends.get(before))
        .map_or(1, |end| *end as usize);
    let entry = container.get(start..).unwrap_or_default();
    split_entry(entry).unwrap_or_default().0
}

fn write(out: &mut Vec<u8>, width: Width, value: u32) {
    debug_assert!(
        Width::of(value as usize).bytes() <= width.bytes(),
        "a number fits the width of its table"
    );
    match width {
        Width::One => out.push(value as u8),
        Width::Two => out.extend_from_slice(&(value as u16).to_le_bytes()),
        Width::Four => out.extend_from_slice(&value.to_le_bytes()),
    }
}
