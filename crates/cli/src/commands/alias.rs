//! `quire alias`: shows and changes aliases.

use crate::Context;
use crate::database;
use crate::error::{Error, Result};
use quiredb::{Alias, AliasChange, Database};
use serde_json::json;
use std::path::PathBuf;

/// Show aliases, add them, switch them from one collection to another, or remove them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  quire alias ./db
  quire alias ./db papers --add papers-2026
  quire alias ./db papers --add papers-2027 --remove papers-2026
  quire alias ./db papers --remove papers-2027")]
pub(crate) struct AliasCommand {
    /// The directory of the database
    db: PathBuf,
    /// The alias; all are shown without it
    alias: Option<String>,
    /// Add the alias to this collection; may be given several times
    #[arg(long, value_name = "COLLECTION", requires = "alias")]
    add: Vec<String>,
    /// Remove the alias from this collection; may be given several times
    #[arg(long, value_name = "COLLECTION", requires = "alias")]
    remove: Vec<String>,
    /// With --add of one collection: writes to the alias go to it, and to no other one
    #[arg(long, requires = "add")]
    write: bool,
}

impl AliasCommand {
    pub(super) fn run(self, context: &mut Context) -> Result<()> {
        let database = database::open_existing(context, &self.db)?;
        if let Some(alias) = &self.alias
            && !(self.add.is_empty() && self.remove.is_empty())
        {
            let changes = self.changes(&database, alias)?;
            let failed = Error::engine(format!("cannot change the alias `{alias}`"));
            database.change_aliases(&changes).map_err(failed)?;
        }
        self.show(context, &database)
    }

    /// What was requested, as changes that are made at one moment.
    fn changes(&self, database: &Database, alias: &str) -> Result<Vec<AliasChange>> {
        if self.write && self.add.len() != 1 {
            return Err(Error::Usage(
                "--write is for one collection: give one --add".to_owned(),
            ));
        }
        let aliases = database.aliases();
        let now = aliases.get(alias);
        let add = |(collection, options): (&String, Alias)| AliasChange::Add {
            collection: collection.clone(),
            alias: alias.to_owned(),
            options,
        };
        let remove = |collection: &String| AliasChange::Remove {
            collection: collection.clone(),
            alias: alias.to_owned(),
        };
        let mut changes: Vec<AliasChange> = self.remove.iter().map(remove).collect();
        if self.write {
            // The collection that took the writes until now takes them no longer.
            let others = now.into_iter().flatten();
            let others = others.filter(|(name, _)| !self.remove.contains(name));
            changes.extend(others.map(|(name, options)| {
                let is_write_index = Some(false);
                let options = options.clone();
                add((
                    name,
                    Alias {
                        is_write_index,
                        ..options
                    },
                ))
            }));
        }
        for collection in &self.add {
            let options = now.and_then(|now| now.get(collection)).cloned();
            let options = options.unwrap_or_default();
            let is_write_index = match self.write {
                true => Some(true),
                false => options.is_write_index,
            };
            changes.push(add((
                collection,
                Alias {
                    is_write_index,
                    ..options
                },
            )));
        }
        Ok(changes)
    }

    fn show(&self, context: &mut Context, database: &Database) -> Result<()> {
        for (name, collections) in database.aliases().iter() {
            if self.alias.as_ref().is_some_and(|alias| alias != name) {
                continue;
            }
            if context.out.is_json() {
                let line = json!({"alias": name, "collections": collections});
                context.out.line(line)?;
                continue;
            }
            for (collection, alias) in collections {
                let mut words = String::new();
                if alias.is_write_index == Some(true) {
                    words.push_str(", takes writes");
                }
                if let Some(filter) = &alias.filter {
                    words.push_str(&format!(", filter {filter}"));
                }
                context
                    .out
                    .line(format_args!("{name}: {collection}{words}"))?;
            }
        }
        Ok(())
    }
}
