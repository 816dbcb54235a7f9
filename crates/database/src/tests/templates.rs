//! Templates: kept by the catalog, changed whole.

use super::open;
use crate::{Database, Error};
use quire_env::{Fault, SimEnv};
use serde_json::json;
use std::sync::Arc;

fn change(database: &Database) -> Result<(), Error> {
    database.change_templates(|templates| {
        templates.insert("index/logs".into(), json!({"priority": 2}));
        templates.remove("component/old");
        Ok(())
    })
}

fn begin(env: &Arc<SimEnv>) -> Database {
    let database = open(env).unwrap();
    let old = |templates: &mut crate::Templates| {
        templates.insert("component/old".into(), json!({}));
        Ok::<(), Error>(())
    };
    database.change_templates(old).unwrap();
    database
}

#[test]
fn a_crash_or_a_fault_at_any_step_leaves_all_changes_or_none() {
    let env = SimEnv::new(1);
    let database = begin(&env);
    let before = database.templates();
    let first = env.operations();
    change(&database).unwrap();
    let steps = first..env.operations();
    let after = database.templates();
    assert_ne!(before, after);
    for step in steps {
        for is_crash in [true, false] {
            let env = SimEnv::new(1);
            let database = begin(&env);
            match is_crash {
                true => env.crash_at(step),
                false => env.fail_at(step, Fault::Eio),
            }
            let is_done = change(&database).is_ok();
            for seed in 0..4 {
                let found = open(&env.after_crash(seed)).unwrap().templates();
                let is_whole = found == after || found == before && !is_done;
                assert!(is_whole, "step {step}, crash {is_crash}: {found:?}");
            }
        }
    }
}

#[test]
fn a_change_that_fails_or_is_too_large_changes_nothing() {
    let database = begin(&SimEnv::new(1));
    let before = database.templates();
    let refused = database.change_templates(|templates| {
        templates.clear();
        Err(Error::Closed)
    });
    assert!(refused.is_err());
    let refused = database.change_templates(|templates| {
        templates.insert("index/large".into(), "x".repeat(5 << 20).into());
        Ok::<(), Error>(())
    });
    assert!(refused.unwrap_err().to_string().contains("delete some"));
    assert_eq!(database.templates(), before);
}
