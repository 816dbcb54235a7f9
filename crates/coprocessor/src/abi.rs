//! The host side of the ABI, over the memory of a module as bytes. It knows no runtime.

use crate::error::Cause;
use quire_model::{Document, Key, ValueRef};

/// The most bytes of a message that a module fails with.
const MESSAGE_BYTES_MAX: usize = 1024;

/// What a call is about, and what it emits.
#[derive(Debug, Default)]
pub(crate) struct Host {
    /// The row, the document before, the argument, the write.
    pub(crate) sources: [Option<Document>; 4],
    pub(crate) key: Option<Key>,
    /// The state to merge.
    pub(crate) state: Vec<u8>,
    /// What the call emitted, one after the other, and where each ends.
    output: Vec<u8>,
    ends: Vec<usize>,
    output_bytes_max: usize,
}

/// What a function gives, and how many bytes the host has worked through for it.
pub(crate) type Answer = Result<(i32, usize), Cause>;

impl Host {
    pub(crate) fn new(output_bytes_max: usize) -> Host {
        Host {
            output_bytes_max,
            ..Host::default()
        }
    }

    /// Forgets what the last call emitted.
    pub(crate) fn begin(&mut self) {
        self.output.clear();
        self.ends.clear();
    }

    /// What the call emitted, one after the other.
    pub(crate) fn emitted(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ends = self.ends.iter();
        starts.zip(ends).map(|(from, to)| &self.output[from..*to])
    }

    pub(crate) fn type_of(&self, memory: &[u8], source: i32, path: Place) -> Answer {
        let code = match self.value(memory, source, path)? {
            None => 0,
            Some(Found::Document(_)) => 8,
            Some(Found::Value(value)) => match value {
                ValueRef::Null => 1,
                ValueRef::Bool(false) => 2,
                ValueRef::Bool(true) => 3,
                ValueRef::Int(_) => 4,
                ValueRef::UInt(_) | ValueRef::Float(_) => 5,
                ValueRef::String(_) => 6,
                ValueRef::Array(_) => 7,
                ValueRef::Object(_) => 8,
                _ => 0,
            },
        };
        Ok((code, path.len()))
    }

    pub(crate) fn get_i64(&self, memory: &mut [u8], source: i32, path: Place, out: i32) -> Answer {
        let value = match self.value(memory, source, path)? {
            Some(Found::Value(ValueRef::Int(value))) => value,
            _ => return Ok((0, path.len())),
        };
        write(memory, out, &value.to_le_bytes())?;
        Ok((1, path.len()))
    }

    pub(crate) fn get_f64(&self, memory: &mut [u8], source: i32, path: Place, out: i32) -> Answer {
        let value = match self.value(memory, source, path)? {
            Some(Found::Value(ValueRef::Int(value))) => value as f64,
            Some(Found::Value(ValueRef::UInt(value))) => value as f64,
            Some(Found::Value(ValueRef::Float(value))) => value.value(),
            _ => return Ok((0, path.len())),
        };
        write(memory, out, &value.to_le_bytes())?;
        Ok((1, path.len()))
    }

    pub(crate) fn get_string(
        &self,
        memory: &mut [u8],
        source: i32,
        path: Place,
        out: Place,
    ) -> Answer {
        match self.value(memory, source, path)? {
            Some(Found::Value(ValueRef::String(text))) => give(memory, text.as_bytes(), out),
            _ => Ok((-1, path.len())),
        }
    }

    pub(crate) fn get_json(
        &self,
        memory: &mut [u8],
        source: i32,
        path: Place,
        out: Place,
    ) -> Answer {
        let mut text = Vec::new();
        match self.value(memory, source, path)? {
            None => return Ok((-1, path.len())),
            Some(Found::Document(document)) => document.write_json(&mut text),
            Some(Found::Value(value)) => value.write_json(&mut text),
        }
        let (length, _) = give(memory, &text, out)?;
        // The text was made, whether it was copied or not.
        Ok((length, path.len() + text.len()))
    }

    pub(crate) fn key(&self, memory: &mut [u8], out: Place) -> Answer {
        match &self.key {
            Some(key) => give(memory, key.to_string().as_bytes(), out),
            None => Ok((-1, 0)),
        }
    }

    pub(crate) fn state(&self, memory: &mut [u8], out: Place) -> Answer {
        give(memory, &self.state, out)
    }

    pub(crate) fn emit(&mut self, memory: &[u8], from: Place) -> Answer {
        let bytes = read(memory, from)?;
        // Each takes some room of its own, also if it is empty.
        let ends = (self.ends.len() + 1) * size_of::<usize>();
        if self.output.len() + ends + bytes.len() > self.output_bytes_max {
            return Err(Cause::Output(self.output_bytes_max));
        }
        self.output.extend_from_slice(bytes);
        self.ends.push(self.output.len());
        Ok((0, bytes.len()))
    }

    pub(crate) fn fail(&self, memory: &[u8], from: Place) -> Answer {
        let bytes = read(memory, from)?;
        let bytes = &bytes[..bytes.len().min(MESSAGE_BYTES_MAX)];
        Err(Cause::Failed(String::from_utf8_lossy(bytes).into_owned()))
    }

    fn value(&self, memory: &[u8], source: i32, path: Place) -> Result<Option<Found<'_>>, Cause> {
        let source = usize::try_from(source).ok();
        let Some(source) = source.and_then(|source| self.sources.get(source)) else {
            return Err(Cause::Abi("there is no such source; 0 to 3 are".into()));
        };
        let path = std::str::from_utf8(read(memory, path)?);
        let path = path.map_err(|_| Cause::Abi("the path of a field is no UTF-8".into()))?;
        let Some(document) = source else {
            return Ok(None);
        };
        Ok(match path {
            "" => Some(Found::Document(document)),
            path => document.get_path(path).map(Found::Value),
        })
    }
}

/// What is at a path.
enum Found<'a> {
    Document(&'a Document),
    Value(ValueRef<'a>),
}

/// A place in a module's memory, as the module says it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) start: i32,
    pub(crate) bytes: i32,
}

impl Place {
    fn len(self) -> usize {
        self.bytes as u32 as usize
    }

    /// The places of its bytes, if memory has them.
    fn within(self, memory: &[u8]) -> Result<std::ops::Range<usize>, Cause> {
        let start = self.start as u32 as usize;
        let end = start.checked_add(self.len());
        match end.filter(|end| *end <= memory.len()) {
            Some(end) => Ok(start..end),
            None => Err(Cause::Abi(format!(
                "it gave {} bytes at {start}, and its memory has {} bytes",
                self.len(),
                memory.len()
            ))),
        }
    }
}

fn read(memory: &[u8], from: Place) -> Result<&[u8], Cause> {
    Ok(&memory[from.within(memory)?])
}

fn write(memory: &mut [u8], start: i32, value: &[u8]) -> Result<(), Cause> {
    let bytes = value.len() as i32;
    let place = Place { start, bytes }.within(memory)?;
    memory[place].copy_from_slice(value);
    Ok(())
}

/// Writes a text if there is room for it; gives its length.
fn give(memory: &mut [u8], text: &[u8], out: Place) -> Answer {
    let place = out.within(memory)?;
    if let Some(room) = memory[place].get_mut(..text.len()) {
        room.copy_from_slice(text);
    }
    let length = i32::try_from(text.len());
    let length = length.map_err(|_| Cause::Abi("a text is longer than 2 GiB".into()))?;
    Ok((length, text.len()))
}
