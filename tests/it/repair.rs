//! Repair of damaged databases: whole records are recovered, no wrong ones are, and the report
//! names the rest.

use quiredb::operations::{LostKey, RepairEvent, RepairReport, repair};
use quiredb::{
    CollectionSettings, DatabaseBuilder, DatabaseOptions, Document, Env, Key, SimEnv, Volumes,
    Write,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What was written: by collection and partition, then position: key and document.
type History = BTreeMap<(String, u32), BTreeMap<u64, (Key, Option<Document>)>>;
type Documents = BTreeMap<(String, Key), Document>;

fn volumes(names: &[&str]) -> Volumes {
    Volumes::new(
        names
            .iter()
            .map(|name| (PathBuf::from(*name), quiredb::Medium::Ssd)),
    )
    .unwrap()
}

fn old() -> Volumes {
    volumes(&["/old", "/old2"])
}

fn new() -> Volumes {
    volumes(&["/new"])
}

fn document(number: u32) -> Document {
    let text = format!(r#"{{"n":{number},"text":"a line of text number {number}"}}"#);
    Document::from_json(text.as_bytes()).unwrap()
}

/// A database of two collections on two volumes, closed: several segments, tables of several runs,
/// patches, deletions, a collection that was dropped, and records after the last flush.
fn database() -> (Arc<SimEnv>, History) {
    let env = SimEnv::new(3);
    let mut history = History::new();
    let options = DatabaseOptions {
        segment_bytes: 900,
        ..DatabaseOptions::default()
    };
    let database = DatabaseBuilder::on(&old())
        .env(env.clone())
        .options(options)
        .open()
        .unwrap();
    let settings = |partitions| CollectionSettings {
        partitions,
        ..CollectionSettings::default()
    };
    database.create_collection("gone", settings(1)).unwrap();
    let letters = database.create_collection("letters", settings(2)).unwrap();
    let notes = database.create_collection("notes", settings(1)).unwrap();
    database.drop_collection("gone").unwrap();
    for number in 0..36u32 {
        let key = Key::from(number % 13);
        let collection = if number % 5 == 4 { &notes } else { &letters };
        let write = match number % 7 {
            5 => Write::delete(key.clone()),
            6 if collection.get(&key).unwrap().is_some() => Write::patch(
                key.clone(),
                Document::from_json(br#"{"patched":true}"#).unwrap(),
            ),
            _ => Write::put(key.clone(), document(number)),
        };
        let written = collection.write().run(write).unwrap();
        if written.effect != quiredb::Effect::Unchanged {
            let now = collection.get(&key).unwrap().map(|found| found.document);
            history
                .entry((collection.name().to_string(), written.partition))
                .or_default()
                .insert(written.version.0, (key, now));
        }
        if number % 10 == 8 {
            database.flush().unwrap();
        }
    }
    database.close().unwrap();
    drop((letters, notes, database));
    (env, history)
}

/// The documents that a history makes, without the positions that are lost.
fn replay(history: &History, lost: &BTreeSet<(String, u32, u64)>) -> Documents {
    let mut documents = Documents::new();
    for ((collection, partition), records) in history {
        for (position, (key, document)) in records {
            if lost.contains(&(collection.clone(), *partition, *position)) {
                continue;
            }
            let place = (collection.clone(), key.clone());
            match document {
                Some(document) => documents.insert(place, document.clone()),
                None => documents.remove(&place),
            };
        }
    }
    documents
}

fn repaired(env: &Arc<SimEnv>) -> (RepairReport, Vec<RepairEvent>) {
    let mut events = Vec::new();
    let before: Vec<_> = env
        .files()
        .into_iter()
        .map(|path| (env.read_all(&path).unwrap(), path))
        .collect();
    let report = repair(env.clone(), old(), new(), &mut |event| {
        if !matches!(event, RepairEvent::Progress { .. }) {
            events.push(event);
        }
    })
    .unwrap();
    for (bytes, path) in before {
        assert_eq!(env.read_all(&path).unwrap(), bytes, "{}", path.display());
    }
    (report, events)
}

/// Guessed names of collections, and their real names.
fn names(events: &[RepairEvent]) -> BTreeMap<String, String> {
    let guessed = |event: &RepairEvent| match event {
        RepairEvent::Guess { collection, .. } => Some(collection.clone()),
        _ => None,
    };
    let mut names: Vec<String> = events.iter().filter_map(guessed).collect();
    names.dedup();
    let known = ["letters", "notes"].map(str::to_string);
    names.into_iter().zip(known).collect()
}

/// All documents of the repaired database, which is whole; collections of guessed names under the
/// names that they had.
fn contents(
    env: &Arc<SimEnv>,
    events: &[RepairEvent],
    versions: &mut BTreeMap<(String, Key), u64>,
) -> Documents {
    let whole =
        quiredb::operations::verify(env.clone(), new(), &Default::default(), &mut |_, _| {})
            .unwrap();
    assert_eq!(whole.damage, []);
    let database = DatabaseBuilder::on(&new()).env(env.clone()).open().unwrap();
    let mut documents = Documents::new();
    for name in database.collections() {
        let known = names(events).remove(&name).unwrap_or_else(|| name.clone());
        for found in database.collection(&name).unwrap().scan(..).unwrap() {
            let found = found.unwrap();
            let place = (known.clone(), found.key);
            versions.insert(place.clone(), found.version.0);
            documents.insert(place, found.document);
        }
    }
    documents
}

/// Repairs a damaged copy, and checks everything that is promised. Returns the number of lost
/// positions.
fn check(env: &Arc<SimEnv>, history: &History, damage: &dyn Fn(&SimEnv), at: &str) -> u64 {
    let env = env.after_crash(1);
    damage(&env);
    let (report, events) = repaired(&env);
    let found = contents(&env, &events, &mut BTreeMap::new());
    let mut lost = BTreeSet::new();
    let (mut unknown, mut told, mut deleted) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let names = names(&events);
    let of = |name: &str| names.get(name).cloned().unwrap_or_else(|| name.to_string());
    for event in &events {
        match event {
            RepairEvent::Damage {
                collection,
                partition,
                damage,
            } => {
                let (first, last) = damage.positions.unwrap_or((1, 0));
                lost.extend((first..=last).map(|p| (of(collection), *partition, p)));
            }
            RepairEvent::Unknown {
                collection,
                partition,
                first,
                last,
            } => {
                // Nothing is returned past the end of a log whose end is not known.
                let last = last.unwrap_or(1000);
                let positions = (*first..=last).map(|p| (of(collection), *partition, p));
                unknown.extend(positions.clone());
                if last == 1000 {
                    lost.extend(positions);
                }
            }
            RepairEvent::Key {
                collection,
                key,
                outcome,
                ..
            } => {
                let place = (of(collection), Key::parse(key).unwrap());
                if matches!(outcome, LostKey::Deleted { .. }) {
                    deleted.push(place.clone());
                }
                told.insert(place);
            }
            _ => {}
        }
    }
    // Positions not reported as lost are there, and the newest of them counts.
    let mut expected = replay(history, &lost);
    for place in &deleted {
        let known = |documents: &Documents| documents.contains_key(place);
        assert!(known(&expected), "{at}: {place:?} needed no deletion");
        expected.remove(place);
    }
    assert_eq!(found, expected, "{at}: {events:#?}");
    // Every difference is reported.
    let was = replay(history, &BTreeSet::new());
    let places: BTreeSet<_> = was.keys().chain(found.keys()).collect();
    for place in places {
        if was.get(place) == found.get(place) {
            continue;
        }
        let newest = history
            .iter()
            .filter(|((collection, _), _)| *collection == place.0)
            .flat_map(|((_, partition), records)| {
                records
                    .iter()
                    .map(move |(position, (key, _))| (key, *partition, *position))
            })
            .filter(|(key, ..)| **key == place.1)
            .max_by_key(|(_, _, position)| *position)
            .unwrap();
        let newest = (place.0.clone(), newest.1, newest.2);
        assert!(
            told.contains(place) || unknown.contains(&newest),
            "{at}: {place:?} changed, and nobody was told: {events:#?}"
        );
    }
    assert_eq!(report.documents, found.len() as u64, "{at}");
    assert_eq!(
        report.is_whole(),
        lost.is_empty() && report.guesses == 0,
        "{at}"
    );
    report.positions_lost
}

/// Files that hold data.
fn files(env: &SimEnv) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| !env.read_all(path).unwrap().is_empty();
    env.files().into_iter().filter(holds).collect()
}

#[test]
fn an_undamaged_database_comes_out_equal_versions_and_all() {
    let (env, history) = database();
    let kinds = [".table", ".log"].map(|end| {
        let path = |path: &&PathBuf| path.to_string_lossy().ends_with(end);
        files(&env).iter().filter(path).count()
    });
    assert!(kinds[0] > 6 && kinds[1] > 5, "{:?}", files(&env));
    let (report, events) = repaired(&env);
    assert_eq!(events, []);
    assert!(report.is_whole() && report.collections == 2, "{report:?}");
    let mut versions = BTreeMap::new();
    let found = contents(&env, &[], &mut versions);
    assert_eq!(found, replay(&history, &BTreeSet::new()));
    for ((collection, _), records) in &history {
        for (position, (key, document)) in records {
            let place = (collection.clone(), key.clone());
            if let Some(version) = versions.get(&place) {
                assert!(version >= position);
                assert!(version != position || found.get(&place) == document.as_ref());
            }
        }
    }
}

#[test]
fn any_changed_byte_costs_one_record_at_most() {
    let (env, history) = database();
    for path in files(&env) {
        let length = env.read_all(&path).unwrap().len() as u64;
        for byte in (0..length).step_by(11) {
            let flip = |env: &SimEnv| env.flip_bit(&path, byte * 8 + byte % 8).unwrap();
            let at = format!("byte {byte} of {}", path.display());
            let lost = check(&env, &history, &flip, &at);
            assert!(lost <= 1, "{at}: {lost} positions lost");
        }
    }
}

#[test]
fn files_that_are_cut_missing_or_exchanged_cost_what_they_held() {
    let (env, history) = database();
    let files = files(&env);
    for (number, path) in files.iter().enumerate() {
        let bytes = env.read_all(path).unwrap();
        for cut in (0..bytes.len() as u64).step_by(97) {
            let at = format!("{} cut at {cut}", path.display());
            check(
                &env,
                &history,
                &|env| env.truncate_file(path, cut).unwrap(),
                &at,
            );
        }
        let at = format!("without {}", path.display());
        check(&env, &history, &|env| env.remove(path).unwrap(), &at);
        let other = &files[(number + 1) % files.len()];
        let others = env.read_all(other).unwrap();
        let swap = |env: &SimEnv| {
            env.replace(path, &others).unwrap();
            env.replace(other, &bytes).unwrap();
        };
        let at = format!("{} and {} exchanged", path.display(), other.display());
        check(&env, &history, &swap, &at);
    }
    let lost = check(
        &env,
        &history,
        &|env| env.remove_dir_all(Path::new("/old2")).unwrap(),
        "a volume lost",
    );
    assert_eq!(lost, 0, "volumes but the first hold tables alone");
}

#[test]
fn what_is_no_database_and_what_is_in_the_way_are_refused() {
    let (env, _) = database();
    let refused = |from: Volumes, to: Volumes, word: &str| {
        let error = repair(env.clone(), from, to, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    };
    refused(volumes(&["/nothing"]), new(), "no database");
    refused(old(), volumes(&["/old/new"]), "elsewhere");
    env.create_dir_all(Path::new("/other")).unwrap();
    env.replace(Path::new("/other/file"), b"text").unwrap();
    refused(volumes(&["/other"]), new(), "not a Quire database");
    refused(old(), volumes(&["/other"]), "not empty");
    let open = DatabaseBuilder::on(&old()).env(env.clone()).open().unwrap();
    refused(old(), new(), "locked");
    open.close().unwrap();
}

#[test]
fn the_same_goes_for_a_database_that_crashed() {
    let (env, history) = database();
    {
        let options = DatabaseOptions::default();
        let database = DatabaseBuilder::on(&old())
            .env(env.clone())
            .options(options)
            .open()
            .unwrap();
        let letters = database.collection("letters").unwrap();
        for number in 0..4u32 {
            let write = Write::put(Key::from(1000 + number), document(number));
            // Neither durable nor acknowledged as such: a crash may keep it.
            letters
                .batch()
                .writes(vec![write])
                .durability(quiredb::Durability::None)
                .write();
        }
        let crashed = env.after_crash(9);
        let (_, events) = repaired(&crashed);
        assert_eq!(events, []);
        let opened = DatabaseBuilder::on(&old())
            .env(crashed.clone())
            .open()
            .unwrap();
        let letters = opened.collection("letters").unwrap();
        let found = contents(&crashed, &[], &mut BTreeMap::new());
        let mut kept = replay(&history, &BTreeSet::new());
        for found in letters.scan(Key::from(1000)..).unwrap() {
            let found = found.unwrap();
            kept.insert(("letters".to_string(), found.key), found.document);
        }
        assert_eq!(found, kept, "as recovery has it");
    }
}

/// A repair that stops at any step, and each third of those: never a database that opens without
/// all that is whole.
#[test]
pub(crate) fn a_repair_that_stops_is_no_database_and_can_begin_anew() {
    let (template, history) = database();
    let whole = replay(&history, &BTreeSet::new());
    let mut step = template.operations();
    let (mut refused, mut finished) = (0, false);
    while !finished {
        let env = template.after_crash(1);
        let begun = env.operations();
        env.crash_at(begun + (step - template.operations()));
        let result = repair(env.clone(), old(), new(), &mut |_| {});
        finished = result.is_ok() && !env.crashed();
        let left = env.after_crash(step);
        match DatabaseBuilder::on(&new())
            .env(left.clone())
            .create(false)
            .open()
        {
            Ok(database) => {
                let documents: u64 = database
                    .collections()
                    .iter()
                    .map(|name| database.collection(name).unwrap().count().unwrap())
                    .sum();
                assert_eq!(documents, whole.len() as u64, "step {step}");
                database.close().unwrap();
            }
            Err(error) => {
                refused += 1;
                let expected = [quiredb::ErrorKind::NotFound, quiredb::ErrorKind::Invalid];
                assert!(expected.contains(&error.kind()), "step {step}: {error}");
                let report = repair(left.clone(), old(), new(), &mut |_| {}).unwrap();
                assert_eq!(report.documents, whole.len() as u64, "step {step}");
                assert_eq!(contents(&left, &[], &mut BTreeMap::new()), whole);
            }
        }
        step += 7;
    }
    assert!(refused > 10, "{refused} repairs were cut short");
}
