//! A reindex of the index that clients write to by the alias, from itself.

use crate::fake_cluster::FakeCluster;
use crate::reindex::{NEW, OLD, Stage, quiet};
use quire_ship::{Change, Cursor, ReindexEvent, Result, Source, Topic};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BLOCKED: &str = "index.blocks.write";

/// The log of the old index.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<(String, Value)>>>);

impl Source for Log {
    fn identity(&self) -> String {
        "server/tracks".to_owned()
    }

    fn grows(&self) -> bool {
        true
    }

    fn has_dense_positions(&self) -> bool {
        false
    }

    fn collection_at(&self, _url: &str) -> Result<Option<String>> {
        Ok(Some(OLD.to_owned()))
    }

    fn of_collection(&self, name: &str) -> Option<Box<dyn Source>> {
        assert_eq!(name, OLD);
        Some(Box::new(self.clone()))
    }

    fn open(&self, _place: Option<&Value>) -> Result<Box<dyn Topic>> {
        Ok(Box::new(self.clone()))
    }
}

impl Topic for Log {
    fn read(&mut self, cursor: &Cursor, _: usize, _: Duration) -> Result<Vec<Change>> {
        let log = self.0.lock().unwrap();
        let after = log.iter().zip(1..).skip(cursor.position(0) as usize);
        let changes = after.map(|((key, document), position)| Change {
            partition: 0,
            position,
            time_micros: 0,
            key: key.as_str().into(),
            document: Some(document.to_string().into()),
        });
        Ok(changes.collect())
    }
}

/// Writes as a client does that knows the alias only. Returns whether that was acknowledged.
fn write(cluster: &FakeCluster, log: &Log, key: &str, document: Value) -> bool {
    let mut state = cluster.state();
    let name = state.aliases["tracks"].keys().next().unwrap().clone();
    let index = state.indexes.get_mut(&name).unwrap();
    if index.settings.get(BLOCKED) == Some(&json!(true)) {
        return false;
    }
    match &*name {
        OLD => log.0.lock().unwrap().push((key.to_owned(), document)),
        _ => {
            let version = index.documents.get(key).map_or(0, |(version, _)| *version);
            index
                .documents
                .insert(key.to_owned(), (version + 1, Some(document)));
        }
    }
    true
}

#[test]
fn a_write_by_the_alias_beside_the_switch_is_not_lost() {
    let (stage, log) = (Stage::new("7.10.2", ""), Log::default());
    for number in 0..20 {
        let key = format!("k{}", number % 7);
        assert!(write(&stage.cluster, &log, &key, json!({"n": number})));
    }
    let reindex = stage.reindex();
    let warnings = reindex.plan(&log).unwrap().warnings;
    assert!(
        warnings.iter().any(|one| one.contains("no rollback")),
        "{warnings:?}"
    );
    assert_eq!(
        reindex.run(&log, &quiet, &|| false).unwrap().differences,
        []
    );

    // One client writes a document again and again, all through the switch.
    let (count, acknowledged) = (Mutex::new(100), Mutex::new(Vec::new()));
    let observe = |event: &ReindexEvent| {
        let ReindexEvent::Journal(said) = event else {
            return;
        };
        let mut count = count.lock().unwrap();
        *count += 1;
        let document = json!({"n": *count});
        if write(&stage.cluster, &log, "k3", document.clone()) {
            let says = said.says.clone();
            acknowledged.lock().unwrap().push((says, document));
        }
    };
    assert_eq!(
        reindex.switch(&log, false, &observe, &|| false).unwrap(),
        NEW
    );
    let acknowledged = acknowledged.into_inner().unwrap();
    let last = &acknowledged.last().unwrap().1;
    assert_eq!(&stage.documents(NEW)["k3"], last, "{acknowledged:?}");
    assert!(acknowledged.len() > 2, "{acknowledged:?}");

    // Clients of the old index may go on; what they write by the alias stays.
    assert_eq!(
        stage.cluster.state().indexes[OLD].settings.get(BLOCKED),
        None
    );
    assert!(write(&stage.cluster, &log, "k3", json!({"n": 900})));
    assert_eq!(reindex.switch(&log, false, &quiet, &|| false).unwrap(), NEW);
    assert_eq!(stage.documents(NEW)["k3"], json!({"n": 900}));
    for end in [
        reindex.rollback(&log, &quiet, &|| false).map(drop),
        reindex.run(&log, &quiet, &|| false).map(drop),
    ] {
        let error = end.unwrap_err().to_string();
        assert!(error.contains("quire reindex clean"), "{error}");
    }
    assert_eq!(stage.serving(), [NEW]);
    assert_eq!(
        reindex
            .clean(Some(&log), &quiet, &|| false)
            .unwrap()
            .as_deref(),
        Some(OLD)
    );
}

#[test]
fn a_switch_that_is_killed_leaves_no_index_that_refuses_writes() {
    for kill in 1.. {
        let (stage, log) = (Stage::new("7.10.2", ""), Log::default());
        assert!(write(&stage.cluster, &log, "k", json!({"n": 1})));
        let reindex = stage.reindex();
        reindex.run(&log, &quiet, &|| false).unwrap();
        let from = stage.steps();
        let stop = || stage.steps() - from >= kill;
        let end = reindex.switch(&log, false, &quiet, &stop);
        reindex.clean(None, &quiet, &|| false).unwrap();
        let settings = |index: &str| stage.cluster.state().indexes[index].settings.clone();
        assert_eq!(settings(OLD).get(BLOCKED), None, "killed at {kill}");
        assert_eq!(settings(NEW).get(BLOCKED), None, "killed at {kill}");
        assert!(write(&stage.cluster, &log, "k", json!({"n": 2})));
        reindex.switch(&log, false, &quiet, &|| false).unwrap();
        assert_eq!(
            stage.documents(NEW)["k"],
            json!({"n": 2}),
            "killed at {kill}"
        );
        if end.is_ok() {
            assert!(kill > 4, "only {kill} steps");
            return;
        }
    }
}
