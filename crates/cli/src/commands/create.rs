//! `quire create`: creates a collection with its settings.

use super::storage::{self, Storage};
use super::wide::{self, Wide};
use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::size::counted;
use quiredb::{CollectionSettings, Durability};
use std::path::PathBuf;

/// Create a collection, and the database if there is none
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire create ./db papers
  quire create ./db products --key sku --partitions 4 --durability 'async(200)'
  quire create ./db events --codec zstd --dictionary 64KiB
  quire create ./db readings --retention-age 30d --retention-size 100GiB
  quire create ./db pages --wide --schema pages.json")]
pub(crate) struct Create {
    /// The directory of the database
    db: PathBuf,
    /// Its name: a to z, 0 to 9, _ - and . ; it starts with a letter or a digit
    collection: String,
    /// The field that holds the key of each document [default: _id]
    #[arg(long, value_name = "FIELD")]
    key: Option<String>,
    /// The number of partitions, 1 to 1024; fixed for good [default: one for each core]
    #[arg(long, value_name = "P")]
    partitions: Option<u32>,
    /// When writes without a durability of their own are acknowledged: sync, async, async(MS) or
    /// none [default: sync]
    #[arg(long)]
    durability: Option<Durability>,
    #[command(flatten)]
    storage: Storage,
    #[command(flatten)]
    wide: Wide,
}

impl Create {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let mut settings = CollectionSettings::default();
        if let Some(key) = self.key {
            settings.key_field = key;
        }
        if let Some(partitions) = self.partitions {
            settings.partitions = partitions;
        }
        if let Some(durability) = self.durability {
            settings.durability = durability;
        }
        self.storage.apply(&mut settings);
        let schema = self.wide.schema(context)?;
        let database = database::open_or_create(context, &self.db, None)?;
        let name = &self.collection;
        if let Some(schema) = schema {
            return wide::create(context, &database, name, schema, settings);
        }
        let collection = database
            .create_collection(name, settings)
            .map_err(Error::engine(format!(
                "cannot create the collection `{name}`"
            )))?;
        let settings = collection.settings();
        if context.out.is_json() {
            context.out.line(format_args!(
                "{{\"created\":\"{name}\",\"settings\":{}}}",
                settings.to_json()
            ))
        } else {
            context.out.line(format_args!(
                "created {name}: key field {}, {}, durability {}, {}",
                settings.key_field,
                counted(settings.partitions.into(), "partition", "partitions"),
                settings.durability,
                storage::words(&settings)
            ))
        }
    }
}
