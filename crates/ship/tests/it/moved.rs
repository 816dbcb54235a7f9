//! A position is of one collection, also if another one has its name later.

use crate::wire::{listen, request};
use quire_env::{Env, OsEnv};
use quire_ship::{
    Access, Change, CollectionSource, Cursor, Failure, Http, ServerSource, ShipOptions, Sink,
    Source, Target, Verdict, ship,
};
use quiredb::{CollectionSettings, Database, Document};
use serde_json::{Value, json};
use std::io::{BufReader, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// Takes everything.
#[derive(Debug)]
struct Takes;

impl Sink for Takes {
    fn send(&self, bulk: &[&Change]) -> Result<Vec<Verdict>, Failure> {
        Ok(vec![Verdict::Done; bulk.len()])
    }

    fn concurrency_max(&self) -> usize {
        1
    }

    fn begin(&self, _mark: Option<&Value>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Ships what there is. Returns how many changes, or what is wrong.
fn run(source: &dyn Source, folder: &TempDir) -> Result<u64, String> {
    let env: Arc<dyn Env> = OsEnv::new().unwrap();
    let target = Target {
        name: "takes".to_owned(),
        sink: Arc::new(Takes),
        bulk_bytes: None,
        concurrency: None,
        dead_letters_max: 0,
    };
    let options = ShipOptions {
        state: folder.path().join("state"),
        once: true,
        report_every: Duration::from_secs(1),
    };
    let mut ends = ship(&env, source, &[target], &options, &|_| (), &|| false).unwrap();
    let end = ends.remove(0);
    end.map(|end| end.changes)
        .map_err(|error| error.to_string())
}

#[test]
fn a_position_of_a_collection_is_of_no_other_one_in_a_directory() {
    let folder = TempDir::new().unwrap();
    let database = Database::open(folder.path().join("db")).unwrap();
    let filled = |name: &str, documents: u64| {
        let settings = CollectionSettings::default();
        let collection = database.create_collection(name, settings).unwrap();
        for number in 0..documents {
            let json = format!("{{\"_id\":{number}}}");
            let document = Document::from_json(json.as_bytes()).unwrap();
            collection.put(&document).unwrap();
        }
        CollectionSource::new(collection, "db/tracks", false)
    };
    let (first, second) = (filled("first", 5), filled("second", 20));
    assert_eq!(run(&first, &folder), Ok(5));
    let error = run(&second, &folder).unwrap_err();
    assert!(error.contains("another collection"), "{error}");
    assert_eq!(run(&first, &folder), Ok(0));
}

/// A server with one collection behind one name.
#[derive(Debug, Default)]
struct Server {
    uuid: &'static str,
    changes: u64,
    /// Another one has the name after that number of requests for changes.
    moves_after: Option<usize>,
}

impl Server {
    fn answer(&mut self, path: &str) -> String {
        if path.contains("/_stats") {
            return json!({"indices": {"tracks-1": {"uuid": self.uuid}}}).to_string();
        }
        if path.contains("limit=0") {
            return "{\"cursor\":\"0\"}\n".to_owned();
        }
        if self.moves_after == Some(0) {
            (self.uuid, self.changes) = ("other", 50);
        }
        self.moves_after = self.moves_after.and_then(|left| left.checked_sub(1));
        let after = path.split("after=").nth(1).and_then(Cursor::parse);
        let after = after.unwrap_or_default().position(0);
        let lines = (after + 1..=self.changes).map(|position| {
            format!(
                "{{\"partition\":0,\"position\":{position},\"key\":\"{position}\",\
                 \"document\":{{}}}}\n"
            )
        });
        let lines: String = lines.collect();
        format!("{lines}{{\"cursor\":\"{}\"}}\n", after.max(self.changes))
    }
}

fn served(server: &Arc<Mutex<Server>>) -> ServerSource {
    let shared = Arc::clone(server);
    let url = listen(move |stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some((_, path, _)) = request(&mut reader) {
            let answer = shared.lock().unwrap().answer(&path);
            let length = answer.len();
            let text = format!("HTTP/1.1 200 X\r\nContent-Length: {length}\r\n\r\n{answer}");
            if stream.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    });
    let access = Access {
        url,
        timeout: Duration::from_secs(60),
        ..Access::default()
    };
    let env = OsEnv::new().unwrap();
    ServerSource::new(Http::new(&*env, &access, 1).unwrap(), "tracks")
}

#[test]
fn a_position_of_a_collection_is_of_no_other_one_behind_an_alias() {
    let folder = TempDir::new().unwrap();
    let server = Arc::new(Mutex::new(Server {
        uuid: "one",
        changes: 5,
        moves_after: None,
    }));
    let source = served(&server);
    assert_eq!(run(&source, &folder), Ok(5));
    server.lock().unwrap().changes = 7;
    assert_eq!(run(&source, &folder), Ok(2));
    *server.lock().unwrap() = Server {
        uuid: "two",
        changes: 20,
        moves_after: None,
    };
    let error = run(&source, &folder).unwrap_err();
    assert!(error.contains("another collection"), "{error}");
}

#[test]
fn an_alias_that_moves_while_its_changes_are_read_ends_the_run() {
    let folder = TempDir::new().unwrap();
    let server = Arc::new(Mutex::new(Server {
        uuid: "one",
        changes: 5,
        // One request to open, and one that reads five.
        moves_after: Some(2),
    }));
    let error = run(&served(&server), &folder).unwrap_err();
    assert!(error.contains("another collection"), "{error}");
}
