//! Keys and documents of histories, each made from a few small numbers, so that a failing history
//! is short to write.

use quiredb::Key;
use serde_json::{Map, Value, json};

/// The number of keys.
pub const KEYS: u8 = 24;

/// Key number `index`: integers of both signs, short strings, strings of the largest size of a key.
pub(crate) fn key(index: u8) -> Key {
    let index = index % KEYS;
    let number = i64::from(index) * 37 - 300;
    match index % 4 {
        0 | 1 => Key::from(number),
        2 => Key::parse(&format!("k{index}")).unwrap(),
        _ => Key::parse(&format!("{}{index}", "é".repeat(510))).unwrap(),
    }
}

/// Text of `bytes` bytes that does not compress well.
pub(crate) fn noise(seed: u64, bytes: usize) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/";
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(letters[(state >> 40) as usize % 64])
    };
    (0..bytes).map(letter).collect()
}

/// A document that no other write of the history writes: `serial` is the number of the write.
pub(crate) fn document(serial: u64, bytes: usize) -> Value {
    json!({
        "n": serial,
        "size": { "bytes": bytes, "half": bytes / 2 },
        "tags": [serial % 3, "t", null],
        "text": noise(serial, bytes),
    })
}

/// A merge patch that changes a field and a nested one, adds one and removes one, as the bits of
/// `shape` say; 0 is empty.
pub(crate) fn patch(serial: u64, shape: u8) -> Value {
    let mut patch = Map::new();
    if shape & 1 != 0 {
        patch.insert("n".into(), json!(serial));
    }
    if shape & 2 != 0 {
        patch.insert(
            "size".into(),
            json!({ "bytes": null, "seen": { "at": serial } }),
        );
    }
    if shape & 4 != 0 {
        patch.insert(format!("f{}", serial % 3), json!(["new", serial]));
    }
    if shape & 8 != 0 {
        patch.insert("tags".into(), Value::Null);
    }
    Value::Object(patch)
}

/// RFC 7396, from its pseudocode. Fields keep their places; new ones follow.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let fields = target.as_object_mut().unwrap();
    for (name, value) in patch {
        if value.is_null() {
            fields.shift_remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
