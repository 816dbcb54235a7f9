//! JSON text to document encoding, or to its length, in one pass, with no tree between.

use crate::encoder::{Encoder, Output};
use crate::error::{Error, excerpt};
use crate::float::{Number, NumberError};
use crate::limits::{DEPTH_MAX, DOCUMENT_BYTES_MAX};
use crate::measure::Measure;
use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, Peek};

/// Room for what the tables of a small document take beyond its text.
const SPARE_BYTES: usize = 32;

/// Encodes `json`, the text of one object.
pub(crate) fn encode(json: &[u8]) -> Result<Vec<u8>, Error> {
    if json.len() > DOCUMENT_BYTES_MAX {
        return Err(Error::TooLarge {
            bytes: json.len(),
            bytes_max: DOCUMENT_BYTES_MAX,
        });
    }
    let encoder = Encoder::with_capacity(json.len() + SPARE_BYTES);
    Ok(read(json, encoder, DEPTH_MAX)?.finish())
}

/// The length of the encoding of `json`, of at most `depth_max` levels.
pub(crate) fn encoded_bytes(json: &[u8], depth_max: usize) -> Result<usize, Error> {
    Ok(read(json, Measure::new(), depth_max)?.finish())
}

/// Gives the values of `json`, the text of one object, to `output`.
fn read<O: Output>(json: &[u8], output: O, depth_max: usize) -> Result<O, Error> {
    let mut pass = Pass {
        json,
        jiter: Jiter::new(json),
        output,
        depth_max,
    };
    let peek = pass.jiter.peek().map_err(|error| syntax(json, &error))?;
    if peek != Peek::Object {
        return Err(pass.not_an_object(peek));
    }
    pass.object(1)?;
    pass.jiter.finish().map_err(|error| syntax(json, &error))?;
    Ok(pass.output)
}

struct Pass<'j, O> {
    json: &'j [u8],
    jiter: Jiter<'j>,
    output: O,
    depth_max: usize,
}

impl<O: Output> Pass<'_, O> {
    /// The object that comes next, at nesting `depth` (the document is at 1).
    fn object(&mut self, depth: usize) -> Result<(), Error> {
        let json = self.json;
        let offset = self.enter(depth)?;
        let open = self.output.begin();
        let mut name = self
            .jiter
            .known_object()
            .map_err(|error| syntax(json, &error))?;
        while let Some(text) = name {
            self.output.name(text.as_bytes());
            let peek = self.jiter.peek().map_err(|error| syntax(json, &error))?;
            self.value(peek, depth)?;
            self.output.end_item(open);
            name = self
                .jiter
                .next_key()
                .map_err(|error| syntax(json, &error))?;
        }
        let ended = self.output.end_object(open);
        ended.map_err(|twice| Error::DuplicateField {
            name: excerpt(&twice.0),
            offset,
        })
    }

    fn array(&mut self, depth: usize) -> Result<(), Error> {
        let json = self.json;
        self.enter(depth)?;
        let open = self.output.begin();
        let mut item = self
            .jiter
            .known_array()
            .map_err(|error| syntax(json, &error))?;
        while let Some(peek) = item {
            self.value(peek, depth)?;
            self.output.end_item(open);
            item = self
                .jiter
                .array_step()
                .map_err(|error| syntax(json, &error))?;
        }
        self.output.end_array(open);
        Ok(())
    }

    /// Checks `depth`, which bounds the recursion; returns where the array or object starts.
    fn enter(&self, depth: usize) -> Result<usize, Error> {
        let offset = self.jiter.current_index();
        if depth > self.depth_max {
            Err(Error::TooDeep {
                offset,
                depth_max: self.depth_max,
            })
        } else {
            Ok(offset)
        }
    }

    /// The value that comes next, of an array or object at `depth`.
    fn value(&mut self, peek: Peek, depth: usize) -> Result<(), Error> {
        let json = self.json;
        match peek {
            Peek::String => {
                let text = self
                    .jiter
                    .known_str()
                    .map_err(|error| syntax(json, &error))?;
                self.output.string(text.as_bytes());
            }
            Peek::Object => self.object(depth + 1)?,
            Peek::Array => self.array(depth + 1)?,
            Peek::Null => {
                self.jiter
                    .known_null()
                    .map_err(|error| syntax(json, &error))?;
                self.output.null();
            }
            Peek::True | Peek::False => {
                let value = self
                    .jiter
                    .known_bool(peek)
                    .map_err(|error| syntax(json, &error))?;
                self.output.bool(value);
            }
            _ => {
                let offset = self.jiter.current_index();
                let text = self
                    .jiter
                    .known_number_bytes(peek)
                    .map_err(|error| syntax(json, &error))?;
                let number =
                    Number::parse(text).map_err(|error| number_error(error, text, offset))?;
                self.output.number(number);
            }
        }
        Ok(())
    }

    fn not_an_object(&self, peek: Peek) -> Error {
        let offset = self.jiter.current_index();
        let found = match peek {
            Peek::String => "a string",
            Peek::Array => "an array",
            Peek::Null => "null",
            Peek::True | Peek::False => "a boolean",
            peek if peek.is_num() => "a number",
            _ if self.json.starts_with(b"\xef\xbb\xbf") => {
                return Error::InvalidJson {
                    offset,
                    what: "a byte order mark; remove it",
                };
            }
            _ => {
                return Error::InvalidJson {
                    offset,
                    what: "expected `{`, the start of a document",
                };
            }
        };
        Error::NotAnObject { offset, found }
    }
}

fn number_error(error: NumberError, text: &[u8], offset: usize) -> Error {
    let what = match error {
        NumberError::Malformed => {
            return Error::InvalidJson {
                offset,
                what: "not a number",
            };
        }
        NumberError::IntegerOutOfRange => {
            "outside the integers kept exactly (-9223372036854775808 to 18446744073709551615); \
             write it as a string"
        }
        NumberError::FloatOutOfRange => {
            "beyond the largest 64-bit float (about 1.8e308); write it as a string"
        }
    };
    Error::NumberOutOfRange {
        text: excerpt(text),
        offset,
        what,
    }
}

/// Our error for the parser's.
#[cold]
fn syntax(json: &[u8], error: &JiterError) -> Error {
    let offset = error.index;
    let JiterErrorType::JsonError(error) = &error.error_type else {
        return Error::InvalidJson {
            offset,
            what: "expected a value",
        };
    };
    let what = match error {
        JsonErrorType::InvalidUnicodeCodePoint => {
            // The parser counts in the decoded string. Escapes stand for whole characters, so the
            // first byte that is not UTF-8 is the same one in the text.
            let offset = std::str::from_utf8(json)
                .err()
                .map_or(offset, |error| error.valid_up_to());
            return Error::InvalidUtf8 { offset };
        }
        JsonErrorType::NumberOutOfRange => {
            let what = "too long for any number kept exactly; write it as a string";
            let number = json.get(..offset).unwrap_or_default();
            let digits = number
                .iter()
                .rev()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            let start = offset.saturating_sub(digits);
            return Error::NumberOutOfRange {
                text: excerpt(json.get(start..).unwrap_or_default()),
                offset: start,
                what,
            };
        }
        JsonErrorType::EofWhileParsingList => {
            "the text ends inside an array; it may have been cut short"
        }
        JsonErrorType::EofWhileParsingObject => {
            "the text ends inside an object; it may have been cut short"
        }
        JsonErrorType::EofWhileParsingString => {
            "the text ends inside a string; it may have been cut short"
        }
        JsonErrorType::EofWhileParsingValue if json.iter().all(u8::is_ascii_whitespace) => {
            "expected a document, found nothing"
        }
        JsonErrorType::EofWhileParsingValue => {
            "the text ends where a value should be; it may have been cut short"
        }
        JsonErrorType::ExpectedColon => "expected `:` after the field's name",
        JsonErrorType::ExpectedListCommaOrEnd => "expected `,` or `]`",
        JsonErrorType::ExpectedObjectCommaOrEnd => "expected `,` or `}`",
        JsonErrorType::ExpectedSomeIdent => "expected `true`, `false` or `null`",
        JsonErrorType::InvalidEscape => "no such escape; a backslash itself is written `\\\\`",
        JsonErrorType::InvalidNumber => {
            "not a number as JSON writes it (no leading zeros, digits around the point)"
        }
        JsonErrorType::ControlCharacterWhileParsingString => {
            "a control character in a string; write it as an escape, such as `\\n` or `\\u0001`"
        }
        JsonErrorType::KeyMustBeAString => "expected a field's name, in double quotes",
        JsonErrorType::LoneLeadingSurrogateInHexEscape
        | JsonErrorType::UnexpectedEndOfHexEscape => {
            "half of a surrogate pair, which is no character; write both halves, or the character \
             itself"
        }
        JsonErrorType::TrailingComma => "nothing follows the comma; remove it",
        JsonErrorType::TrailingCharacters => {
            "more text after the document; hand in one document at a time"
        }
        _ => "expected a value",
    };
    Error::InvalidJson { offset, what }
}
