//! Damage to the files of an index: it is never served, and documents answer until the index is
//! built anew, which happens by itself.

use super::text::Text;
use super::world::{Model, index_stats, open, settle, verify};
use quiredb::operations::{
    BackupOptions, VerifyOptions, VerifyReport, backup, restore, verify as verify_closed,
    verify_open,
};
use quiredb::{Collection, CollectionSettings, Database, Document, Env, IndexedFields, Key};
use quiredb::{SimEnv, Volumes};
use std::ops::ControlFlow::Continue;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A closed database whose index is complete and on the disk.
struct Indexed {
    env: Arc<SimEnv>,
    model: Model,
    text: Text,
    /// The table files of the index.
    files: Vec<PathBuf>,
}

fn tables(env: &SimEnv) -> Vec<PathBuf> {
    let files = env.files().into_iter();
    let is_table = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "tables");
    files.filter(is_table).collect()
}

impl Indexed {
    fn new(documents: u32) -> Indexed {
        let env = SimEnv::new(3);
        let database = open(&env, "/db").unwrap();
        let settings = CollectionSettings {
            partitions: 1,
            index: IndexedFields::none(),
            ..CollectionSettings::default()
        };
        let collection = database.create_collection("c", settings.clone()).unwrap();
        for n in 0..documents {
            let long = "x".repeat(n as usize % 300);
            let json = format!(
                r#"{{"mark":"m{}","price":{},"tags":["{long}",{n}],"nested":{{"a":{n}}}}}"#,
                n % 3,
                n % 7
            );
            let document = Document::from_json(json.as_bytes()).unwrap();
            collection.put_at(&Key::from(n), &document).unwrap();
        }
        database.flush().unwrap();
        settle(&env);
        let before = tables(&env);
        let settings = CollectionSettings {
            index: IndexedFields::all(),
            ..settings
        };
        database.change_settings("c", settings).unwrap();
        settle(&env);
        assert!(index_stats(&collection).unwrap().complete);
        let model = Model::of_view(&collection.view().unwrap());
        database.close().unwrap();
        let files = tables(&env).into_iter();
        let files: Vec<_> = files.filter(|path| !before.contains(path)).collect();
        assert!(!files.is_empty());
        Indexed {
            env,
            model,
            text: Text::of_seed(3),
            files,
        }
    }

    /// Another machine with the same files.
    fn copy(&self) -> Arc<SimEnv> {
        self.env.after_crash(1)
    }

    fn open(&self, env: &Arc<SimEnv>) -> (Database, Collection) {
        let database = open(env, "/db").unwrap();
        let collection = database.collection("c").unwrap();
        (database, collection)
    }

    fn check(&self, collection: &Collection, what: &str) {
        let view = collection.view().unwrap();
        for query in self.text.all_queries() {
            self.model.check(&view, query, what);
        }
    }

    /// The answers are right, and after a while the index is whole and complete.
    fn check_recovery(&self, env: &Arc<SimEnv>, what: &str) {
        let (database, collection) = self.open(env);
        self.check(&collection, what);
        settle(env);
        self.check(&collection, what);
        let index = index_stats(&collection).unwrap();
        assert!(index.complete, "{what}: {index:?}");
        if index.rebuilt > 0 {
            let why = index.rebuilt_why.unwrap();
            assert!(why.contains("/db/"), "{what}: which file? {why}");
        }
        database.close().unwrap();
    }
}

fn verified(env: &Arc<SimEnv>) -> VerifyReport {
    let volumes = Volumes::single("/db");
    verify_closed(env.clone(), volumes, &Default::default(), &mut |_, _| {}).unwrap()
}

fn flip(env: &SimEnv, path: &Path, byte: u64) {
    env.flip_bit(path, byte * 8 + byte % 8).unwrap();
}

#[test]
pub(crate) fn a_changed_bit_in_any_byte_of_an_index_is_never_served_and_the_index_is_built_anew() {
    let indexed = Indexed::new(40);
    let mut rebuilt = 0;
    for path in &indexed.files {
        let bytes = indexed.env.read_all(path).unwrap().len() as u64;
        for byte in (0..bytes).step_by(5) {
            let what = format!("byte {byte} of {}", path.display());
            let env = indexed.copy();
            flip(&env, path, byte);
            let report = verified(&env.after_crash(1));
            let file = path.display().to_string();
            assert!(report.damage.iter().all(|one| one.file == file), "{what}");
            assert_eq!(report.damage.len(), 1, "{what}");
            indexed.check_recovery(&env, &what);
            rebuilt += 1;
        }
    }
    assert!(rebuilt > 100, "{rebuilt}");
}

#[test]
fn an_index_whose_file_is_cut_or_missing_is_built_anew() {
    let indexed = Indexed::new(40);
    for path in &indexed.files {
        let bytes = indexed.env.read_all(path).unwrap().len() as u64;
        for cut in (0..bytes).step_by(61) {
            let env = indexed.copy();
            env.truncate_file(path, cut).unwrap();
            indexed.check_recovery(&env, &format!("{} cut at {cut}", path.display()));
            assert_eq!(verified(&env).damage, []);
        }
        let env = indexed.copy();
        Env::remove(env.as_ref(), path).unwrap();
        indexed.check_recovery(&env, "a file is missing");
        assert_eq!(verified(&env).damage, []);
    }
}

/// A database that is open, whose index was damaged since; nothing of it was read yet.
fn damaged_while_open(indexed: &Indexed) -> (Arc<SimEnv>, Database, Collection) {
    let env = indexed.copy();
    let (database, collection) = indexed.open(&env);
    let path = indexed.files.last().unwrap();
    flip(&env, path, 20);
    (env, database, collection)
}

fn assert_rebuilt(indexed: &Indexed, env: &SimEnv, database: &Database, collection: &Collection) {
    settle(env);
    let index = index_stats(collection).unwrap();
    assert!(index.complete && index.rebuilt == 1, "{index:?}");
    let path = indexed.files.last().unwrap().display().to_string();
    assert!(index.rebuilt_why.unwrap().contains(&path));
    indexed.check(collection, "built anew");
    verify(database, "built anew");
}

#[test]
pub(crate) fn damage_that_a_query_finds_has_the_index_built_anew() {
    let indexed = Indexed::new(300);
    let (env, database, collection) = damaged_while_open(&indexed);
    let view = collection.view().unwrap();
    indexed.check(&collection, "damaged");
    let index = index_stats(&collection).unwrap();
    assert!(!index.complete && index.rebuilt == 1, "{index:?}");
    assert_rebuilt(&indexed, &env, &database, &collection);
    // A view from before has the damaged index still, and does not harm the new one.
    for query in indexed.text.all_queries() {
        indexed.model.check(&view, query, "a view from before");
    }
    drop(view);
    assert_eq!(index_stats(&collection).unwrap().rebuilt, 1);
}

#[test]
fn damage_that_a_compaction_finds_has_the_index_built_anew() {
    let indexed = Indexed::new(300);
    let (env, database, collection) = damaged_while_open(&indexed);
    let key = Key::from(0);
    let document = collection.get(&key).unwrap().unwrap().document;
    let other = Document::from_json(br#"{"mark":"other"}"#).unwrap();
    collection.put_at(&key, &other).unwrap();
    collection.flush().unwrap();
    collection.put_at(&key, &document).unwrap();
    collection.compact().unwrap();
    assert_rebuilt(&indexed, &env, &database, &collection);
}

#[test]
fn damage_that_a_verification_finds_is_reported_and_the_index_built_anew() {
    let indexed = Indexed::new(300);
    let (env, database, collection) = damaged_while_open(&indexed);
    let report = verify_open(&database, &VerifyOptions::default(), &mut |_, _| {
        Continue(())
    });
    let damage = report.unwrap().damage;
    let path = indexed.files.last().unwrap().display().to_string();
    assert!(damage.iter().all(|one| one.file == path), "{damage:?}");
    assert_eq!(damage.len(), 1);
    assert_rebuilt(&indexed, &env, &database, &collection);
}

#[test]
fn a_backup_that_finds_a_damaged_index_has_all_the_rest() {
    let indexed = Indexed::new(300);
    let (env, database, collection) = damaged_while_open(&indexed);
    let (to, proceed) = (Path::new("/backup"), &mut |_, _| Continue(()));
    backup(&database, to, &BackupOptions::default(), proceed).unwrap();
    let volumes = Volumes::single("/restored");
    restore(env.clone(), to, None, &volumes, &mut |_, _| {}).unwrap();
    assert_rebuilt(&indexed, &env, &database, &collection);
    let restored = open(&env, "/restored").unwrap();
    indexed.check(&restored.collection("c").unwrap(), "restored");
    settle(&env);
    let index = index_stats(&restored.collection("c").unwrap()).unwrap();
    assert!(index.complete && index.rebuilt == 0, "{index:?}");
    verify(&restored, "restored");
}

#[test]
fn verify_names_what_an_index_says_otherwise_than_the_documents_and_has_it_built_anew() {
    let indexed = Indexed::new(20);
    let env = indexed.copy();
    let (database, collection) = indexed.open(&env);
    {
        let _seeded = quire_seeded::seed_bug(quire_seeded::Bug::OldValueKept);
        let patch = Document::from_json(br#"{"mark":"new"}"#).unwrap();
        collection.patch(&Key::from(7), &patch).unwrap();
        settle(&env);
    }
    let report = verify_open(&database, &VerifyOptions::default(), &mut |_, _| {
        Continue(())
    });
    let damage = report.unwrap().damage;
    let [found] = damage.as_slice() else {
        panic!("{damage:?}")
    };
    assert!(found.what.contains("document number 7"), "{found:?}");
    assert!(
        found.what.contains("\"mark\"") && found.what.contains("m1"),
        "{found:?}"
    );
    settle(&env);
    let index = index_stats(&collection).unwrap();
    assert!(index.complete && index.rebuilt == 1, "{index:?}");
    verify(&database, "built anew");
}
