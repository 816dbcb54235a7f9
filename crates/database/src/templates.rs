//! Templates that a database keeps for its servers.

use crate::catalog::{CATALOG_BYTES_MAX, Templates};
use crate::{Database, Error, Result};

/// The most bytes of JSON that all templates have together.
const BYTES_MAX: u64 = CATALOG_BYTES_MAX / 16;

impl Database {
    /// All templates, by name.
    pub fn templates(&self) -> Templates {
        self.catalog_templates()
    }

    /// Changes templates at one moment: `change` gets those there are, and what it leaves is
    /// stored. Durable when it returns; a crash leaves all changes or none.
    ///
    /// # Errors
    /// What `change` returns, or `Invalid` for more than 4 MiB of templates: nothing is changed
    /// then. Those of the machine.
    pub fn change_templates<E: From<Error>>(
        &self,
        change: impl FnOnce(&mut Templates) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.replace_templates(|templates| {
            change(templates)?;
            Ok(check(templates)?)
        })
    }
}

fn check(templates: &Templates) -> Result<()> {
    let bytes = serde_json::json!(templates).to_string().len() as u64;
    match bytes > BYTES_MAX {
        true => Err(Error::Invalid(format!(
            "templates would take {bytes} bytes, and may take {BYTES_MAX}: delete some"
        ))),
        false => Ok(()),
    }
}
