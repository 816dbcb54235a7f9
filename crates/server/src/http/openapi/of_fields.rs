//! Schemas of fields and their types.

use serde_json::json;

use super::kinds::{
    Group, any, list, map, members, number, object, one_or_more, switch, text, with_example,
};

pub(super) fn group() -> Group {
    let (text, number, switch) = (text(), number(), switch());
    vec![
        (
            "FieldMappings",
            with_example(
                map(members(json!({"mappings": map(members(json!({
                    "full_name": text, "mapping": map(any()),
                })))}))),
                json!({"tracks": {"mappings": {"seconds": {
                    "full_name": "seconds", "mapping": {"seconds": {"type": "long"}},
                }}}}),
            ),
        ),
        (
            "FieldsWanted",
            object(
                json!({"fields": one_or_more(), "index_filter": any()}),
                json!({"fields": ["seconds"]}),
            ),
        ),
        // By field, then by type.
        (
            "FieldCaps",
            object(
                json!({
                    "indices": list(text.clone()),
                    "fields": map(map(members(json!({
                        "type": text, "searchable": switch, "aggregatable": switch,
                    })))),
                }),
                json!({
                    "indices": ["tracks"],
                    "fields": {"seconds": {"long": {
                        "type": "long", "searchable": true, "aggregatable": true,
                    }}},
                }),
            ),
        ),
        (
            "CollectionFields",
            object(
                json!({
                    "documents": number, "from_index": switch, "omitted": number,
                    "fields": list(members(json!({
                        "path": text, "types": list(text.clone()), "documents": number,
                        "several": switch, "values": number, "estimated": switch,
                        "examples": list(text), "index_bytes": number,
                    }))),
                }),
                json!({
                    "documents": 3, "from_index": true, "omitted": 0,
                    "fields": [{
                        "path": "seconds", "types": ["integer"], "documents": 3,
                        "several": false, "values": 3, "estimated": false,
                        "examples": ["337", "589"], "index_bytes": 40248,
                    }],
                }),
            ),
        ),
    ]
}
