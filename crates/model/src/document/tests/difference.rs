//! What differs between two objects.

use super::*;
use crate::ValueRef;
use std::collections::BTreeMap;

type Difference = BTreeMap<String, [Option<String>; 2]>;

fn difference(a: &Document, b: &Document) -> Difference {
    let mut found = Difference::new();
    let text = |value: Option<ValueRef<'_>>| {
        value.map(|value| {
            let mut text = Vec::new();
            value.write_json(&mut text);
            String::from_utf8(text).unwrap()
        })
    };
    a.root().each_difference(b.root(), &mut |name, values| {
        let before = found.insert(name.to_owned(), values.map(text));
        assert_eq!(before, None, "{name} is shown twice");
    });
    found
}

#[test]
fn fields_that_differ_are_shown_with_both_values() {
    let a = doc(r#"{"same":1,"changed":[1],"gone":{"x":null},"moved":"m"}"#);
    let b = doc(r#"{"same":1,"changed":[1,2],"moved":"m","new":1.50}"#);
    let some = |text: &str| Some(text.to_owned());
    let expected = [
        ("changed", [some("[1]"), some("[1,2]")]),
        ("gone", [some(r#"{"x":null}"#), None]),
        ("new", [None, some("1.50")]),
    ];
    let expected = expected.map(|(name, values)| (name.to_owned(), values));
    assert_eq!(difference(&a, &b), expected.into());
    assert_eq!(difference(&a, &a), Difference::new());
}

proptest! {
    #[test]
    fn the_difference_is_that_of_all_fields(a in any_json(), b in any_json(), patch in any_json()) {
        let [a, b, patch] = [a, b, patch].map(|json| doc(&json));
        let patched = a.merge_patch(&patch).unwrap_or_else(|_| b.clone());
        for (a, b) in [(&a, &b), (&a, &patched), (&patched, &a)] {
            let found = difference(a, b);
            for name in a.root().names().chain(b.root().names()) {
                let differ = a.get(name) != b.get(name);
                prop_assert_eq!(found.contains_key(name), differ, "{}", name);
            }
        }
    }
}
