//! [`Regexp`]: a regular expression as Lucene writes it, translated to that of the crate `regex`.
//!
//! The grammar is that of Lucene's `RegExp`, so what is written for OpenSearch means the same here:
//! the whole string is matched, `^` and `$` are letters, and a sign that stands where nothing can
//! be repeated is a letter too. `a&b`, `~a` and `<1-99>` are refused: the crate has no such thing.

use crate::{Error, Result};
use regex::{Regex, RegexBuilder};
use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

/// The most letters of an expression, as in OpenSearch.
const LETTERS_MAX: usize = 1_000;

/// Bytes of a compiled expression, and of its automaton.
const COMPILED_BYTES_MAX: usize = 256 << 10;

/// How deep brackets may be nested.
const DEPTH_MAX: u32 = 50;

/// What the crate counts for each of our brackets, and more.
const NEST_LIMIT: u32 = 8 * DEPTH_MAX;

/// What is written for `.*` and `@`. Nothing else is: a letter that is a sign has a backslash, and
/// what is repeated has brackets of its own.
const ANY_LETTERS: &str = "(?:.)*";

/// The signs that repeat what is before them.
const REPEATS: &str = "?*+{";

/// A regular expression that was read, and not compiled yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Regexp {
    /// As it was written.
    pub(super) text: String,
    part: Part,
}

/// A part of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    /// As the crate `regex` has it.
    text: String,
    /// What each string that matches begins with.
    beginning: String,
    /// Whether nothing but that matches.
    is_plain: bool,
}

impl Regexp {
    /// # Errors
    /// `Invalid` for another expression, and one that is too long.
    pub(super) fn new(text: &str) -> Result<Regexp> {
        if text.chars().count() > LETTERS_MAX {
            let what = format!("a regular expression has more than {LETTERS_MAX} letters");
            return Err(Error::Invalid(what));
        }
        let mut reader = Reader {
            text,
            letters: text.chars().peekable(),
            depth: 0,
        };
        let part = match text.is_empty() {
            true => Part::plain(""),
            false => reader.union()?,
        };
        match reader.letters.next() {
            None => Ok(Regexp {
                text: text.into(),
                part,
            }),
            Some(letter) => Err(reader.wrong(&format!("{letter:?} closes nothing"))),
        }
    }

    /// What each string that matches begins with.
    pub(super) fn beginning(&self) -> &str {
        &self.part.beginning
    }

    /// What tests strings, in time of their length.
    ///
    /// # Errors
    /// `Invalid` if it is too large, as by numbers of repetitions.
    pub(super) fn compile(&self, ignores_case: bool) -> Result<Regex> {
        // Any letters at an end are left out, and the end is open: the rest is searched for then.
        let text = self.part.text.as_str();
        let (text, start) = text
            .strip_prefix(ANY_LETTERS)
            .map_or((text, "^"), |rest| (rest, ""));
        let (text, end) = text
            .strip_suffix(ANY_LETTERS)
            .map_or((text, "$"), |rest| (rest, ""));
        let mut builder = RegexBuilder::new(&format!("{start}(?:{text}){end}"));
        builder
            .dot_matches_new_line(true)
            .case_insensitive(ignores_case)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(COMPILED_BYTES_MAX)
            .nest_limit(NEST_LIMIT);
        builder.build().map_err(|error| {
            let what = match error {
                regex::Error::CompiledTooBig(_) => "is too large: repeat less often".into(),
                other => format!("is not one: {other}"),
            };
            Error::Invalid(format!("the regular expression {:?} {what}", self.text))
        })
    }
}

impl Part {
    fn plain(text: &str) -> Part {
        let mut escaped = String::new();
        text.chars()
            .for_each(|letter| push_letter(&mut escaped, letter));
        Part {
            text: escaped,
            beginning: text.into(),
            is_plain: true,
        }
    }

    fn other(text: String) -> Part {
        Part {
            text,
            beginning: String::new(),
            is_plain: false,
        }
    }
}

/// Adds a letter so that it stands for itself, in classes too.
fn push_letter(text: &mut String, letter: char) {
    match letter.is_ascii_alphanumeric() {
        true => text.push(letter),
        // Writing to a string does not fail.
        false => _ = write!(text, "\\x{{{:X}}}", u32::from(letter)),
    }
}

/// An expression, being read. The functions are those of Lucene's grammar.
struct Reader<'a> {
    text: &'a str,
    letters: Peekable<Chars<'a>>,
    depth: u32,
}

impl Reader<'_> {
    fn union(&mut self) -> Result<Part> {
        let first = self.concatenation()?;
        if !self.take('|') {
            return Ok(first);
        }
        let mut text = format!("(?:{}", first.text);
        loop {
            text.push('|');
            text.push_str(&self.concatenation()?.text);
            if !self.take('|') {
                text.push(')');
                return Ok(Part::other(text));
            }
        }
    }

    fn concatenation(&mut self) -> Result<Part> {
        let mut all = self.repetition()?;
        while self
            .letters
            .peek()
            .is_some_and(|next| !matches!(next, ')' | '|'))
        {
            let next = self.repetition()?;
            all.text.push_str(&next.text);
            if all.is_plain {
                all.beginning.push_str(&next.beginning);
            }
            all.is_plain &= next.is_plain;
        }
        Ok(all)
    }

    fn repetition(&mut self) -> Result<Part> {
        let mut part = self.class()?;
        while let Some(sign) = self.letters.next_if(|next| REPEATS.contains(*next)) {
            let times = match sign {
                '{' => self.times()?,
                sign => sign.to_string(),
            };
            part = Part::other(format!("(?:{}){times}", part.text));
        }
        Ok(part)
    }

    /// `2}`, `2,}` or `2,3}`.
    fn times(&mut self) -> Result<String> {
        let least = self.number()?;
        let mut times = format!("{{{least}");
        if self.take(',') {
            times.push(',');
            if self.letters.peek() != Some(&'}') {
                let most = self.number()?;
                if most < least {
                    return Err(self.wrong(&format!("{{{least},{most}}} counts down")));
                }
                // Writing to a string does not fail.
                _ = write!(times, "{most}");
            }
        }
        self.close('}')?;
        times.push('}');
        Ok(times)
    }

    fn number(&mut self) -> Result<u32> {
        let mut digits = String::new();
        while let Some(digit) = self.letters.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let number = digits.parse();
        number.map_err(|_| self.wrong("a number of repetitions is missing, or too large"))
    }

    /// `[…]`, or a simple part.
    fn class(&mut self) -> Result<Part> {
        if !self.take('[') {
            return self.simple();
        }
        let mut text = String::from(if self.take('^') { "[^" } else { "[" });
        loop {
            self.class_item(&mut text)?;
            match self.letters.peek() {
                Some(']') => break,
                Some(_) => {}
                None => return Err(self.wrong("a ] is missing")),
            }
        }
        self.close(']')?;
        text.push(']');
        Ok(Part::other(text))
    }

    fn class_item(&mut self, text: &mut String) -> Result<()> {
        let is_escaped = self.letters.peek() == Some(&'\\');
        let from = match self.letter()? {
            Letter::Class(class) => {
                text.push_str(class);
                return Ok(());
            }
            Letter::Only(letter) => letter,
        };
        push_letter(text, from);
        // With a backslash a letter begins no range.
        if is_escaped || !self.take('-') {
            return Ok(());
        }
        self.take('\\');
        let to = self.next()?;
        if to < from {
            let what = format!("the range of letters {from}-{to} goes backwards");
            return Err(self.wrong(&what));
        }
        text.push('-');
        push_letter(text, to);
        Ok(())
    }

    fn simple(&mut self) -> Result<Part> {
        match self.letters.peek() {
            Some('.') => self.sign(Part::other(".".into())),
            Some('@') => self.sign(Part::other(ANY_LETTERS.into())),
            // A class of what is both of two letters is empty.
            Some('#') => self.sign(Part::other("[a&&b]".into())),
            Some('"') => {
                self.letters.next();
                let mut text = String::new();
                while let Some(letter) = self.letters.next_if(|next| *next != '"') {
                    text.push(letter);
                }
                self.close('"')?;
                let mut part = Part::plain(&text);
                // What repeats it repeats all of it.
                part.text = format!("(?:{})", part.text);
                Ok(part)
            }
            Some('(') => self.brackets(),
            Some(sign @ ('~' | '&' | '<')) => {
                let what = format!("{sign:?} is not supported; \\{sign} is the letter itself");
                Err(self.wrong(&what))
            }
            _ => Ok(match self.letter()? {
                Letter::Only(letter) => Part::plain(letter.encode_utf8(&mut [0; 4])),
                Letter::Class(class) => Part::other(format!("[{class}]")),
            }),
        }
    }

    /// All nesting goes through this function.
    fn brackets(&mut self) -> Result<Part> {
        self.letters.next();
        if self.take(')') {
            return Ok(Part::plain(""));
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong(&format!("brackets are nested more than {DEPTH_MAX} deep")));
        }
        let mut part = self.union()?;
        self.close(')')?;
        self.depth -= 1;
        part.text = format!("(?:{})", part.text);
        Ok(part)
    }

    fn sign(&mut self, part: Part) -> Result<Part> {
        self.letters.next();
        Ok(part)
    }

    /// The next letter, whatever it is, or what a backslash makes of the one after it.
    fn letter(&mut self) -> Result<Letter> {
        let letter = self.next()?;
        if letter != '\\' {
            return Ok(Letter::Only(letter));
        }
        Ok(match self.next()? {
            'd' => Letter::Class("0-9"),
            'D' => Letter::Class("[^0-9]"),
            's' => Letter::Class(r"\x20\t\n\r"),
            'S' => Letter::Class(r"[^\x20\t\n\r]"),
            'w' => Letter::Class("0-9A-Z_a-z"),
            'W' => Letter::Class("[^0-9A-Z_a-z]"),
            letter if letter.is_ascii_alphabetic() => {
                return Err(self.wrong(&format!("\\{letter} is not known")));
            }
            letter => Letter::Only(letter),
        })
    }

    fn next(&mut self) -> Result<char> {
        let letter = self.letters.next();
        letter.ok_or_else(|| self.wrong("something is missing at its end"))
    }

    fn take(&mut self, letter: char) -> bool {
        self.letters.next_if_eq(&letter).is_some()
    }

    fn close(&mut self, sign: char) -> Result<()> {
        match self.take(sign) {
            true => Ok(()),
            false => Err(self.wrong(&format!("a {sign} is missing"))),
        }
    }

    fn wrong(&self, what: &str) -> Error {
        Error::Invalid(format!("the regular expression {:?}: {what}", self.text))
    }
}

/// A letter, or the inside of a class of them.
enum Letter {
    Only(char),
    Class(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Lucene 10 answers.
    #[test]
    fn whole_strings_match_as_in_lucene() {
        let cases: [(&str, &str, &[&str], &[&str]); 33] = [
            ("", "", &[""], &["a"]),
            (
                "a.*[0-9]|b{2}",
                "",
                &["a1", "a\n1", "bb"],
                &["xa1", "bbb", "a"],
            ),
            ("ab*", "a", &["a", "abb"], &["b", "abab"]),
            ("abc", "abc", &["abc"], &["abcd", "xabc"]),
            ("ab(cd)e?", "abcd", &["abcd", "abcde"], &["abce"]),
            ("^a$", "^a$", &["^a$"], &["a"]),
            ("*a", "*a", &["*a"], &["a", "aa"]),
            ("|a", "|a", &["|a"], &["a", ""]),
            ("a**", "", &["", "aaa"], &["b"]),
            ("(a|b)?{2}", "", &["", "ab"], &["aba"]),
            ("()a", "a", &["a"], &[""]),
            ("\"a.b\"+", "", &["a.b", "a.ba.b"], &["axb", "a.bb"]),
            (r"\.\*\\", r".*\", &[r".*\"], &["a"]),
            (r"[\.-9]|[+-\-]", "", &[".", "-", "9", "+", ","], &["5"]),
            ("@x", "", &["x", "abx"], &["xy"]),
            ("a#", "a", &[], &["a", ""]),
            ("[^a-c&&\\]]", "", &["d", "\u{e9}"], &["a", "&", "]", ""]),
            ("[]a]", "", &["]", "a"], &["b"]),
            (r"\d{2,}-\w+\s", "", &["12-a_ "], &["1-a ", "12-\u{e9} "]),
            (r"[\d.]+", "", &["1.5"], &["1,5"]),
            (r"[^\d]\D\S\W", "", &["ab.-"], &["1b.-", "ab.a"]),
            ("a]}", "a]}", &["a]}"], &["a"]),
            (".", "", &["\u{fc}", "\n"], &["", "ab"]),
            ("(?i)a", "?ia", &["?ia"], &["ia", "a"]),
            ("a{0}b", "", &["b"], &["ab"]),
            (".*", "", &["", "a\n"], &[]),
            (".*ab.*", "", &["ab", "\nab", "ab\n"], &["", "a", "ba"]),
            (".*a|b.*", "", &["xa", "bx"], &["ax", "xb"]),
            ("(.*a|b).*", "", &["xa", "ax", "bx"], &["xb"]),
            (".*?a", "", &["a", "xa"], &["ax"]),
            (".*.*a@", "", &["a", "xax"], &["x"]),
            (r"\(.*", "(", &["(", "(x"], &["x(", ""]),
            (".*a{2}", "", &["aa", "xaa"], &["aax", "a"]),
        ];
        for (pattern, beginning, matching, others) in cases {
            let regexp = Regexp::new(pattern).unwrap_or_else(|error| panic!("{error}"));
            let compiled = regexp.compile(false).unwrap();
            assert_eq!(regexp.beginning(), beginning, "{pattern}");
            for text in matching {
                assert!(compiled.is_match(text), "{pattern} {text:?} {compiled}");
            }
            for text in others {
                assert!(!compiled.is_match(text), "{pattern} {text:?} {compiled}");
            }
        }
        let compiled = Regexp::new("\u{c9}mile[a-c]")
            .unwrap()
            .compile(true)
            .unwrap();
        assert!(compiled.is_match("\u{e9}MILEB"));
    }

    #[test]
    fn what_is_none_and_what_is_too_large_is_refused() {
        let deep = format!("{}a{}", "(".repeat(60), ")".repeat(60));
        let long = "a".repeat(1_001);
        let refused = [
            "(",
            "(a",
            "a)",
            "[a",
            "[",
            "[b-a]",
            r"[a-\-]",
            r"\n",
            r"[\b]",
            "a{",
            "a{x}",
            "a{2",
            "a{3,2}",
            "a\\",
            "\"a",
            "a|",
            "a&b",
            "~a",
            "<1-5>",
            "a{99999999999}",
            &deep,
            &long,
        ];
        for pattern in refused {
            assert!(Regexp::new(pattern).is_err(), "{pattern}");
        }
        let large = Regexp::new("((a{100}){100}){100}").unwrap();
        let error = large.compile(false).unwrap_err().to_string();
        assert!(error.contains("too large"), "{error}");
        let nested = format!("{}a{}", "(".repeat(50), ")*".repeat(50));
        assert!(
            Regexp::new(&nested)
                .unwrap()
                .compile(true)
                .unwrap()
                .is_match("aaa")
        );
    }
}
