//! Damaged bytes are never served: every byte of every file of a small database is changed in turn.

use quiredb::{
    Collection, CollectionSettings, Database, DatabaseBuilder, Document, Durability, ErrorKind,
    IndexedFields, Key, Result, SimEnv, Volumes, Write,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Model = BTreeMap<Key, Document>;

fn volumes() -> Volumes {
    Volumes::single("/db")
}

fn open(env: &Arc<SimEnv>) -> Result<Database> {
    DatabaseBuilder::on(&volumes()).env(env.clone()).open()
}

fn collection(database: &Database) -> Result<Collection> {
    let settings = || CollectionSettings {
        partitions: 2,
        // `live_index` damages those.
        index: IndexedFields::none(),
        ..CollectionSettings::default()
    };
    database.collection_or_create("letters", settings)
}

/// A database with tables of several runs and a log, closed; and what it holds.
fn database() -> (Arc<SimEnv>, Model) {
    database_of("letter")
}

/// As [`database`], of other texts, so that it is another database.
fn database_of(word: &str) -> (Arc<SimEnv>, Model) {
    let env = SimEnv::new(word.len() as u64);
    let mut model = Model::new();
    {
        let database = open(&env).unwrap();
        let letters = collection(&database).unwrap();
        for number in 0..24u32 {
            let key = Key::from(number % 17);
            let text = format!(
                r#"{{"n":{number},"text":"{word} {number}, with some text to fill a line"}}"#
            );
            let document = Document::from_json(text.as_bytes()).unwrap();
            letters
                .batch()
                .writes(vec![Write::put(key.clone(), document.clone())])
                .durability(Durability::None)
                .write();
            model.insert(key, document);
            if number % 7 == 3 {
                letters.flush().unwrap();
            }
        }
        letters.delete(&Key::from(3)).unwrap();
        model.remove(&Key::from(3));
        database.close().unwrap();
    }
    (env, model)
}

/// Whether there is an answer. If not, the error must report damage, with its place.
fn answered<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(answer) => Some(answer),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains("/db/"), "which file? {error}");
            None
        }
    }
}

/// Reads everything in every way. Every answer is right, or an error. Returns whether there was no
/// error.
fn is_right_or_refused(env: &Arc<SimEnv>, model: &Model) -> bool {
    let Some(database) = answered(open(env)) else {
        return false;
    };
    let Some(letters) = answered(database.collection("letters")) else {
        return false;
    };
    let mut whole = true;
    for number in 0..20u32 {
        let key = Key::from(number);
        match answered(letters.get(&key)) {
            Some(found) => assert_eq!(
                found.map(|found| found.document).as_ref(),
                model.get(&key),
                "key {key}"
            ),
            None => whole = false,
        }
    }
    let scanned = letters
        .scan(..)
        .and_then(Iterator::collect::<Result<Vec<_>>>);
    match answered(scanned) {
        Some(found) => {
            let found: Model = found
                .into_iter()
                .map(|found| (found.key, found.document))
                .collect();
            assert_eq!(&found, model, "scan");
        }
        None => whole = false,
    }
    match answered(letters.count()) {
        Some(count) => assert_eq!(count, model.len() as u64),
        None => whole = false,
    }
    whole
}

fn verify(env: &Arc<SimEnv>) -> quiredb::operations::VerifyReport {
    quiredb::operations::verify(env.clone(), volumes(), &Default::default(), &mut |_, _| {})
        .unwrap()
}

/// Whether the report names the file, or its directory (for a missing file).
fn names(report: &quiredb::operations::VerifyReport, file: &Path) -> bool {
    report
        .damage
        .iter()
        .any(|damage| file.starts_with(&damage.file))
}

/// Whether the file says what others say too: nothing is lost with it alone.
fn is_spare(path: &Path) -> bool {
    ["CATALOG", "CATALOG-2", "END"]
        .iter()
        .any(|name| path.ends_with(name))
}

/// Files that hold data: the lock file has none.
fn files(env: &SimEnv) -> Vec<PathBuf> {
    let files = env
        .files()
        .into_iter()
        .filter(|path| !env.read_all(path).unwrap().is_empty());
    files.collect()
}

/// Whether the file is of a log: these were closed, so a damaged footer is named though all records
/// are there.
fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

/// Checks one kind of damage to one file: never a wrong answer, and verify names the file, unless
/// nothing is lost by it.
fn check(env: &Arc<SimEnv>, model: &Model, path: &Path, damage: &dyn Fn(&SimEnv), what: &str) {
    let damaged = env.after_crash(1);
    damage(&damaged);
    // A machine of its own: opening a database may repair what is not damage to a record.
    let whole = is_right_or_refused(&damaged.after_crash(1), model);
    let report = verify(&damaged);
    let is_complete = report.damage.is_empty() && report.documents == model.len() as u64;
    let harmless = whole && is_complete && !is_log(path);
    assert!(
        names(&report, path) || harmless,
        "{} {what}: {whole} {report:?}",
        path.display()
    );
}

#[test]
pub(crate) fn a_changed_bit_in_any_byte_is_found_and_never_served() {
    let (env, model) = database();
    assert!(is_right_or_refused(&env.after_crash(1), &model));
    assert_eq!(verify(&env.after_crash(1)).damage, []);
    let mut changed = 0;
    for path in files(&env) {
        for byte in 0..env.read_all(&path).unwrap().len() as u64 {
            let flip = |env: &SimEnv| env.flip_bit(&path, byte * 8 + byte % 8).unwrap();
            check(&env, &model, &path, &flip, &format!("byte {byte}"));
            changed += 1;
        }
    }
    assert!(changed > 3_500, "{changed} bytes in {:?}", files(&env));
}

#[test]
pub(crate) fn a_file_that_is_cut_or_missing_is_an_error_and_never_a_wrong_answer() {
    let (env, model) = database();
    for path in files(&env) {
        let length = env.read_all(&path).unwrap().len() as u64;
        for cut in (0..length).step_by(7) {
            let truncate = |env: &SimEnv| env.truncate_file(&path, cut).unwrap();
            check(&env, &model, &path, &truncate, &format!("cut at {cut}"));
        }
        let damaged = env.after_crash(1);
        quiredb::Env::remove(damaged.as_ref(), &path).unwrap();
        let whole = is_right_or_refused(&damaged.after_crash(1), &model);
        if is_spare(&path) {
            assert!(whole, "{} is missing", path.display());
            continue;
        }
        assert!(!whole, "{} is missing", path.display());
        assert!(
            !verify(&damaged).damage.is_empty(),
            "{} is missing",
            path.display()
        );
    }
}

#[test]
pub(crate) fn a_file_of_another_database_is_told_and_never_served() {
    let (env, model) = database();
    let (other, _) = database_of("postcard");
    let mut exchanged = 0;
    for path in files(&env) {
        let Ok(bytes) = other.read_all(&path) else {
            continue;
        };
        if path.starts_with("/db/CATALOG") || path.ends_with("CATALOG-2") {
            // Which of the two copies belongs here is not known.
            let exchanged = env.after_crash(1);
            quiredb::Env::replace(exchanged.as_ref(), &path, &bytes).unwrap();
            assert!(!is_right_or_refused(&exchanged, &model));
            continue;
        }
        let exchange = |env: &SimEnv| {
            quiredb::Env::replace(env, &path, &bytes).unwrap();
        };
        check(&env, &model, &path, &exchange, "of another database");
        exchanged += 1;
    }
    assert!(exchanged > 5, "{exchanged} files of {:?}", files(&env));
}

#[test]
pub(crate) fn damage_to_a_log_that_was_not_closed_is_told_from_a_torn_tail() {
    damage_to_an_open_log(false);
}

/// What a later block proves durable, without the end-of-log record.
#[test]
pub(crate) fn damage_before_the_last_write_is_told_from_a_torn_tail() {
    damage_to_an_open_log(true);
}

/// Changes each byte of the log of a database that was not closed. `but_last`: the last write may
/// be lost.
fn damage_to_an_open_log(but_last: bool) {
    let env = SimEnv::new(1);
    let database = open(&env).unwrap();
    let settings = || CollectionSettings {
        partitions: 1,
        ..CollectionSettings::default()
    };
    let letters = database.collection_or_create("letters", settings).unwrap();
    let (mut before, mut last) = (Model::new(), Model::new());
    for number in 0..8u32 {
        before = last.clone();
        let document = Document::from_json(format!(r#"{{"n":{number}}}"#).as_bytes()).unwrap();
        letters.put_at(&Key::from(number % 5), &document).unwrap();
        last.insert(Key::from(number % 5), document);
    }
    // A power cut.
    let left = env.after_crash(1);
    let mut found = 0;
    for path in files(&left).into_iter().filter(|path| is_log(path)) {
        for byte in 0..left.read_all(&path).unwrap().len() as u64 {
            let damaged = left.after_crash(1);
            damaged.flip_bit(&path, byte * 8 + byte % 8).unwrap();
            let letters = answered(open(&damaged)).and_then(|database| {
                let letters = answered(database.collection("letters"))?;
                Some((database, letters))
            });
            let Some((_database, letters)) = letters else {
                found += 1;
                continue;
            };
            let documents = letters.scan(..).unwrap();
            let documents = documents.map(|found| found.map(|found| (found.key, found.document)));
            let documents: Model = documents.collect::<Result<_>>().unwrap();
            if !(but_last && documents == before) {
                assert_eq!(documents, last, "byte {byte}: acknowledged under sync");
            }
        }
    }
    assert!(found > 100, "{found} found");
}

#[test]
pub(crate) fn a_damaged_copy_of_the_catalog_costs_nothing() {
    let env = SimEnv::new(2);
    let database = open(&env).unwrap();
    let names = ["a", "b", "c"];
    for name in names {
        let settings = CollectionSettings::default();
        database.create_collection(name, settings).unwrap();
    }
    database.drop_collection("b").unwrap();
    let left = env.after_crash(1);
    for name in ["CATALOG", "CATALOG-2"] {
        let path = Path::new("/db").join(name);
        for byte in 0..left.read_all(&path).unwrap().len() as u64 {
            let damaged = left.after_crash(1);
            damaged.flip_bit(&path, byte * 8 + byte % 8).unwrap();
            assert!(
                names_of_damage(&damaged).contains(&path),
                "{name}, byte {byte}"
            );
            let database = open(&damaged).unwrap();
            assert_eq!(database.collections(), ["a", "c"], "{name}, byte {byte}");
            drop(database);
            assert_eq!(
                names_of_damage(&damaged),
                [] as [PathBuf; 0],
                "opening repairs it"
            );
        }
    }
}

fn names_of_damage(env: &Arc<SimEnv>) -> Vec<PathBuf> {
    let damage = verify(env).damage.into_iter();
    damage.map(|damage| PathBuf::from(damage.file)).collect()
}
