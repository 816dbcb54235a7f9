//! Damaged bytes are never served: every byte of every file of a small database is changed in turn.

use quiredb::{
    Collection, CollectionSettings, Database, Document, Durability, Key, Options, Result, SimEnv,
    Volumes, Write,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Model = BTreeMap<Key, Document>;

fn volumes() -> Volumes {
    Volumes::single("/db")
}

fn open(env: &Arc<SimEnv>) -> Result<Database> {
    Database::open_with(env.clone(), volumes(), Options::default())
}

fn collection(database: &Database) -> Result<Collection> {
    let settings = || CollectionSettings {
        partitions: 2,
        ..CollectionSettings::default()
    };
    database.collection_or_create("letters", settings)
}

/// A database with tables of several runs and a log, closed; and what it holds.
fn database() -> (Arc<SimEnv>, Model) {
    let env = SimEnv::new(5);
    let mut model = Model::new();
    {
        let database = open(&env).unwrap();
        let letters = collection(&database).unwrap();
        for number in 0..24u32 {
            let key = Key::from(number % 17);
            let text = format!(
                r#"{{"n":{number},"text":"letter {number}, with some text to fill a line"}}"#
            );
            let document = Document::from_json(text.as_bytes()).unwrap();
            letters.write_batch(
                vec![Write::put(key.clone(), document.clone())],
                Some(Durability::None),
            );
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

/// Reads everything in every way. Whatever is answered is right; an error is an error. Whether there was one.
fn is_right_or_refused(env: &Arc<SimEnv>, model: &Model) -> bool {
    let Ok(database) = open(env) else {
        return false;
    };
    let Ok(letters) = database.collection("letters") else {
        return false;
    };
    let mut whole = true;
    for number in 0..20u32 {
        let key = Key::from(number);
        match letters.get(&key) {
            Ok(found) => assert_eq!(
                found.map(|found| found.document).as_ref(),
                model.get(&key),
                "key {key}"
            ),
            Err(_) => whole = false,
        }
    }
    match letters.scan(..).map(Iterator::collect::<Result<Vec<_>>>) {
        Ok(Ok(found)) => {
            let found: Model = found
                .into_iter()
                .map(|found| (found.key, found.document))
                .collect();
            assert_eq!(&found, model, "scan");
        }
        _ => whole = false,
    }
    match letters.count() {
        Ok(count) => assert_eq!(count, model.len() as u64),
        Err(_) => whole = false,
    }
    whole
}

fn verify(env: &Arc<SimEnv>) -> quiredb::VerifyReport {
    quiredb::verify(env.clone(), volumes(), &mut |_, _| {}).unwrap()
}

/// Whether the report names the file, or the directory it is in (where the file is what should be there).
fn names(report: &quiredb::VerifyReport, file: &Path) -> bool {
    report
        .damage
        .iter()
        .any(|damage| file.starts_with(&damage.file))
}

/// Files that hold data: the lock file has none.
fn files(env: &SimEnv) -> Vec<PathBuf> {
    let files = env
        .files()
        .into_iter()
        .filter(|path| !env.read_all(path).unwrap().is_empty());
    files.collect()
}

/// Checks one kind of damage to one file: never a wrong answer, and verify names the file, unless nothing is lost by it
/// (a log whose footer was damaged is like one that was not closed: all its records are there).
fn check(env: &Arc<SimEnv>, model: &Model, path: &Path, damage: &dyn Fn(&SimEnv), what: &str) {
    let damaged = env.after_crash(1);
    damage(&damaged);
    // A machine of its own: opening a database may mend what is not damage to a record.
    let whole = is_right_or_refused(&damaged.after_crash(1), model);
    let report = verify(&damaged);
    let harmless = whole && report.damage.is_empty() && report.documents == model.len() as u64;
    assert!(
        names(&report, path) || harmless,
        "{} {what}: {whole} {report:?}",
        path.display()
    );
}

#[test]
fn a_changed_bit_in_any_byte_is_found_and_never_served() {
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
    assert!(changed > 4_000, "{changed} bytes in {:?}", files(&env));
}

#[test]
fn a_file_that_is_cut_or_missing_is_an_error_and_never_a_wrong_answer() {
    let (env, model) = database();
    for path in files(&env) {
        let length = env.read_all(&path).unwrap().len() as u64;
        for cut in (0..length).step_by(7) {
            let truncate = |env: &SimEnv| env.truncate_file(&path, cut).unwrap();
            check(&env, &model, &path, &truncate, &format!("cut at {cut}"));
        }
        if path.ends_with("CATALOG") {
            // Without its catalog a directory is no database, and is refused as a foreign one.
            continue;
        }
        let damaged = env.after_crash(1);
        quiredb::Env::remove(damaged.as_ref(), &path).unwrap();
        let whole = is_right_or_refused(&damaged.after_crash(1), &model);
        assert!(!whole, "{} is missing", path.display());
        assert!(
            !verify(&damaged).damage.is_empty(),
            "{} is missing",
            path.display()
        );
    }
}
