//! Writes that must leave each row readable: values that no document can have, names that are
//! taken, and ranges without a member.

use super::*;
use crate::{Salvaged, WideSalvage};

/// A plain column, a family, and undeclared fields: all of them JSON.
fn json_schema() -> Arc<Schema> {
    let schema = Schema::new().keep_undeclared(true);
    let schema = schema.with_column("tree", ColumnType::Json, "default");
    let schema = schema.and_then(|one| one.with_family("trees", ColumnType::Json, "default"));
    Arc::new(schema.unwrap())
}

fn written(partition: &WidePartition, schema: &Schema, change: Change) -> Result<()> {
    let write = RowWrite::upsert(key("x")).with(change);
    let triggers = Triggers {
        key_field: "_id",
        ..Triggers::none()
    };
    let done = partition.write(schema, &write, triggers, Durability::Sync);
    done.map(drop)
}

fn whole(partition: &WidePartition, schema: &Arc<Schema>) -> Option<String> {
    let view = partition.view(schema).unwrap();
    let found = view.get(&key("x"), "_id", None).unwrap();
    let scanned: Vec<_> = view
        .rows("_id", None)
        .unwrap()
        .map(|row| row.unwrap().1.document.to_json())
        .collect();
    let found = found.map(|found| found.document.to_json());
    assert_eq!(scanned, found.iter().cloned().collect::<Vec<_>>());
    found
}

/// Arrays in each other, `levels` deep.
fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

fn json(text: impl Into<String>) -> Cell {
    Cell::Json(text.into())
}

#[test]
fn a_range_that_ends_before_the_first_member_removes_none() {
    let partition = open(&SimEnv::new(1)).unwrap();
    for member in ["", "a", "b"] {
        let set = Change::set("links", Cell::String("x".into())).of_member(member);
        written(&partition, &schema(), set).unwrap();
    }
    let count = || {
        let view = partition.view(&schema()).unwrap();
        view.members(&key("x"), "links", None, None)
            .unwrap()
            .count()
    };
    for from in [None, Some(""), Some("a")] {
        let from = from.map(str::to_string);
        let none = Change::remove_members("links", from, Some(String::new()));
        written(&partition, &schema(), none).unwrap();
        assert_eq!(count(), 3);
    }
    let rest = Change::remove_members("links", Some("a".into()), None);
    written(&partition, &schema(), rest).unwrap();
    assert_eq!(count(), 1);
}

#[test]
fn json_that_no_document_can_have_is_refused_and_the_row_stays_readable() {
    let partition = open(&SimEnv::new(1)).unwrap();
    let schema = json_schema();
    written(&partition, &schema, Change::set("tree", json("1"))).unwrap();
    let before = whole(&partition, &schema);
    let (plain, member) = (nested(128), nested(127));
    let values = [
        r#"{"a":1,"a":2}"#,
        "18446744073709551616",
        "1e999",
        "[1",
        "1,2",
        r#"1,"b":2"#,
        r#"1},"b":{"c":2"#,
        "1}",
        "",
        "null",
    ];
    for value in values.into_iter().chain([plain.as_str()]) {
        let refused = [
            Change::set("tree", json(value)),
            Change::set("trees", json(value)).of_member("m"),
            Change::set("_rest", json(value)).of_member("more"),
        ];
        for change in refused {
            let error = written(&partition, &schema, change).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{value:.60}: {error}");
        }
    }
    let added = |array: String| Change::merge("trees", Operand::AddToSet(array)).of_member("m");
    let refused = [
        Change::set("trees", json(member.as_str())).of_member("m"),
        added(member.clone()),
        added(r#"[{"a":1,"a":2}]"#.into()),
        Change::set(
            "tree",
            json(format!("\"{}\"", "x".repeat(crate::CELL_BYTES_MAX))),
        ),
    ];
    for change in refused {
        let error = written(&partition, &schema, change).unwrap_err();
        let is_refused = matches!(error.kind(), ErrorKind::Invalid | ErrorKind::TooLarge);
        assert!(is_refused, "{error}");
    }
    assert_eq!(whole(&partition, &schema), before);

    // The deepest that fit.
    let fit = [
        Change::set("tree", json(nested(127))),
        Change::set("trees", json(nested(126))).of_member("m"),
        added(nested(126)),
        Change::set("_rest", json(nested(127))).of_member("more"),
    ];
    for change in fit {
        written(&partition, &schema, change).unwrap();
        assert!(whole(&partition, &schema).is_some());
    }
}

#[test]
fn an_undeclared_field_has_not_the_name_of_the_key_or_of_a_column() {
    let partition = open(&SimEnv::new(1)).unwrap();
    let schema = json_schema();
    for name in ["_id", "tree", "trees"] {
        let set = Change::set("_rest", json("1")).of_member(name);
        let error = written(&partition, &schema, set).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
        let added = Change::merge("_rest", Operand::AddToSet("[1]".into())).of_member(name);
        assert!(written(&partition, &schema, added).is_err(), "{name}");
        let gone = Change::remove("_rest").of_member(name);
        written(&partition, &schema, gone).unwrap();
    }

    // As an older program wrote it: the row is read, and the key is its own.
    let set = Change::set("_rest", json("1")).of_member("_id");
    let write = RowWrite::upsert(key("x")).with(set);
    partition
        .write(&schema, &write, Triggers::none(), Durability::Sync)
        .unwrap();
    assert_eq!(whole(&partition, &schema).unwrap(), r#"{"_id":"x"}"#);
}

#[test]
fn a_salvage_reports_a_cell_that_no_document_can_have_and_gives_the_others() {
    for is_flushed in [false, true] {
        let env = SimEnv::new(1);
        let partition = open(&env).unwrap();
        // What an older program wrote: the value is too deep for the member of a family.
        let column = |name, is_family| {
            let schema = Schema::new().keep_undeclared(true);
            let schema = schema
                .with_column("title", ColumnType::String, "default")
                .unwrap();
            match is_family {
                true => schema
                    .with_family(name, ColumnType::Json, "default")
                    .unwrap(),
                false => schema
                    .with_column(name, ColumnType::Json, "default")
                    .unwrap(),
            }
        };
        let write = RowWrite::put(key("x"))
            .with(Change::set("title", Cell::String("t".into())))
            .with(Change::set("deep", json(nested(127))))
            .with(Change::set("_rest", json("1")).of_member("_id"));
        let wrote = column("deep", false);
        partition
            .write(&wrote, &write, Triggers::none(), Durability::Sync)
            .unwrap();
        if is_flushed {
            partition.flush().unwrap();
        }
        partition.close().unwrap();

        let shared = Shared::new(env.clone(), 8 << 20, None);
        let schema = column("deep", true);
        let place = place();
        let salvage = WideSalvage::begin(&shared, &place, (&schema, "_id"), &mut |_| {});
        let (mut writes, mut reported) = (Vec::new(), Vec::new());
        let run = salvage.unwrap().run(&mut |found| {
            match found {
                Salvaged::Write(write) => writes.push(write),
                Salvaged::Senseless(_, what) => reported.push(what),
                _ => {}
            }
            Ok::<(), crate::Error>(())
        });
        run.unwrap();
        assert!(
            matches!(&reported[..], [one] if one.contains("deep")),
            "{reported:?}"
        );
        let env = SimEnv::new(2);
        let partition = open(&env).unwrap();
        for write in &writes {
            let triggers = Triggers {
                key_field: "_id",
                ..Triggers::none()
            };
            partition
                .write(&schema, write, triggers, Durability::Sync)
                .unwrap();
        }
        let row = whole(&partition, &Arc::new(schema)).unwrap();
        assert_eq!(row, r#"{"_id":"x","title":"t"}"#);
    }
}
