//! What a caller may do: the role of its token, and what each kind of request needs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What the holder of a token may do in the token's collections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read documents, search, and read settings and statistics.
    Read,
    /// That, and write documents. The first write to a collection creates it.
    Write,
    /// That, and create, change and drop collections; back up and verify the database.
    Manage,
    /// Copy the whole database and follow it. Nothing else.
    Follow,
    /// Everything, tokens included.
    All,
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Write,
    Manage,
    Follow,
    Tokens,
}

impl Role {
    /// The names of all roles.
    pub const NAMES: [&str; 5] = ["read", "write", "manage", "follow", "all"];

    pub(crate) fn allows(self, action: Action) -> bool {
        match self {
            Role::Read => action == Action::Read,
            Role::Write => matches!(action, Action::Read | Action::Write),
            Role::Manage => matches!(action, Action::Read | Action::Write | Action::Manage),
            Role::Follow => action == Action::Follow,
            Role::All => true,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Write => "write",
            Role::Manage => "manage",
            Role::Follow => "follow",
            Role::All => "all",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Role, String> {
        let all = [
            Role::Read,
            Role::Write,
            Role::Manage,
            Role::Follow,
            Role::All,
        ];
        let found = all.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| {
            format!(
                "there is no role `{text}`; the roles are {}",
                Role::NAMES.join(", ")
            )
        })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Read => "read",
            Action::Write => "write",
            Action::Manage => "manage",
            Action::Follow => "follow",
            Action::Tokens => "tokens",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_allows_what_its_description_says_and_no_more() {
        use Action::{Follow, Manage, Read, Tokens, Write};
        let actions = [Read, Write, Manage, Follow, Tokens];
        let cases = [
            (Role::Read, [true, false, false, false, false]),
            (Role::Write, [true, true, false, false, false]),
            (Role::Manage, [true, true, true, false, false]),
            (Role::Follow, [false, false, false, true, false]),
            (Role::All, [true, true, true, true, true]),
        ];
        for (role, expected) in cases {
            assert_eq!(
                actions.map(|action| role.allows(action)),
                expected,
                "{role}"
            );
            assert_eq!(role.name().parse(), Ok(role));
        }
        assert!("root".parse::<Role>().unwrap_err().contains("manage"));
    }
}
