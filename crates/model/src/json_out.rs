//! Document encoding to JSON text: compact, fields in their order, numbers as written, only the
//! escapes that JSON requires. The text is never longer than the one the document was made from.

use crate::float::Number;
use crate::layout::tag;
use crate::raw::Raw;

/// The value as text; `encoded_bytes` is the length of its encoding.
pub(crate) fn to_json(value: Raw<'_>, encoded_bytes: usize) -> String {
    let mut out = Vec::with_capacity(encoded_bytes + encoded_bytes / 4);
    write_value(&value, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends the value encoded in `bytes`, nested `depth` deep.
fn write_encoded(bytes: &[u8], depth: u8, out: &mut Vec<u8>) {
    // Most values are strings.
    if let Some((&tag::STRING, text)) = bytes.split_first() {
        return write_string(text, out);
    }
    // A document was valid when it was made: only stored bytes that are not one have other values.
    match &Raw::parse(bytes, depth) {
        Some(value) => write_value(value, out),
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends `value`. Recursion is bounded: nothing nested too deep is opened.
pub(crate) fn write_value(value: &Raw<'_>, out: &mut Vec<u8>) {
    match value {
        Raw::Null => out.extend_from_slice(b"null"),
        Raw::Bool(true) => out.extend_from_slice(b"true"),
        Raw::Bool(false) => out.extend_from_slice(b"false"),
        Raw::Number(Number::Int(value)) => write_integer(*value, out),
        Raw::Number(Number::UInt(value)) => write_integer(*value, out),
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

/// The length of the text of `value`, which is not made.
pub(crate) fn text_bytes(value: &Raw<'_>) -> usize {
    let of = |bytes: &[u8], depth| match &Raw::parse(bytes, depth) {
        Some(value) => text_bytes(value),
        None => b"null".len(),
    };
    match value {
        Raw::String(text) => string_bytes(text),
        Raw::Array(array) => {
            let items = array.items().map(|item| of(item, array.depth_inside()) + 1);
            1 + items.sum::<usize>().max(1)
        }
        Raw::Object(object) => {
            let depth = object.depth_inside();
            let fields = object.entries();
            let fields = fields.map(|(name, value)| string_bytes(name) + of(value, depth) + 2);
            1 + fields.sum::<usize>().max(1)
        }
        scalar => {
            let mut text = Vec::new();
            write_value(scalar, &mut text);
            text.len()
        }
    }
}

fn write_integer(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
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

/// The length of `text` in quotes.
fn string_bytes(text: &[u8]) -> usize {
    let escape = |byte: &u8| match byte {
        _ if !ESCAPED[usize::from(*byte)] => 0,
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        _ => 5,
    };
    2 + text.len() + text.iter().map(escape).sum::<usize>()
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

/// Whether a byte can't stand for itself in a JSON string.
const fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// [`is_escaped`] for every byte.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut byte = 0;
    while byte < escaped.len() {
        escaped[byte] = is_escaped(byte as u8);
        byte += 1;
    }
    escaped
};

/// How many bytes at the start of `text` stand for themselves in a JSON string.
fn plain_bytes(text: &[u8]) -> usize {
    // Without an early exit from a chunk, this compiles to a few vector instructions.
    let is_plain = |chunk: &[u8; 16]| {
        !chunk
            .iter()
            .fold(false, |any, byte| any | is_escaped(*byte))
    };
    let chunks = text.as_chunks::<16>().0;
    let plain = chunks.iter().take_while(|chunk| is_plain(chunk)).count();
    // What is left, and some bytes before it.
    if plain == chunks.len() && text.last_chunk().is_some_and(is_plain) {
        return text.len();
    }
    let rest = text.get(16 * plain..).unwrap_or_default();
    let escaped = rest.iter().position(|byte| ESCAPED[usize::from(*byte)]);
    escaped.map_or(text.len(), |at| 16 * plain + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn strings_are_written_as_serde_json_writes_them(
            text in r#"([a-z]{0,9}|["\\/\x00-\x20\x7f]|\PC){0,12}"#,
        ) {
            let mut out = Vec::new();
            write_string(text.as_bytes(), &mut out);
            prop_assert_eq!(out, serde_json::to_vec(&text).unwrap());
        }
    }
}
