//! Collections that are made by the first write to them.

use quiredb::{Collection, ErrorKind};

use super::api_settings::set_created;
use super::settings;
use super::templates::applied;
use crate::audit::AuditedGrant;
use crate::engine::Engine;
use crate::http::failure::{Failure, Outcome};

/// A collection to write to. If there is neither a collection nor an alias of this name it is made
/// as templates say, else with default settings; that `by` made it is noted.
///
/// # Errors
/// 400 if no collection can have this name, it is an alias without a collection for writes, or
/// templates together say what can't be.
pub(crate) fn collection_or_create(
    engine: &Engine,
    name: &str,
    by: &AuditedGrant,
) -> Outcome<Collection> {
    match engine.collection_for_writes(name) {
        Err(failure) if failure.is_not_found() => {}
        found => return found,
    }
    let database = engine.database();
    let template = applied(&database.templates(), name);
    let (mut settings, aliases) = settings::parse(b"", &template)?;
    set_created(&mut settings.api, engine.now_millis());
    match database.create_with_aliases(name, settings, aliases) {
        Ok(made) => {
            by.note_created(name);
            Ok(made)
        }
        // Another write was first.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            engine.collection_for_writes(name)
        }
        Err(error) if error.kind() == ErrorKind::Invalid => {
            Err(Failure::invalid_index_name(&error, name))
        }
        Err(error) => Err(Failure::engine(&error, Some(name))),
    }
}
