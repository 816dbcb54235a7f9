//! Verification of a database while it is written and read.

use quiredb::operations::{VerifyOptions, verify_open};
use quiredb::{
    Collection, CollectionSettings, Database, DatabaseOptions, Document, Env, ErrorKind, Key,
    SimEnv,
};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn open(env: &Arc<SimEnv>) -> (Database, Collection) {
    let options = DatabaseOptions {
        segment_bytes: 2000,
        ..DatabaseOptions::default()
    };
    let database = Database::builder("/db")
        .env(env.clone())
        .options(options)
        .open()
        .unwrap();
    let settings = || CollectionSettings {
        partitions: 2,
        ..CollectionSettings::default()
    };
    let collection = database.collection_or_create("letters", settings).unwrap();
    (database, collection)
}

fn write(collection: &Collection, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let text = format!(r#"{{"n":{number},"text":"letter number {number}"}}"#);
        let document = Document::from_json(text.as_bytes()).unwrap();
        collection
            .put_at(&Key::from(number % 50), &document)
            .unwrap();
    }
}

fn data_files(env: &SimEnv) -> Vec<PathBuf> {
    let is_data = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".log") || name.ends_with(".table")
    };
    env.files().into_iter().filter(is_data).collect()
}

#[test]
fn writes_flushes_and_compactions_go_on_meanwhile_and_the_rate_is_kept() {
    let env = SimEnv::new(5);
    let (database, letters) = open(&env);
    for round in 0..4 {
        write(&letters, round * 30..round * 30 + 30);
        letters.flush().unwrap();
    }
    write(&letters, 120..130);
    let bytes: usize = data_files(&env)
        .iter()
        .map(|path| env.read_all(path).unwrap().len())
        .sum();
    let begun = env.monotonic();
    let (mut steps, mut told) = (0u32, 0);
    let options = VerifyOptions {
        rate_bytes: Some(1000),
    };
    let report = verify_open(&database, &options, &mut |done, total| {
        assert!(done >= told && done <= total);
        // While it waits it says the same again.
        if done == told {
            return ControlFlow::Continue(());
        }
        told = done;
        steps += 1;
        if steps % 10 == 0 {
            write(&letters, 1000 + steps..1003 + steps);
        }
        if steps % 40 == 0 {
            letters.compact().unwrap();
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(report.damage, []);
    assert_eq!(report.documents, 50);
    // Superseded records that compaction removed meanwhile are not there to be read.
    assert!(
        report.bytes as usize > bytes / 2,
        "{} of {bytes}",
        report.bytes
    );
    let took = env.monotonic() - begun;
    assert!(
        took >= Duration::from_secs(report.bytes / 1000 - 2),
        "{took:?}"
    );
    assert!(steps > 80, "{steps}");

    let mut closed = false;
    let ended = verify_open(&database, &VerifyOptions::default(), &mut |_, _| {
        if !closed {
            closed = true;
            database.close().unwrap();
        }
        ControlFlow::Continue(())
    });
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn records_that_compaction_moves_into_a_segment_that_was_read_are_read_there() {
    let env = SimEnv::new(7);
    let (database, letters) = open(&env);
    // Of each segment a part is needed, so that few are left.
    for number in 0..600 {
        let key = match number % 4 {
            0 => number,
            _ => 1000 + number % 8,
        };
        let document = Document::from_json(format!(r#"{{"n":{number}}}"#).as_bytes()).unwrap();
        letters.put_at(&Key::from(key), &document).unwrap();
    }
    let log_files = || {
        let mut files = data_files(&env);
        files.retain(|path| path.extension().is_some_and(|ext| ext == "log"));
        files
    };
    let before = log_files().len();
    let mut damaged = None;
    let report = verify_open(&database, &VerifyOptions::default(), &mut |_, _| {
        if damaged.is_none() {
            letters.compact().unwrap();
            assert!(log_files().len() < before, "{before} segments");
            let first = log_files().into_iter().min().unwrap();
            let length = env.read_all(&first).unwrap().len() as u64;
            env.flip_bit(&first, length * 6).unwrap();
            damaged = Some(first);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let damaged = damaged.unwrap();
    let is_named = |path: &Path| {
        let files = report.damage.iter().map(|found| Path::new(&found.file));
        files.filter(|file| *file == path).count() == 1
    };
    assert!(is_named(&damaged), "{damaged:?}: {report:?}");
}

#[test]
fn damage_to_any_file_is_found_and_named() {
    let template = SimEnv::new(6);
    {
        let (database, letters) = open(&template);
        write(&letters, 0..60);
        letters.flush().unwrap();
        write(&letters, 60..80);
        database.close().unwrap();
    }
    let files = data_files(&template);
    assert!(files.len() > 6, "{files:?}");
    for path in &files {
        let length = template.read_all(path).unwrap().len() as u64;
        for byte in (0..length).step_by(37) {
            let env = template.after_crash(1);
            let (database, _letters) = open(&env);
            env.flip_bit(path, byte * 8).unwrap();
            let report = verify_open(&database, &VerifyOptions::default(), &mut |_, _| {
                ControlFlow::Continue(())
            })
            .unwrap();
            let named = |name: &Path| {
                report
                    .damage
                    .iter()
                    .any(|found| Path::new(&found.file) == name)
            };
            // Bytes past the blocks of the newest segment are not read: they are about to be
            // overwritten.
            let is_newest = path.to_string_lossy().ends_with(".log") && report.damage.is_empty();
            let trailing = is_newest && byte + 400 > length;
            assert!(
                named(path) || trailing,
                "byte {byte} of {length} of {}: {report:?}",
                path.display()
            );
        }
    }
}
