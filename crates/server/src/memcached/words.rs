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

/// Longer times to live are seconds since 1970, as in memcached.
const RELATIVE_SECONDS_MAX: u64 = 30 * 24 * 60 * 60;

/// The year 2020. Times before it have passed, whatever the clock says. Clients send such times to
/// store nothing.
const PAST_SECONDS: u64 = 1_577_836_800;

/// Whether a time to live has already passed; otherwise it is unlimited.
///
/// # Errors
/// A time in the future, because documents do not expire; a word that is no whole number.
pub(crate) fn expires_at_once(word: &[u8]) -> Result<bool, Expires> {
    match word.strip_prefix(b"-") {
        Some(rest) => number(rest)
            .map(|seconds| seconds > 0)
            .ok_or(Expires::Malformed),
        None => match number(word) {
            None => Err(Expires::Malformed),
            Some(0) => Ok(false),
            Some(RELATIVE_SECONDS_MAX..PAST_SECONDS) => Ok(true),
            Some(_) => Err(Expires::Later),
        },
    }
}

/// A time to live that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expires {
    Malformed,
    Later,
}
