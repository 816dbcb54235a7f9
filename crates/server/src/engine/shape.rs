//! What requests have in common that are expected to take about as long as each other.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Bodies that are longer have no shape: to hash them would cost what it is to save.
const BODY_BYTES_MAX: usize = 4096;

/// The shape of a request: what it does, with which collection, and the structure of its body
/// without the values. Two shapes may be equal by chance, so it decides nothing but how something
/// is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape(u64);

impl Shape {
    /// Of requests that do `what` with `collection`.
    pub(crate) fn of(what: &'static str, collection: &str) -> Shape {
        let mut hasher = DefaultHasher::new();
        (what, collection).hash(&mut hasher);
        Shape(hasher.finish())
    }

    /// Of those whose body has the names and the nesting of this one. None if it is too long.
    pub(crate) fn with_body(self, json: &[u8]) -> Option<Shape> {
        if json.len() > BODY_BYTES_MAX {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        let mut rest = json;
        while let [byte, after @ ..] = rest {
            rest = after;
            match byte {
                b'"' => {
                    let (text, after) = rest.split_at(text_end(rest));
                    rest = after.get(1..).unwrap_or_default();
                    let next = rest.iter().find(|byte| !byte.is_ascii_whitespace());
                    if next == Some(&b':') {
                        text.hash(&mut hasher);
                    }
                }
                b'{' | b'}' | b'[' | b']' => hasher.write_u8(*byte),
                _ => {}
            }
        }
        Some(Shape(hasher.finish()))
    }

    /// One of `count` places, the same for each request of this shape.
    pub(super) fn place(self, count: usize) -> usize {
        usize::try_from(self.0 % count.max(1) as u64).unwrap_or_default()
    }
}

/// Where a text of JSON ends whose first quote was just before.
fn text_end(text: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(json: &str) -> Option<Shape> {
        Shape::of("search", "cars").with_body(json.as_bytes())
    }

    #[test]
    fn a_shape_has_the_names_and_the_nesting_and_not_the_values() {
        let first = shape(r#"{"query":{"term":{"mark":"audi"}}}"#);
        let alike = [
            r#"{"query":{"term":{"mark":"a longer \" one: {x"}}}"#,
            r#"{ "query" : { "term" : { "mark" : 7.5e3 } } }"#,
            r#"{"query":{"term":{"mark":null}}}"#,
        ];
        for json in alike {
            assert_eq!(shape(json), first, "{json}");
        }
        let others = [
            r#"{"query":{"term":{"price":"audi"}}}"#,
            r#"{"query":{"term":{"mark":["audi"]}}}"#,
            r#"{"query":{"prefix":{"mark":"audi"}}}"#,
            r#"{"query":{"term":{"mark":"audi"}},"size":0}"#,
            "",
            "\"",
        ];
        for json in others {
            assert_ne!(shape(json), first, "{json}");
        }
        let few = shape(r#"{"terms":{"mark":["a"]}}"#);
        assert_eq!(shape(r#"{"terms":{"mark":["a", "b" , "c"]}}"#), few);
        assert_eq!(shape(&" ".repeat(BODY_BYTES_MAX + 1)), None);
        let counted = Shape::of("count", "cars").with_body(b"{}");
        assert_ne!(shape("{}"), counted);
        assert_ne!(Shape::of("search", "ships"), Shape::of("search", "cars"));
    }
}
