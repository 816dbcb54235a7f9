//! Patterns of names of collections: `*` stands for any text, everything else for itself.

/// All collections, as a pattern and as what a request names.
pub(crate) const ALL: &str = "*";

/// Whether every name that `named` may stand for matches `pattern`. `named` is a name, or a pattern
/// of a request: a `*` in it is matched by a `*` of `pattern` alone, which then matches whatever it
/// stands for.
pub(crate) fn includes(pattern: &str, named: &str) -> bool {
    let named = if named == "_all" { ALL } else { named };
    let (pattern, named) = (pattern.as_bytes(), named.as_bytes());
    let (mut p, mut n) = (0, 0);
    // The last `*` of the pattern, and where the text that it stands for ends so far.
    let mut star: Option<(usize, usize)> = None;
    while n < named.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            // A `*` that is named never matches a letter, since it may stand for others.
            Some(byte) if Some(byte) == named.get(n) => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, end)) => {
                    star = Some((at, end + 1));
                    (p, n) = (at + 1, end + 1);
                }
                None => return false,
            },
        }
    }
    pattern
        .get(p..)
        .unwrap_or_default()
        .iter()
        .all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_and_patterns_are_in_a_pattern_that_holds_all_of_them() {
        let included = [
            ("*", "logs"),
            ("*", "_all"),
            ("*", "*"),
            ("logs-*", "logs-1"),
            ("logs-*", "logs-*"),
            ("logs-*", "logs-a*"),
            ("logs-*", "logs-"),
            ("*-prod", "a-b-prod"),
            ("a*c*", "abcd*"),
            ("logs", "logs"),
        ];
        for (pattern, named) in included {
            assert!(includes(pattern, named), "{pattern} {named}");
        }
        let apart = [
            ("logs-*", "logs"),
            ("logs-*", "*"),
            ("logs-*", "_all"),
            ("logs-*", "log*"),
            ("logs-*", "*logs-1"),
            ("logs", "logs-1"),
            ("logs", "log*"),
            ("l?gs", "logs"),
            ("", "logs"),
            ("logs-*", ""),
        ];
        for (pattern, named) in apart {
            assert!(!includes(pattern, named), "{pattern} {named}");
        }
    }

    /// Whether a pattern matches a name without `*`, by its definition.
    fn matches(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|skip| matches(rest, &name[skip..])),
            Some((byte, rest)) => name.first() == Some(byte) && matches(rest, &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn what_is_included_matches_whatever_it_stands_for(
            pattern in "[ab*]{0,6}", named in "[ab*]{0,6}", name in "[ab]{0,8}"
        ) {
            if includes(&pattern, &named) && matches(named.as_bytes(), name.as_bytes()) {
                prop_assert!(matches(pattern.as_bytes(), name.as_bytes()));
            }
            prop_assert_eq!(
                includes(&pattern, &name),
                matches(pattern.as_bytes(), name.as_bytes())
            );
        }
    }
}
