//! Templates: kept by the catalog, changed whole.

use super::{check_all_or_none, open};
use crate::{Database, Error};
use quire_env::SimEnv;
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
    check_all_or_none(begin, change, Database::templates);
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
