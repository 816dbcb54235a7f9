//! The store under shuttle: readers beside a writer, flushes and what runs in the background.

use super::trees::{BY_COUNT, ByCount, TOTALS, check_view, open_with_index};
use super::*;
use quire_seeded::{Bug, assert_each_is_found};
use quire_sync::checker::thread;
use quire_sync::explore;

/// Each is a write; some are two records.
const WRITES: [&[&str]; 5] = [&["a"], &["b", "a"], &["!a"], &["c"], &["a", "!b"]];

const END: Position = Position(7);

/// What is to be seen at a position; `None` within a write.
fn at(position: Position) -> Option<Model> {
    let mut words: Vec<&str> = Vec::new();
    let mut writes = WRITES.iter();
    while (words.len() as u64) < position.0 {
        words.extend(*writes.next()?);
    }
    (words.len() as u64 == position.0).then(|| Model::of(words))
}

/// A point_view shows what a view does.
fn point_view(store: &Store<Words>) {
    let point_view = store.point_view(&[COUNTS, LAST]).unwrap();
    let model = at(point_view.position()).expect("writes are seen whole");
    for word in ["a", "b", "c"] {
        let seen = |tree| {
            let found = point_view.get(tree, word.as_bytes()).unwrap();
            found.map(|found| number(&found).unwrap())
        };
        let expected = model.words.get(word.as_bytes()).copied();
        assert_eq!(seen(COUNTS).zip(seen(LAST)), expected);
    }
    for position in 1..=point_view.position().0 {
        assert!(!point_view.record(Position(position)).unwrap().is_empty());
    }
}

fn scenario() {
    let env = SimEnv::new(1);
    let store = open(&env).unwrap();
    let mut threads = Vec::new();
    for _ in 0..2 {
        let store = store.clone();
        threads.push(thread::spawn(move || {
            let first = store.view().unwrap();
            let mut last = first.position();
            while last != END {
                thread::yield_now();
                point_view(&store);
                let view = store.view().unwrap();
                assert!(view.position() >= last, "what was seen is seen again");
                last = view.position();
                assert_eq!(contents_of(&view).unwrap(), at(last).unwrap());
            }
            assert_eq!(contents_of(&first).unwrap(), at(first.position()).unwrap());
        }));
    }
    let flusher = store.clone();
    threads.push(thread::spawn(move || {
        while flusher.position() != END {
            flusher.settle().unwrap();
            let before = flusher.position();
            let view = flusher.flushed_view_of(&[COUNTS, LAST]).unwrap();
            assert!(view.position() >= before, "what was seen is seen again");
            thread::yield_now();
            let expected = at(view.position()).unwrap();
            assert_eq!(contents_of(&view).unwrap(), expected);
        }
    }));
    let (machine, watched) = (Arc::clone(&env), store.clone());
    threads.push(thread::spawn(move || {
        while watched.position() != END {
            machine.run_due();
            thread::yield_now();
        }
    }));
    for (number, words) in WRITES.iter().enumerate() {
        let durability = [Durability::Sync, Durability::None][number % 2];
        write(&store, words, durability).unwrap();
        let seen = store.position();
        assert!(at(seen).is_some() && seen.0 >= number as u64);
    }
    for thread in threads {
        thread.join().unwrap();
    }
    let all = Model::of(WRITES.concat());
    assert_eq!(contents(&store).unwrap(), all);
    store.close().unwrap();
    drop(store);
    assert_eq!(contents(&open(&env).unwrap()).unwrap(), all);
}

/// A reader of derived trees beside writes, flushes and the job that builds and follows. The reader
/// drops and adds the trees now and then.
fn scenario_of_derived_trees() {
    let env = SimEnv::new(1);
    let store = open_with_index(&env).unwrap();
    store.add_trees(Arc::new(ByCount)).unwrap();
    let history: Vec<_> = WRITES.concat().into_iter().map(str::to_string).collect();
    let mut threads = Vec::new();
    for drops in [false, true] {
        let (store, history) = (store.clone(), history.clone());
        threads.push(thread::spawn(move || {
            let mut dropped = false;
            while store.position() != END {
                thread::yield_now();
                match store.view_of(&[COUNTS, LAST, BY_COUNT, TOTALS]) {
                    Ok(view) => check_view(&view, &history).unwrap(),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid),
                }
                if drops && !dropped && store.position() > Position(2) {
                    store.drop_trees(BY_COUNT).unwrap();
                    store.add_trees(Arc::new(ByCount)).unwrap();
                    dropped = true;
                }
            }
        }));
    }
    let (flusher, of_flushes) = (store.clone(), history.clone());
    threads.push(thread::spawn(move || {
        while flusher.position() != END {
            match flusher.flushed_view_of(&[COUNTS, LAST, BY_COUNT, TOTALS]) {
                Ok(view) => {
                    thread::yield_now();
                    check_view(&view, &of_flushes).unwrap();
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid),
            }
            thread::yield_now();
        }
    }));
    let (machine, watched) = (Arc::clone(&env), store.clone());
    threads.push(thread::spawn(move || {
        while watched.position() != END {
            machine.run_due();
            thread::yield_now();
        }
    }));
    for words in WRITES {
        write(&store, words, Durability::None).unwrap();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    store.flush().unwrap();
    let view = store.view_of(&[COUNTS, LAST, BY_COUNT, TOTALS]).unwrap();
    check_view(&view, &history).unwrap();
    store.close().unwrap();
}

#[test]
fn derived_trees_of_a_view_are_exactly_those_of_the_position_that_it_says() {
    explore(1_000, scenario_of_derived_trees);
}

#[test]
fn views_and_point_views_are_exactly_what_was_published_whatever_is_flushed_beside_them() {
    explore(4_000, scenario);
}

#[test]
fn each_seeded_bug_is_found() {
    let [_, of_stores] = Bug::UNDER_SHUTTLE;
    assert_each_is_found(of_stores, || explore(20_000, scenario));
}
