//! A server that is polled by HTTP, as the source.

use crate::fake::Fake;
use crate::faults::{LONG, env, run, target};
use crate::wire::{listen, request};
use quire_ship::{Error, SourceConfig};
use serde_json::{Value, json};
use std::io::{BufReader, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Rows by the moment of their change; `None` for what went wrong at that question.
#[derive(Debug, Default)]
struct Api {
    rows: Vec<(u64, Value)>,
    faults: Vec<u16>,
    questions: Vec<String>,
}

/// Serves pages of at most 7 rows that are not before the cursor, as servers do whose moments are
/// coarse.
fn serve(api: &Arc<Mutex<Api>>) -> String {
    let shared = Arc::clone(api);
    listen(move |stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some((_, path, _)) = request(&mut reader) {
            let mut api = shared.lock().unwrap();
            let after = path.split("after=").nth(1).unwrap();
            let after: u64 = after.split('&').next().unwrap().parse().unwrap_or(0);
            let rows = api.rows.iter().filter(|(at, _)| *at >= after).take(7);
            let rows: Vec<Value> = rows
                .map(|(at, row)| {
                    let mut row = row.clone();
                    row["at"] = json!(at);
                    row
                })
                .collect();
            api.questions.push(path);
            let (status, body) = match api.faults.pop() {
                Some(status) => (status, "away".to_owned()),
                None => (200, json!({"page": {"rows": rows}}).to_string()),
            };
            let length = body.len();
            let text = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
            if stream.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    })
}

fn config(url: &str) -> SourceConfig {
    SourceConfig {
        kind: Some("http".to_owned()),
        url: Some(format!("{url}/rows?after={{cursor}}&sort=at")),
        items: Some("page.rows".to_owned()),
        key_field: Some("id".to_owned()),
        cursor_field: Some("at".to_owned()),
        deleted_field: Some("gone".to_owned()),
        ..SourceConfig::default()
    }
}

#[test]
fn the_sink_equals_the_server_wherever_the_run_is_killed() {
    let (env, dir, fake) = (env(), tempfile::tempdir().unwrap(), Fake::start(vec![]));
    let api = Arc::new(Mutex::new(Api::default()));
    for n in 0..100 {
        let row = match n % 9 {
            4 => json!({"id": n - 4, "gone": true}),
            _ => json!({"id": n, "n": n}),
        };
        api.lock().unwrap().rows.push((1_000 + n / 3, row));
    }
    api.lock().unwrap().faults = vec![503, 429];
    let source = config(&serve(&api)).open(&env).unwrap().unwrap();
    let (target, state) = (target(&env, &fake.url, LONG), dir.path().join("state"));
    for kill in 1..10 {
        let looks = AtomicU64::new(0);
        let stop = || looks.fetch_add(1, Ordering::Relaxed) > kill;
        match run(&env, &*source, &target, &state, &stop) {
            Ok(_) | Err(Error::Stopped) => {}
            Err(error) => panic!("{error}"),
        }
    }
    // An earlier row changes.
    api.lock()
        .unwrap()
        .rows
        .push((2_000, json!({"id": 1, "n": "new"})));
    run(&env, &*source, &target, &state, &|| false).unwrap();
    let found = fake.state.lock().unwrap().documents();
    assert_eq!(found.len(), 100 - 2 * 11, "{:?}", found.keys());
    assert_eq!(found["1"], json!({"id": 1, "n": "new", "at": 2000}));
    assert!(!found.contains_key("0") && found.contains_key("99"));
    // The next run requests what is after the last.
    run(&env, &*source, &target, &state, &|| false).unwrap();
    let last = api.lock().unwrap().questions.pop().unwrap();
    assert!(last.contains("after=2000&"), "{last}");
}

#[test]
fn a_wrong_address_or_answer_is_named() {
    let (env, dir, fake) = (env(), tempfile::tempdir().unwrap(), Fake::start(vec![]));
    let api = Arc::new(Mutex::new(Api::default()));
    let url = serve(&api);
    let without = SourceConfig {
        url: Some(format!("{url}/rows")),
        ..config(&url)
    };
    let error = without.open(&env).map(drop).unwrap_err();
    assert!(error.to_string().contains("{cursor}"), "{error}");
    let source = config(&url).open(&env).unwrap().unwrap();
    let (target, state) = (target(&env, &fake.url, LONG), dir.path().join("state"));
    for (row, part) in [
        (json!({"n": 1}), "no field \"id\""),
        (json!({"id": 1.5}), "neither a string nor an integer"),
    ] {
        api.lock().unwrap().rows = vec![(1, row)];
        let error = run(&env, &*source, &target, &state, &|| false).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    api.lock().unwrap().faults = vec![404];
    let error = run(&env, &*source, &target, &state, &|| false).unwrap_err();
    assert!(error.to_string().contains("status 404"), "{error}");
}
