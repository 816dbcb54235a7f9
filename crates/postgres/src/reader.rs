//! Reads numbers (big-endian), text and names from the bytes of a message. Each read checks that
//! its bytes are there.

/// Reads from the beginning to the end.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    pub(crate) fn wrong(&self, what: &str) -> String {
        format!(
            "a message of the server can't be read at byte {}: {what}",
            self.at
        )
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(count);
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(bytes) => {
                self.at += count;
                Ok(bytes)
            }
            None => Err(self.wrong("it is cut")),
        }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, String> {
        self.take(1).map(|bytes| bytes.iter().sum())
    }

    pub(crate) fn number(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?.iter();
        Ok(bytes.fold(0, |number, byte| (number << 8) | u32::from(*byte)))
    }

    pub(crate) fn short(&mut self) -> Result<u16, String> {
        let bytes = self.take(2)?.iter();
        Ok(bytes.fold(0, |number, byte| (number << 8) | u16::from(*byte)))
    }

    pub(crate) fn long(&mut self) -> Result<u64, String> {
        let bytes = self.take(8)?.iter();
        Ok(bytes.fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    /// Whether nothing is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn end(&self) -> Result<(), String> {
        match self.is_at_end() {
            true => Ok(()),
            false => Err(self.wrong("it is longer than it says")),
        }
    }

    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), String> {
        match self.byte()? == byte {
            true => Ok(()),
            false => Err(self.wrong("an unknown kind of row")),
        }
    }

    pub(crate) fn text(&mut self, count: usize) -> Result<&'a str, String> {
        let bytes = self.take(count)?;
        std::str::from_utf8(bytes).map_err(|_| self.wrong("text that is not UTF-8"))
    }

    /// What is left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Text that ends with a zero.
    pub(crate) fn name(&mut self) -> Result<String, String> {
        let name = self.name_bytes()?;
        let name = std::str::from_utf8(name).map_err(|_| self.wrong("text that is not UTF-8"));
        name.map(str::to_owned)
    }

    /// The same of text that may be in another encoding, as errors before a login are.
    pub(crate) fn lossy_name(&mut self) -> Result<String, String> {
        let name = self.name_bytes()?;
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    fn name_bytes(&mut self) -> Result<&'a [u8], String> {
        let rest = self.rest();
        let Some(length) = rest.iter().position(|byte| *byte == 0) else {
            return Err(self.wrong("a name without an end"));
        };
        let name = self.take(length)?;
        self.take(1)?;
        Ok(name)
    }
}
