//! JSON with a line for each member, for `?pretty`. Nothing is parsed: strings and numbers stay as
//! written.

/// Formats a JSON text, which is passed whole or in pieces cut anywhere.
#[derive(Debug, Default)]
pub(crate) struct Pretty {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// A bracket was just opened: a line break follows unless it closes at once.
    opened: bool,
}

impl Pretty {
    /// Formats the next piece of the text, appending to `out`.
    pub(crate) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        for &byte in piece {
            if self.in_string {
                out.push(byte);
                self.in_string = self.escaped || byte != b'"';
                self.escaped = !self.escaped && byte == b'\\';
                continue;
            }
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => continue,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    match std::mem::take(&mut self.opened) {
                        true => out.push(b' '),
                        false => self.line(out),
                    }
                    out.push(byte);
                    continue;
                }
                _ => {}
            }
            if std::mem::take(&mut self.opened) {
                self.line(out);
            }
            match byte {
                b'{' | b'[' => {
                    out.push(byte);
                    self.depth += 1;
                    self.opened = true;
                }
                b',' => {
                    out.push(byte);
                    self.line(out);
                }
                b':' => out.extend_from_slice(b" : "),
                _ => {
                    out.push(byte);
                    self.in_string = byte == b'"';
                }
            }
        }
    }

    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', self.depth * 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_formatted_alike_however_it_is_cut() {
        let text = r#"{"a":{"b":[1.50,"x\"y{,",[]],"c":{}},"d":"\\"}"#;
        let expected = concat!(
            "{\n  \"a\" : {\n    \"b\" : [\n      1.50,\n      \"x\\\"y{,\",\n      [ ]\n    ],\n",
            "    \"c\" : { }\n  },\n  \"d\" : \"\\\\\"\n}",
        );
        for cut in 0..text.len() {
            let (mut pretty, mut out) = (Pretty::default(), Vec::new());
            pretty.push(&text.as_bytes()[..cut], &mut out);
            pretty.push(&text.as_bytes()[cut..], &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
