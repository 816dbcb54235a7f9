//! `quire alter`: changes the settings of a collection.

use super::storage::{self, Storage};
use super::wide::{self, AlterWide, Opened};
use crate::Context;
use crate::error::{Error, Result};
use crate::place::{Documents, Place};
use crate::progress::Progress;
use crate::settings;
use quiredb::wide::WideCollection;
use quiredb::{CollectionSettings, CollectionStats, Database, Durability};
use std::time::Duration;

/// How often the progress of an index is looked at.
const POLL: Duration = Duration::from_millis(20);

/// An index that fails for this number of looks is not waited for.
const FAILURES_MAX: u32 = 250;

/// Change the settings of a collection; files on disk change with later compactions only
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire alter ./db papers --codec zstd --dictionary 64KiB
  quire alter ./db papers --index abstract=none
  quire alter ./db pages --add-column 'size={\"type\":\"integer\",\"group\":\"meta\"}'
  quire alter ./db pages --index none,host=all,fetched=all
  quire alter ./db pages --log-retention-age 7d
  quire alter ./db pages --group 'html={\"tier\":\"hdd\",\"codec\":\"zstd\"}'")]
pub(crate) struct Alter {
    #[command(flatten)]
    place: Place,
    /// The collection
    collection: String,
    /// When writes without a durability of their own are acknowledged: sync, async, async(MS) or
    /// none
    #[arg(long)]
    durability: Option<Durability>,
    #[command(flatten)]
    storage: Storage,
    /// With --index: do not wait until the index is built. It goes on whenever the database is open
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    wide: AlterWide,
}

impl Alter {
    /// Changes the columns of a wide collection.
    fn alter_wide(
        &self,
        context: &mut Context,
        database: &Database,
        wide: &WideCollection,
    ) -> Result<()> {
        let name = &self.collection;
        let log_retention = self.storage.log_retention_secs();
        let before = CollectionSettings {
            log_retention_secs: log_retention.unwrap_or_default(),
            ..CollectionSettings::clone(&wide.settings())
        };
        let mut settings = before.clone();
        self.storage.apply(&mut settings);
        settings.log_retention_secs = before.log_retention_secs;
        settings.index = before.index.clone();
        let index = self.storage.index();
        let is_empty = self.wide.is_empty() && log_retention.is_none() && index.is_none();
        if self.durability.is_some() || settings != before || is_empty {
            return Err(Error::Usage(format!(
                "`{name}` is a wide collection: change its columns with --add-column, \
                 --rename-column, --drop-column, --time-to-live and --move-column, its column \
                 groups with --group, its search index with --index, and how long its changes \
                 are kept with --log-retention-age; its other settings are fixed"
            )));
        }
        let cannot = || Error::engine(format!("cannot change the settings of `{name}`"));
        if let Some(secs) = log_retention {
            let changed = database.set_log_retention(name, secs);
            changed.map_err(cannot())?;
        }
        if !self.wide.is_empty() {
            self.wide.run(context, database, name)?;
        }
        if let Some(index) = index {
            let changed = database.set_wide_index(name, index.clone());
            changed.map_err(cannot())?;
        }
        if !wide.settings().index.is_none() && !self.no_wait {
            wait_for_index(context, &|| wide.stats())?;
        }
        match self.wide.is_empty() {
            true if context.out.is_json() => context.out.line(format_args!(
                "{{\"altered\":\"{name}\",\"settings\":{}}}",
                wide.settings().to_json()
            )),
            true => context.out.line(format_args!(
                "altered {name}: {}",
                storage::words(&wide.settings())
            )),
            false => Ok(()),
        }
    }

    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let name = &self.collection;
        let opened = match wide::open(context, &self.place, name)? {
            Opened::Wide(database, wide) => return self.alter_wide(context, &database, &wide),
            Opened::Plain(opened) => opened,
        };
        if !self.wide.is_empty() {
            let what = format!("columns are of wide collections, and `{name}` is a plain one");
            return Err(Error::Usage(what));
        }
        let before = opened.settings();
        let mut settings = CollectionSettings::clone(&before);
        settings.durability = self.durability.unwrap_or(settings.durability);
        self.storage.apply(&mut settings);
        let changed = match &opened {
            Documents::Directory { database, .. } => {
                database.change_settings(name, settings).map(|changed| {
                    let database = database.clone();
                    Documents::Directory {
                        database,
                        collection: changed,
                    }
                })
            }
            Documents::Server(collection) => {
                let changes = settings::changed(&before, &settings);
                collection.change(&changes).map(Documents::Server)
            }
        };
        let collection = changed.map_err(Error::engine(format!(
            "cannot change the settings of `{name}`"
        )))?;
        if self.storage.adds_index() && !self.no_wait {
            wait_for_index(context, &|| collection.stats())?;
        }
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

/// Waits until the index is complete, and shows how far it is.
fn wait_for_index(
    context: &Context,
    stats: &dyn Fn() -> quiredb::Result<CollectionStats>,
) -> Result<()> {
    let stats = || stats().map_err(Error::engine("cannot read the statistics"));
    let progress = Progress::documents(stats()?.documents);
    let mut failures = 0;
    loop {
        let Some(index) = stats()?.index else { break };
        if index.complete {
            break;
        }
        progress.at(index.documents, || "indexed".into());
        match index.errors.first() {
            Some(error) if failures == FAILURES_MAX => {
                progress.finish();
                return Err(Error::Failed(format!(
                    "the index can't be built now: {error}; it is tried again while the database \
                     is open"
                )));
            }
            Some(_) => failures += 1,
            None => failures = 0,
        }
        context.env.sleep(POLL);
    }
    progress.finish();
    Ok(())
}
