use super::*;
use crate::limits::{DEPTH_MAX, DOCUMENT_BYTES_MAX, ENCODED_BYTES_MAX};
use crate::{ErrorKind, Key};
use proptest::prelude::*;
use std::collections::HashSet;

mod corpus;
mod difference;
mod merge;

fn doc(json: &str) -> Document {
    Document::from_json(json.as_bytes()).unwrap_or_else(|error| panic!("{error}: {json:.200}"))
}

/// JSON texts of an object: odd numbers, escapes, white space, nesting, many fields. Names in one
/// object differ.
fn any_json() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<i64>().prop_map(|value| value.to_string()),
        any::<u64>().prop_map(|value| value.to_string()),
        (any::<i64>(), 0..64).prop_map(|(value, shift): (i64, i32)| (value >> shift).to_string()),
        "-?(0|[1-9][0-9]{0,3})\\.[0-9]{1,3}",
        "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,30})?[eE][+-]?[0-9]{1,2}",
        "-?(0|[1-9][0-9]{0,20})\\.[0-9]{1,30}",
        Just("-0".to_owned()),
    ];
    let literal = prop::sample::select(vec!["null", "true", "false", "[]", "{}", "[ ]", "{ }"])
        .prop_map(str::to_owned);
    let string = any_string().prop_map(|text| format!("\"{text}\""));
    let leaf = prop_oneof![2 => literal, 3 => number, 3 => string];
    let value = leaf.prop_recursive(4, 60, 12, |value| {
        prop_oneof![
            prop::collection::vec(value.clone(), 0..12)
                .prop_map(|items| format!("[{}]", items.join(" ,\n"))),
            prop::collection::vec((any_string(), value), 0..24).prop_map(object),
        ]
    });
    prop::collection::vec((any_string(), value), 0..24)
        .prop_map(|fields| format!(" {}\r\n", object(fields)))
}

/// The inside of a JSON string.
fn any_string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z]{1,10}",
        "\\PC",
        prop::sample::select(vec![
            "\\n",
            "\\\"",
            "\\\\",
            "\\/",
            "\\b",
            "\\f",
            "\\t",
            "\\r",
            "\\u0000",
            "\\u001f",
            "\\u00e9",
            "\\uD83D\\uDE00",
            "\\u2028",
            "é",
            "\u{7f}",
            "😀",
            "a.b",
        ])
        .prop_map(str::to_owned),
    ];
    let piece = piece.prop_map(|piece| {
        if piece == "\"" || piece == "\\" {
            String::new()
        } else {
            piece
        }
    });
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn object(fields: Vec<(String, String)>) -> String {
    let mut seen = HashSet::new();
    let decoded = |name: &str| serde_json::from_str::<String>(&format!("\"{name}\"")).unwrap();
    let fields = fields
        .into_iter()
        .filter(|(name, _)| seen.insert(decoded(name)));
    let fields: Vec<String> = fields
        .map(|(name, value)| format!("\"{name}\" :\t{value}"))
        .collect();
    format!("{{{}}}", fields.join(", "))
}

/// The numbers of a JSON text as they stand there, in order.
fn numbers(json: &str) -> Vec<&str> {
    let (mut numbers, mut rest) = (Vec::new(), json);
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        rest = &rest[at..];
        if let Some(string) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = string.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            rest = &string[end.unwrap() + 1..];
        } else {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)))
                .unwrap_or(rest.len());
            numbers.push(&rest[..end]);
            rest = &rest[end..];
        }
    }
    numbers
}

/// Checks every accessor of a document against its JSON as another parser reads it.
fn check_accessors(document: &Document) {
    fn check(value: ValueRef<'_>, expected: &serde_json::Value) {
        use serde_json::Value;
        match (value, expected) {
            (ValueRef::Null, Value::Null) => {}
            (ValueRef::Bool(value), Value::Bool(expected)) => assert_eq!(value, *expected),
            (ValueRef::Int(value), Value::Number(expected)) => {
                assert_eq!(Some(value), expected.as_i64())
            }
            (ValueRef::UInt(value), Value::Number(expected)) => {
                assert_eq!(Some(value), expected.as_u64())
            }
            (ValueRef::Float(value), Value::Number(expected)) => {
                assert_eq!(value.value(), value.to_string().parse::<f64>().unwrap());
                // serde_json's reading may be off in the last place.
                let expected = expected.as_f64().unwrap();
                assert!(
                    (value.value() - expected).abs() <= expected.abs() * 1e-15,
                    "{value}"
                );
            }
            (ValueRef::String(value), Value::String(expected)) => assert_eq!(value, expected),
            (ValueRef::Array(array), Value::Array(expected)) => {
                assert_eq!(
                    (array.len(), array.iter().count()),
                    (expected.len(), expected.len())
                );
                for (index, expected) in expected.iter().enumerate() {
                    check(array.get(index).unwrap(), expected);
                }
                assert_eq!(array.get(array.len()), None);
            }
            (ValueRef::Object(object), Value::Object(expected)) => {
                assert_eq!(
                    (object.len(), object.fields().count()),
                    (expected.len(), expected.len())
                );
                for ((name, value), (expected_name, expected)) in object.fields().zip(expected) {
                    assert_eq!(name, expected_name);
                    assert_eq!(object.get(name), Some(value));
                    check(value, expected);
                }
            }
            (value, expected) => panic!("{value:?} is not {expected}"),
        }
    }
    let expected = serde_json::from_str(&document.to_json()).unwrap();
    check(ValueRef::Object(document.root()), &expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn json_comes_back_with_its_values_its_order_and_its_numbers_as_written(json in any_json()) {
        let document = Document::from_json(json.as_bytes())?;
        let text = document.to_json();
        prop_assert_eq!(numbers(&text), numbers(&json));
        let (ours, theirs): (serde_json::Value, serde_json::Value) = (
            serde_json::from_str(&text).unwrap(),
            serde_json::from_str(&json).unwrap(),
        );
        prop_assert_eq!(
            serde_json::to_string(&ours).unwrap(),
            serde_json::to_string(&theirs).unwrap()
        );
        prop_assert!(text.len() <= json.len());
        prop_assert!(document.as_bytes().len() <= 4 * text.len());
        prop_assert_eq!(Document::encoded_bytes(json.as_bytes())?, document.as_bytes().len());
        prop_assert_eq!(ValueRef::Object(document.root()).json_bytes(), text.len());
        check_accessors(&document);

        prop_assert_eq!(&Document::from_json(text.as_bytes())?, &document);
        prop_assert_eq!(&Document::from_bytes(document.bytes())?, &document);
    }

    #[test]
    fn mutated_encodings_are_refused_or_are_documents(
        json in any_json(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..5), 1..3),
    ) {
        let mut bytes = Document::from_json(json.as_bytes())?.as_bytes().to_vec();
        for (index, byte, change) in changes {
            let index = index.index(bytes.len().max(1));
            match change {
                0 => bytes.truncate(index),
                1 => bytes.insert(index.min(bytes.len()), byte),
                2 if index < bytes.len() => {
                    bytes.remove(index);
                }
                3 if index < bytes.len() => bytes[index] ^= 1 << (byte % 8),
                _ if index < bytes.len() => bytes[index] = byte,
                _ => {}
            }
        }
        check_bytes(bytes);
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_are_documents(
        bytes in prop::collection::vec(prop_oneof![0_u8..9, 0x10_u8..0x1c, any::<u8>()], 0..12),
    ) {
        check_bytes([&[1, 0x18][..], &bytes].concat());
        check_bytes(bytes);
    }
}

/// What is taken reads well and is, byte for byte, what its own JSON would be encoded as.
fn check_bytes(bytes: Vec<u8>) {
    match Document::from_bytes(Bytes::from(bytes)) {
        Ok(document) => {
            check_accessors(&document);
            assert_eq!(doc(&document.to_json()).as_bytes(), document.as_bytes());
        }
        Err(error) => assert!(
            matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::TooDeep),
            "{error}"
        ),
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_refused_or_reads_well() {
    let fields: Vec<String> = (0..20).map(|n| format!("\"name{n}\":{n}.{n}")).collect();
    let json = format!(
        "{{\"s\":\"é\",\"a\":[1,-0,[],{{}}],\"o\":{{{}}}}}",
        fields.join(",")
    );
    let whole = doc(&json).as_bytes().to_vec();
    for cut in 0..whole.len() {
        assert!(
            Document::from_bytes(Bytes::from(whole[..cut].to_vec())).is_err(),
            "cut at {cut}"
        );
    }
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        check_bytes(bytes);
    }
}

#[test]
fn bad_json_is_refused_with_the_place_and_the_reason() {
    use ErrorKind::{DuplicateField, InvalidJson, NumberOutOfRange};
    let cases: &[(&[u8], ErrorKind, &str)] = &[
        (
            b"",
            InvalidJson,
            "at byte 0: expected a document, found nothing",
        ),
        (
            b" \n",
            InvalidJson,
            "at byte 2: expected a document, found nothing",
        ),
        (b"[]", InvalidJson, "found an array at byte 0"),
        (b" 12", InvalidJson, "found a number at byte 1"),
        (b"null", InvalidJson, "found null at byte 0"),
        (b"\"x\"", InvalidJson, "found a string at byte 0"),
        (
            b"\xef\xbb\xbf{}",
            InvalidJson,
            "at byte 0: a byte order mark",
        ),
        (b"x", InvalidJson, "at byte 0: expected `{`"),
        (
            b"{",
            InvalidJson,
            "at byte 1: the text ends inside an object",
        ),
        (
            b"{\"a\"",
            InvalidJson,
            "at byte 4: the text ends inside an object",
        ),
        (
            b"{\"a\":",
            InvalidJson,
            "at byte 5: the text ends where a value should be",
        ),
        (b"{\"a\":[1,", InvalidJson, "at byte 8: the text ends"),
        (
            b"{\"a\":\"x",
            InvalidJson,
            "at byte 7: the text ends inside a string",
        ),
        (
            b"{\"a\":tru",
            InvalidJson,
            "the text ends where a value should be",
        ),
        (b"{\"a\":trux}", InvalidJson, "at byte 8: expected `true`"),
        (b"{\"a\" 1}", InvalidJson, "at byte 5: expected `:`"),
        (b"{a:1}", InvalidJson, "at byte 1: expected a field's name"),
        (
            b"{'a':1}",
            InvalidJson,
            "at byte 1: expected a field's name",
        ),
        (
            b"{\"a\":1 \"b\":2}",
            InvalidJson,
            "at byte 7: expected `,` or `}`",
        ),
        (
            b"{\"a\":[1 2]}",
            InvalidJson,
            "at byte 8: expected `,` or `]`",
        ),
        (
            b"{\"a\":1,}",
            InvalidJson,
            "at byte 7: nothing follows the comma",
        ),
        (
            b"{\"a\":[1,]}",
            InvalidJson,
            "at byte 8: nothing follows the comma",
        ),
        (b"{\"a\":}", InvalidJson, "at byte 5: expected a value"),
        (b"{\"a\":NaN}", InvalidJson, "at byte 5: expected a value"),
        (
            b"{\"a\":Infinity}",
            InvalidJson,
            "at byte 5: expected a value",
        ),
        (b"{\"a\":-Infinity}", InvalidJson, "at byte 6: not a number"),
        (b"{\"a\":01}", InvalidJson, "at byte 6: not a number"),
        (b"{\"a\":-01}", InvalidJson, "not a number"),
        (b"{\"a\":1.}", InvalidJson, "at byte 7: not a number"),
        (b"{\"a\":1e}", InvalidJson, "at byte 7: not a number"),
        (b"{\"a\":.5}", InvalidJson, "at byte 5: expected a value"),
        (b"{\"a\":+1}", InvalidJson, "at byte 5: expected a value"),
        (b"{\"a\":-}", InvalidJson, "at byte 6: not a number"),
        (b"{\"a\":\"\\x\"}", InvalidJson, "at byte 7: no such escape"),
        (b"{\"a\":\"\\u00g0\"}", InvalidJson, "no such escape"),
        (
            b"{\"a\":\"\\ud800\"}",
            InvalidJson,
            "half of a surrogate pair",
        ),
        (
            b"{\"a\":\"\\ud800\\u0041\"}",
            InvalidJson,
            "half of a surrogate pair",
        ),
        (
            b"{\"a\":\"\\udc00\"}",
            InvalidJson,
            "half of a surrogate pair",
        ),
        (
            b"{\"a\":\"\\ud800x\"}",
            InvalidJson,
            "half of a surrogate pair",
        ),
        (b"{\"a\\ud800\":1}", InvalidJson, "half of a surrogate pair"),
        (
            b"{\"a\":\"x\ny\"}",
            InvalidJson,
            "at byte 7: a control character",
        ),
        (
            b"{\"a\":\"0123456789abcdef\x00\"}",
            InvalidJson,
            "at byte 22: a control character",
        ),
        (
            b"{\"a\tb\":1}",
            InvalidJson,
            "at byte 3: a control character",
        ),
        (
            b"{\"a\":\"\\n\\n\xff\"}",
            InvalidJson,
            "invalid UTF-8 at byte 10",
        ),
        (b"{\"a\xc3\":1}", InvalidJson, "invalid UTF-8 at byte 3"),
        (
            b"{\"a\":\"\xed\xa0\x80\"}",
            InvalidJson,
            "invalid UTF-8 at byte 6",
        ),
        (
            b"{\"a\":\"\xc0\x80\"}",
            InvalidJson,
            "invalid UTF-8 at byte 6",
        ),
        (
            b"{} {}",
            InvalidJson,
            "at byte 3: more text after the document",
        ),
        (
            b"{}x",
            InvalidJson,
            "at byte 2: more text after the document",
        ),
        (
            b"{}\x00",
            InvalidJson,
            "at byte 2: more text after the document",
        ),
        (
            b"{}\x0c",
            InvalidJson,
            "at byte 2: more text after the document",
        ),
        (
            b"{\"a\":1,\"b\":{\"x\":1,\"y\":2,\"x\":3}}",
            DuplicateField,
            "field \"x\" appears more than once in the object at byte 11",
        ),
        (
            b"{\"a\":1,\"\\u0061\":2}",
            DuplicateField,
            "field \"a\" appears more than once in the object at byte 0",
        ),
        (b"{\"\":1,\"\":2}", DuplicateField, "field \"\""),
        (
            b"{\"a\":18446744073709551616}",
            NumberOutOfRange,
            "number 18446744073709551616 at byte 5 is outside the integers",
        ),
        (
            b"{\"a\":-9223372036854775809}",
            NumberOutOfRange,
            "number -9223372036854775809 at byte 5",
        ),
        (
            b"{\"a\":1e400}",
            NumberOutOfRange,
            "number 1e400 at byte 5 is beyond the largest",
        ),
        (
            b"{\"a\":[-1e309]}",
            NumberOutOfRange,
            "number -1e309 at byte 6",
        ),
    ];
    for (json, kind, message) in cases {
        let shown = String::from_utf8_lossy(json);
        let error = Document::from_json(json).expect_err(&shown);
        assert_eq!(error.kind(), *kind, "{shown}: {error}");
        assert!(error.to_string().contains(message), "{shown}: {error}");
    }
}

#[test]
fn a_name_that_appears_twice_among_many_is_named() {
    let mut fields: Vec<String> = (0..500).map(|n| format!("\"f{n}\":{n}")).collect();
    assert_eq!(
        doc(&format!("{{{}}}", fields.join(","))).get("f499"),
        Some(ValueRef::Int(499))
    );
    fields.push("\"f123\":0".to_owned());
    let error = Document::from_json(format!("{{{}}}", fields.join(",")).as_bytes()).unwrap_err();
    assert_eq!(
        error,
        Error::DuplicateField {
            name: "f123".to_owned(),
            offset: 0
        }
    );
}

#[test]
fn numbers_of_thousands_of_digits_are_kept_or_refused_by_range() {
    let fraction = format!("{{\"a\":0.{}}}", "7".repeat(10_000));
    assert_eq!(doc(&fraction).to_json(), fraction);
    let digits = "7".repeat(5_000);
    for number in [digits.clone(), format!("-{digits}"), format!("{digits}.5")] {
        let error = Document::from_json(format!("{{\"a\":{number}}}").as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NumberOutOfRange);
        assert!(error.to_string().len() < 300, "{error}");
    }
}

#[test]
fn nesting_is_limited_for_text_encodings_and_patches_alike() {
    let nested = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    let deepest = doc(&nested(DEPTH_MAX));
    assert_eq!(deepest.merge_patch(&deepest).unwrap(), deepest);
    assert_eq!(doc("{}").merge_patch(&deepest).unwrap(), deepest);
    assert_eq!(Document::from_bytes(deepest.bytes()).unwrap(), deepest);
    assert_eq!(
        deepest.get_path(&["a"; DEPTH_MAX].join(".")),
        Some(ValueRef::Int(1))
    );

    let error = Document::from_json(nested(DEPTH_MAX + 1).as_bytes()).unwrap_err();
    assert_eq!(
        error,
        Error::TooDeep {
            offset: 5 * DEPTH_MAX,
            depth_max: DEPTH_MAX
        }
    );
    let arrays = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(
        Document::from_json(arrays.as_bytes()).unwrap_err().kind(),
        ErrorKind::TooDeep
    );

    // One level more, put around the deepest by hand.
    let mut value = deepest.as_bytes()[1..].to_vec();
    for _ in 0..2000 {
        let mut entry = vec![0x19, 1, b'a'];
        entry.extend(&value);
        let end = entry.len() as u16;
        entry.extend(end.to_le_bytes());
        entry.extend(1_u16.to_le_bytes());
        value = entry;
    }
    let error = Document::from_bytes(Bytes::from([&[1], &value[..]].concat())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooDeep);
}

#[test]
fn documents_up_to_the_limit_are_taken_and_longer_ones_refused() {
    let dense = format!(
        "{{\"a\":[{}1]}}",
        "1,".repeat((DOCUMENT_BYTES_MAX - 10) / 2)
    );
    assert!(DOCUMENT_BYTES_MAX - dense.len() < 2);
    let document = doc(&dense);
    assert!(document.as_bytes().len() <= ENCODED_BYTES_MAX);
    assert_eq!(Document::from_bytes(document.bytes()).unwrap(), document);
    let Some(ValueRef::Array(array)) = document.get("a") else {
        panic!()
    };
    assert_eq!(array.get(array.len() - 1), Some(ValueRef::Int(1)));

    let error = Document::from_json(&vec![b' '; DOCUMENT_BYTES_MAX + 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

#[test]
fn many_fields_are_found_in_constant_time_even_under_names_chosen_to_collide() {
    // One more than 65,535 fields takes the widest index; a third of the names share few buckets.
    let hash = |name: &str| xxhash_rust::xxh3::xxh3_64(name.as_bytes());
    let collide = (0..)
        .map(|n| format!("c{n}"))
        .filter(|name| hash(name) & 0x3ff == 0)
        .take(300);
    let names: Vec<String> = collide
        .chain((0..70_000).map(|n| format!("name{n}")))
        .collect();
    for count in [9, 255, 256, 300, 70_300] {
        let fields: Vec<String> = names
            .iter()
            .take(count)
            .enumerate()
            .map(|(n, name)| format!("\"{name}\":{n}"))
            .collect();
        let document = doc(&format!("{{{}}}", fields.join(",")));
        assert_eq!(Document::from_bytes(document.bytes()).unwrap(), document);
        for (n, name) in names.iter().take(count).enumerate() {
            assert_eq!(document.get(name), Some(ValueRef::Int(n as i64)));
        }
        assert_eq!(document.get("absent"), None);
    }
}

#[test]
fn paths_go_through_objects_only() {
    let document = doc(r#"{"a":{"b":{"c":1},"":2},"a.b":3,"l":[{"x":4}],"":{"":5}}"#);
    assert_eq!(document.get_path("a.b.c"), Some(ValueRef::Int(1)));
    assert_eq!(document.get_path("a."), Some(ValueRef::Int(2)));
    assert_eq!(document.get_path("."), Some(ValueRef::Int(5)));
    assert_eq!(document.get("a.b"), Some(ValueRef::Int(3)));
    for absent in ["l.x", "l.0.x", "a.x", "a.b.c.d", "x.a", ".a"] {
        assert_eq!(document.get_path(absent), None, "{absent}");
    }
}

#[test]
fn equality_sees_through_white_space_and_escapes_but_not_through_numbers() {
    assert_eq!(doc(r#"{ "\u0061" : "\/" }"#), doc(r#"{"a":"/"}"#));
    assert_ne!(doc(r#"{"a":1.0}"#), doc(r#"{"a":1.00}"#));
    assert_ne!(doc(r#"{"a":1,"b":2}"#), doc(r#"{"b":2,"a":1}"#));
    assert_eq!(format!("{:?}", doc(r#"{ "a": 1.50 }"#)), r#"{"a":1.50}"#);
}

/// The bytes of version 1, written out: a document stored today must read the same for ever.
#[test]
fn the_encoding_never_changes() {
    let json = concat!(
        r#"{"n":null,"b":true,"i":[0,-1,300],"u":18446744073709551615,"#,
        r#""f":-1.10,"e":1e5,"s":"é","o":{}}"#,
    );
    let expected: &[u8] = &[
        1, 0x18, //
        1, b'n', 0x00, //
        1, b'b', 0x02, //
        1, b'i', 0x10, 0x03, 0x03, 0xff, 0x03, 0x2c, 0x01, 2, 4, 7, 3, //
        1, b'u', 0x04, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, //
        1, b'f', 0x05, 0x82, 110, //
        1, b'e', 0x06, b'1', b'e', b'5', //
        1, b's', 0x07, 0xc3, 0xa9, //
        1, b'o', 0x18, 0, //
        4, 7, 20, 31, 36, 42, 47, 51, 8,
    ];
    assert_eq!(doc(json).as_bytes(), expected);
    let many: String = (0..9)
        .map(|n| format!("{}\"{n}\":{n}", if n == 0 { "{" } else { "," }))
        .collect();
    let many = doc(&(many + "}"));
    let index = [
        2, 2, 5, 5, 6, 8, 8, 9, /* list */ 1, 3, 5, 7, 8, 2, 0, 6, 4, /* count */ 9,
    ];
    assert_eq!(many.as_bytes()[46..], index);
}

#[test]
fn values_write_themselves_as_they_were_written() {
    let document = doc(r#"{"f":1.50,"o":{"x":[-0,1E+2]},"s":"a\"b"}"#);
    let text = |name: &str| {
        let mut out = Vec::new();
        document.get(name).unwrap().write_json(&mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        (text("f"), text("o"), text("s")),
        (
            "1.50".into(),
            "{\"x\":[-0,1E+2]}".into(),
            "\"a\\\"b\"".into()
        )
    );
    assert_eq!(
        Key::from_value(document.get("s").unwrap())
            .unwrap()
            .as_str(),
        Some("a\"b")
    );
}
