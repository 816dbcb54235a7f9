//! The words of a request's line, and the numbers among them.

/// The words of a line, between spaces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'a>(pub(crate) &'a [u8]);

impl<'a> Words<'a> {
    /// The rest of the line.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|byte| *byte != b' ')?;
        let line = self.0.get(start..)?;
        let end = memchr::memchr(b' ', line).unwrap_or(line.len());
        let (word, rest) = line.split_at_checked(end)?;
        self.0 = rest;
        Some(word)
    }
}

/// Removes bytes from the start of the input.
pub(crate) fn advance(input: &mut &[u8], bytes: usize) {
    debug_assert!(bytes <= input.len(), "no byte is taken that is not there");
    *input = input.get(bytes..).unwrap_or_default();
}

/// A number of decimal digits alone.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 20 {
        return None;
    }
    word.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}
