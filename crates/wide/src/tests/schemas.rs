//! Schemas: numbers of columns are given by Quire alone, and an altered schema follows from the one
//! before it.

use crate::{ColumnType, ErrorKind, Schema};

fn schema(json: &str) -> crate::Result<Schema> {
    Schema::from_json(json.as_bytes())
}

fn refused<T: std::fmt::Debug>(result: crate::Result<T>) {
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn the_number_of_a_column_is_not_chosen() {
    let pages = || {
        let pages = Schema::new()
            .with_column("html", ColumnType::String, "a")
            .unwrap();
        pages.without_column("html").unwrap()
    };
    for number in [0, 1, 2, u32::MAX - 2] {
        let json = format!(r#"{{"type":"integer","column":{number}}}"#);
        refused(pages().with_property("size", json.as_bytes()));
        let json = format!(
            r#"{{"type":"object","additionalProperties":{{"type":"integer"}},"column":{number}}}"#
        );
        refused(pages().with_property("sizes", json.as_bytes()));
    }
    for json in [
        r#"{"properties":{"a":{"type":"string","column":5}}}"#,
        r#"{"properties":{"a":{"type":"string","column":5}},"nextColumn":5}"#,
        r#"{"properties":{"a":{"type":"string","column":5},"b":{}},"nextColumn":9}"#,
        r#"{"properties":{"a":{"type":"string"},"b":{}},"nextColumn":2}"#,
    ] {
        refused(schema(json));
    }
    let stored = pages().with_column("size", ColumnType::Int, "a").unwrap();
    assert_eq!(schema(&stored.to_json()).unwrap(), stored);
    assert_eq!(schema(&pages().to_json()).unwrap(), pages());
}

#[test]
fn a_group_has_the_filter_that_its_schema_says() {
    let groups = |json: &str| schema(&format!(r#"{{"properties":{{}},"groups":{json}}}"#));
    let media = vec![<[quire_lsm::Tier; 2]>::default(); 3];
    let two = groups(r#"{"scanned":{"filter_bits":0},"hot":{"filter_bits":16}}"#).unwrap();
    let bits: Vec<u32> = crate::machine::group_specs(&two, &media)
        .iter()
        .map(|spec| spec.filter_bits_per_key)
        .collect();
    assert_eq!(bits, [10, 10, 0, 0, 16, 16]);
    assert_eq!(schema(&two.to_json()).unwrap(), two);
    // What is as it always was is not said: an older program reads it.
    assert_eq!(two.to_json().matches("filter_bits").count(), 2);
    refused(groups(r#"{"hot":{"filter_bits":65}}"#));
    refused(groups(r#"{"hot":{"filter_bits":-1}}"#));
}

#[test]
fn an_altered_schema_follows_from_the_one_before() {
    let before = schema(
        r#"{"properties":{"title":{"type":"string"},"size":{"type":"integer","group":"meta"},
            "links":{"type":"object","additionalProperties":{"type":"string"},"group":"links"}}}"#,
    )
    .unwrap();
    let altered = || before.clone();
    let allowed = [
        Ok(altered()),
        altered().with_renamed("title", "heading"),
        altered().without_column("title"),
        altered().with_wider("size", ColumnType::Float),
        altered().with_column("new", ColumnType::Int, "more"),
        altered()
            .without_column("size")
            .and_then(|one| one.with_column("size", ColumnType::String, "links")),
        Ok(altered().keep_undeclared(true)),
        altered().with_group_json("meta", br#"{"codec":"zstd"}"#),
    ];
    for after in allowed {
        after.unwrap().check_follows(&before).unwrap();
    }

    let stored = before.to_json();
    let changed = |from: &str, to: &str| {
        assert!(stored.contains(from), "{from} in {stored}");
        schema(&stored.replacen(from, to, 1)).unwrap()
    };
    let group = r#""links":{"codec":"lz4","block_bytes":8192}"#;
    let later = altered()
        .with_column("new", ColumnType::Int, "meta")
        .unwrap();
    let dropped = altered().without_column("size").unwrap();
    let reused = stored.replacen(
        r#""size":{"type":"integer""#,
        r#""other":{"type":"string""#,
        1,
    );
    for (after, before) in [
        // Another schema altogether, whose numbers begin anew.
        (
            schema(r#"{"properties":{"size":{"type":"integer"}}}"#).unwrap(),
            &before,
        ),
        (Schema::new(), &before),
        (
            changed(r#""type":"integer""#, r#""type":"string""#),
            &before,
        ),
        (changed(r#""group":"meta""#, r#""group":"links""#), &before),
        (changed(group, r#""else":{},"links":{}"#), &before),
        (before.clone(), &later),
        (schema(&reused).unwrap(), &dropped),
        (
            before.clone(),
            &altered().with_wider("size", ColumnType::Float).unwrap(),
        ),
    ] {
        refused(after.check_follows(before));
    }
}
