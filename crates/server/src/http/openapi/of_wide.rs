//! Schemas of wide collections: their cells and columns.

use serde_json::json;

use super::kinds::{
    Group, any, list, map, named, nullable, number, object, switch, text, with_example,
};

pub(super) fn group() -> Group {
    let (text, number) = (text(), number());
    vec![
        // One member, which names the change; what values may be, the column says.
        (
            "CellChange",
            object(
                json!({
                    "add": number, "append": {}, "add_to_set": list(json!({})), "max": {},
                }),
                json!({"add": 1}),
            ),
        ),
        // A cell as it is. Of a whole family `members` and `next`; with `format=json` `value` and
        // `expires_micros`.
        ("Cell", with_example(json!({}), json!({"value": 3}))),
        (
            "ColumnChanges",
            object(
                json!({
                    "rename": map(text.clone()), "drop": list(text.clone()), "add": map(any()),
                    "timeToLive": map(nullable(text.clone())), "groups": map(any()),
                    "move": map(text),
                }),
                json!({
                    "rename": {"titel": "title"}, "add": {"visits": {"type": "integer"}},
                }),
            ),
        ),
        (
            "ColumnsChanged",
            object(
                json!({"acknowledged": switch(), "mappings": named("Mapping")}),
                json!({
                    "acknowledged": true,
                    "mappings": {"dynamic": "strict", "properties": {"title": {"type": "keyword"}}},
                }),
            ),
        ),
        (
            "CellsMoved",
            object(
                json!({"rows": number, "bytes": number}),
                json!({"rows": 12, "bytes": 4096}),
            ),
        ),
    ]
}
