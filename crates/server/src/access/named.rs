//! Names of requests against the patterns of a token: an alias and what it stands for.
//!
//! A caller may use an alias only if its token allows the alias and each of its collections. So an
//! alias never opens what the token does not allow, and one that is not allowed opens nothing.

use quiredb::Aliases;

use super::grant::{Grant, Refused};
use super::role::Action;
use crate::audit::AuditedGrant;
use crate::engine::Engine;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;
use crate::http::names::added;

/// Checks that this may be done with what an item of a request names: names and patterns between
/// commas.
///
/// # Errors
/// 403.
pub(crate) fn check_item(
    grant: &Grant,
    action: Action,
    engine: &Engine,
    named: &str,
) -> Outcome<()> {
    let allowed = grant.check(action, named);
    let allowed = allowed.and_then(|()| check_aliases(grant, action, engine, named));
    allowed.map_err(Failure::forbidden)
}

/// Checks that this may be done with the collections of the aliases among the names.
pub(crate) fn check_aliases(
    grant: &Grant,
    action: Action,
    engine: &Engine,
    named: &str,
) -> Result<(), Refused> {
    if grant.check_all(action).is_ok() {
        return Ok(());
    }
    check_resolved(grant, action, &engine.database().aliases(), named)
}

/// As [`check_item`], of one item of several that are answered on their own: that it was refused is
/// noted.
///
/// # Errors
/// 403.
pub(crate) fn check_own_item(
    grant: &AuditedGrant,
    action: Action,
    engine: &Engine,
    named: &str,
) -> Outcome<()> {
    check_item(grant, action, engine, named).inspect_err(|_| grant.note_refused(named))
}

fn check_resolved(
    grant: &Grant,
    action: Action,
    aliases: &Aliases,
    named: &str,
) -> Result<(), Refused> {
    for one in added(named) {
        let matched = aliases
            .iter()
            .filter(|(alias, _)| glob(one.as_bytes(), alias.as_bytes()));
        for collection in matched.flat_map(|(_, collections)| collections.keys()) {
            grant.check(action, collection)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::role::Role;

    #[test]
    fn an_alias_is_allowed_only_with_all_that_it_stands_for() {
        let of = |names: &[&str]| {
            let pairs = names
                .iter()
                .map(|name| ((*name).to_owned(), Default::default()));
            pairs.collect()
        };
        let aliases = Aliases::from([
            ("logs-now".to_owned(), of(&["logs-1", "logs-2"])),
            ("logs-sly".to_owned(), of(&["logs-1", "wages"])),
        ]);
        let grant = Grant {
            role: Role::Read,
            collections: vec!["logs-*".to_owned()],
            ..Grant::everything()
        };
        let check = |named| check_resolved(&grant, Action::Read, &aliases, named);
        for named in ["logs-now", "logs-1", "logs-n*,logs-2"] {
            assert_eq!(check(named), Ok(()), "{named}");
        }
        for named in ["logs-sly", "logs-*", "logs-1,logs-s*"] {
            assert!(check(named).is_err(), "{named}");
        }
    }
}
