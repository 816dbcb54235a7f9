//! The memtable under loom: a writer beside a reader, in every order of their steps that the memory
//! model allows.
//!
//! Pages, chunks and tables of hashes are tiny here, so that a few writes fill some of each.

use super::*;
use crate::FoldBytes;
use crate::range_tombstones::is_before;
use crate::testing::Concat;
use quire_seeded::{Bug, assert_each_is_found};
use quire_sync::checker::{model::Builder, thread};
use std::collections::BTreeMap;

/// Written before the reader comes, and beside it. Every write has the next position.
#[derive(Debug, Clone, Copy)]
struct Script {
    before: &'static [Write],
    beside: &'static [Write],
}

type Write = (&'static str, Op<'static>);

const LARGE: &[u8] = b"more bytes than are kept in the words";

/// New versions of a key: values, operands, large ones, tombstones.
const VERSIONS: Script = Script {
    before: &[("key", Op::Put(b"one"))],
    beside: &[
        ("key", Op::Merge(b" and two")),
        ("key", Op::Put(LARGE)),
        ("key", Op::Delete),
    ],
};

/// Operands over operands: small ones, which are combined, below a large one and above it.
const OPERANDS: Script = Script {
    before: &[("key", Op::Merge(LARGE))],
    beside: &[
        ("key", Op::Merge(b"one")),
        ("key", Op::Merge(b" and two")),
        ("key", Op::Merge(b" and three")),
    ],
};

/// New keys, in no order: chunks are sorted and joined, the hash index grows.
const KEYS: Script = Script {
    before: &[("m", Op::Put(b"1")), ("c", Op::Put(b"2"))],
    beside: &[
        ("x", Op::Put(b"3")),
        ("a", Op::Put(LARGE)),
        ("a key longer than a few words", Op::Merge(b"5")),
    ],
};

/// Ranges that are deleted, also from keys that come beside the reader.
const RANGES: Script = Script {
    before: &[("b", Op::Put(b"1")), ("a", Op::DeleteRange(b"aa"))],
    beside: &[
        ("a", Op::DeleteRange(b"c")),
        ("b", Op::Put(b"2")),
        ("b", Op::DeleteRange(b"")),
    ],
};

/// How a reader looks.
#[derive(Debug, Clone, Copy)]
enum Look {
    /// Gets each key.
    Get,
    /// As a multi-get does.
    Prefetch,
    Forwards,
    Backwards,
}

/// Without tombstones: they show in what they hide.
type Seen = BTreeMap<Vec<u8>, (EntryKind, Vec<u8>)>;

/// What is to be seen at each position.
fn history(script: Script) -> Vec<Seen> {
    let mut now = Seen::new();
    let mut history = vec![now.clone()];
    for (key, op) in script.before.iter().chain(script.beside) {
        let (kind, value) = match op {
            Op::Put(value) => (EntryKind::Put, value.to_vec()),
            Op::PutUntil(timed) => (EntryKind::PutUntil, timed.to_vec()),
            Op::Delete | Op::DeleteRange(_) => {
                let end = match op {
                    Op::DeleteRange(to) => to.to_vec(),
                    _ => [key.as_bytes(), &[0]].concat(),
                };
                now.retain(|each, _| each.as_slice() < key.as_bytes() || !is_before(each, &end));
                history.push(now.clone());
                continue;
            }
            Op::Merge(operand) => match now.get(key.as_bytes()) {
                Some((kind, value)) => (*kind, [value, *operand].concat()),
                _ => (EntryKind::Merge, operand.to_vec()),
            },
        };
        now.insert(key.as_bytes().to_vec(), (kind, value));
        history.push(now.clone());
    }
    history
}

/// Adds what was found of a key: operands as one.
fn insert(seen: &mut Seen, key: &[u8], stack: Stack<'_>) {
    let entry = stack.into_one(&folder(), key);
    if let Some(entry) = entry.filter(|entry| entry.kind != EntryKind::Delete) {
        seen.insert(key.to_vec(), (entry.kind, entry.value.to_vec()));
    }
}

/// What a reader sees at a position.
fn look(memtable: &Arc<Memtable>, how: Look, at: Position, script: Script) -> Seen {
    let keys = script.before.iter().chain(script.beside);
    let keys = keys.map(|(key, _)| key.as_bytes());
    let mut seen = Seen::new();
    let start = match how {
        Look::Get | Look::Prefetch => {
            if let Look::Prefetch = how {
                let hashes: Vec<_> = keys.clone().map(table::hash).collect();
                memtable.prefetch(&hashes);
            }
            for key in keys {
                let mut found = Found::default();
                memtable.find_or_deleted(key, table::hash(key), at, &mut found);
                insert(&mut seen, key, found.stack());
            }
            return seen;
        }
        Look::Forwards => Start::FIRST,
        Look::Backwards => Start::Last,
    };
    let mut cursor = memtable.cursor(at, start);
    while let Some(said) = cursor.entry_ref() {
        let edge = match how {
            Look::Backwards => seen.first_key_value(),
            _ => seen.last_key_value(),
        };
        assert!(
            edge.is_none_or(|(edge, _)| match how {
                Look::Backwards => said.key < edge.as_slice(),
                _ => said.key > edge.as_slice(),
            }),
            "keys come in order, each once"
        );
        let mut stack = Stack::default();
        cursor.push_to(&mut stack);
        let key = said.key.to_vec();
        insert(&mut seen, &key, stack);
        cursor.advance();
    }
    seen.retain(|_, (kind, _)| *kind != EntryKind::Delete);
    seen
}

fn folder() -> Folder {
    Folder {
        tree: "t".into(),
        merger: Some(FoldBytes::shared(Concat)),
    }
}

/// A writer that publishes the position of each write, and a reader that looks at the position
/// published, then at the one from before the writer went on: each sees exactly what was written up
/// to there.
///
/// In every order in which a thread that could go on is interrupted at most this often: bugs
/// need few.
fn check(script: Script, how: Look, interruptions: usize) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.max_branches = 100_000;
    let history = Arc::new(history(script));
    builder.check(move || {
        let budget = Budget::new(u64::MAX);
        let memtable = Arc::new(Memtable::new(&budget, Position(0)));
        let write = |number: usize, (key, op): &Write| {
            let position = Position(number as u64 + 1);
            let written = memtable.write(&folder(), key.as_bytes(), position, *op);
            written.unwrap();
            position.0
        };
        for (number, one) in script.before.iter().enumerate() {
            write(number, one);
        }
        let begun = script.before.len() as u64;
        let published = Arc::new(AtomicU64::new(begun));
        let reader = thread::spawn({
            let (memtable, published) = (Arc::clone(&memtable), Arc::clone(&published));
            let history = Arc::clone(&history);
            move || {
                for at in [published.load(Ordering::Acquire), begun] {
                    let seen = look(&memtable, how, Position(at), script);
                    assert_eq!(seen, history[at as usize], "at position {at}");
                }
            }
        });
        for (number, one) in script.beside.iter().enumerate() {
            let position = write(script.before.len() + number, one);
            published.store(position, Ordering::Release);
        }
        reader.join().unwrap();
    });
}

fn check_all() {
    for (how, interruptions) in [(Look::Get, 2), (Look::Forwards, 3), (Look::Backwards, 3)] {
        for script in [VERSIONS, OPERANDS, KEYS, RANGES] {
            check(script, how, interruptions);
        }
    }
    check(KEYS, Look::Prefetch, 2);
}

#[test]
fn a_reader_beside_the_writer_sees_exactly_what_was_written_up_to_its_position() {
    check_all();
}

#[test]
fn each_seeded_bug_is_found() {
    let [of_memtables, _] = Bug::UNDER_LOOM;
    assert_each_is_found(of_memtables, check_all);
}
