//! Keys of a request, and the words of a line that may not be whole yet.

use std::borrow::Cow;

use crate::memcached::meta::MetaFlags;
use crate::memcached::refusal::{BAD_KEY, Refusal};
use crate::memcached::words::advance;

/// The longest key, as in memcached; of a key in base64, after decoding.
pub(crate) const KEY_BYTES_MAX: usize = 250;

/// Whether these bytes may be a key of a line.
pub(super) fn is_key(key: &[u8]) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len())
        && !key
            .iter()
            .any(|byte| byte.is_ascii_control() || *byte == b' ')
}

/// The key of a text command.
pub(super) fn text_key(key: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> {
    is_key(key).then_some(Cow::Borrowed(key)).ok_or(BAD_KEY)
}

/// The key of a meta command, decoded.
pub(super) fn meta_key(flags: MetaFlags<'_>) -> Result<Cow<'_, [u8]>, Refusal> {
    if !flags.is_base64 {
        return text_key(flags.key);
    }
    flags
        .decoded_key()
        .filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()))
        .ok_or(BAD_KEY)
}

/// A word of a line that may not be whole yet.
pub(super) enum Word<'a> {
    Whole(&'a [u8]),
    /// The line has ended: its end is the next one or two bytes.
    None,
    More(usize),
    TooLong,
}

/// Takes the next word off a line, and the spaces before it.
pub(super) fn next_word<'a>(input: &mut &'a [u8], bytes_max: usize) -> Word<'a> {
    while let Some(rest) = input.strip_prefix(b" ") {
        *input = rest;
    }
    // The word, a \r that may be a part of the line's end, and what ends it.
    let head = input.get(..bytes_max + 2).unwrap_or(input);
    let Some(end) = memchr::memchr2(b' ', b'\n', head) else {
        return match head.len() < bytes_max + 2 {
            true => Word::More(input.len() + 1),
            false => Word::TooLong,
        };
    };
    let mut word = head.get(..end).unwrap_or_default();
    if head.get(end) == Some(&b'\n') {
        word = word.strip_suffix(b"\r").unwrap_or(word);
    }
    if word.is_empty() {
        return Word::None;
    }
    if word.len() > bytes_max {
        return Word::TooLong;
    }
    advance(input, end);
    Word::Whole(word)
}
