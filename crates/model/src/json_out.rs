//! Document encoding to JSON text: compact, fields in their order, numbers as written, only the escapes that JSON
//! asks for. The text is never longer than the one the document was made from.

use crate::float::Number;
use crate::value::Raw;
use std::io::Write;

/// The value, whose encoding has so many bytes, as text.
pub(crate) fn to_json(value: Raw<'_>, encoded_bytes: usize) -> String {
    let mut out = Vec::with_capacity(encoded_bytes + encoded_bytes / 4);
    write_value(&value, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends the value encoded in `bytes`, nested `depth` deep.
fn write_encoded(bytes: &[u8], depth: u8, out: &mut Vec<u8>) {
    // A document was valid when it was made: what is not a value is met only in bytes that claim to be one.
    write_value(&Raw::parse(bytes, depth).unwrap_or(Raw::Null), out);
}

/// Appends `value`. Recursion is bounded: nothing nested too deep is opened.
pub(crate) fn write_value(value: &Raw<'_>, out: &mut Vec<u8>) {
    match value {
        Raw::Null => out.extend_from_slice(b"null"),
        Raw::Bool(true) => out.extend_from_slice(b"true"),
        Raw::Bool(false) => out.extend_from_slice(b"false"),
        Raw::Number(Number::Int(value)) => write_display(value, out),
        Raw::Number(Number::UInt(value)) => write_display(value, out),
        Raw::Number(Number::Float(value)) => value.write_text(out),
        Raw::String(text) => write_string(text, out),
        Raw::Array(array) => {
            out.push(b'[');
            for (index, item) in array.items().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_encoded(item, array.depth_inside(), out);
            }
            out.push(b']');
        }
        Raw::Object(object) => {
            out.push(b'{');
            for (index, (name, value)) in object.entries().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_string(name, out);
                out.push(b':');
                write_encoded(value, object.depth_inside(), out);
            }
            out.push(b'}');
        }
    }
}

fn write_display(number: impl std::fmt::Display, out: &mut Vec<u8>) {
    // Writing to memory doesn't fail.
    let _ = write!(out, "{number}");
}

/// Appends `text`, which is UTF-8, in quotes.
fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text;
    loop {
        let (plain, tail) = rest
            .split_at_checked(plain_bytes(rest))
            .unwrap_or((rest, &[]));
        out.extend_from_slice(plain);
        let Some((&byte, tail)) = tail.split_first() else {
            break;
        };
        write_escape(byte, out);
        rest = tail;
    }
    out.push(b'"');
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: [u8; 16] = *b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            let digit = HEX.get(usize::from(byte & 0xf)).copied().unwrap_or(b'0');
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), digit]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// How many bytes at the start of `text` stand for themselves in a JSON string.
fn plain_bytes(text: &[u8]) -> usize {
    // Eight bytes at a time: bit 7 of each byte of `found` says that the byte may need an escape. Subtraction can
    // carry into later bytes only, so the first one found is right (Warren, "Hacker's Delight", 6-1).
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    let below = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound)) & !word & HIGHS;
    let plain_in = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let found = below(word, 0x20) | quote | backslash;
        found.trailing_zeros() as usize / 8
    };
    let words = text.as_chunks::<8>().0;
    let Some(last) = text.last_chunk::<8>() else {
        let escaped = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
        return text.iter().position(escaped).unwrap_or(text.len());
    };
    for (index, word) in words.iter().enumerate() {
        let plain = plain_in(word);
        if plain < 8 {
            return index * 8 + plain;
        }
    }
    // What is left, and some bytes before it that are plain.
    text.len() - 8 + plain_in(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn strings_are_written_as_serde_json_writes_them(text in r#"([a-z]{0,9}|["\\/\x00-\x20\x7f]|\PC){0,12}"#) {
            let mut out = Vec::new();
            write_string(text.as_bytes(), &mut out);
            prop_assert_eq!(out, serde_json::to_vec(&text).unwrap());
        }
    }
}
