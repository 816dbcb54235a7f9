//! Which collections a pattern stands for by their state: `expand_wildcards`.

use quiredb::ApiSettings;

use super::api_settings::is_hidden;
use crate::http::failure::{Failure, Outcome};

/// The states of the collections that a pattern stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct States {
    open: bool,
    closed: bool,
    hidden: bool,
}

impl States {
    /// Open ones that are not hidden.
    pub(crate) const OPEN: States = States {
        open: true,
        closed: false,
        hidden: false,
    };

    /// Closed ones that are not hidden.
    pub(crate) const CLOSED: States = States {
        open: false,
        closed: true,
        hidden: false,
    };

    /// Open and closed ones that are not hidden.
    pub(crate) const VISIBLE: States = States {
        open: true,
        closed: true,
        hidden: false,
    };

    /// All.
    pub(crate) const ALL: States = States {
        open: true,
        closed: true,
        hidden: true,
    };

    /// Those that `expand_wildcards` names.
    ///
    /// # Errors
    /// 400 for a word that is none of its.
    pub(crate) fn parse(words: &str) -> Outcome<States> {
        let mut states = States {
            open: false,
            closed: false,
            hidden: false,
        };
        for word in words.split(',') {
            match word.trim() {
                "open" => states.open = true,
                "closed" => states.closed = true,
                "hidden" => states.hidden = true,
                "all" => states = States::ALL,
                "none" => {
                    states = States {
                        open: false,
                        closed: false,
                        hidden: false,
                    }
                }
                other => {
                    return Err(Failure::illegal_argument(format!(
                        "No valid expand wildcard value [{other}]"
                    )));
                }
            }
        }
        Ok(states)
    }

    /// Whether a pattern stands for a collection of which servers keep this.
    pub(crate) fn has(self, kept: Option<&ApiSettings>) -> bool {
        let is_closed = kept.is_some_and(|kept| kept.closed);
        let is_hidden = kept.is_some_and(is_hidden);
        (self.hidden || !is_hidden)
            && match is_closed {
                true => self.closed,
                false => self.open,
            }
    }

    /// Whether a pattern stands for hidden aliases too.
    pub(crate) fn has_hidden(self) -> bool {
        self.hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_the_states_that_are_named() {
        let kept = |closed, hidden: &str| ApiSettings {
            closed,
            settings: [("index.hidden".to_owned(), hidden.into())].into(),
        };
        for (words, expected) in [
            ("open", [true, false, false]),
            ("closed", [false, true, false]),
            ("open,hidden", [true, false, true]),
            ("open, closed", [true, true, false]),
            ("all", [true, true, true]),
            ("none", [false, false, false]),
            ("hidden", [false, false, false]),
        ] {
            let states = States::parse(words).unwrap();
            let found = [
                kept(false, "false"),
                kept(true, "false"),
                kept(false, "true"),
            ];
            assert_eq!(found.map(|one| states.has(Some(&one))), expected, "{words}");
        }
        assert!(States::parse("opened").is_err());
        assert!(States::OPEN.has(None) && !States::CLOSED.has(None));
    }
}
