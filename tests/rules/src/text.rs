//! The width of lines, and words that Quire's text does not use.
//!
//! Each word here was coined, or hid who does what, where the field has a term: see "Words" in
//! `CONTRIBUTING.md` for what to write instead. A word counts whole, in any case, also as a part of
//! an identifier: `so_many` and `SoMany` are "so many".

/// Columns of a line of Rust.
pub const RUST_COLUMNS_MAX: usize = 100;

/// Words that are not used, one or several after one another.
pub const WORDS: &[&str] = &[
    "stretch",
    "stretches",
    "mishap",
    "mishaps",
    "planted",
    "glance",
    "glances",
    "lend",
    "lends",
    "lent",
    "needless",
    "loose",
    "awake",
    "whoever",
    "in vain",
    "so many",
    "goes over to",
    "go over to",
    "front of",
    "lazy log",
    "let go",
    "lets go",
    "span",
    "spans",
    "cover",
    "covers",
    "covered",
    "covering",
    "rank",
    "ranks",
    "ranked",
    "pace",
    "paces",
    "reach",
    "reaches",
    "reached",
    "touch",
    "touches",
    "touched",
    "touching",
    "ask",
    "asks",
    "asked",
    "asking",
];

/// A line that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// Lines of `text` with more than `columns_max` characters.
#[must_use]
pub fn wide_lines(text: &str, columns_max: usize) -> Vec<Finding> {
    let lines = text.lines().enumerate();
    lines
        .map(|(at, line)| (at, line.chars().count()))
        .filter(|(_, columns)| *columns > columns_max)
        .map(|(at, columns)| Finding {
            line: at + 1,
            what: format!("{columns} columns, {columns_max} at most"),
        })
        .collect()
}

/// Where `text` uses one of [`WORDS`]; `allowed` are words that it may use.
#[must_use]
pub fn unused_words(text: &str, allowed: &[&str]) -> Vec<Finding> {
    let words = words(text);
    let mut found = Vec::new();
    for at in 0..words.len() {
        for &unused in WORDS.iter().filter(|word| !allowed.contains(word)) {
            let parts = unused.split(' ');
            let mut here = words[at..].iter().map(|(_, word)| word.as_str());
            if { parts }.all(|part| here.next() == Some(part)) {
                let line = words[at].0;
                let what = format!("the word {unused:?}");
                found.push(Finding { line, what });
            }
        }
    }
    found
}

/// The words of `text` in lower case, with their lines. An identifier is several words.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mut word = String::new();
        let mut was_lower = false;
        for letter in line.chars().chain([' ']) {
            let begins = letter.is_ascii_uppercase() && was_lower;
            if (begins || !letter.is_alphabetic()) && !word.is_empty() {
                words.push((at + 1, std::mem::take(&mut word)));
            }
            if letter.is_alphabetic() {
                word.extend(letter.to_lowercase());
            }
            was_lower = letter.is_lowercase();
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_sentences_and_in_names_and_not_within_others() {
        let found = |text| unused_words(text, &["touch"]).len();
        assert_eq!(found("// A reader who lets\n/// go of it"), 1);
        assert_eq!(found("A reader who lets go."), 1);
        assert_eq!(found("fn so_many() { SoMany }"), 2);
        assert_eq!(found("the task is recovered, and discovers a spanner"), 0);
        assert_eq!(found("touch touched"), 1);
        assert_eq!(unused_words("\nask", &[])[0].line, 2);
    }

    #[test]
    fn columns_are_characters() {
        assert_eq!(
            wide_lines("äöü\nabcd", 3),
            [Finding {
                line: 2,
                what: "4 columns, 3 at most".into(),
            }]
        );
    }
}
