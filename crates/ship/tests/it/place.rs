//! The place of a source.

use quire_env::{Env, OsEnv};
use quire_ship::{
    Change, Cursor, Failure, Result, ShipOptions, Sink, Source, Target, Topic, Verdict, ship,
    status,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// One change, after a place that is known when the source is opened.
#[derive(Debug)]
struct Placed;

impl Source for Placed {
    fn identity(&self) -> String {
        "placed".to_owned()
    }

    fn grows(&self) -> bool {
        false
    }

    fn has_dense_positions(&self) -> bool {
        true
    }

    fn open(&self, place: Option<&Value>) -> Result<Box<dyn Topic>> {
        assert_eq!(place, None);
        Ok(Box::new(Placed))
    }
}

impl Topic for Placed {
    fn read(&mut self, cursor: &Cursor, _: usize, _: Duration) -> Result<Vec<Change>> {
        let change = Change {
            partition: 0,
            position: 1,
            time_micros: 0,
            key: "k".into(),
            document: Some("{}".into()),
        };
        Ok(if cursor.position(0) == 0 {
            vec![change]
        } else {
            Vec::new()
        })
    }

    fn place(&self) -> Option<Value> {
        Some(json!("begin"))
    }
}

/// A sink that finds the stored place when it gets its first change.
#[derive(Debug)]
struct Looks(Arc<dyn Env>, PathBuf);

impl Sink for Looks {
    fn send(&self, bulk: &[&Change]) -> std::result::Result<Vec<Verdict>, Failure> {
        let stored = status(&*self.0, &self.1, "looks").unwrap().unwrap();
        assert_eq!(stored.place, Some(json!("begin")));
        assert_eq!(stored.changes, 0);
        Ok(vec![Verdict::Done; bulk.len()])
    }

    fn concurrency_max(&self) -> usize {
        1
    }

    fn begin(&self, _mark: Option<&Value>) -> std::result::Result<(), Failure> {
        Ok(())
    }
}

#[test] // A row that is deleted before another run begins anew would stay in the sink.
fn the_place_where_a_source_begins_is_stored_before_anything_is_sent() {
    let env: Arc<dyn Env> = OsEnv::new().unwrap();
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let target = Target {
        name: "looks".to_owned(),
        sink: Arc::new(Looks(Arc::clone(&env), state.clone())),
        bulk_bytes: None,
        concurrency: None,
        dead_letters_max: 0,
    };
    let options = ShipOptions {
        state,
        once: true,
        report_every: Duration::from_secs(1),
    };
    let ends = ship(&env, &Placed, &[target], &options, &|_| (), &|| false).unwrap();
    assert_eq!(ends[0].as_ref().unwrap().changes, 1);
}
