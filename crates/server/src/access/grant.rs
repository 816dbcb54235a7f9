//! What the caller of one request or connection may do.

use super::pattern::{ALL, includes};
use super::role::{Action, Role};
use super::secret::Hash;
use crate::http::names::added;
use crate::limits::Limit;

/// What a caller may do: the role of its token, in the token's collections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The name of the token; empty for that of the server, and without one.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Patterns of the names of the collections.
    pub(crate) collections: Vec<String>,
    /// The named token's; none for what lasts as long as the server.
    pub(crate) hash: Option<Hash>,
    pub(crate) expires_micros: Option<i64>,
    /// What its holders may take together; none: what each token may.
    pub(crate) limit: Option<Limit>,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no permissions for [{action}] on [{named}]: the token [{name}] has the role [{role}] on \
         [{collections}]"
)]
pub(crate) struct Refused {
    action: Action,
    named: String,
    name: String,
    role: Role,
    collections: String,
}

impl Grant {
    /// Everything: for the token of the server, and for a server without tokens.
    pub(crate) fn everything() -> Grant {
        Grant {
            name: String::new(),
            role: Role::All,
            collections: vec![ALL.to_owned()],
            hash: None,
            expires_micros: None,
            limit: None,
        }
    }

    /// To read everything: for the port of metrics.
    pub(crate) fn reader() -> Grant {
        Grant {
            role: Role::Read,
            ..Grant::everything()
        }
    }

    /// Nothing.
    pub(crate) fn nothing() -> Grant {
        Grant {
            collections: Vec::new(),
            ..Grant::everything()
        }
    }

    /// Checks that this may be done with collections: `named` is names and patterns between commas,
    /// as requests have them.
    ///
    /// # Errors
    /// If it may not be done with all of them.
    pub(crate) fn check(&self, action: Action, named: &str) -> Result<(), Refused> {
        let is_included = |named: &str| {
            let mut patterns = self.collections.iter();
            patterns.any(|pattern| includes(pattern, named))
        };
        match self.role.allows(action) && added(named).all(is_included) {
            true => Ok(()),
            false => Err(Refused {
                action,
                named: named.to_owned(),
                name: self.name.clone(),
                role: self.role,
                collections: self.collections.join(","),
            }),
        }
    }

    /// Checks that this may be done with some collection.
    ///
    /// # Errors
    /// If it may be done with none.
    pub(crate) fn check_role(&self, action: Action) -> Result<(), Refused> {
        match self.role.allows(action) {
            true => Ok(()),
            false => self.check(action, ALL),
        }
    }

    /// Checks that this may be done with the whole database.
    ///
    /// # Errors
    /// If not.
    pub(crate) fn check_all(&self, action: Action) -> Result<(), Refused> {
        self.check(action, ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_names_is_allowed_only_if_each_is() {
        let grant = Grant {
            role: Role::Write,
            collections: vec!["logs-*".to_owned(), "cars".to_owned()],
            ..Grant::everything()
        };
        for named in ["cars", "logs-1,cars", "logs-*"] {
            assert_eq!(grant.check(Action::Write, named), Ok(()), "{named}");
        }
        for named in ["boats", "cars,boats", "*", "_all", "cars,", ""] {
            assert!(grant.check(Action::Read, named).is_err(), "{named}");
        }
        assert!(grant.check(Action::Manage, "cars").is_err());
        assert!(grant.check_all(Action::Read).is_err());
        assert!(Grant::everything().check_all(Action::Tokens).is_ok());
    }
}
