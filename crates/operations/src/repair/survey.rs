//! Surveying a damaged database: which collections and partitions it has, from its catalog, or else
//! from its directories.

use crate::verify::{COPY_LOST, total_bytes};
use quire_database::catalog::{
    CATALOG_BYTES_MAX, CATALOG_COPY_NAME, CATALOG_NAME, Catalog, Entry, FoundCatalog,
    collection_dir, parse_collection_dir, parse_partition_dir, partition_dir,
};
use quire_database::directory::holds_database;
use quire_database::{Alias, CollectionSettings, Damage, Error, Result, Templates, check_name};
use quire_env::{Env, ErrorKind as EnvErrorKind, Volumes};
use quire_store::{Durability, Place};
use std::collections::{BTreeMap, BTreeSet};

/// What a database has.
#[derive(Debug)]
pub(super) struct Survey {
    /// For the identities of its partitions.
    pub(super) catalog: Catalog,
    pub(super) collections: Vec<Surveyed>,
    pub(super) damage: Vec<Damage>,
}

/// A collection.
#[derive(Debug)]
pub(super) struct Surveyed {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) settings: CollectionSettings,
    /// None of a damaged catalog: what is wrong there could break the rules that aliases keep.
    pub(super) aliases: BTreeMap<String, Alias>,
    /// What is not known for sure.
    pub(super) guesses: Vec<String>,
}

/// Fails unless there is a database, or what is left of one.
pub(super) fn require(env: &dyn Env, volumes: &Volumes) -> Result<()> {
    match holds_database(env, volumes.root()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::NoDatabase {
            path: volumes.root().to_path_buf(),
        }),
        // One that has lost its catalog looks like something else.
        Err(error) => match directories(env, volumes)?.is_empty() {
            true => Err(error),
            false => Ok(()),
        },
    }
}

/// The collections that have directories, and the partitions that do.
fn directories(env: &dyn Env, volumes: &Volumes) -> Result<BTreeMap<u32, BTreeSet<u32>>> {
    let mut found: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for volume in volumes.iter() {
        for name in list(env, &volume.path)? {
            let Some(id) = parse_collection_dir(&name) else {
                continue;
            };
            let names = list(env, &volume.path.join(name))?;
            let numbers: Vec<u32> = names
                .iter()
                .filter_map(|name| parse_partition_dir(name))
                .collect();
            if !numbers.is_empty() {
                found.entry(id).or_default().extend(numbers);
            }
        }
    }
    Ok(found)
}

/// The names in a directory; none if it is not there.
fn list(env: &dyn Env, dir: &std::path::Path) -> Result<Vec<String>> {
    match env.list(dir) {
        Ok(names) => Ok(names),
        Err(error) if error.kind() == EnvErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

impl Survey {
    /// Surveys the database on `volumes`.
    pub(super) fn of(env: &dyn Env, volumes: &Volumes) -> Result<Survey> {
        let mut wrong = Vec::new();
        for volume in volumes.iter() {
            if let Err(error) = env.list(&volume.path) {
                let lost = "the table files on it: the index that they hold";
                wrong.push(Damage::new(&volume.path, 0, error.to_string(), lost));
            }
        }
        let path = Catalog::path(volumes.root());
        let found = FoundCatalog::read(env, volumes.root());
        if let Some((path, what)) = found.as_ref().ok().and_then(FoundCatalog::damage) {
            wrong.push(Damage::new(&path, 0, what, COPY_LOST));
        }
        let what = match found.and_then(FoundCatalog::newest) {
            Ok(catalog) => {
                if catalog.volumes as usize != volumes.iter().count() {
                    let what = format!("the database was made on {} volumes", catalog.volumes);
                    wrong.push(Damage::new(
                        &path,
                        0,
                        what,
                        "the table files on those not given",
                    ));
                }
                let collections = catalog.collections.iter().map(Surveyed::certain).collect();
                return Ok(Survey {
                    catalog,
                    collections,
                    damage: wrong,
                });
            }
            Err(Error::Catalog { what, .. }) => what,
            Err(Error::Env(error)) if error.kind() == EnvErrorKind::Crashed => {
                return Err(Error::Env(error));
            }
            Err(error) => error.to_string(),
        };
        let lost = "names and settings of collections, as far as they are said to be guessed";
        wrong.push(Damage::new(&path, 0, what, lost));
        let mut catalog = guess(env, volumes);
        let directories = directories(env, volumes)?;
        if let Some(database) = database_id(env, volumes, &directories)? {
            catalog.database = database;
        }
        let mut collections: Vec<Surveyed> = Vec::new();
        for (id, partitions) in directories {
            let entry = catalog.collections.iter().find(|entry| entry.id == id);
            let mut surveyed = Surveyed::guessed(id, entry, &partitions);
            while collections.iter().any(|other| other.name == surveyed.name) {
                surveyed.name = format!("{}-{id}", surveyed.name);
            }
            collections.push(surveyed);
        }
        Ok(Survey {
            catalog,
            collections,
            damage: wrong,
        })
    }

    /// Whose files those of a partition should be.
    pub(super) fn identity(&self, collection: u32, partition: u32) -> [u8; 16] {
        self.catalog.identity(collection, partition)
    }

    /// Bytes of all files that will be read.
    pub(super) fn total_bytes(&self, env: &dyn Env, volumes: &Volumes) -> Result<u64> {
        let entry = |surveyed: &Surveyed| Entry {
            origin: None,
            partitions_before: Vec::new(),
            id: surveyed.id,
            name: surveyed.name.clone(),
            settings: surveyed.settings.clone(),
            index_generation: 0,
            triggers: Default::default(),
            aliases: BTreeMap::new(),
        };
        let catalog = Catalog {
            collections: self.collections.iter().map(entry).collect(),
            ..self.catalog.clone()
        };
        total_bytes(env, volumes, &catalog)
    }
}

impl Surveyed {
    fn certain(entry: &Entry) -> Surveyed {
        Surveyed {
            id: entry.id,
            name: entry.name.clone(),
            settings: entry.settings.clone(),
            aliases: entry.aliases.clone(),
            guesses: Vec::new(),
        }
    }

    /// From what a damaged catalog says of it, if anything, and from its directories.
    fn guessed(id: u32, entry: Option<&Entry>, partitions: &BTreeSet<u32>) -> Surveyed {
        let entry =
            entry.filter(|entry| check_name(&entry.name).is_ok() && entry.settings.check().is_ok());
        let least = partitions.last().map_or(1, |last| last.saturating_add(1));
        let dir = collection_dir(id);
        let dir = dir.display();
        let mut surveyed = match entry {
            Some(entry) => Surveyed {
                guesses: vec![format!(
                    "its name and settings are from a damaged catalog: is it {:?}, with {}?",
                    entry.name,
                    entry.settings.to_json()
                )],
                aliases: BTreeMap::new(),
                ..Surveyed::certain(entry)
            },
            None => {
                let settings = CollectionSettings {
                    partitions: least,
                    key_field: "_id".to_string(),
                    durability: Durability::Sync,
                    ..CollectionSettings::default()
                };
                Surveyed {
                    id,
                    name: format!("collection-{id}"),
                    guesses: vec![format!(
                        "only its directory {dir} is left: its name, and its settings {}, are \
                         made up; it may also have been dropped",
                        settings.to_json()
                    )],
                    settings,
                    aliases: BTreeMap::new(),
                }
            }
        };
        let aliases = entry.map_or_else(Vec::new, |entry| entry.aliases.keys().collect());
        if !aliases.is_empty() {
            let what =
                format!("the aliases that a damaged catalog gives it are left out: {aliases:?}");
            surveyed.guesses.push(what);
        }
        if surveyed.settings.partitions < least {
            let what = format!("its directory {dir} has {least} partitions; all are read");
            surveyed.guesses.push(what);
            surveyed.settings.partitions = least.min(1024);
        }
        surveyed
    }
}

/// What there is left of a catalog; an empty one if nothing is.
fn guess(env: &dyn Env, volumes: &Volumes) -> Catalog {
    let root = volumes.root();
    // One that was being written when the machine stopped lies beside it.
    let names = [CATALOG_NAME, CATALOG_COPY_NAME]
        .iter()
        .flat_map(|name| [name.to_string(), format!("{name}.tmp")])
        .collect::<Vec<_>>();
    let read = |name: &String| env.read(&root.join(name), CATALOG_BYTES_MAX).ok();
    names
        .iter()
        .filter_map(read)
        .find_map(|bytes| Catalog::guess(&bytes))
        .unwrap_or_else(|| Catalog {
            number: 0,
            database: format!("{:016x}", 0),
            volumes: 1,
            named_volumes: Vec::new(),
            next_collection: 1,
            collections: Vec::new(),
            templates: Templates::new(),
            coprocessors: Default::default(),
        })
}

/// The database that most of the files say they belong to.
fn database_id(
    env: &dyn Env,
    volumes: &Volumes,
    directories: &BTreeMap<u32, BTreeSet<u32>>,
) -> Result<Option<String>> {
    let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
    for (id, partitions) in directories {
        for number in partitions {
            let place = Place {
                volumes: volumes.clone(),
                subdir: partition_dir(*id, *number),
                identity: [0; 16],
            };
            let found = quire_store::identities(env, &place);
            for identity in found.map_err(quire_collection::Error::from)? {
                if let Some(database) = identity.first_chunk() {
                    *votes.entry(u64::from_le_bytes(*database)).or_default() += 1;
                }
            }
        }
    }
    let most = votes.into_iter().max_by_key(|(_, votes)| *votes);
    Ok(most.map(|(database, _)| format!("{database:016x}")))
}
