//! Which fields of an object to show: `_source_includes`, `_source_excludes` and `filter_path`.
//!
//! A pattern is matched against the dotted path of a field; `*` stands for any characters, dots too
//! (so `**` means the same). A field is shown if it, or an object or array around it, matches an
//! include and neither matches an exclude. Fields keep their order and numbers their text.
//!
//! As in OpenSearch, dots in the names of a document's fields are parts of the path: `service` is
//! also about `service.name`. In `filter_path` a name is one part, and a dot of it is written
//! `\.`, or as it is.

use quiredb::ValueRef;

use super::failure::{Failure, Outcome};

/// The most patterns: every field is compared with each of them.
const PATTERNS_MAX: usize = 256;

/// Which fields to show. By default all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    includes: Vec<String>,
    excludes: Vec<String>,
    /// Whether a pattern is about an object that only names with dots in them are parts of.
    are_names_paths: bool,
}

impl Fields {
    /// Comma-separated patterns; no includes mean every field.
    pub(crate) fn new(includes: &str, excludes: &str) -> Outcome<Fields> {
        let split = |patterns: &str| {
            patterns
                .split(',')
                .map(str::trim)
                .filter(|pattern| !pattern.is_empty())
                .map(str::to_owned)
                .collect()
        };
        Fields::checked(split(includes), split(excludes))
    }

    /// `filter_path`: comma-separated patterns, of which those that start with `-` exclude.
    pub(crate) fn filter_path(patterns: &str) -> Outcome<Fields> {
        let (excludes, includes): (Vec<&str>, Vec<&str>) = patterns
            .split(',')
            .map(str::trim)
            .partition(|pattern| pattern.starts_with('-'));
        let excludes: Vec<&str> = excludes
            .into_iter()
            .map(|pattern| pattern.trim_start_matches('-'))
            .collect();
        let unescaped = |patterns: Vec<&str>| patterns.join(",").replace("\\.", ".");
        let fields = Fields::new(&unescaped(includes), &unescaped(excludes))?;
        Ok(Fields {
            are_names_paths: false,
            ..fields
        })
    }

    pub(crate) fn checked(includes: Vec<String>, excludes: Vec<String>) -> Outcome<Fields> {
        if includes.len() + excludes.len() > PATTERNS_MAX {
            return Err(Failure::illegal_argument(format!(
                "more than {PATTERNS_MAX} patterns of fields; use fewer, with *"
            )));
        }
        Ok(Fields {
            includes,
            excludes,
            are_names_paths: true,
        })
    }

    /// The fields of documents that are shown, or have a part that is; `None` if patterns say
    /// which.
    pub(crate) fn first_names(&self) -> Option<Vec<&str>> {
        let is_pattern = |name: &String| name.contains('*');
        if self.includes.is_empty() || self.includes.iter().any(is_pattern) {
            return None;
        }
        let first = |name: &'_ String| name.find('.').map_or(name.len(), |dot| dot);
        let names = self.includes.iter().map(|name| &name[..first(name)]);
        Some(names.collect())
    }

    /// Whether every field is shown.
    pub(crate) fn is_all(&self) -> bool {
        self.includes.is_empty() && self.excludes.is_empty()
    }

    /// Whether the field at `path` is shown, if nothing within it is excluded.
    pub(crate) fn shows(&self, path: &str) -> bool {
        !self.are_about(&self.excludes, path)
            && (self.includes.is_empty() || self.are_about(&self.includes, path))
    }

    /// Whether one of the patterns matches a path, or an object that it is below.
    fn are_about(&self, patterns: &[String], path: &str) -> bool {
        let is_below = |one: &String| !one.is_empty() && is_below(one.as_bytes(), path.as_bytes());
        matches(patterns, path) || (self.are_names_paths && patterns.iter().any(is_below))
    }

    /// Appends what is shown of an object, or of an array of objects. `path` is where it stands in
    /// what the patterns are about, "" if it is the whole. False if nothing is shown; then `{}` is
    /// appended, or `[]`.
    pub(crate) fn write(&self, object: ValueRef<'_>, path: &str, out: &mut Vec<u8>) -> bool {
        if !path.is_empty() && self.are_about(&self.excludes, path) {
            out.extend_from_slice(b"{}");
            return false;
        }
        let is_included = || !path.is_empty() && self.are_about(&self.includes, path);
        let whole = self.includes.is_empty() || is_included();
        self.write_value(object, &mut path.to_owned(), whole, out)
    }

    /// `whole` is true if an include matches the value or a value around it.
    fn write_value(
        &self,
        value: ValueRef<'_>,
        path: &mut String,
        whole: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        match value {
            value if whole && self.excludes.is_empty() => value.write_json(out),
            ValueRef::Object(object) => {
                let start = out.len();
                out.push(b'{');
                let (path_bytes, first) = (path.len(), out.len());
                for (name, value) in object.fields() {
                    if path_bytes > 0 {
                        path.push('.');
                    }
                    path.push_str(name);
                    if !self.are_about(&self.excludes, path) {
                        let before = out.len();
                        if before > first {
                            out.push(b',');
                        }
                        ValueRef::String(name).write_json(out);
                        out.push(b':');
                        let whole = whole || self.are_about(&self.includes, path);
                        if !self.write_value(value, path, whole, out) && !whole {
                            out.truncate(before);
                        }
                    }
                    path.truncate(path_bytes);
                }
                let shown = out.len() > start + 1;
                out.push(b'}');
                return shown;
            }
            ValueRef::Array(array) => {
                out.push(b'[');
                let first = out.len();
                for item in array {
                    let before = out.len();
                    if before > first {
                        out.push(b',');
                    }
                    if !self.write_value(item, path, whole, out) && !whole {
                        out.truncate(before);
                    }
                }
                let shown = out.len() > first;
                out.push(b']');
                return shown;
            }
            value if whole => value.write_json(out),
            _ => return false,
        }
        true
    }
}

/// Whether a path, or a name, matches one of the patterns.
pub(crate) fn matches(patterns: &[String], path: &str) -> bool {
    patterns
        .iter()
        .any(|pattern| glob(pattern.as_bytes(), path.as_bytes()))
}

/// The patterns of a text, between commas.
pub(crate) fn patterns(text: &str) -> Vec<String> {
    text.split(',').map(|one| one.trim().to_owned()).collect()
}

/// Whether `pattern` matches `text`; `*` matches any bytes. Takes time up to the product of the
/// lengths, because a mismatch returns to the last `*` alone.
pub(crate) fn glob(pattern: &[u8], text: &[u8]) -> bool {
    glob_of(|at| pattern.get(at), text)
}

/// Whether a pattern matches what is before a dot of a text. Takes time as [`glob`] does.
fn is_below(pattern: &[u8], text: &[u8]) -> bool {
    let after = |at: usize| b".*".get(at.checked_sub(pattern.len())?);
    glob_of(|at| pattern.get(at).or_else(|| after(at)), text)
}

/// As [`glob`], of a pattern that has these bytes.
fn glob_of<'p>(pattern: impl Fn(usize) -> Option<&'p u8>, text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if text.get(t) == Some(byte) => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((star_p, star_t)) => {
                    star = Some((star_p, star_t + 1));
                    p = star_p + 1;
                    t = star_t + 1;
                }
                None => return false,
            },
        }
    }
    while pattern(p) == Some(&b'*') {
        p += 1;
    }
    pattern(p).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiredb::Document;

    const DOCUMENT: &str =
        r#"{"a":{"b":1.50,"c":[{"d":1,"e":2},{"e":3}]},"ab":null,"x":{},"list":[1,2]}"#;

    fn shown(fields: &Fields) -> String {
        shown_of(fields, DOCUMENT)
    }

    fn shown_of(fields: &Fields, document: &str) -> String {
        let document = Document::from_json(document.as_bytes()).unwrap();
        let mut out = Vec::new();
        fields.write(ValueRef::Object(document.root()), "", &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fields_are_shown_by_includes_and_excludes() {
        let cases = [
            ("", "", DOCUMENT),
            ("a.b", "", r#"{"a":{"b":1.50}}"#),
            (
                "a*",
                "",
                r#"{"a":{"b":1.50,"c":[{"d":1,"e":2},{"e":3}]},"ab":null}"#,
            ),
            ("a", "a.c", r#"{"a":{"b":1.50}}"#),
            ("*.d", "", r#"{"a":{"c":[{"d":1}]}}"#),
            ("list, x", "", r#"{"x":{},"list":[1,2]}"#),
            ("nothing", "", "{}"),
            ("", "a,list", r#"{"ab":null,"x":{}}"#),
            (
                "",
                "*.e",
                r#"{"a":{"b":1.50,"c":[{"d":1},{}]},"ab":null,"x":{},"list":[1,2]}"#,
            ),
            ("", "*", "{}"),
        ];
        for (includes, excludes, expected) in cases {
            assert_eq!(
                shown(&Fields::new(includes, excludes).unwrap()),
                expected,
                "{includes} / {excludes}"
            );
        }
        assert_eq!(
            shown(&Fields::filter_path("a,-a.c").unwrap()),
            r#"{"a":{"b":1.50}}"#
        );
        assert!(Fields::new(&"a,".repeat(1000), "").is_err());
    }

    #[test]
    fn dots_in_names_are_parts_of_a_path() {
        let document = r#"{"s.name":"web","s.p.q":1,"a.b":{"c":1,"d.e":2},"t":3,"st":4}"#;
        let cases = [
            ("s", "", r#"{"s.name":"web","s.p.q":1}"#),
            ("s.p", "", r#"{"s.p.q":1}"#),
            ("s.*", "", r#"{"s.name":"web","s.p.q":1}"#),
            ("a", "", r#"{"a.b":{"c":1,"d.e":2}}"#),
            ("a.*", "", r#"{"a.b":{"c":1,"d.e":2}}"#),
            ("a.b.c", "", r#"{"a.b":{"c":1}}"#),
            ("a.b.d", "", r#"{"a.b":{"d.e":2}}"#),
            ("*.d", "", r#"{"a.b":{"d.e":2}}"#),
            ("", "s,t,st", r#"{"a.b":{"c":1,"d.e":2}}"#),
            ("", "s.p,a.b.d,t,st", r#"{"s.name":"web","a.b":{"c":1}}"#),
            ("a", "a.b.d", r#"{"a.b":{"c":1}}"#),
        ];
        for (includes, excludes, expected) in cases {
            let fields = Fields::new(includes, excludes).unwrap();
            assert_eq!(
                shown_of(&fields, document),
                expected,
                "{includes} / {excludes}"
            );
        }
        // The name of a part of an answer is one part of the path.
        for (paths, expected) in [
            ("s,t", r#"{"t":3}"#),
            (r"s\.name", r#"{"s.name":"web"}"#),
            ("a*", r#"{"a.b":{"c":1,"d.e":2}}"#),
            ("-s,-a.b", r#"{"s.name":"web","s.p.q":1,"t":3,"st":4}"#),
        ] {
            let fields = Fields::filter_path(paths).unwrap();
            assert_eq!(shown_of(&fields, document), expected, "{paths}");
        }
    }

    #[test]
    fn globs_match_whole_texts() {
        let cases = [
            ("", "", true),
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("*b*", "abc", true),
            ("a", "ab", false),
            ("**a", "bba", true),
            ("*ab", "aab", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                glob(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }
}
