//! Wide collections beside plain ones in a database.

use quiredb::operations::{
    FreezeOptions, FrozenView, VerifyOptions, backup, freeze, freeze_by_partition, repair, restore,
    verify, verify_open,
};
use quiredb::query::{Options, field, find};
use quiredb::wide::{Cell, Change, ColumnType, Operand, RowWrite, Schema};
use quiredb::{
    Alias, AliasChange, CollectionSettings, Database, Document, ErrorKind, Key, OsEnv, Position,
    Volumes,
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

#[test]
fn rows_are_frozen_as_a_get_gives_them() -> Tested {
    let dir = tempfile::tempdir()?;
    let database = Database::open(dir.path().join("db"))?;
    let pages = database.create_wide_collection("pages", schema(), settings())?;
    for number in 0..700 {
        let (key, document) = page(number);
        pages.put(&key, &document)?;
    }
    // Of other kinds: a number as the key, no cells, large cells, members that were patched.
    pages.put(&Key::from(7), &Document::from_json(br#"{"size":-1}"#)?)?;
    pages.put(&Key::parse("empty")?, &Document::from_json(b"{}")?)?;
    let large = Cell::Bytes((0..2_000_000u32).map(|byte| byte as u8).collect());
    for number in 0..12 {
        let key = Key::parse(&format!("large-{number}"))?;
        pages.write(&RowWrite::upsert(key).with(Change::set("html", large.clone())))?;
    }
    pages.patch(
        &page(3).0,
        &Document::from_json(br#"{"anchors":{"c":"d"},"html":null}"#)?,
    )?;
    pages.delete(&page(4).0)?;

    let rows = pages.rows()?.collect::<quiredb::Result<Vec<_>>>()?;
    let view = pages.view()?;
    // What is written from now on is not frozen.
    pages.put(&page(4).0, &page(4).1)?;
    let options = FreezeOptions {
        memory_bytes: 8 << 20,
        ..FreezeOptions::default()
    };
    let (file, folder) = (dir.path().join("p.quire"), dir.path().join("p"));
    let report = freeze(&view, &file, &options, &mut |_| {})?;
    assert_eq!(report.documents, view.count());
    assert_eq!(report.long_texts, Vec::<String>::new());
    let parts = freeze_by_partition(&view, &folder, &options, &mut |_| {})?;
    assert_eq!((parts.files.len(), parts.documents), (3, view.count()));

    for path in [&file, &folder] {
        let frozen = FrozenView::open(database.env(), path)?;
        assert_eq!(frozen.count(), view.count());
        let all = find(field("_id").exists()).limit(10_000).prepare()?;
        let answer = frozen.query(&all, &Options::default())?;
        let found = frozen.documents(&answer.hits)?;
        assert_eq!(found.len(), rows.len());
        for (found, row) in found.iter().zip(&rows) {
            let origin = found.origin.as_ref().ok_or("it was a row")?;
            assert_eq!((&origin.key, origin.version), (&row.key, row.version));
            assert_eq!(found.document.to_json(), row.document.to_json());
        }
        for query in [
            find(field("size").lt(20)),
            find(field("anchors.c").eq("d")),
            find(field("_id").eq("large-3")),
            find(field("title").eq("page 9")),
        ] {
            let query = query.limit(1000).with_count().prepare()?;
            let answer = frozen.query(&query, &Options::default())?;
            let of_view = view.query(&query, &Options::default())?;
            assert_eq!(answer.count, of_view.count);
            let live = view.documents(&of_view.hits)?;
            let found = frozen.documents(&answer.hits)?;
            let mut found: Vec<_> = found.iter().map(|one| one.document.to_json()).collect();
            let mut live: Vec<_> = live.iter().map(|one| one.document.to_json()).collect();
            found.sort();
            live.sort();
            assert_eq!(found, live);
        }
    }
    Ok(())
}

#[test]
fn a_backup_has_the_changes_that_are_kept() -> Tested {
    let dir = tempfile::tempdir()?;
    let database = Database::open(dir.path().join("db"))?;
    let settings = CollectionSettings {
        log_retention_secs: 3600,
        ..settings()
    };
    let pages = database.create_wide_collection("pages", schema(), settings)?;
    for number in 0..20 {
        let (key, document) = page(number);
        pages.put(&key, &document)?;
    }
    pages.flush()?;
    pages.delete(&page(7).0)?;
    let changes: Vec<_> = pages.tail(Position(1))?.collect::<quiredb::Result<_>>()?;
    assert_eq!(changes.len(), 21);
    let (backed_up, copy) = (dir.path().join("backup"), dir.path().join("copy"));
    backup(&database, &backed_up, &Default::default(), &mut |_, _| {
        ControlFlow::Continue(())
    })?;
    let volumes = Volumes::single(&copy);
    restore(OsEnv::new()?, &backed_up, None, &volumes, &mut |_, _| ())?;
    let restored = Database::open(&copy)?;
    let tail = restored.wide_collection("pages")?.tail(Position(1))?;
    assert_eq!(tail.collect::<quiredb::Result<Vec<_>>>()?, changes);
    Ok(())
}
