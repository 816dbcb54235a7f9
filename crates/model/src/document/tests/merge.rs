//! JSON merge patch.

use super::*;
use serde_json::Value;

/// RFC 7396, appendix A: target, patch, result. Under a field, since a document is an object.
#[test]
fn the_examples_of_rfc_7396_hold() {
    let cases = [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
        (
            r#"{"a":{"b":"c"}}"#,
            r#"{"a":{"b":"d","c":null}}"#,
            r#"{"a":{"b":"d"}}"#,
        ),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
        (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
        (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        (r#"[1,2]"#, r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
        (
            r#"{}"#,
            r#"{"a":{"bb":{"ccc":null}}}"#,
            r#"{"a":{"bb":{}}}"#,
        ),
    ];
    for (target, patch, result) in cases {
        let wrapped = |value: &str| doc(&format!(r#"{{"x":{value}}}"#));
        assert_eq!(
            wrapped(target).merge_patch(&wrapped(patch)),
            Ok(wrapped(result)),
            "{target} {patch}"
        );
        if target.starts_with('{') && patch.starts_with('{') {
            assert_eq!(
                doc(target).merge_patch(&doc(patch)),
                Ok(doc(result)),
                "{target} {patch}"
            );
        }
    }
    // The appendix's {"a":"foo"} with null: the member is removed.
    assert_eq!(
        doc(r#"{"x":{"a":"foo"}}"#).merge_patch(&doc(r#"{"x":null}"#)),
        Ok(doc("{}"))
    );
}

#[test]
fn fields_keep_their_places_and_new_ones_follow() {
    let document = doc(r#"{"z":1,"y":{"b":1,"a":2.50},"x":3}"#);
    let patch = doc(r#"{"new":1,"x":{"n":null,"k":1},"z":9,"y":{"c":0,"b":null},"none":null}"#);
    let merged = document.merge_patch(&patch).unwrap();
    assert_eq!(
        merged.to_json(),
        r#"{"z":9,"y":{"a":2.50,"c":0},"x":{"k":1},"new":1}"#
    );
}

#[test]
fn a_result_that_could_not_be_handed_in_is_refused() {
    let half = "x".repeat(DOCUMENT_BYTES_MAX / 2);
    let (a, b) = (
        doc(&format!(r#"{{"a":"{half}"}}"#)),
        doc(&format!(r#"{{"b":"{half}"}}"#)),
    );
    assert_eq!(a.merge_patch(&b).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(a.merge_patch(&a), Ok(a.clone()));
    // Short as an encoding, long as text.
    let zeros = |count: usize| ["0.0000000000000000000000"].repeat(count).join(",");
    let (a, b) = (
        doc(&format!(r#"{{"a":[{}]}}"#, zeros(330_000))),
        doc(&format!(r#"{{"b":[{}]}}"#, zeros(660_000))),
    );
    assert_eq!(a.merge_patch(&b).unwrap_err().kind(), ErrorKind::TooLarge);
}

/// The RFC's own pseudocode.
fn model(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (name, change) in patch {
        if change.is_null() {
            target.shift_remove(name);
        } else {
            model(target.entry(name).or_insert(Value::Null), change);
        }
    }
}

/// Objects of few names, so that patches meet what they patch.
fn any_small() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec!["null", "1", "2.50", "[1,null]", "\"s\"", "{}"])
        .prop_map(str::to_owned);
    let value = leaf.prop_recursive(3, 40, 14, |value| {
        prop::collection::vec(("[a-m]", value), 0..14).prop_map(object)
    });
    prop::collection::vec(("[a-m]", value), 0..14).prop_map(object)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn patches_do_what_the_rfc_says_and_give_valid_documents(
        target in any_small(),
        patch in any_small(),
    ) {
        let merged = doc(&target).merge_patch(&doc(&patch))?;
        let mut expected: Value = serde_json::from_str(&target).unwrap();
        model(&mut expected, &serde_json::from_str(&patch).unwrap());
        prop_assert_eq!(
            merged.to_json(),
            expected.to_string().replace("2.5", "2.50")
        );
        prop_assert_eq!(Document::from_bytes(merged.bytes())?, merged.clone());
        prop_assert_eq!(doc(&merged.to_json()), merged);
    }
}

#[test]
fn where_null_is_a_value_objects_merge_and_all_else_replaces() {
    let cases = [
        ("{}", r#"{"a":1.50}"#, r#"{"a":1.50}"#),
        (
            r#"{"a":1,"b":2}"#,
            r#"{"b":3,"c":4}"#,
            r#"{"a":1,"b":3,"c":4}"#,
        ),
        (
            r#"{"a":{"x":1,"y":2}}"#,
            r#"{"a":{"y":null,"z":[]}}"#,
            r#"{"a":{"x":1,"y":null,"z":[]}}"#,
        ),
        (r#"{"a":[1,2]}"#, r#"{"a":[3]}"#, r#"{"a":[3]}"#),
        (r#"{"a":{"x":1}}"#, r#"{"a":5}"#, r#"{"a":5}"#),
        (
            r#"{"a":5}"#,
            r#"{"a":{"x":{"y":null}}}"#,
            r#"{"a":{"x":{"y":null}}}"#,
        ),
        (r#"{"a":1}"#, "{}", r#"{"a":1}"#),
    ];
    for (document, partial, expected) in cases {
        let merged = doc(document).merge(&doc(partial)).unwrap();
        assert_eq!(merged, doc(expected), "{document} {partial}");
    }
}
