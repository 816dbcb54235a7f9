//! Schemas of templates of new collections.

use serde_json::json;

use super::kinds::{Group, any, list, map, members, named, number, object, text, with_example};

pub(super) fn group() -> Group {
    let (text, number) = (text(), number());
    let names = list(text.clone());
    let mapping = json!({"properties": {"seconds": {"type": "long"}}});
    let template = json!({
        "index_patterns": ["tracks-*"], "template": {"mappings": mapping}, "priority": 1,
        "composed_of": ["usual"],
    });
    let component = json!({"template": {"settings": {"index": {"number_of_shards": "2"}}}});
    let legacy = json!({
        "index_patterns": ["tracks-*"], "order": 0, "settings": {}, "mappings": mapping,
        "aliases": {},
    });
    vec![
        (
            "IndexTemplate",
            object(
                json!({
                    "index_patterns": names, "template": named("Collection"),
                    "priority": number, "composed_of": names, "version": number, "_meta": any(),
                }),
                template.clone(),
            ),
        ),
        (
            "IndexTemplates",
            object(
                json!({"index_templates": list(members(json!({
                    "name": text, "index_template": named("IndexTemplate"),
                })))}),
                json!({"index_templates": [{"name": "tracks", "index_template": template}]}),
            ),
        ),
        (
            "ComponentTemplate",
            object(
                json!({"template": named("Collection"), "version": number, "_meta": any()}),
                component.clone(),
            ),
        ),
        (
            "ComponentTemplates",
            object(
                json!({"component_templates": list(members(json!({
                    "name": text, "component_template": named("ComponentTemplate"),
                })))}),
                json!({"component_templates": [{
                    "name": "usual", "component_template": component,
                }]}),
            ),
        ),
        (
            "LegacyTemplate",
            object(
                json!({
                    "index_patterns": names, "order": number, "version": number,
                    "settings": any(), "mappings": any(), "aliases": any(),
                }),
                legacy.clone(),
            ),
        ),
        (
            "LegacyTemplates",
            with_example(map(named("LegacyTemplate")), json!({"tracks": legacy})),
        ),
        (
            "SimulatedTemplate",
            object(
                json!({
                    "template": named("Collection"),
                    "overlapping": list(members(json!({
                        "name": text, "index_patterns": names,
                    }))),
                }),
                json!({
                    "template": {"settings": {}, "mappings": mapping, "aliases": {}},
                    "overlapping": [{"name": "old", "index_patterns": ["tracks-*"]}],
                }),
            ),
        ),
    ]
}
