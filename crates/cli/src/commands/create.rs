//! `quire create`: creates a collection with its settings, or an empty database.

use super::storage::{self, Storage};
use super::volume::NewVolume;
use super::wide::{self, Wide};
use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use crate::place::Place;
use crate::remote::RemoteCollection;
use crate::settings;
use crate::size::counted;
use quire_pipeline::Target;
use quiredb::{CollectionSettings, Database, Durability, IndexedFields, Medium};

/// Create a collection, and the database if there is none; or an empty database
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire create ./db                                 an empty database
  quire create ./db papers
  quire create ./db products --key sku --partitions 4 --durability 'async(200)'
  quire create ./db events --codec zstd --dictionary 64KiB
  quire create ./db readings --retention-age 30d --retention-size 100GiB
  quire create ./db pages --wide --schema pages.json
  quire create ./db --volume cold1=/mnt/disk1/db:hdd --volume cold2=/mnt/disk2/db:hdd")]
pub(crate) struct Create {
    #[command(flatten)]
    place: Place,
    /// Its name: a to z, 0 to 9, _ - and . ; it starts with a letter or a digit
    /// [default: none, the database is made without a collection]
    collection: Option<String>,
    /// The field that holds the key of each document [default: _id]
    #[arg(long, value_name = "FIELD")]
    key: Option<String>,
    /// The number of partitions, 1 to 1024; `quire split` makes more of them later [default: one
    /// for each core]
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
    /// Of a new database: a further disk, as a name, a directory, and ssd or hdd; repeatable
    #[arg(long, value_name = "NAME=PATH:MEDIUM")]
    volume: Vec<NewVolume>,
    /// Of a new database: what the disk of its own directory is, ssd or hdd [default: ssd]
    #[arg(long, value_name = "MEDIUM")]
    medium: Option<Medium>,
}

impl Create {
    /// Sets what is given.
    fn apply(&self, settings: &mut CollectionSettings) {
        if let Some(key) = &self.key {
            settings.key_field = key.clone();
        }
        settings.partitions = self.partitions.unwrap_or(settings.partitions);
        settings.durability = self.durability.unwrap_or(settings.durability);
        self.storage.apply(settings);
    }

    /// Opens the database, or makes it on the volumes that are given.
    fn open(&self, context: &Context) -> Result<Database> {
        let path = self.place.path();
        if self.volume.is_empty() && self.medium.is_none() {
            return database::open_or_create(context, path, None);
        }
        let volumes = self.volume.iter();
        let volumes: Vec<_> = volumes
            .map(|volume| (volume.name.as_str(), volume.path.as_path(), volume.medium))
            .collect();
        database::create_on(context, path, self.medium, &volumes)
    }

    /// Makes a database without a collection, or finds that there is one.
    ///
    /// # Errors
    /// If there are settings of a collection, or the database can't be made.
    fn create_empty(&self, context: &mut Context, settings: CollectionSettings) -> Result<()> {
        let is_wide = self.wide.schema(context)?.is_some();
        if is_wide || settings != CollectionSettings::default() {
            return Err(Error::Usage(
                "these are settings of a collection; name it, as in `quire create DB COLLECTION`"
                    .to_owned(),
            ));
        }
        if self.place.server(context)?.is_some() {
            return Err(Error::Usage(
                "a server has its database; name the collection to create".to_owned(),
            ));
        }
        let database = self.open(context)?;
        let collections = database.collections().len() as u64;
        database
            .close()
            .map_err(Error::engine("cannot close the database"))?;
        match context.out.is_json() {
            true => context
                .out
                .json_line(&serde_json::json!({"collections": collections})),
            false => context.out.line(format_args!(
                "the database has {}",
                counted(collections, "collection", "collections")
            )),
        }
    }

    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let mut settings = CollectionSettings::default();
        self.apply(&mut settings);
        let Some(name) = &self.collection else {
            return self.create_empty(context, settings);
        };
        let cannot = format!("cannot create the collection `{name}`");
        let schema = self.wide.schema(context)?;
        let settings = match self.place.server(context)? {
            Some(_) if !self.volume.is_empty() || self.medium.is_some() => {
                return Err(Error::Usage(
                    "volumes are those of a directory; a server has its database".to_owned(),
                ));
            }
            Some(_) if schema.is_some() => {
                return Err(Error::Usage(
                    "a wide collection is made in a directory, not on a server".to_owned(),
                ));
            }
            Some(link) => {
                let given = settings::of_new(&settings, self.partitions);
                RemoteCollection::create(&link, name, &given).map(|made| made.settings())
            }
            None => {
                let database = self.open(context)?;
                if let Some(schema) = schema {
                    let index = self.storage.index().cloned();
                    let settings = CollectionSettings {
                        index: index.unwrap_or_else(IndexedFields::none),
                        ..settings
                    };
                    return wide::create(context, &database, name, schema, settings);
                }
                let made = database.create_collection(name, settings);
                made.map(|made| made.settings())
            }
        }
        .map_err(Error::engine(cannot))?;
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
