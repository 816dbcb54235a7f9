//! Verifying a database while it is written and read.

use quiredb::{
    Collection, CollectionSettings, Database, Document, Env, ErrorKind, Key, Options, SimEnv,
    VerifyOptions, Volumes,
};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn open(env: &Arc<SimEnv>) -> (Database, Collection) {
    let options = Options {
        segment_bytes: 2000,
        ..Options::default()
    };
    let database = Database::open_with(env.clone(), Volumes::single("/db"), options).unwrap();
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
        collection.put(&Key::from(number % 50), &document).unwrap();
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
    let report = database
        .verify(&options, &mut |done, total| {
            assert!(done >= told && done <= total);
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
    // Segments that were compacted into others meanwhile are not there to be read.
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
    let ended = database.verify(&VerifyOptions::default(), &mut |_, _| {
        if !closed {
            closed = true;
            database.close().unwrap();
        }
        ControlFlow::Continue(())
    });
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Closed);
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
            let report = database
                .verify(&VerifyOptions::default(), &mut |_, _| {
                    ControlFlow::Continue(())
                })
                .unwrap();
            let named = |name: &Path| {
                report
                    .damage
                    .iter()
                    .any(|found| Path::new(&found.file) == name)
            };
            // What lies behind the blocks of the newest segment is not read: it is about to be written over.
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
