//! `quire alter`: changes the settings of a collection.

use super::storage::{self, Storage};
use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use quiredb::{CollectionSettings, Durability};
use std::path::PathBuf;

/// Change the settings of a collection; files on disk change with later compactions only
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  quire alter ./db papers --codec zstd --dictionary 64KiB")]
pub(crate) struct Alter {
    /// The directory of the database
    db: PathBuf,
    /// The collection
    collection: String,
    /// When writes without a durability of their own are acknowledged: sync, async, async(MS) or
    /// none
    #[arg(long)]
    durability: Option<Durability>,
    #[command(flatten)]
    storage: Storage,
}

impl Alter {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let database = database::open_existing(context, &self.db)?;
        let name = &self.collection;
        let collection = database::collection(&database, &self.db, name)?;
        let mut settings = CollectionSettings::clone(&collection.settings());
        settings.durability = self.durability.unwrap_or(settings.durability);
        self.storage.apply(&mut settings);
        let collection = database
            .change_settings(name, settings)
            .map_err(Error::engine(format!(
                "cannot change the settings of `{name}`"
            )))?;
        let settings = collection.settings();
        if context.out.is_json() {
            context.out.line(format_args!(
                "{{\"altered\":\"{name}\",\"settings\":{}}}",
                settings.to_json()
            ))
        } else {
            context.out.line(format_args!(
                "altered {name}: durability {}, {}",
                settings.durability,
                storage::words(&settings)
            ))
        }
    }
}
