//! A folder answers as its files do one after another, whatever happens to them meanwhile.

use super::*;
use crate::{Failure, FolderOptions, FrozenFolder, Snapshot};
use quire_env::OsEnv;
use quire_query::{Answer, Filter, Prepared, Query, field, find, find_all};
use std::ops::ControlFlow;
use std::time::Duration;

/// Writes a file of some documents; their payloads are their docids.
fn write(env: &Arc<dyn Env>, path: &Path, fields: &[FieldSpec], documents: &[Document]) {
    let options = options(Codec::None, 100);
    let mut builder = FrozenBuilder::create(Arc::clone(env), path, fields, options).unwrap();
    builder.forward_max = forward_max(documents.len());
    for (docid, document) in documents.iter().enumerate() {
        builder.add(document, docid.to_string().as_bytes()).unwrap();
    }
    builder.finish().unwrap();
}

/// A file of documents `{"n": from}`, `{"n": from + 1}`, … .
fn write_numbers(env: &Arc<dyn Env>, path: &Path, numbers: std::ops::Range<u32>) {
    let documents: Vec<_> = numbers
        .map(|n| Document::from_json(format!(r#"{{"n":{n}}}"#).as_bytes()).unwrap())
        .collect();
    write(env, path, &[FieldSpec::full("n")], &documents);
}

fn numbers(snapshot: &Snapshot, query: &Query) -> Vec<i64> {
    let hits = snapshot
        .query(&prepared(query), &Options::default())
        .unwrap()
        .hits;
    let number = |hit| match snapshot.document(hit).unwrap()?.get("n")? {
        quire_model::ValueRef::Int(number) => Some(number),
        _ => None,
    };
    hits.into_iter().filter_map(number).collect()
}

fn prepared(query: &Query) -> Prepared {
    query.clone().prepare().unwrap()
}

fn names(failures: &[Failure]) -> Vec<&str> {
    failures.iter().map(|one| one.name.as_str()).collect()
}

/// Runs a test on both machines, with maps and without.
fn on_both(test: impl Fn(&Arc<dyn Env>, &Path, &FrozenFolder)) {
    let dir = tempfile::tempdir().unwrap();
    for (number, access) in [Access::Read, Access::Map].into_iter().enumerate() {
        let machines: [Arc<dyn Env>; 2] = [SimEnv::new(1), OsEnv::new().unwrap()];
        for env in machines {
            let dir = dir.path().join(number.to_string());
            env.create_dir_all(&dir).unwrap();
            let files = OpenOptions {
                access,
                verify: false,
            };
            let options = FolderOptions {
                files,
                ..FolderOptions::default()
            };
            let folder = FrozenFolder::open(Arc::clone(&env), &dir, options).unwrap();
            test(&env, &dir, &folder);
        }
    }
}

/// Queries the files one after another.
fn one_by_one(snapshot: &Snapshot, query: &Prepared) -> quire_query::Result<Answer> {
    let shards: Vec<_> = snapshot.files().map(|file| file as &dyn Shard).collect();
    query.answer(&shards, &Options::default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn queries_of_a_folder_are_answered_as_the_definition_says(
        seed: u64,
        size in 1usize..20,
        schemas in vec(any::<u32>(), 1..40),
        same: bool,
        merged_bytes_max in prop_oneof![Just(64 << 20), 0u64..100_000],
    ) {
        let case = Case::from_seed(seed);
        let sim = SimEnv::new(1);
        let env: Arc<dyn Env> = Arc::<SimEnv>::clone(&sim);
        let parts: Vec<_> = case.documents.chunks(size).collect();
        for (number, part) in parts.iter().enumerate() {
            let schema = schemas[number % schemas.len()];
            // Of other schemas a field may be missing, or be there for one purpose only.
            let fields: Vec<_> = (0..)
                .zip(PATHS)
                .filter_map(|(bit, path)| match schema >> (2 * bit) & 3 {
                    _ if same => Some(FieldSpec::full(path)),
                    0 => None,
                    1 => Some(FieldSpec::filterable(path)),
                    2 => Some(FieldSpec::sortable(path)),
                    _ => Some(FieldSpec::full(path)),
                })
                .collect();
            write(
                &env,
                Path::new(&format!("/{number:04}.quire")),
                &fields,
                part,
            );
        }
        let options = FolderOptions {
            merged_bytes_max,
            ..FolderOptions::default()
        };
        let folder = FrozenFolder::open(env, Path::new("/"), options).unwrap();
        let snapshot = folder.snapshot();
        // The first two times each file is queried, then all as one, where their fields could be
        // merged.
        for _ in 0..3 {
            for query in &case.queries {
                let executed = prepared(query);
                let found = snapshot.query(&executed, &Options::default());
                if same {
                    prop_assert_eq!(found.unwrap(), naive::answer(&parts, query), "{}", case);
                } else if let Ok(expected) = one_by_one(&snapshot, &executed) {
                    prop_assert_eq!(found.unwrap(), expected, "{}", case);
                }
            }
            sim.run_until_idle();
        }
    }
}

/// Files whose ranges overlap, with values of their own: the file of a value is known, by zone maps
/// or by a directory, and so is that there is none.
#[test]
fn a_directory_of_values_finds_the_files_that_have_a_value() {
    const FILES: i64 = 40;
    for (directory_bytes_max, is_known) in [(32 << 20, true), (64, false)] {
        let sim = SimEnv::new(1);
        let env: Arc<dyn Env> = Arc::<SimEnv>::clone(&sim);
        for file in 0..FILES {
            let documents: Vec<_> = (0..10)
                .map(|row| {
                    let json = format!(r#"{{"n":{},"same":{row}}}"#, file + row * FILES);
                    Document::from_json(json.as_bytes()).unwrap()
                })
                .collect();
            let fields = [FieldSpec::full("n"), FieldSpec::full("same")];
            let path = format!("/{file:04}.quire");
            write(&env, Path::new(&path), &fields, &documents);
        }
        let options = FolderOptions {
            directory_bytes_max,
            merged_bytes_max: 0,
            ..FolderOptions::default()
        };
        let folder = FrozenFolder::open(env, Path::new("/"), options).unwrap();
        let snapshot = folder.snapshot();
        let pruned = |query: Query| {
            let clock = || Duration::ZERO;
            let options = Options {
                clock: Some(&clock),
                ..Options::default()
            };
            let answer = snapshot.query(&prepared(&query), &options).unwrap();
            (answer.hits.len(), answer.explain.unwrap().pruned)
        };
        for _ in 0..2 {
            assert_eq!(pruned(find(field("n").eq(57))).0, 1);
            assert_eq!(pruned(find(field("same").eq(5))).0, 40);
            sim.run_until_idle();
        }
        let others = (FILES - 1) as u64;
        for n in 0..10 * FILES {
            assert_eq!(pruned(find(field("n").eq(n))), (1, others));
        }
        assert_eq!(pruned(find(field("n").is_in([57, 58, 1_000]))).0, 2);
        assert_eq!(snapshot.has_directory("n"), is_known);
        // In every file: all are queried, with a directory or without.
        assert_eq!(pruned(find(field("same").eq(5))).0, 40);
        assert!(!snapshot.has_directory("same"));
    }
}

#[test]
fn the_first_of_many_files_are_found_whatever_is_merged() {
    const FILES: u32 = 30;
    for merged_bytes_max in [0, 4_000, 64 << 20] {
        let sim = SimEnv::new(1);
        let env: Arc<dyn Env> = Arc::<SimEnv>::clone(&sim);
        for file in 0..FILES {
            let documents: Vec<_> = (0..100u32)
                .map(|row| {
                    let n = (row * FILES + file) * 7_919 % 3_001;
                    let json = match row % 9 {
                        0 => format!(r#"{{"mark":{}}}"#, row % 4),
                        1 => format!(r#"{{"n":[{n},{}],"mark":{}}}"#, n / 2, row % 4),
                        _ => format!(r#"{{"n":{n},"mark":{}}}"#, row % 4),
                    };
                    Document::from_json(json.as_bytes()).unwrap()
                })
                .collect();
            let fields = [FieldSpec::full("n"), FieldSpec::full("mark")];
            let path = format!("/{file:04}.quire");
            write(&env, Path::new(&path), &fields, &documents);
        }
        let options = FolderOptions {
            merged_bytes_max,
            ..FolderOptions::default()
        };
        let folder = FrozenFolder::open(env, Path::new("/"), options).unwrap();
        let snapshot = folder.snapshot();
        for order in [field("n").ascending(), field("n").descending()] {
            for limit in [1, 10, 300, 2_900] {
                let query = find(field("mark").eq(3)).order_by(order.clone());
                let query = query.order_by(field("mark").ascending()).limit(limit);
                let query = prepared(&query);
                let expected = one_by_one(&snapshot, &query).unwrap();
                for _ in 0..3 {
                    let found = snapshot.query(&query, &Options::default()).unwrap();
                    assert_eq!(found, expected);
                    sim.run_until_idle();
                }
            }
        }
    }
}

/// Patterns and elements of arrays are tested on documents where fields alone do not tell.
#[test]
fn what_needs_documents_is_found_in_many_files_whatever_is_merged() {
    let sim = SimEnv::new(1);
    let env: Arc<dyn Env> = Arc::<SimEnv>::clone(&sim);
    let fields = [FieldSpec::filterable("mark"), FieldSpec::full("n")];
    let document = |file| {
        let json = format!(r#"{{"mark":["mark {file}","other"],"n":[0,{file}]}}"#);
        Document::from_json(json.as_bytes()).unwrap()
    };
    for file in 0..40 {
        let documents: Vec<_> = (file..file + 2).map(document).collect();
        let path = format!("/{file:04}.quire");
        write(&env, Path::new(&path), &fields, &documents);
    }
    let options = FolderOptions::default();
    let folder = FrozenFolder::open(env, Path::new("/"), options).unwrap();
    for (filter, count) in [
        ("mark LIKE '%k_7'", 2),
        ("mark[0] = 'mark 7'", 2),
        ("mark[1] = 'mark 7'", 0),
        ("mark[1] = 'other'", 80),
        ("n[1] BETWEEN 10 AND 19", 20),
        ("n[0] = 0 AND NOT n[1] > 3", 7),
    ] {
        let query = find(Filter::parse(filter).unwrap());
        // The first two times each file is queried, then all as one, where that is possible.
        for _ in 0..4 {
            let snapshot = folder.snapshot();
            let answer = snapshot.query(&prepared(&query), &Options::default());
            assert_eq!(answer.unwrap().hits.len(), count, "{filter}");
            sim.run_until_idle();
        }
    }
}

#[test]
fn a_running_query_keeps_the_files_that_it_began_with() {
    on_both(|env, dir, folder| {
        let path = |name: &str| dir.join(name);
        for (name, numbers) in [("a.quire", 0..3), ("b.quire", 10..13), ("c.quire", 20..23)] {
            write_numbers(env, &path(name), numbers);
        }
        assert_eq!(
            folder.refresh().unwrap().opened,
            ["a.quire", "b.quire", "c.quire"]
        );
        let snapshot = folder.snapshot();
        let (all, mut seen) = (find_all(), Vec::new());
        let mut each = |hit| {
            if seen.is_empty() {
                write_numbers(env, &path("b.quire"), 10..12);
                write_numbers(env, &path("d.quire"), 30..31);
                env.remove(&path("c.quire")).unwrap();
                let found = folder.refresh().unwrap();
                assert_eq!(found.opened, ["b.quire", "d.quire"]);
                assert_eq!(found.dropped, ["c.quire"]);
                assert!(found.failures.is_empty());
            }
            snapshot
                .payload(hit, &mut |payload| seen.push(payload.to_vec()))
                .unwrap();
            ControlFlow::Continue(())
        };
        snapshot
            .for_each(&prepared(&all), &Options::default(), &mut each)
            .unwrap();
        assert_eq!(seen.concat(), b"012012012");
        assert_eq!(numbers(&snapshot, &all), [0, 1, 2, 10, 11, 12, 20, 21, 22]);
        let now = folder.snapshot();
        assert_eq!(numbers(&now, &all), [0, 1, 2, 10, 11, 30]);
        assert_eq!(numbers(&now, &find(field("n").gte(11))), [11, 30]);
        let last = find_all().order_by(field("n").descending()).limit(2);
        assert_eq!(numbers(&now, &last), [30, 11]);
        // Nothing changed: what was open stays so.
        let again = folder.refresh().unwrap();
        assert!(again.opened.is_empty() && again.dropped.is_empty());
        assert!(Arc::ptr_eq(&now, &folder.snapshot()));
        let same = folder.with_snapshot(|own| std::ptr::eq(own, &*now));
        assert!(same, "refreshed twice, it is the same");

        write_numbers(env, &path("b.quire"), 40..41);
        env.remove(&path("a.quire")).unwrap();
        write_numbers(env, &path("0.quire"), 7..8);
        let names = ["b.quire", "a.quire", "0.quire", "d.quire", "e.quire"];
        let changed = names.map(|name| folder.refresh_file(name).unwrap());
        assert_eq!(changed, [true, true, true, false, false]);
        assert_eq!(numbers(&folder.snapshot(), &all), [7, 40, 30]);
        env.replace(&path("b.quire"), b"").unwrap();
        for name in ["b.quire", "b", "../b.quire", ""] {
            assert!(folder.refresh_file(name).is_err());
        }
        assert_eq!(numbers(&folder.snapshot(), &all), [7, 40, 30]);
    });
}

#[test]
fn a_file_that_can_not_be_opened_is_named_and_takes_nothing_away() {
    on_both(|env, dir, folder| {
        let path = |name: &str| dir.join(name);
        write_numbers(env, &path("a.quire"), 0..2);
        write_numbers(env, &path("b.quire"), 5..7);
        let whole = env.read(&path("a.quire"), 1 << 20).unwrap();
        let half = &whole[..whole.len() / 2];
        folder.refresh().unwrap();

        env.replace(&path("half.quire"), half).unwrap();
        env.replace(&path("none.quire"), b"").unwrap();
        env.replace(&path("b.quire"), half).unwrap();
        env.replace(&path("other.txt"), half).unwrap();
        env.create_dir_all(&path("dir.quire")).unwrap();
        let found = folder.refresh().unwrap();
        let bad = ["b.quire", "dir.quire", "half.quire", "none.quire"];
        assert_eq!(
            (names(&found.failures), names(&folder.failures())),
            (bad.to_vec(), bad.to_vec())
        );
        assert!(found.opened.is_empty() && found.dropped.is_empty());
        assert_eq!(
            numbers(&folder.snapshot(), &find_all()),
            [0, 1, 5, 6],
            "the former b"
        );

        // Written to the end, and replaced once more.
        let mut file = env.open_append(&path("half.quire")).unwrap();
        file.append(&whole[half.len()..]).unwrap();
        drop(file);
        write_numbers(env, &path("b.quire"), 8..9);
        assert_eq!(folder.refresh().unwrap().opened, ["b.quire", "half.quire"]);
        assert_eq!(numbers(&folder.snapshot(), &find_all()), [0, 1, 8, 0, 1]);
        assert_eq!(names(&folder.failures()), ["dir.quire", "none.quire"]);

        env.remove_dir_all(dir).unwrap();
        assert!(folder.refresh().is_err());
        assert_eq!(numbers(&folder.snapshot(), &find_all()), [0, 1, 8, 0, 1]);
    });
}

#[test]
fn a_folder_is_watched_until_that_is_no_longer_wanted() {
    let sim = SimEnv::new(1);
    let env: Arc<dyn Env> = Arc::<SimEnv>::clone(&sim);
    let folder =
        FrozenFolder::open(Arc::clone(&env), Path::new("/"), FolderOptions::default()).unwrap();
    let second = Duration::from_secs(1);
    let pass = || {
        sim.advance(second);
        sim.run_due();
    };
    let watch = folder.watch(second);
    write_numbers(&env, Path::new("/a.quire"), 0..2);
    assert_eq!(folder.snapshot().documents(), 0);
    pass();
    assert_eq!(folder.snapshot().documents(), 2);
    env.replace(Path::new("/b.quire"), b"no partition").unwrap();
    pass();
    assert_eq!(names(&folder.failures()), ["b.quire"]);
    let reads = sim.reads();
    sim.fail_reads_from(reads, quire_env::ReadFault::Eio);
    pass();
    assert_eq!(names(&folder.failures()), [""]);
    assert_eq!(folder.snapshot().documents(), 2);
    drop(watch);
    pass();
    assert_eq!(sim.run_until_idle(), 0);
}

#[test]
fn files_are_swapped_while_many_threads_query() {
    let dir = tempfile::tempdir().unwrap();
    let env: Arc<dyn Env> = OsEnv::new().unwrap();
    let swap = |file: u32, round: u32| {
        let path = dir.path().join(format!("{file}.quire"));
        write_numbers(&env, &path, round * 100..round * 100 + 50);
    };
    (0..4).for_each(|file| swap(file, 0));
    let files = OpenOptions {
        access: Access::Map,
        verify: false,
    };
    let options = FolderOptions {
        files,
        ..FolderOptions::default()
    };
    let folder = FrozenFolder::open(Arc::clone(&env), dir.path(), options).unwrap();
    let newest = find_all()
        .order_by(field("n").descending())
        .limit(1)
        .with_count();
    std::thread::scope(|scope| {
        let swapped = scope.spawn(|| {
            for round in 1..20 {
                (0..4).for_each(|file| swap(file, round));
                folder.refresh().unwrap();
            }
        });
        let mut last = 0;
        while !swapped.is_finished() {
            let snapshot = folder.snapshot();
            let answer = snapshot
                .query(&prepared(&newest), &Options::default())
                .unwrap();
            assert_eq!(answer.count, Some(200));
            let newest = numbers(&snapshot, &newest);
            assert!(newest[0] >= last && newest[0] % 100 == 49);
            last = newest[0];
        }
        swapped.join().unwrap();
    });
    assert_eq!(numbers(&folder.snapshot(), &newest), [1949]);
}
