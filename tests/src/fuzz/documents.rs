//! Documents and keys.

use super::{Target, Way};
use quire_model::ordered::{Direction, OrderedValue};
use quiredb::{Document, Key};

/// An encoded document, as a record holds it.
pub(super) const ENCODED: Target = Target {
    name: "document",
    run: encoded,
    seeds: || {
        texts()
            .map(|text| document(&text).as_bytes().to_vec())
            .collect()
    },
    has_checksums: false,
    bytes_max: 64 << 20,
};

/// The JSON of a document; where it holds two lines, the second is a patch of the first.
pub(super) const JSON: Target = Target {
    name: "json",
    run: json,
    seeds: || {
        let mut seeds: Vec<_> = texts().map(String::into_bytes).collect();
        seeds.push(
            b"{\"a\":{\"b\":1,\"c\":[1,2]}}\n{\"a\":{\"b\":null,\"d\":{}},\"e\":1e5}".to_vec(),
        );
        seeds
    },
    has_checksums: false,
    bytes_max: 64 << 20,
};

/// A key: its text, its encoding, and the ordered encoding of a value; the first byte says which.
pub(super) const KEY: Target = Target {
    name: "key",
    run: key,
    seeds: || {
        let keys = [
            "a",
            "-17",
            "42",
            "18446744073709551615",
            "é\u{0}x",
            "007",
            "a/b c",
        ];
        let mut seeds = Vec::new();
        for text in keys {
            let key = Key::parse(text).unwrap();
            seeds.push([&[0], text.as_bytes()].concat());
            seeds.push([&[1], key.encoded()].concat());
        }
        for value in values() {
            for (selector, direction) in [(2, Direction::Ascending), (3, Direction::Descending)] {
                let mut bytes = vec![selector];
                value.encode(direction, &mut bytes).unwrap();
                seeds.push(bytes);
            }
        }
        seeds
    },
    has_checksums: false,
    bytes_max: 1 << 20,
};

fn texts() -> impl Iterator<Item = String> {
    let wide: Vec<_> = (0..40).map(|n| format!("\"field{n}\":{n}.{n}")).collect();
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(60), "]".repeat(60));
    [
        "{}".to_string(),
        "{\"_id\":1,\"t\":true,\"f\":false,\"n\":null,\"i\":-9223372036854775808,\
         \"u\":18446744073709551615}"
            .to_string(),
        r#"{"x":1.10,"y":-0,"z":1e-300,"w":123456789.000}"#.to_string(),
        "{\"s\":\"é \\u00e9 \\ud83d\\ude00 \\n\\\"\\\\\",\"\":\"\",\
         \"long\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}"
            .to_string(),
        r#"{"a":[1,"b",[],{},[[null]],{"c":[{}]}],"o":{"p":{"q":{"r":0}}}}"#.to_string(),
        format!("{{{}}}", wide.join(",")),
        deep,
    ]
    .into_iter()
}

fn values() -> Vec<OrderedValue<'static>> {
    vec![
        OrderedValue::Null,
        OrderedValue::Bool(true),
        OrderedValue::Int(-5),
        OrderedValue::UInt(u64::MAX),
        OrderedValue::Float(-1.5e300),
        OrderedValue::Float(f64::INFINITY),
        OrderedValue::String("a\u{0}b".into()),
        OrderedValue::Bytes((&[0, 255, 0, 1][..]).into()),
        OrderedValue::Timestamp(-1),
    ]
}

fn document(text: &str) -> Document {
    Document::from_json(text.as_bytes()).unwrap()
}

fn encoded(input: &[u8]) -> Way {
    let decoded = Document::from_bytes(input.to_vec().into());
    if let Ok(document) = &decoded {
        check(document);
    }
    // Read as stored bytes, it need not make sense, but must be processed in bounded time and
    // memory.
    if let Ok(stored) = Document::from_stored(input.to_vec().into()) {
        assert!(stored.to_json().len() <= 64 * input.len());
        let found = stored.fields().filter_map(|(name, _)| stored.get(name));
        assert!(found.count() <= stored.len());
    }
    Way::of_result(&decoded.map(|document| document.len() as u64))
}

fn json(input: &[u8]) -> Way {
    let mut lines = input.splitn(2, |byte| *byte == b'\n');
    let (first, second) = (
        lines.next().unwrap_or_default(),
        lines.next().unwrap_or_default(),
    );
    let (first, patch) = (Document::from_json(first), Document::from_json(second));
    for document in first.iter().chain(&patch) {
        check(document);
    }
    let merged = first.as_ref().ok().zip(patch.as_ref().ok());
    let merged = merged.map(|(document, patch)| document.merge_patch(patch));
    if let Some(Ok(merged)) = &merged {
        check(merged);
        let again = merged.merge_patch(patch.as_ref().unwrap());
        assert_eq!(again.as_ref(), Ok(merged), "a patch twice is a patch once");
    }
    let merged = merged.map_or(Way(0), |merged| {
        Way::of_result(&merged.map(|document| document.len() as u64))
    });
    let first = Way::of_result(&first.map(|document| document.len() as u64));
    let patch = Way::of_result(&patch.map(|document| document.len() as u64));
    first.and(patch).and(merged)
}

/// The bytes and the text of a document agree.
fn check(document: &Document) {
    assert_eq!(
        Document::from_bytes(document.bytes()).as_ref(),
        Ok(document)
    );
    let text = document.to_json();
    assert_eq!(Document::from_json(text.as_bytes()).as_ref(), Ok(document));
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(&text);
    // The other parser accepts fewer levels.
    assert!(
        parsed.is_ok() || text.contains("[[") || text.contains(":{"),
        "{text}"
    );
    assert_eq!(document.fields().count(), document.len());
    for (name, _) in document.fields() {
        assert!(document.get(name).is_some(), "field {name:?}");
    }
}

fn key(input: &[u8]) -> Way {
    let Some((selector, input)) = input.split_first() else {
        return Way(0);
    };
    let done = match selector % 4 {
        0 => {
            let Ok(text) = std::str::from_utf8(input) else {
                return Way(1);
            };
            let mut keys = text.splitn(2, '\n').map(Key::parse);
            let first = keys.next().unwrap_or_else(|| Key::parse(""));
            if let (Ok(first), Some(Ok(second))) = (&first, keys.next()) {
                assert_eq!(first.cmp(&second), first.encoded().cmp(second.encoded()));
                assert_eq!(*first == second, first.to_string() == second.to_string());
            }
            first.map(|key| same_key(&key))
        }
        1 => Key::decode(input).map(|key| {
            assert_eq!(key.encoded(), input, "a key has one encoding");
            same_key(&key)
        }),
        direction => {
            let direction = match direction {
                2 => Direction::Ascending,
                _ => Direction::Descending,
            };
            OrderedValue::decode(input, direction).map(|(value, rest)| {
                let mut again = Vec::new();
                value.encode(direction, &mut again).unwrap();
                again.extend_from_slice(rest);
                assert_eq!(again, input, "a value has one encoding: {value:?}");
                again.len() as u64
            })
        }
    };
    Way::of_result(&done).and(Way(u64::from(selector % 4)))
}

fn same_key(key: &Key) -> u64 {
    let text = key.to_string();
    assert_eq!(Key::parse(&text).as_ref(), Ok(key));
    assert_eq!(Key::decode(key.encoded()).as_ref(), Ok(key));
    text.len() as u64
}
