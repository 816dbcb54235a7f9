use super::*;
use quire_collection::Write;
use quire_model::{Document, Key};
use serde_json::json;

fn mapping(json: Value) -> Result<Mapping, MappingError> {
    Mapping::parse(json.as_object().unwrap())
}

fn check(mapping: &Mapping, json: &str) -> Result<(), Violation> {
    let document = Document::from_json(json.as_bytes()).unwrap();
    mapping.check(&Write::put(Key::parse("1").unwrap(), document))
}

#[test]
fn values_agree_with_their_types_or_are_refused() {
    let typed = |kind: &str| json!({"properties": {"a": {"type": kind, "scaling_factor": 10}}});
    let typed = |kind: &str| {
        let mut json = typed(kind);
        if kind != "scaled_float" {
            json["properties"]["a"] = json!({"type": kind});
        }
        mapping(json).unwrap()
    };
    let cases = [
        ("keyword", r#""x" 5 true null ["x",null]"#, r#"{} ["x",{}]"#),
        ("text", r#""x" """#, "{}"),
        (
            "long",
            r#"5 5.0 "5" "5.0" -9223372036854775808 [1,["2"]]"#,
            r#""x" "" "5.5" "\u00205" 5.5 true {} 1e30 "9223372036854775808""#,
        ),
        ("integer", "2147483647", "2147483648"),
        ("short", "-32768", "-32769"),
        ("byte", "127", "128"),
        (
            "unsigned_long",
            r#"18446744073709551615 "18446744073709551615""#,
            r#"-1 "-1""#,
        ),
        ("double", r#"5 1.5 1e300 "1.50""#, r#""x" true"#),
        ("float", "1.5", "1e39"),
        ("half_float", "65504", "65505"),
        ("scaled_float", r#"1.25 "1.25""#, r#""1,25""#),
        ("boolean", r#"true false "true""#, r#""True" "" 1"#),
        (
            "date",
            r#""2026-01-31T10:00:00Z" "2026" 1700000000000"#,
            r#""x" true 1.5 {}"#,
        ),
        ("flat_object", r#"{} {"x":[1]}"#, "5"),
        (
            "ip",
            r#""10.0.0.1" "::1" ["::ffff:10.0.0.1"]"#,
            r#""10.0.0" "10.0.0.0/8" 5 {}"#,
        ),
        ("binary", r#""YWJj" "" null"#, r#""YWJ" 5 {}"#),
        (
            "geo_point",
            r#""52.5,13.4" [13.4,52.5] {"lat":"52.5","lon":13} "POINT(13.4\t52.5)""#,
            r#""91,0" "here" {"lat":5} {"lat":0,"lon":181} true"#,
        ),
    ];
    for (kind, right, wrong) in cases {
        let mapping = typed(kind);
        for value in right.split(' ') {
            let document = format!(r#"{{"a":{value}}}"#);
            assert_eq!(check(&mapping, &document), Ok(()), "{kind}: {value}");
        }
        for value in wrong.split(' ') {
            let document = format!(r#"{{"b":0,"a":{value}}}"#);
            assert!(check(&mapping, &document).is_err(), "{kind}: {value}");
        }
    }
}

#[test]
fn text_is_no_number_where_the_mapping_says_so() {
    let strict = mapping(json!({"properties": {"a": {"type": "long", "coerce": false}}})).unwrap();
    let violation = check(&strict, r#"{"a":"5"}"#).unwrap_err();
    assert!(
        format!("{violation:?}").contains("long value passed as String"),
        "{violation:?}"
    );
    assert_eq!(check(&strict, r#"{"a":5}"#), Ok(()));
}

#[test]
fn a_sub_field_is_the_field_by_another_name() {
    let fields = json!({"raw": {"type": "keyword"}, "words": {"type": "text"}});
    let both = mapping(json!({"properties": {"o.a": {"type": "text", "fields": fields}}})).unwrap();
    assert_eq!(both.sub_field("o.a.raw"), Some(("o.a", FieldKind::Keyword)));
    assert_eq!(both.kind("o.a.words"), Some(FieldKind::Text));
    assert_eq!(
        (both.sub_field("o.a"), both.sub_field("o.a.x")),
        (None, None)
    );
    let other =
        json!({"properties": {"a": {"type": "keyword", "fields": {"n": {"type": "long"}}}}});
    let error = mapping(other).unwrap_err().to_string();
    assert!(error.contains("[n] of type [long]"), "{error}");
}

#[test]
fn a_violation_says_what_opensearch_says() {
    let mapping = mapping(json!({
        "dynamic": "strict",
        "properties": {
            "l": {"type": "long"},
            "o.x": {"type": "boolean"},
            "free": {"type": "object", "dynamic": true},
            "off": {"type": "object", "enabled": false},
        },
    }))
    .unwrap();
    for (document, expected) in [
        (
            r#"{"l":"x"}"#,
            "failed to parse field [l] of type [long] in document with id '1'. \
             Preview of field's value: 'x'",
        ),
        (
            r#"{"o":{"x":"yes"}}"#,
            "failed to parse field [o.x] of type [boolean] in document with id '1'. \
             Preview of field's value: 'yes'",
        ),
        (
            r#"{"o":5}"#,
            "object mapping for [o] tried to parse field [o] as object, but found a concrete value",
        ),
        (
            r#"{"z":1}"#,
            "mapping set to strict, dynamic introduction of [z] within [_doc] is not allowed",
        ),
        (
            r#"{"o.y":1}"#,
            "mapping set to strict, dynamic introduction of [y] within [o] is not allowed",
        ),
    ] {
        let violation = check(&mapping, document).unwrap_err();
        assert_eq!(violation.to_string(), expected);
    }
    let accepted = r#"{"_id":"1","free":{"a":1},"free.b":2,"off":{"l":[{}]},"o.x":true,"o":null}"#;
    assert_eq!(check(&mapping, accepted), Ok(()));
}

#[test]
fn mappings_round_trip_and_what_is_not_known_is_refused_by_name() {
    let given = json!({
        "_meta": {"by": "me"},
        "dynamic": "false",
        "properties": {
            "a": {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}},
            "b": {"type": "object"},
            "c": {"properties": {"d": {"type": "date", "index": false}}},
            "e": {"type": "date", "format": "strict_year_month||date_hour_minute_second"},
        },
    });
    let parsed = mapping(given.clone()).unwrap();
    assert_eq!(parsed.to_json(), given);
    assert_eq!(parsed.kind("c.d"), Some(FieldKind::Date));
    assert_eq!((parsed.kind("c"), parsed.kind("c.e")), (None, None));
    assert_eq!(parsed.unindexed(), ["c.d"]);
    assert!(mapping(json!({})).unwrap().is_empty());
    for (given, named) in [
        (
            json!({"properties": {"a": {"type": "foo"}}}),
            "No handler for type [foo]",
        ),
        (
            json!({"properties": {"a": {"type": "nested"}}}),
            "type [nested] of field [a]",
        ),
        (
            json!({"properties": {"a": {"type": "long", "foo": 1}}}),
            "unknown parameter [foo]",
        ),
        (
            json!({"properties": {"a": {}}}),
            "No type specified for field [a]",
        ),
        (
            json!({"properties": {"a": {"type": "date", "format": "yyyy-QQ"}}}),
            "date format [yyyy-QQ] of field [a] has [QQ]",
        ),
        (
            json!({"properties": {"a": {"type": "date", "format": "strict_date||epoch_secon"}}}),
            "date format [strict_date||epoch_secon] of field [a] has [p]",
        ),
        (
            json!({"properties": {"a": {"type": "date_nanos", "format": "epoch_second"}}}),
            "date format [epoch_second] of field [a] is not supported for [date_nanos]",
        ),
        (
            json!({"properties": {"a": {"type": "date", "format": "yyyy", "fields": {
                "b": {"type": "date", "format": "epoch_second"},
            }}}}),
            "[format] of [b] in [fields] must be that of [a]",
        ),
        (json!({"properties": {"a.": {"type": "long"}}}), "[a.]"),
        (json!({"dynamic": "maybe"}), "[maybe]"),
        (json!({"foo": 1}), "unsupported parameters:  [foo : 1]"),
        (json!({"_source": {"enabled": false}}), "[_source]"),
    ] {
        let error = mapping(given).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn fields_are_added_and_never_change_their_type() {
    let one = mapping(json!({"properties": {"a": {"type": "long"}, "o.x": {"type": "date"}}}));
    let one = one.unwrap();
    let more = mapping(json!({"dynamic": "strict", "properties": {"o.y": {"type": "byte"}}}));
    let merged = one.merged(&more.unwrap()).unwrap();
    assert_eq!(
        merged.to_json(),
        json!({"dynamic": "strict", "properties": {
            "a": {"type": "long"},
            "o": {"properties": {"x": {"type": "date"}, "y": {"type": "byte"}}},
        }})
    );
    let other = mapping(json!({"properties": {"a": {"type": "keyword"}}})).unwrap();
    let error = one.merged(&other).unwrap_err().to_string();
    assert_eq!(
        error,
        "mapper [a] cannot be changed from type [long] to [keyword]"
    );
    let other = mapping(json!({"properties": {"o": {"type": "keyword"}}})).unwrap();
    assert!(one.merged(&other).is_err());
}

#[test]
fn dates_are_checked_by_the_formats_of_their_field() {
    let format = "yyyy/MM/dd HH:mm:ss||yyyy/MM/dd||epoch_second";
    let given = json!({"properties": {
        "a": {"type": "date", "format": format},
        "b": {"type": "date", "format": "yyyy-MM-dd"},
    }});
    let mapping = mapping(given.clone()).unwrap();
    assert_eq!(mapping.to_json(), given);
    assert_eq!(
        mapping.own_date_formats("a").map(|it| it.as_str()),
        Some(format)
    );
    assert_eq!(mapping.own_date_formats("b"), None);
    assert_eq!(
        mapping.date_formats("b").map(|it| it.as_str()),
        Some("yyyy-MM-dd")
    );
    for value in [
        r#""2026/01/31 12:00:00""#,
        r#""2026/01/31""#,
        "1769859001",
        "1769859001.25",
        r#""1769859001""#,
        r#"["2026/01/31",5,null]"#,
    ] {
        assert_eq!(
            check(&mapping, &format!(r#"{{"a":{value}}}"#)),
            Ok(()),
            "{value}"
        );
    }
    for value in [r#""2026-01-31""#, r#""2026/01/32""#, "true", "{}", "[5,{}]"] {
        let violation = check(&mapping, &format!(r#"{{"a":{value}}}"#)).unwrap_err();
        let text = violation.in_full();
        assert!(text.contains(&format!("with format [{format}]")), "{text}");
    }
    let other = |format: &str| {
        let properties = json!({"a": {"type": "date", "format": format}});
        self::mapping(json!({"properties": properties})).unwrap()
    };
    assert_eq!(mapping.merged(&other(format)), Ok(mapping.clone()));
    let error = mapping
        .merged(&other("epoch_second"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&format!("from [{format}] to [epoch_second]")),
        "{error}"
    );
}
