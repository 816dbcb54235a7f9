//! Dead letters that are sent again, and nodes that take the place of others.

use crate::fake::{Fake, Fault};
use crate::faults::{LONG, env, run, target};
use quire_ship::{Error, FileSource, retry};
use serde_json::json;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn letters(state: &Path) -> usize {
    let text = std::fs::read_to_string(state.join("search.dead.ndjson"));
    text.map_or(0, |text| text.lines().count())
}

#[test]
fn letters_are_sent_again_with_their_versions_wherever_that_is_killed() {
    let (env, dir) = (env(), tempfile::tempdir().unwrap());
    let fake = Fake::start(vec![]);
    let (file, state) = (dir.path().join("in.ndjson"), dir.path().join("state"));
    let line = |n: u32, value: u32| {
        let bad = n.is_multiple_of(5);
        format!("{{\"_id\":\"k{n}\",\"value\":{value},\"bad\":{bad}}}\n")
    };
    let mut text: String = (0..50).map(|n| line(n, 1)).collect();
    // A later change of one that was refused is good, and one of another is refused too.
    text += "{\"_id\":\"k5\",\"value\":2}\n";
    text += &line(10, 2);
    std::fs::write(&file, text).unwrap();
    let source = FileSource::new(Arc::clone(&env), vec![file], "_id");
    let mut target = target(&env, &fake.url, LONG);
    target.dead_letters_max = 20;
    assert_eq!(
        run(&env, &source, &target, &state, &|| false)
            .unwrap()
            .dead_letters,
        11
    );

    // Nothing is mended yet: all but the one that has a later version are refused again.
    let retried = retry(&env, &target, &state, &|_| (), &|| false).unwrap();
    assert_eq!((retried.sent, retried.refused), (10, 10), "{retried:?}");
    assert_eq!(letters(&state), 10);

    fake.state.lock().unwrap().takes_bad = true;
    for kill in 0..8 {
        let looks = AtomicU64::new(0);
        let stop = || looks.fetch_add(1, Ordering::Relaxed) >= kill;
        match retry(&env, &target, &state, &|_| (), &stop) {
            Err(Error::Stopped) => assert_eq!(letters(&state), 10, "killed at {kill}"),
            end => drop(end.unwrap()),
        }
    }
    let retried = retry(&env, &target, &state, &|_| (), &|| false).unwrap();
    assert_eq!((retried.refused, letters(&state)), (0, 0));
    assert!(!state.join("search.retry").exists());
    let found = fake.state.lock().unwrap().documents();
    assert_eq!(found.len(), 50);
    assert_eq!(found["k5"]["value"], json!(2), "the later change stays");
    assert_eq!(found["k10"]["value"], json!(2), "the newest letter counts");
}

#[test]
fn a_line_that_is_no_letter_is_named_and_a_pipe_that_runs_is_waited_for() {
    let (env, dir) = (env(), tempfile::tempdir().unwrap());
    let fake = Fake::start(vec![]);
    let target = target(&env, &fake.url, LONG);
    let state = dir.path().join("state");
    env.create_dir_all(&state).unwrap();
    std::fs::write(state.join("search.dead.ndjson"), "{}\n").unwrap();
    let retry =
        || retry(&env, &target, &state, &|_| (), &|| false).map_err(|error| error.to_string());
    assert!(retry().unwrap_err().contains("line 1 is no dead letter"));
    let lock = env.lock_dir(&state).unwrap();
    assert!(retry().unwrap_err().contains("in use"));
    drop(lock);
}

#[test]
fn the_next_node_is_called_when_one_is_away_and_what_it_did_is_not_there_twice() {
    let (env, dir) = (env(), tempfile::tempdir().unwrap());
    // Nobody listens on the port of the first node.
    let away = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let faults = [
        Fault::CutAfter,
        Fault::Away,
        Fault::HalfAnswer,
        Fault::CutBefore,
    ];
    let fake = Fake::start(faults.to_vec());
    let other = fake.node();
    let urls = format!("http://{away},{},{other}", fake.url);
    let file = dir.path().join("in.ndjson");
    let lines = (0..200).map(|n| format!("{{\"_id\":\"k{n}\"}}\n"));
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    let source = FileSource::new(Arc::clone(&env), vec![file], "_id");
    let target = target(&env, &urls, LONG);
    let progress = run(&env, &source, &target, &dir.path().join("state"), &|| false).unwrap();
    assert_eq!(progress.dead_letters, 0);
    let server = fake.state.lock().unwrap();
    assert_eq!(server.documents().len(), 200);
    assert!(server.connections > 0, "the other node was called");
}
