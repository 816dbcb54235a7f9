//! The catalog: which collections a database has, and their settings.
//!
//! A small text file, replaced whole at each change; readable by people, checked by a checksum.
//! There are two copies, `CATALOG` and `CATALOG-2`: one damaged file costs nothing.
//!
//! # Invariants
//! 1. Each write has a higher number than all before it, also those that failed.
//! 2. A change is acknowledged once both copies have it. Of two whole copies the one with the
//!    higher number counts; the opening then replaces the other.
//!
//! A sealed text file (see `sealed.rs`) of the kind `quire-catalog`, version 2, or 3 if it has an
//! alias, 4 if it has a template, 5 if it has a coprocessor or names volumes, 6 if a collection has
//! a trigger, 7 if one was split, 8 if a wide one was split or has an alias, or 9 if partitions of
//! one were merged: a program that knows none must not lose them. Version 1 had one copy and no
//! number.

use crate::alias::{Alias, check_aliases};
use crate::partitions_before::{Before, is_history};
use crate::settings::{check_name, deserialize_stored};
use crate::{CollectionSettings, Error, Result};
use quire_collection::IndexSettings;
use quire_env::{Env, ErrorKind as EnvErrorKind};
use quire_seeded::{Bug, seeded};
use quire_store::{seal, unseal};
use quire_wide::WideIndex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the file in the directory of the first volume.
pub const CATALOG_NAME: &str = "CATALOG";

/// The name of the second copy, beside it.
pub const CATALOG_COPY_NAME: &str = "CATALOG-2";

const KIND: &str = "quire-catalog";
const VERSION: u32 = 9;
const VERSION_NO_MERGES: u32 = 8;
const VERSION_NO_WIDE_SPLITS: u32 = 7;
const VERSION_NO_SPLITS: u32 = 6;
const VERSION_NO_TRIGGERS: u32 = 5;
const VERSION_NO_COPROCESSORS: u32 = 4;
const VERSION_NO_TEMPLATES: u32 = 3;
const VERSION_NO_ALIASES: u32 = 2;
const VERSION_ONE_COPY: u32 = 1;

/// The most bytes that the file may have.
pub const CATALOG_BYTES_MAX: u64 = 64 << 20;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalog {
    /// How many were written before it; 0 in version 1.
    #[serde(default)]
    pub number: u64,
    /// 16 hex digits, random: the first half of the identity of each of its partitions.
    pub database: String,
    /// How many volumes it was made on.
    pub volumes: u32,
    /// The volumes, all or none, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named_volumes: Vec<NamedVolume>,
    /// Ids are not used again, so that what is left of a dropped collection is never taken for
    /// another's.
    pub next_collection: u32,
    /// The collections, in the order in which they were created.
    pub collections: Vec<Entry>,
    /// What servers make collections from.
    #[serde(default, skip_serializing_if = "Templates::is_empty")]
    pub templates: Templates,
    /// Coprocessors by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub coprocessors: BTreeMap<String, StoredCoprocessor>,
}

/// A coprocessor with its versions; at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCoprocessor {
    /// The number that the next version gets: numbers are not used again.
    pub next_version: u32,
    /// The versions by number.
    pub versions: BTreeMap<u32, StoredModule>,
}

/// A version of a coprocessor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredModule {
    /// When it was added: microseconds since 1970 UTC.
    pub time_micros: i64,
    /// The WebAssembly module in base64. Shared: a catalog is copied to be changed.
    pub wasm: SharedText,
}

/// Text that is copied by counting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct SharedText(pub Arc<str>);

impl From<String> for SharedText {
    fn from(text: String) -> SharedText {
        SharedText(text.into())
    }
}

impl From<SharedText> for String {
    fn from(text: SharedText) -> String {
        text.0.to_string()
    }
}

/// Templates of collections by name. The database keeps them; servers give them their meaning.
pub type Templates = BTreeMap<String, serde_json::Value>;

/// A volume in the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedVolume {
    /// Its name.
    pub name: String,
    /// Its directory; empty for the first, which is where the catalog is.
    pub path: String,
    /// The name of its medium.
    pub medium: String,
}

/// A collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its id, which names its directory. A split gives it another one.
    pub id: u32,
    /// The id that it had before it was first split, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<u32>,
    /// What partitions it had before each split and each merge: positions of then are still good.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions_before: Vec<Before>,
    /// Its name, which is unique.
    pub name: String,
    /// Its settings.
    #[serde(deserialize_with = "deserialize_stored")]
    pub settings: CollectionSettings,
    /// How often it was changed which fields are indexed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub index_generation: u32,
    /// Its aliases, with what each says of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<String, Alias>,
    /// The coprocessors that run with each write, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub triggers: BTreeMap<String, StoredTrigger>,
}

/// How a coprocessor is a trigger of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredTrigger {
    /// The version of the coprocessor.
    pub version: u32,
    /// The columns of a wide collection that it sees; all if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// Its argument, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument: Option<serde_json::Value>,
    /// The fuel of a call.
    pub fuel: u64,
    /// The most bytes of its memory.
    pub memory_bytes: usize,
    /// The most bytes that a call emits.
    pub output_bytes: usize,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Entry {
    /// The search index that its partitions are to have; `None` if no field is indexed.
    pub fn index(&self) -> Option<IndexSettings> {
        let fields = &self.settings.index;
        (!fields.is_none()).then(|| IndexSettings {
            generation: self.index_generation,
            fields: fields.clone(),
        })
    }

    /// The search index that each partition of a wide collection is to have, if any.
    pub fn wide_index(&self) -> Option<WideIndex> {
        let index = self.index()?;
        Some(WideIndex {
            settings: index,
            key_field: self.settings.key_field.clone(),
        })
    }
}

impl Catalog {
    /// The catalog of a new database: a random id, no collections.
    pub fn new(env: &dyn Env) -> Catalog {
        let mut random = [0; 8];
        env.random(&mut random);
        Catalog {
            number: 1,
            database: format!("{:016x}", u64::from_le_bytes(random)),
            volumes: 1,
            named_volumes: Vec::new(),
            next_collection: 1,
            collections: Vec::new(),
            templates: Templates::new(),
            coprocessors: BTreeMap::new(),
        }
    }

    /// The path of the file.
    pub fn path(root: &Path) -> PathBuf {
        root.join(CATALOG_NAME)
    }

    /// The path of the second copy.
    pub fn copy_path(root: &Path) -> PathBuf {
        root.join(CATALOG_COPY_NAME)
    }

    /// Whether there is a catalog, or its second copy.
    ///
    /// # Errors
    /// `Io`.
    pub fn exists(env: &dyn Env, root: &Path) -> Result<bool> {
        Ok(env.exists(&Catalog::path(root))? || env.exists(&Catalog::copy_path(root))?)
    }

    /// Reads the catalog: of its two copies the newer whole one.
    ///
    /// # Errors
    /// `Corrupt` if no copy is whole, or they are of two databases; `NotFound`; `Io`.
    pub fn read(env: &dyn Env, root: &Path) -> Result<Catalog> {
        FoundCatalog::read(env, root)?.newest()
    }

    fn read_copy(env: &dyn Env, path: PathBuf) -> Result<Catalog> {
        let bytes = env.read(&path, CATALOG_BYTES_MAX)?;
        Catalog::decode(&bytes).map_err(|what| Error::Catalog { path, what })
    }

    /// Replaces both copies. Durable when it returns.
    ///
    /// # Errors
    /// `TooLarge`: the old catalog is there. `Full` or `Io`: the old one or the new one is.
    pub fn write(&self, env: &dyn Env, root: &Path) -> Result<()> {
        assert!(
            self.check().is_ok(),
            "a catalog that is written can be read again"
        );
        let bytes = self.encode();
        if bytes.len() as u64 > CATALOG_BYTES_MAX {
            return Err(Error::CatalogTooLarge {
                bytes: bytes.len() as u64,
                bytes_max: CATALOG_BYTES_MAX,
            });
        }
        env.replace(&Catalog::path(root), &bytes)?;
        if !seeded(Bug::CatalogCopyStale) {
            env.replace(&Catalog::copy_path(root), &bytes)?;
        }
        Ok(())
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        seal(KIND, self.version(), &serde_json::json!(self).to_string())
    }

    /// What bytes of the file say.
    ///
    /// # Errors
    /// What is wrong, in words, if they are damaged or of another version.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Catalog, String> {
        let older = [
            VERSION_ONE_COPY,
            VERSION_NO_ALIASES,
            VERSION_NO_TEMPLATES,
            VERSION_NO_COPROCESSORS,
            VERSION_NO_TRIGGERS,
            VERSION_NO_SPLITS,
            VERSION_NO_WIDE_SPLITS,
            VERSION_NO_MERGES,
        ];
        let mut older = older.into_iter();
        let is_of = |version: &u32| bytes.starts_with(format!("{KIND} {version} ").as_bytes());
        let version = older.find(is_of).unwrap_or(VERSION);
        let json = unseal(KIND, version, "catalog", bytes)?;
        // The checksum is right: these are the bytes that some program wrote.
        let catalog: Catalog = serde_json::from_str(json).map_err(|error| {
            format!(
                "the catalog says what this program does not understand: {error}; use the one that \
                 wrote it, or a newer one"
            )
        })?;
        // The checksum is of the second line alone.
        if catalog.version() != version.max(VERSION_NO_ALIASES) {
            return Err(format!(
                "the catalog is damaged: version {version} is not its own"
            ));
        }
        let checked = catalog.check();
        checked.map_err(|what| format!("the catalog is damaged: {what}"))?;
        Ok(catalog)
    }

    /// The least version that a program must know to keep all that is there.
    fn version(&self) -> u32 {
        let mut before = self
            .collections
            .iter()
            .flat_map(|one| &one.partitions_before);
        if before.any(|before| matches!(before, Before::Merge(_))) {
            return VERSION;
        }
        let has_alias = self.collections.iter().any(|one| !one.aliases.is_empty());
        let is_wide = |one: &Entry| one.settings.wide.is_some();
        let mut wide = self.collections.iter().filter(|one| is_wide(one));
        if wide.any(|one| !one.aliases.is_empty() || one.origin.is_some()) {
            return VERSION_NO_MERGES;
        }
        if self.collections.iter().any(|one| one.origin.is_some()) {
            return VERSION_NO_WIDE_SPLITS;
        }
        if self.collections.iter().any(|one| !one.triggers.is_empty()) {
            return VERSION_NO_SPLITS;
        }
        if !self.named_volumes.is_empty() || !self.coprocessors.is_empty() {
            return VERSION_NO_TRIGGERS;
        }
        match (self.templates.is_empty(), has_alias) {
            (false, _) => VERSION_NO_COPROCESSORS,
            (true, true) => VERSION_NO_TEMPLATES,
            (true, false) => VERSION_NO_ALIASES,
        }
    }

    /// What a checksum does not say: that this is a catalog that could have been made.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> std::result::Result<(), String> {
        self.database_id().ok_or("bad database id")?;
        self.check_volumes()?;
        let mut ids = BTreeSet::new();
        for entry in &self.collections {
            let checked = check_name(&entry.name).and_then(|()| entry.settings.check());
            checked.map_err(|error| error.to_string())?;
            if entry.id >= self.next_collection || !ids.insert(entry.id) {
                return Err(format!("collection {:?} has a wrong id", entry.name));
            }
            if !is_history(&entry.partitions_before, entry.settings.partitions) {
                let name = &entry.name;
                return Err(format!("collection {name:?} never had such partitions"));
            }
        }
        self.check_triggers()?;
        self.check_aliases()
    }

    /// Checks that the code of each trigger is there.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn check_triggers(&self) -> std::result::Result<(), String> {
        for entry in &self.collections {
            for (name, trigger) in &entry.triggers {
                let stored = self.coprocessors.get(name);
                let has = stored.is_some_and(|one| one.versions.contains_key(&trigger.version));
                if !has {
                    let (version, collection) = (trigger.version, &entry.name);
                    return Err(format!(
                        "{name}/{version} is a trigger of collection {collection:?}: it can't be \
                         missing; detach it first"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks the rules that aliases keep.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn check_aliases(&self) -> std::result::Result<(), String> {
        let entries = self.collections.iter();
        let of_each = entries.map(|entry| (entry.name.as_str(), &entry.aliases));
        check_aliases(&of_each.collect::<Vec<_>>())
    }

    /// What bytes that may be damaged still say. Only a repair uses it.
    pub fn guess(bytes: &[u8]) -> Option<Catalog> {
        let json = bytes.splitn(2, |byte| *byte == b'\n').nth(1)?;
        let catalog: Catalog = serde_json::from_slice(json).ok()?;
        catalog.database_id().is_some().then_some(catalog)
    }

    fn database_id(&self) -> Option<u64> {
        u64::from_str_radix(&self.database, 16).ok()
    }

    /// The identity of a partition: database id, collection id and partition number.
    pub fn identity(&self, collection: u32, partition: u32) -> [u8; 16] {
        let mut identity = [0; 16];
        let parts = [
            &self.database_id().unwrap_or_default().to_le_bytes()[..],
            &collection.to_le_bytes(),
            &partition.to_le_bytes(),
        ];
        identity.copy_from_slice(&parts.concat());
        identity
    }

    /// The identity of a collection, which stays when it is split.
    pub fn identity_of(&self, entry: &Entry) -> [u8; 16] {
        self.identity(entry.origin.unwrap_or(entry.id), 0)
    }

    /// Collection and number of every partition, in order.
    pub fn partitions(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let entries = self.collections.iter();
        entries.flat_map(|entry| (0..entry.settings.partitions).map(|number| (entry.id, number)))
    }

    /// Whether the other has the same collections. (The next id may differ: it is spent by attempts
    /// that fail, too.)
    pub fn same_collections(&self, other: &Catalog) -> bool {
        self.collections == other.collections
    }

    /// Whether a follower with the other has all that a follower takes.
    pub(crate) fn is_followed_by(&self, other: &Catalog) -> bool {
        self.same_collections(other)
            && self.coprocessors == other.coprocessors
            && self.templates == other.templates
    }

    /// The names of the collections that are wide, or of those that are not, sorted.
    pub(crate) fn names(&self, wide: bool) -> Vec<String> {
        let entries = self.collections.iter();
        let entries = entries.filter(|entry| entry.settings.wide.is_some() == wide);
        let mut names: Vec<_> = entries.map(|entry| entry.name.clone()).collect();
        names.sort();
        names
    }

    /// The collection of this name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.collections.iter().find(|entry| entry.name == name)
    }

    /// What there is, in words, for the error about what there is not.
    pub fn existing(&self) -> String {
        match self.collections.as_slice() {
            [] => "it has none".to_string(),
            some => {
                let names: Vec<_> = some
                    .iter()
                    .take(20)
                    .map(|entry| entry.name.as_str())
                    .collect();
                format!(
                    "it has: {}{}",
                    names.join(", "),
                    if some.len() > 20 { ", …" } else { "" }
                )
            }
        }
    }
}

/// Both copies of a catalog, as they were found.
#[derive(Debug)]
pub struct FoundCatalog {
    root: PathBuf,
    first: Result<Catalog>,
    second: Result<Catalog>,
}

impl FoundCatalog {
    /// Reads both copies.
    ///
    /// # Errors
    /// Those of the machine, but for a file that is not there.
    pub fn read(env: &dyn Env, root: &Path) -> Result<FoundCatalog> {
        let read = |path| match Catalog::read_copy(env, path) {
            Err(Error::Env(error))
                if !matches!(
                    error.kind(),
                    EnvErrorKind::NotFound | EnvErrorKind::TooLarge | EnvErrorKind::UnexpectedEnd
                ) =>
            {
                Err(Error::Env(error))
            }
            read => Ok(read),
        };
        Ok(FoundCatalog {
            root: root.to_path_buf(),
            first: read(Catalog::path(root))?,
            second: read(Catalog::copy_path(root))?,
        })
    }

    /// The newer whole copy.
    ///
    /// # Errors
    /// What is wrong with the first, if neither is whole; `Corrupt` if they are of two databases.
    pub fn newest(self) -> Result<Catalog> {
        match (self.first, self.second) {
            (Ok(first), Ok(second)) if first.database != second.database => Err(Error::Catalog {
                path: self.root.join(CATALOG_NAME),
                what: format!(
                    "it is of database {}, and {CATALOG_COPY_NAME} beside it of {}: remove the one \
                     that does not belong here",
                    first.database, second.database
                ),
            }),
            (Ok(first), Ok(second)) if second.number > first.number => Ok(second),
            (Ok(first), _) => Ok(first),
            (Err(_), Ok(second)) => Ok(second),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Whether both copies say the same, so that nothing is to be written.
    pub fn is_settled(&self) -> bool {
        matches!((&self.first, &self.second), (Ok(first), Ok(second)) if first == second)
    }

    /// What is wrong with a copy while the other one is whole. One that is missing, or older, is
    /// not wrong: the next opening writes it.
    pub fn damage(&self) -> Option<(PathBuf, String)> {
        match (&self.first, &self.second) {
            (Err(Error::Catalog { path, what }), Ok(_))
            | (Ok(_), Err(Error::Catalog { path, what })) => Some((path.clone(), what.clone())),
            _ => None,
        }
    }
}

/// A collection's directory below each volume's.
pub fn collection_dir(id: u32) -> PathBuf {
    PathBuf::from(format!("c{id:08}"))
}

/// A partition's directory below each volume's.
pub fn partition_dir(id: u32, partition: u32) -> PathBuf {
    collection_dir(id).join(format!("p{partition:04}"))
}

/// The number in the name of a partition's directory.
pub fn parse_partition_dir(name: &str) -> Option<u32> {
    let number: u32 = name.strip_prefix('p')?.parse().ok()?;
    (format!("p{number:04}") == name).then_some(number)
}

/// The id in the name of a collection's directory.
pub fn parse_collection_dir(name: &str) -> Option<u32> {
    let id: u32 = name.strip_prefix('c')?.parse().ok()?;
    (collection_dir(id).to_str() == Some(name)).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partitions_before::{Mark, Merge};

    fn sample() -> Catalog {
        Catalog {
            number: 1,
            database: "00ff00ff00ff00ff".into(),
            volumes: 1,
            named_volumes: Vec::new(),
            next_collection: 3,
            collections: vec![Entry {
                origin: None,
                partitions_before: Vec::new(),
                id: 2,
                name: "jobs".into(),
                settings: CollectionSettings::default(),
                index_generation: 0,
                aliases: BTreeMap::new(),
                triggers: BTreeMap::new(),
            }],
            templates: Templates::new(),
            coprocessors: BTreeMap::new(),
        }
    }

    #[test]
    fn round_trips() {
        assert_eq!(Catalog::decode(&sample().encode()).unwrap(), sample());
    }

    #[test]
    fn a_catalog_that_could_not_be_read_again_is_not_written() {
        let (env, root) = (quire_env::SimEnv::new(1), Path::new("/db"));
        env.create_dir_all(root).unwrap();
        sample().write(&*env, root).unwrap();
        let mut large = sample();
        large.collections[0].name = "grown".into();
        let text = "a".repeat(CATALOG_BYTES_MAX as usize);
        large.templates.insert("large".into(), text.into());
        let error = large.write(&*env, root).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::TooLarge, "{error}");
        assert_eq!(Catalog::read(&*env, root).unwrap(), sample());
    }

    #[test]
    fn aliases_round_trip_in_a_version_that_older_programs_refuse() {
        let mut catalog = sample();
        assert!(catalog.encode().starts_with(b"quire-catalog 2 "));
        let alias = Alias {
            filter: Some(serde_json::json!({"term": {"a": 1}})),
            is_write_index: Some(true),
            index_routing: Some("1".into()),
            is_hidden: Some(true),
            ..Alias::default()
        };
        catalog.collections[0].aliases.insert("work".into(), alias);
        assert!(catalog.encode().starts_with(b"quire-catalog 3 "));
        assert_eq!(Catalog::decode(&catalog.encode()).unwrap(), catalog);
        let same_name = Alias::default();
        catalog.collections[0]
            .aliases
            .insert("jobs".into(), same_name);
        assert!(Catalog::decode(&catalog.encode()).is_err());
    }

    #[test]
    fn a_wide_collection_with_an_alias_or_a_split_has_a_version_that_older_programs_refuse() {
        let mut wide = sample();
        let schema = quire_wide::Schema::new().with_column("a", quire_wide::ColumnType::Int, "g");
        wide.collections[0].settings.wide = Some(schema.unwrap());
        wide.collections[0].settings.index = quire_collection::IndexedFields::none();
        assert!(wide.encode().starts_with(b"quire-catalog 2 "));
        let (mut aliased, mut split) = (wide.clone(), wide);
        let aliases = &mut aliased.collections[0].aliases;
        aliases.insert("work".into(), Alias::default());
        split.collections[0].origin = Some(0);
        for catalog in [aliased, split] {
            assert!(catalog.encode().starts_with(b"quire-catalog 8 "));
            assert_eq!(Catalog::decode(&catalog.encode()).unwrap(), catalog);
        }
    }

    #[test]
    fn what_was_before_a_merge_round_trips_in_a_version_that_older_programs_refuse() {
        let mut catalog = sample();
        let entry = &mut catalog.collections[0];
        entry.settings.partitions = 2;
        let mark = |seen: [u64; 2], at| Mark {
            seen: seen.to_vec(),
            at,
        };
        let merge = Merge {
            partitions: 4,
            base: 1000,
            marks: vec![vec![mark([3, 5], 1008), mark([4, 9], 1012)], Vec::new()],
        };
        entry.partitions_before = vec![Before::Split(1), Before::Merge(merge)];
        let bytes = catalog.encode();
        assert!(bytes.starts_with(b"quire-catalog 9 "));
        let says = br#"[1,{"partitions":4,"base":1000,"marks":[[{"seen":[3,5],"at":1008},"#;
        assert!(bytes.windows(says.len()).any(|window| window == says));
        assert_eq!(Catalog::decode(&bytes).unwrap(), catalog);
        let mut wrong = catalog.clone();
        wrong.collections[0].settings.partitions = 3;
        assert!(Catalog::decode(&wrong.encode()).is_err());
        let Some(Before::Merge(merge)) = catalog.collections[0].partitions_before.last_mut() else {
            panic!("it was merged");
        };
        merge.marks.pop();
        assert!(Catalog::decode(&catalog.encode()).is_err());
    }

    #[test]
    fn a_collection_without_a_stored_index_has_none() {
        let json = serde_json::json!(sample()).to_string();
        let old = json.replace(r#","index":"all""#, "");
        assert_ne!(old, json);
        let catalog = Catalog::decode(&seal(KIND, VERSION_NO_ALIASES, &old)).unwrap();
        assert!(catalog.collections[0].index().is_none());
        assert!(sample().collections[0].index().is_some());
    }

    #[test]
    fn collections_that_could_not_have_been_made_are_damage() {
        let mut catalog = sample();
        catalog.collections[0].settings.partitions = u32::MAX;
        assert!(Catalog::decode(&catalog.encode()).is_err());
        catalog = sample();
        catalog.collections[0].name = "../jobs".into();
        assert!(Catalog::decode(&catalog.encode()).is_err());
    }

    #[test]
    fn settings_of_a_newer_program_are_no_damage() {
        let bytes = String::from_utf8(sample().encode()).unwrap();
        let (_, json) = bytes.split_once('\n').unwrap();
        let newer = json.replacen("\"partitions\":", "\"of_tomorrow\":1,\"partitions\":", 1);
        assert_ne!(json, newer);
        let what = Catalog::decode(&seal(KIND, sample().version(), &newer)).unwrap_err();
        assert!(
            what.contains("of_tomorrow") && what.contains("newer"),
            "{what}"
        );
        assert!(!what.contains("damaged"), "{what}");
    }

    #[test]
    fn every_changed_bit_and_every_cut_is_an_error() {
        let mut aliased = sample();
        let aliases = &mut aliased.collections[0].aliases;
        aliases.insert("work".into(), Alias::default());
        for bytes in [sample().encode(), aliased.encode()] {
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << bit;
                    assert!(Catalog::decode(&damaged).is_err(), "byte {at}, bit {bit}");
                }
                assert!(Catalog::decode(&bytes[..at]).is_err(), "cut at {at}");
            }
        }
    }

    #[test]
    fn templates_round_trip_in_a_version_that_older_programs_refuse() {
        let mut catalog = sample();
        let template = serde_json::json!({"index_patterns": ["logs-*"]});
        catalog.templates.insert("index/logs".into(), template);
        let bytes = catalog.encode();
        assert!(bytes.starts_with(b"quire-catalog 4 "));
        assert_eq!(Catalog::decode(&bytes).unwrap(), catalog);
        let older = String::from_utf8(bytes).unwrap();
        let older = older.replacen("quire-catalog 4 ", "quire-catalog 3 ", 1);
        assert!(Catalog::decode(older.as_bytes()).is_err());
    }

    #[test]
    fn coprocessors_round_trip_in_a_version_that_older_programs_refuse() {
        let mut catalog = sample();
        let module = StoredModule {
            time_micros: 1,
            wasm: String::from("AGFzbQ==").into(),
        };
        let stored = StoredCoprocessor {
            next_version: 3,
            versions: BTreeMap::from([(2, module)]),
        };
        catalog.coprocessors.insert("cheap".into(), stored);
        let bytes = catalog.encode();
        assert!(bytes.starts_with(b"quire-catalog 5 "));
        assert_eq!(Catalog::decode(&bytes).unwrap(), catalog);
        let older = String::from_utf8(bytes).unwrap();
        let older = older.replacen("quire-catalog 5 ", "quire-catalog 4 ", 1);
        assert!(Catalog::decode(older.as_bytes()).is_err());
        let trigger = |version| StoredTrigger {
            version,
            columns: None,
            argument: Some(serde_json::json!({"day": 1})),
            fuel: 1,
            memory_bytes: 2,
            output_bytes: 3,
        };
        let triggers = |version| BTreeMap::from([("cheap".to_string(), trigger(version))]);
        catalog.collections[0].triggers = triggers(2);
        let bytes = catalog.encode();
        assert!(bytes.starts_with(b"quire-catalog 6 "));
        assert_eq!(Catalog::decode(&bytes).unwrap(), catalog);
        catalog.collections[0].triggers = triggers(1);
        assert!(Catalog::decode(&catalog.encode()).is_err());
    }

    #[test]
    fn the_newer_whole_copy_counts_and_two_databases_are_told() {
        let env = quire_env::SimEnv::new(1);
        let root = Path::new("/db");
        env.create_dir_all(root).unwrap();
        let (old, new) = (
            sample(),
            Catalog {
                number: 2,
                ..sample()
            },
        );
        let put = |first: &[u8], second: &[u8]| {
            env.replace(&Catalog::path(root), first).unwrap();
            env.replace(&Catalog::copy_path(root), second).unwrap();
        };
        put(&old.encode(), &new.encode());
        assert_eq!(Catalog::read(&*env, root).unwrap(), new);
        assert!(!FoundCatalog::read(&*env, root).unwrap().is_settled());
        put(&new.encode(), b"rot");
        assert_eq!(Catalog::read(&*env, root).unwrap(), new);
        let found = FoundCatalog::read(&*env, root).unwrap();
        assert_eq!(found.damage().unwrap().0, Catalog::copy_path(root));
        let other = Catalog {
            database: "11".repeat(8),
            ..sample()
        };
        put(&old.encode(), &other.encode());
        let error = Catalog::read(&*env, root).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Corrupt);
        put(b"rot", b"rot");
        assert!(Catalog::read(&*env, root).is_err());
    }

    #[test]
    fn a_catalog_of_one_copy_is_read() {
        let text = String::from_utf8(sample().encode()).unwrap();
        let json = text
            .split_once('\n')
            .unwrap()
            .1
            .replace("\"number\":1,", "");
        let catalog = Catalog::decode(&seal(KIND, VERSION_ONE_COPY, &json)).unwrap();
        assert_eq!(
            catalog,
            Catalog {
                number: 0,
                ..sample()
            }
        );
    }

    #[test]
    fn directories_are_named_and_recognised() {
        assert_eq!(partition_dir(7, 3), Path::new("c00000007/p0003"));
        assert_eq!(parse_collection_dir("c00000007"), Some(7));
        for name in ["c7", "c0000000x", "x00000007", "c"] {
            assert_eq!(parse_collection_dir(name), None, "{name}");
        }
    }
}
