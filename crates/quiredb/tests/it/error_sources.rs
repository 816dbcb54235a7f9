//! An error leads to its cause: the file and the offset of damage, whatever read it.

use quiredb::operations::{FreezeOptions, FrozenView, freeze};
use quiredb::query::{Options, field, find, find_all};
use quiredb::{
    Collection, CollectionSettings, Database, Document, Env, Error, ErrorKind, Key, SimEnv,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DOCUMENTS: u32 = 300;

fn open(env: &Arc<SimEnv>) -> (Database, Collection) {
    let database = Database::builder("/db").env(env.clone()).open().unwrap();
    let settings = || CollectionSettings {
        partitions: 1,
        ..CollectionSettings::default()
    };
    let notes = database.collection_or_create("notes", settings).unwrap();
    (database, notes)
}

/// A machine with a flushed database, and what a view of it was frozen to.
fn written() -> Arc<SimEnv> {
    let env = SimEnv::new(3);
    let (database, notes) = open(&env);
    let mut batch = notes.batch();
    for n in 0..DOCUMENTS {
        let text = format!("{:x}", u64::from(n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let json = format!(r#"{{"_id":{n},"n":{n},"text":"{}"}}"#, text.repeat(10));
        batch
            .put(&Document::from_json(json.as_bytes()).unwrap())
            .unwrap();
    }
    for result in batch.write() {
        result.unwrap();
    }
    notes.flush().unwrap();
    let (view, path) = (notes.view().unwrap(), Path::new("/notes.quire"));
    let options = FreezeOptions {
        long_text: true,
        ..FreezeOptions::default()
    };
    freeze(&view, path, &options, &mut |_| {}).unwrap();
    drop(view);
    database.close().unwrap();
    env
}

/// Each cause of an error, the error itself first.
fn chain(error: &Error) -> Vec<&(dyn std::error::Error + 'static)> {
    let mut chain: Vec<&(dyn std::error::Error + 'static)> = vec![error];
    while let Some(cause) = chain.last().and_then(|last| last.source()) {
        chain.push(cause);
    }
    chain
}

/// Flips a bit in each of a file's blocks in turn, until `read` fails; gives its error.
fn first_failure(file: &Path, read: impl Fn(&Arc<SimEnv>) -> Result<(), Error>) -> Error {
    let template = written();
    let bytes = template.read(file, 1 << 30).unwrap().len() as u64;
    let places = (64..bytes).step_by(500);
    let failures = places.filter_map(|at| {
        let env = template.after_crash(1);
        env.flip_bit(file, at * 8).unwrap();
        read(&env).err()
    });
    let mut damage = failures.filter(|error| error.kind() == ErrorKind::Corrupt);
    damage.next().unwrap()
}

fn file_with(suffix: &str, bytes_min: u64) -> PathBuf {
    let env = written();
    let mut files = env.files().into_iter();
    let wanted = |file: &PathBuf| {
        file.to_string_lossy().ends_with(suffix)
            && env.read(file, 1 << 30).unwrap().len() as u64 > bytes_min
    };
    files.find(wanted).unwrap()
}

/// The deepest cause names the file and an offset, and the whole error says so too.
fn assert_names(error: &Error, file: &Path) {
    let chain = chain(error);
    assert!(chain.len() > 1, "{error:?}");
    let (file, cause) = (
        file.display().to_string(),
        chain.last().unwrap().to_string(),
    );
    for text in [error.to_string(), cause] {
        assert!(text.contains(&file) && text.contains("byte"), "{text}");
    }
}

fn get_all(env: &Arc<SimEnv>) -> Result<(), Error> {
    let (_database, notes) = open_damaged(env)?;
    (0..DOCUMENTS).try_for_each(|n| notes.get(&Key::from(n)).map(drop))
}

fn query_all(env: &Arc<SimEnv>) -> Result<(), Error> {
    let (_database, notes) = open_damaged(env)?;
    notes.query(find(field("n").gt(-1)).with_count()).map(drop)
}

fn open_damaged(env: &Arc<SimEnv>) -> Result<(Database, Collection), Error> {
    let database = Database::builder("/db").env(env.clone()).open()?;
    let notes = database.collection("notes")?;
    Ok((database, notes))
}

#[test]
fn a_damaged_log_is_named_by_gets_and_queries() {
    let log = file_with(".log", 1000);
    for read in [get_all, query_all] {
        let error = first_failure(&log, read);
        assert_names(&error, &log);
        let found = chain(&error).into_iter();
        let mut found = found.filter_map(|cause| cause.downcast_ref::<quire_log::Error>());
        let found = found.next().unwrap();
        assert!(
            matches!(found, quire_log::Error::Corrupt { path, offset, .. }
            if *path == log && *offset > 0)
        );
    }
}

#[test]
fn a_damaged_table_is_named_by_gets() {
    let table = file_with(".table", 1000);
    let error = first_failure(&table, get_all);
    assert_names(&error, &table);
    let found = chain(&error).into_iter();
    let mut found = found.filter_map(|cause| cause.downcast_ref::<quire_lsm::Error>());
    assert!(
        matches!(found.next().unwrap(), quire_lsm::Error::Corrupt { path, .. }
        if *path == table)
    );
}

#[test]
fn a_damaged_frozen_file_is_named_by_queries_and_documents() {
    let file = Path::new("/notes.quire");
    let open = |env: &Arc<SimEnv>| {
        let env: Arc<dyn Env> = env.clone();
        FrozenView::open(&env, file)
    };
    let of_query = |env: &Arc<SimEnv>| {
        let frozen = match open(env) {
            Ok(frozen) => frozen,
            // Damage that shows at opening is another case.
            Err(_) => return Ok(()),
        };
        let query = find(field("n").gt(5)).order_by(field("text").ascending());
        frozen
            .query(&query.prepare()?, &Options::default())
            .map(drop)
    };
    let error = first_failure(file, of_query);
    assert!(matches!(error, Error::Query(_)), "{error:?}");
    assert_names(&error, file);

    let of_documents = |env: &Arc<SimEnv>| {
        let frozen = open(env)?;
        let answer = frozen.query(&find_all().prepare()?, &Options::default())?;
        frozen.documents(&answer.hits).map(drop)
    };
    let error = first_failure(file, of_documents);
    assert_names(&error, file);
}
