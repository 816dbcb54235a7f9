//! Aliases of collections.

use super::{check_all_or_none, document, open};
use crate::{Alias, AliasChange, Aliases, Database, ErrorKind};
use quire_env::SimEnv;
use quire_model::Key;
use std::collections::BTreeMap;
use std::sync::Arc;

fn add(collection: &str, alias: &str) -> AliasChange {
    AliasChange::Add {
        collection: collection.into(),
        alias: alias.into(),
        options: Alias::default(),
    }
}

fn remove(collection: &str, alias: &str) -> AliasChange {
    AliasChange::Remove {
        collection: collection.into(),
        alias: alias.into(),
    }
}

fn written(collection: &str, alias: &str) -> AliasChange {
    AliasChange::Add {
        collection: collection.into(),
        alias: alias.into(),
        options: Alias {
            is_write_index: Some(true),
            ..Alias::default()
        },
    }
}

fn two_collections(database: &Database) {
    for (number, name) in ["jobs-1", "jobs-2"].into_iter().enumerate() {
        let collection = database.create_collection(name, Default::default());
        let key = Key::from(number as u64);
        collection.unwrap().put_at(&key, &document()).unwrap();
    }
}

#[test]
fn an_alias_stands_for_its_collections_and_writes_go_to_one_of_them() {
    let env = SimEnv::new(1);
    let database = open(&env).unwrap();
    two_collections(&database);
    database.change_aliases(&[add("jobs-1", "jobs")]).unwrap();
    assert_eq!(database.collection("jobs").unwrap().name(), "jobs-1");
    let made = || panic!("there is an alias of this name");
    let found = database.collection_or_create("jobs", made).unwrap();
    assert_eq!(found.name(), "jobs-1");

    // Of two, one has to be declared.
    database.change_aliases(&[add("jobs-2", "jobs")]).unwrap();
    assert_eq!(
        database.collection("jobs").unwrap_err().kind(),
        ErrorKind::Invalid
    );
    let refused = database.collection_for_writes("jobs").unwrap_err();
    assert!(refused.to_string().contains("is_write_index"), "{refused}");
    database
        .change_aliases(&[written("jobs-2", "jobs")])
        .unwrap();
    assert_eq!(
        database.collection_for_writes("jobs").unwrap().name(),
        "jobs-2"
    );

    // A drop takes aliases along, and they outlive the database.
    database.drop_collection("jobs-1").unwrap();
    drop(database);
    let database = open(&env).unwrap();
    assert_eq!(database.collection("jobs").unwrap().name(), "jobs-2");
    let refused = database.create_collection("jobs", Default::default());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    database.drop_collection("jobs-2").unwrap();
    assert!(database.aliases().is_empty());
}

#[test]
fn changes_that_break_a_rule_change_nothing() {
    let database = open(&SimEnv::new(1)).unwrap();
    two_collections(&database);
    database
        .change_aliases(&[written("jobs-1", "jobs")])
        .unwrap();
    let before = database.aliases();
    let refused = [
        (
            vec![add("jobs-2", "more"), add("jobs-3", "more")],
            ErrorKind::NotFound,
        ),
        (
            vec![add("jobs-2", "more"), remove("jobs-2", "jobs")],
            ErrorKind::NotFound,
        ),
        (vec![add("jobs-2", "jobs-1")], ErrorKind::Invalid),
        (vec![add("jobs-2", "Jobs")], ErrorKind::Invalid),
        (vec![written("jobs-2", "jobs")], ErrorKind::Invalid),
    ];
    for (changes, kind) in refused {
        let error = database.change_aliases(&changes).unwrap_err();
        assert_eq!(error.kind(), kind, "{changes:?}: {error}");
        assert_eq!(database.aliases(), before, "{changes:?}");
    }
}

/// The collections with their documents, and the aliases.
fn seen(database: &Database) -> (Vec<(String, u64)>, Aliases) {
    let count = |name: String| {
        let count = database.collection_named(&name).unwrap().count().unwrap();
        (name, count)
    };
    let collections = database.collections().into_iter().map(count).collect();
    (collections, Aliases::clone(&database.aliases()))
}

#[test]
fn a_collection_is_made_with_changes_of_aliases_or_not_at_all() {
    let begin = |env: &Arc<SimEnv>| {
        let database = open(env).unwrap();
        two_collections(&database);
        database
            .change_aliases(&[written("jobs-2", "jobs")])
            .unwrap();
        database
    };
    let moved = [remove("jobs-2", "jobs"), written("jobs-3", "jobs")];
    let make = |database: &Database, changes: &[AliasChange]| {
        let made = database.create_and_change_aliases(
            "jobs-3",
            Default::default(),
            BTreeMap::new(),
            changes,
        );
        made.map(drop)
    };
    let env = SimEnv::new(1);
    let database = begin(&env);
    let before = seen(&database);
    let refused = [
        (vec![written("jobs-3", "jobs")], ErrorKind::Invalid),
        (vec![remove("jobs-3", "jobs")], ErrorKind::NotFound),
        (vec![add("jobs-4", "jobs")], ErrorKind::NotFound),
    ];
    for (changes, kind) in refused {
        let error = make(&database, &changes).unwrap_err();
        assert_eq!(error.kind(), kind, "{changes:?}: {error}");
        assert_eq!(seen(&database), before, "{changes:?}");
    }
    drop(database);

    let [before, after] = check_all_or_none(begin, |database| make(database, &moved), seen);
    assert_eq!(after.0.len(), before.0.len() + 1);
}

/// The switch of an alias, and an alias that takes the name of a collection which is dropped.
fn changes() -> [Vec<AliasChange>; 2] {
    let drop = AliasChange::Drop {
        collection: "jobs-1".into(),
    };
    [
        vec![remove("jobs-1", "jobs"), written("jobs-2", "jobs")],
        vec![drop, add("jobs-2", "jobs-1")],
    ]
}

#[test]
fn a_crash_or_a_fault_at_any_step_leaves_all_changes_or_none() {
    for changes in changes() {
        let begin = |env: &Arc<SimEnv>| {
            let database = open(env).unwrap();
            two_collections(&database);
            database.change_aliases(&[add("jobs-1", "jobs")]).unwrap();
            database
        };
        check_all_or_none(begin, |database| database.change_aliases(&changes), seen);
    }
}
