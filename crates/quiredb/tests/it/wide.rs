//! Wide collections beside plain ones in a database.

use quiredb::operations::{VerifyOptions, backup, repair, restore, verify, verify_open};
use quiredb::wide::{Cell, Change, ColumnType, Operand, RowWrite, Schema};
use quiredb::{
    Alias, AliasChange, CollectionSettings, Database, Document, ErrorKind, Key, OsEnv, Volumes,
};
use std::ops::ControlFlow;
use std::path::Path;

type Tested = Result<(), Box<dyn std::error::Error>>;

fn schema() -> Schema {
    let schema = Schema::from_json(
        br#"{
            "properties": {
                "title": {"type": "string"},
                "html": {"type": "string", "contentEncoding": "base64", "group": "cold"},
                "size": {"type": "integer"},
                "anchors": {"type": "object", "additionalProperties": {"type": "string"},
                            "group": "anchors"}
            },
            "groups": {"cold": {"codec": "zstd", "block_bytes": 65536}}
        }"#,
    );
    schema.unwrap()
}

fn settings() -> CollectionSettings {
    CollectionSettings {
        partitions: 3,
        ..CollectionSettings::default()
    }
}

fn page(number: u32) -> (Key, Document) {
    let json = format!(
        r#"{{"title":"page {number}","html":"PGh0bWw+","size":{number},"anchors":{{"a":"b"}}}}"#
    );
    let key = Key::parse(&format!("http://example.org/{number}")).unwrap();
    (key, Document::from_json(json.as_bytes()).unwrap())
}

#[test]
fn rows_are_there_after_a_close_and_columns_are_scanned_over_all_partitions() -> Tested {
    let dir = tempfile::tempdir()?;
    let database = Database::open(dir.path())?;
    let pages = database.create_wide_collection("pages", schema(), settings())?;
    database.create_collection("plain", settings())?;
    for number in 0..300 {
        let (key, document) = page(number);
        pages.put(&key, &document)?;
    }
    let (key, _) = page(7);
    pages.patch(
        &key,
        &Document::from_json(br#"{"title":null,"anchors":{"c":"d"}}"#)?,
    )?;
    pages.delete(&page(8).0)?;
    database.close()?;

    let database = Database::open(dir.path())?;
    assert_eq!(database.collections(), ["plain"]);
    assert_eq!(database.wide_collections(), ["pages"]);
    let pages = database.wide_collection("pages")?;
    assert_eq!(pages.count()?, 299);
    let found = pages.get(&key)?.ok_or("page 7")?;
    let json = concat!(
        r#"{"_id":"http://example.org/7","size":7,"html":"PGh0bWw+","#,
        r#""anchors":{"a":"b","c":"d"}}"#
    );
    assert_eq!(found.document.to_json(), json);
    let mut sizes = Vec::new();
    for batch in pages.scan_columns(&["size"])? {
        sizes.extend(batch?.columns.concat());
    }
    sizes.sort_by_key(|cell| match cell {
        Some(Cell::Int(size)) => *size,
        _ => -1,
    });
    let expected = (0..300).filter(|size| *size != 8);
    assert_eq!(
        sizes,
        expected
            .map(|size| Some(Cell::Int(size)))
            .collect::<Vec<_>>()
    );
    let stats = database.stats()?;
    let figures = stats.collections.iter().find(|one| one.name == "pages");
    assert_eq!(figures.ok_or("pages")?.documents, 299);
    Ok(())
}

#[test]
fn columns_are_altered_while_rows_are_there_and_the_change_survives() -> Tested {
    let dir = tempfile::tempdir()?;
    let database = Database::open(dir.path())?;
    let pages = database.create_wide_collection("pages", schema(), settings())?;
    let (key, document) = page(1);
    pages.put(&key, &document)?;
    database.alter_wide_collection("pages", |schema| {
        schema
            .with_renamed("title", "heading")?
            .without_column("html")?
            .with_wider("size", ColumnType::Float)?
            .with_property(
                "seen",
                br#"{"type":"integer","format":"timestamp","group":"new"}"#,
            )
    })?;
    assert!(
        pages.put(&key, &document).is_err(),
        "a title is not declared any more"
    );
    pages.patch(&key, &Document::from_json(br#"{"size":1.5,"seen":5}"#)?)?;
    let wrong = database.alter_wide_collection("pages", |schema| schema.without_column("html"));
    assert!(wrong.is_err_and(|error| error.kind() == ErrorKind::Invalid));
    database.close()?;

    let database = Database::open(dir.path())?;
    let found = database
        .wide_collection("pages")?
        .get(&key)?
        .ok_or("page 1")?;
    let json = concat!(
        r#"{"_id":"http://example.org/1","heading":"page 1","size":1.5,"#,
        r#""anchors":{"a":"b"},"seen":5}"#
    );
    assert_eq!(found.document.to_json(), json);
    Ok(())
}

#[test]
fn a_wide_collection_is_no_plain_one_and_a_plain_one_not_wide() -> Tested {
    let dir = tempfile::tempdir()?;
    let database = Database::open(dir.path())?;
    let pages = database.create_wide_collection("pages", schema(), settings())?;
    database.create_collection("plain", settings())?;
    let kind = |error: Option<quiredb::Error>| error.map(|error| error.kind());
    assert_eq!(
        kind(database.collection("pages").err()),
        Some(ErrorKind::Invalid)
    );
    assert_eq!(
        kind(database.wide_collection("plain").err()),
        Some(ErrorKind::Invalid)
    );
    let again = database.create_wide_collection("plain", schema(), settings());
    assert_eq!(kind(again.err()), Some(ErrorKind::AlreadyExists));
    let as_plain = database.create_collection("other", (*pages.settings()).clone());
    assert_eq!(kind(as_plain.err()), Some(ErrorKind::Invalid));
    let named = AliasChange::Add {
        collection: "pages".into(),
        alias: "all".into(),
        options: Alias::default(),
    };
    database.change_aliases(&[named])?;
    assert_eq!(database.wide_collection("all")?.name(), "pages");
    assert_eq!(database.wide_collection_for_writes("all")?.name(), "pages");
    assert_eq!(
        kind(database.collection("all").err()),
        Some(ErrorKind::Invalid)
    );
    let kept = CollectionSettings {
        retention_secs: 1,
        ..settings()
    };
    let kept = database.create_wide_collection("kept", schema(), kept);
    assert_eq!(kind(kept.err()), Some(ErrorKind::Invalid));
    database.drop_collection("pages")?;
    assert_eq!(kind(pages.get(&page(1).0).err()), Some(ErrorKind::Closed));
    assert_eq!(
        kind(database.wide_collection("pages").err()),
        Some(ErrorKind::NotFound)
    );
    Ok(())
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test damages files")]
fn damage_is_found_by_verify_and_what_is_whole_comes_out_of_a_backup_and_a_repair() -> Tested {
    let dir = tempfile::tempdir()?;
    let root = dir.path().join("db");
    let database = Database::open(&root)?;
    let one = CollectionSettings {
        partitions: 1,
        ..CollectionSettings::default()
    };
    let pages = database.create_wide_collection("pages", schema(), one)?;
    for number in 0..100 {
        let (key, document) = page(number);
        pages.put(&key, &document)?;
        let visit = Change::merge("size", Operand::Add(1));
        pages.write(&RowWrite::patch(key).with(visit))?;
    }
    pages.compact()?;
    let options = VerifyOptions::default();
    let report = verify_open(&database, &options, &mut |_, _| ControlFlow::Continue(()))?;
    assert_eq!((report.damage.len(), report.documents), (0, 100));

    let backed_up = dir.path().join("backup");
    backup(&database, &backed_up, &Default::default(), &mut |_, _| {
        ControlFlow::Continue(())
    })?;
    database.close()?;
    drop(database);

    let volumes = || Volumes::single(&root);
    let checked = || verify(OsEnv::new().unwrap(), volumes(), &options, &mut |_, _| {});
    let report = checked()?;
    assert_eq!((report.damage.len(), report.documents), (0, 100));
    let rows = |path: &Path| -> quiredb::Result<Vec<String>> {
        let database = Database::open(path)?;
        let rows = database.wide_collection("pages")?.rows()?;
        rows.map(|row| Ok(row?.document.to_json())).collect()
    };
    let expected = rows(&root)?;
    let copy = dir.path().join("copy");
    restore(
        OsEnv::new()?,
        &backed_up,
        None,
        &Volumes::single(&copy),
        &mut |_, _| (),
    )?;
    assert_eq!(rows(&copy)?, expected);
    let repaired = dir.path().join("repaired");
    let report = repair(
        OsEnv::new()?,
        volumes(),
        Volumes::single(&repaired),
        &mut |_| {},
    )?;
    assert!(report.is_whole());
    assert_eq!(rows(&repaired)?, expected);

    let tables = root.join("c00000001/p0000/tables");
    for table in std::fs::read_dir(tables)? {
        let path = table?.path();
        let mut bytes = std::fs::read(&path)?;
        bytes[10] ^= 1;
        std::fs::write(&path, bytes)?;
    }
    assert!(!checked()?.damage.is_empty());
    Ok(())
}
