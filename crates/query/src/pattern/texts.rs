//! [`Texts`]: strings in which some texts follow one another.

use memchr::memmem::Finder;

/// The most texts that are looked for between them: what finds one takes hundreds of bytes, and a
/// query may have thousands of patterns.
const BETWEEN_MAX: usize = 4;

/// A text at the beginning, one at the end, and others between them, with any letters before and
/// behind each.
#[derive(Debug, Clone)]
pub(super) struct Texts {
    first: String,
    between: Vec<Finder<'static>>,
    last: String,
}

impl Texts {
    /// Of two texts or more, which may be empty; none if they are too many.
    pub(super) fn new(texts: &[String]) -> Option<Texts> {
        let [first, between @ .., last] = texts else {
            return None;
        };
        if between.len() > BETWEEN_MAX {
            return None;
        }
        let between = between.iter().map(|text| Finder::new(text).into_owned());
        Some(Texts {
            first: first.clone(),
            between: between.collect(),
            last: last.clone(),
        })
    }

    /// Whether a string is one of these. Each text is found where it is first: what is left for
    /// those after it is the longest then.
    pub(super) fn matches(&self, text: &str) -> bool {
        let rest = text.strip_prefix(self.first.as_str());
        let rest = rest.and_then(|rest| rest.strip_suffix(self.last.as_str()));
        let mut rest = rest.map(str::as_bytes);
        for finder in &self.between {
            rest = rest.and_then(|bytes| {
                let end = finder.find(bytes)? + finder.needle().len();
                bytes.get(end..)
            });
        }
        rest.is_some()
    }
}
