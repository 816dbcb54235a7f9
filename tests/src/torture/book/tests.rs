//! The comparison must fail where a promise is broken, or it is worth nothing.

use super::*;

const DONE: Outcome = Outcome::Done(None);

/// One partition, one client; documents 1, 2, … to these keys, with these outcomes.
fn book(writes: &[(&str, Outcome)]) -> Book {
    let mut book = Book::new(1, 1);
    for (at, (key, outcome)) in writes.iter().enumerate() {
        let number = book.request(key, Some(at as u64 + 1), at as u64);
        book.answer(number, *outcome).unwrap();
    }
    book
}

fn found(contents: &[(&str, u64)]) -> Contents {
    let held = |n| Held { n, version: n };
    contents
        .iter()
        .map(|(key, n)| ((*key).to_owned(), held(*n)))
        .collect()
}

fn settles(writes: &[(&str, Outcome)], contents: &[(&str, u64)], promise: Promise) -> bool {
    book(writes).settle(&found(contents), promise).is_ok()
}

#[test]
fn what_was_acknowledged_must_be_there_or_something_later() {
    let writes = [("c1-a", DONE), ("c1-b", DONE), ("c1-a", Outcome::Unknown)];
    assert!(settles(&writes, &[("c1-a", 1), ("c1-b", 2)], Promise::All));
    assert!(settles(&writes, &[("c1-a", 3), ("c1-b", 2)], Promise::All));
    assert!(!settles(&writes, &[("c1-a", 1)], Promise::All));
    assert!(!settles(&writes, &[("c1-b", 2)], Promise::All));
    assert!(settles(&writes, &[("c1-a", 1)], Promise::Prefix));
    assert!(settles(&writes, &[], Promise::Prefix));
    assert!(
        !settles(&writes, &[("c1-b", 2)], Promise::Prefix),
        "the first write is lost, the second is not"
    );
}

#[test]
fn an_old_document_and_one_never_written_are_found_out() {
    let writes = [("c1-a", DONE), ("c1-a", DONE)];
    assert!(settles(&writes, &[("c1-a", 2)], Promise::All));
    assert!(!settles(&writes, &[("c1-a", 1)], Promise::All));
    assert!(!settles(&writes, &[("c1-a", 7)], Promise::Prefix));
    assert!(!settles(
        &writes,
        &[("c1-a", 2), ("c1-z", 2)],
        Promise::Prefix
    ));
    let mut book = book(&writes);
    book.settle(&found(&[("c1-a", 2)]), Promise::All).unwrap();
    assert!(
        book.settle(&found(&[("c1-a", 1)]), Promise::Prefix)
            .is_err()
    );
}

#[test]
fn a_refused_write_must_not_be_there() {
    let writes = [("c1-a", DONE), ("c1-a", Outcome::Refused), ("c1-b", DONE)];
    assert!(settles(&writes, &[("c1-a", 1), ("c1-b", 3)], Promise::All));
    assert!(!settles(&writes, &[("c1-a", 2), ("c1-b", 3)], Promise::All));
}

#[test]
fn a_write_in_doubt_may_be_left_out_before_later_ones() {
    let writes = [("c1-a", DONE), ("c1-a", Outcome::Unknown), ("c1-b", DONE)];
    assert!(settles(&writes, &[("c1-a", 1), ("c1-b", 3)], Promise::All));
    assert!(settles(&writes, &[("c1-a", 2), ("c1-b", 3)], Promise::All));
}

#[test]
fn a_delete_may_be_what_was_not_written_yet() {
    let mut book = Book::new(1, 1);
    for (n, outcome) in [(Some(1), DONE), (None, DONE), (Some(2), Outcome::Unknown)] {
        let number = book.request("c1-a", n, n.unwrap_or(9));
        book.answer(number, outcome).unwrap();
    }
    book.check_read("c1-a", None).unwrap();
    book.check_read("c1-a", Some(Held { n: 1, version: 1 }))
        .unwrap_err();
    book.settle(&Contents::new(), Promise::All).unwrap();
}

#[test]
fn a_batch_is_there_whole_or_not_at_all() {
    let batch = |contents: &[(&str, u64)]| {
        let mut book = Book::new(1, 1);
        book.request("c1-a", Some(1), 0);
        book.request("c1-b", Some(2), 0);
        book.settle(&found(contents), Promise::All).is_ok()
    };
    assert!(batch(&[]));
    assert!(batch(&[("c1-a", 1), ("c1-b", 2)]));
    assert!(!batch(&[("c1-a", 1)]));
    assert!(!batch(&[("c1-b", 2)]));
}

#[test]
fn a_version_is_the_one_that_was_told() {
    let settle = |version| {
        let mut book = Book::new(1, 1);
        let number = book.request("c1-a", Some(1), 0);
        book.answer(number, Outcome::Done(Some(version))).unwrap();
        book.settle(&found(&[("c1-a", 1)]), Promise::All).is_ok()
    };
    assert!(settle(1));
    assert!(!settle(2));
}

#[test]
fn a_partition_that_is_read_only_acknowledges_nothing() {
    let mut book = Book::new(1, 1);
    let first = book.request("c1-a", Some(1), 0);
    book.is_read_only(first);
    let second = book.request("c1-b", Some(2), 1);
    assert!(book.answer(second, DONE).is_err());
}
