//! Files as a sink: whatever happens, each change is in them once.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use quire_env::{Env, ErrorKind, SimEnv};
use quire_ship::{Change, Failure, FileSink, Sink, Verdict};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

const FOLDER: &str = "/out";
const STATE: &str = "/position";

/// Bulks, and changes of each.
const BULKS: u64 = 24;
const BULK: u64 = 5;

/// A file ends after about three bulks.
const FILE_BYTES: u64 = 1_000;

type Make = fn(Arc<dyn Env>) -> FileSink;

fn lines(env: Arc<dyn Env>) -> FileSink {
    FileSink::lines(env, FOLDER.into(), FILE_BYTES)
}

fn parquet(env: Arc<dyn Env>) -> FileSink {
    FileSink::parquet(env, FOLDER.into(), FILE_BYTES)
}

fn change(number: u64) -> Change {
    Change {
        partition: (number % 2) as u32,
        position: number,
        time_micros: 7,
        key: format!("k{number}").into(),
        document: (!number.is_multiple_of(3)).then(|| format!("{{\"n\":{number}}}").into()),
    }
}

fn run(env: &Arc<SimEnv>, make: Make) -> Result<(), Failure> {
    run_until(env, make, BULKS)
}

/// Ships from the stored position to the end, as a run does: the position is stored after every
/// second bulk.
fn run_until(env: &Arc<SimEnv>, make: Make, bulks: u64) -> Result<(), Failure> {
    let failed = |error: quire_env::Error| Failure::NoAnswer(error.to_string());
    let stored = match env.read(Path::new(STATE), 1_000) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap(),
        Err(error) if error.kind() == ErrorKind::NotFound => json!({"next": 0, "mark": null}),
        Err(error) => return Err(failed(error)),
    };
    let sink = make(Arc::clone(env) as Arc<dyn Env>);
    sink.begin(Some(&stored["mark"]).filter(|mark| !mark.is_null()))?;
    let store = |next: u64| {
        sink.sync()?;
        let mark = sink.mark();
        let state = json!({"next": next, "mark": mark}).to_string();
        env.replace(Path::new(STATE), state.as_bytes())
            .map_err(failed)?;
        sink.stored(mark.as_ref())
    };
    for bulk in stored["next"].as_u64().unwrap()..bulks {
        let changes: Vec<Change> = (bulk * BULK..(bulk + 1) * BULK).map(change).collect();
        let verdicts = sink.send(&changes.iter().collect::<Vec<_>>())?;
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Done));
        if bulk % 2 == 1 {
            store(bulk + 1)?;
        }
    }
    sink.finish()
}

/// The numbers of the changes in all files that are not hidden, in their order.
fn shipped(env: &SimEnv) -> Vec<u64> {
    let names = env.list(Path::new(FOLDER)).unwrap();
    let mut numbers = Vec::new();
    for name in names.iter().filter(|name| !name.starts_with('.')) {
        let bytes = env.read_all(&Path::new(FOLDER).join(name)).unwrap();
        if name.ends_with(".ndjson") {
            for line in String::from_utf8(bytes).unwrap().lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                numbers.push(line["position"].as_u64().unwrap());
            }
            continue;
        }
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        for row in file.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            let columns: Vec<&Field> = row.get_column_iter().map(|(_, field)| field).collect();
            let Field::Long(number) = columns[1] else {
                panic!("{row}");
            };
            let expected = change(*number as u64);
            assert_eq!(*columns[0], Field::Int(expected.partition as i32));
            assert_eq!(*columns[2], Field::TimestampMicros(7));
            assert_eq!(*columns[3], Field::Str(expected.key.to_string()));
            assert_eq!(*columns[4], Field::Bool(expected.document.is_none()));
            assert_eq!(
                *columns[5],
                expected
                    .document
                    .map_or(Field::Null, |text| Field::Str(text.into()))
            );
            numbers.push(*number as u64);
        }
    }
    numbers
}

#[test]
fn a_crash_at_any_step_leaves_each_change_in_the_files_once() {
    for make in [lines as Make, parquet as Make] {
        let env = SimEnv::new(3);
        run(&env, make).unwrap();
        let steps = env.operations();
        let all: Vec<u64> = (0..BULKS * BULK).collect();
        assert_eq!(shipped(&env), all);
        // What is beside them: the lines of the last file, and those of the one that was begun.
        let names = env.list(Path::new(FOLDER)).unwrap();
        let hidden = names.iter().filter(|name| name.starts_with('.')).count();
        assert!(names.len() - hidden > 5 && hidden <= 2, "{names:?}");

        for step in 0..steps {
            let env = SimEnv::new(step);
            env.crash_at(step);
            run(&env, make).unwrap_err();
            let mut env = env.after_crash(step);
            // A second crash, while the run finds out how far the first one was.
            env.crash_at(step % 11);
            let mut end = run(&env, make);
            if end.is_err() {
                env = env.after_crash(step + 1);
                end = run(&env, make);
            }
            end.unwrap();
            assert_eq!(shipped(&env), all, "step {step}");
            // Nothing is done twice by a run that has nothing to do.
            env.crash_at(u64::MAX);
            run(&env, make).unwrap();
            assert_eq!(shipped(&env), all, "step {step}");
        }
    }
}

#[test]
fn parquet_files_may_be_moved_away_between_runs_and_meanwhile() {
    let all: Vec<u64> = (0..BULKS * BULK).collect();
    let env = SimEnv::new(3);
    let mut moved = Vec::new();
    for bulks in [4, 8, 16, 16, BULKS] {
        run_until(&env, parquet, bulks).unwrap();
        moved.extend(shipped(&env));
        for name in env.list(Path::new(FOLDER)).unwrap() {
            if !name.starts_with('.') {
                env.remove(&Path::new(FOLDER).join(name)).unwrap();
            }
        }
    }
    assert_eq!(moved, all);
}

#[test]
fn a_full_disk_stops_a_run_that_goes_on_when_there_is_room() {
    for make in [lines as Make, parquet as Make] {
        let whole = SimEnv::new(3);
        run(&whole, make).unwrap();
        for room in (200..12_000).step_by(397) {
            let env = SimEnv::new(room);
            env.set_capacity(room);
            let end = run(&env, make);
            assert!(
                matches!(end, Ok(()) | Err(Failure::NoAnswer(_) | Failure::Final(_))),
                "{end:?}"
            );
            env.set_capacity(u64::MAX);
            run(&env, make).unwrap();
            assert_eq!(shipped(&env), shipped(&whole), "{room}");
        }
    }
}

#[test]
fn lines_that_are_damaged_do_not_become_parquet_and_end_the_run() {
    let env = SimEnv::new(3);
    let sink = parquet(Arc::clone(&env) as Arc<dyn Env>);
    sink.begin(None).unwrap();
    let changes: Vec<Change> = (0..30).map(change).collect();
    sink.send(&changes.iter().collect::<Vec<_>>()).unwrap();
    let path = Path::new(FOLDER).join(".changes-00000001.ndjson");
    env.overwrite(&path, 400, b"\"\"").unwrap();
    let end = sink.send(&[&change(30)]).unwrap_err();
    assert!(
        matches!(&end, Failure::Final(why) if why.contains("changes-00000001.ndjson")),
        "{end:?}"
    );
    let names = env.list(Path::new(FOLDER)).unwrap();
    assert!(
        !names.contains(&"changes-00000001.parquet".to_owned()),
        "{names:?}"
    );
}
