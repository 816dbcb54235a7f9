//! Runs each example and checks what it prints.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

use std::process::Command;

fn run(program: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .arg(dir.path().join("database"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn first_steps_prints_the_books_in_key_order() {
    let printed = run(env!("CARGO_BIN_EXE_first_steps"));
    let titles: Vec<_> = printed
        .lines()
        .filter(|line| line.starts_with('{'))
        .collect();
    assert_eq!(
        titles,
        [
            r#"{"_id":"dracula","title":"Dracula","year":1897,"price":9.99}"#,
            r#"{"_id":"emma","title":"Emma","year":1815,"price":7.50}"#,
            r#"{"_id":"moby-dick","title":"Moby-Dick; or, The Whale","year":1851,"price":12.50}"#,
        ]
    );
    assert!(printed.ends_with("3 books\n"));
}

#[test]
fn typed_books_are_written_conditionally_and_atomically_and_queried() {
    let printed = run(env!("CARGO_BIN_EXE_typed_books"));
    assert!(printed.starts_with("refused: document emma"), "{printed}");
    assert!(
        printed.ends_with("2 books borrowed\nEmma (1815): 1 left\n"),
        "{printed}"
    );
}

#[test]
fn counters_lose_no_update() {
    assert!(run(env!("CARGO_BIN_EXE_counters")).ends_with("100 views\n"));
}

#[test]
fn follow_changes_ends_in_step() {
    let printed = run(env!("CARGO_BIN_EXE_follow_changes"));
    assert!(
        printed.ends_with(
            "in step: {\"apple\": \"{\\\"_id\\\":\\\"apple\\\",\\\"price\\\":1.30}\"}\n"
        ),
        "{printed}"
    );
}

#[test]
fn keys_and_values_are_merged_and_read_backwards() {
    assert_eq!(
        run(env!("CARGO_BIN_EXE_keys_and_values")),
        "/blog/2 7\n/blog/1 40\nsunday\nsaturday\n"
    );
}

const WEB_TABLE: &str = "crawl again: http://news.example/\n\
     crawl again: http://shop.example/\n\
     http://wiki.example/ is \"a link of News\" to http://news.example/\n\
     http://wiki.example/ is \"a link of Shop\" to http://shop.example/\n\
     22 bytes of HTML\n";

#[test]
fn a_web_table_picks_what_to_crawl_again() {
    assert_eq!(run(env!("CARGO_BIN_EXE_web_table")), WEB_TABLE);
}
