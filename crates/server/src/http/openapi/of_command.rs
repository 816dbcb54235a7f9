//! Schemas of the requests of the `quire` command: reads, queries and coprocessors.

use serde_json::{Value, json};

use super::kinds::{Group, any, both, list, named, number, object, real, switch, text};

pub(super) fn group() -> Group {
    [reads(), coprocessors()].concat()
}

fn reads() -> Group {
    let (text, number, switch) = (text(), number(), switch());
    let names = list(text.clone());
    vec![
        (
            "CollectionDescribed",
            object(
                json!({"name": text, "settings": any(), "positions": list(number.clone())}),
                json!({
                    "name": "tracks", "settings": {"partitions": 2, "durability": "sync"},
                    "positions": [12, 9],
                }),
            ),
        ),
        (
            "Keys",
            object(json!({"keys": names}), json!({"keys": ["t1", "t2"]})),
        ),
        // The texts are those of the options of `quire query`; a time is in seconds.
        (
            "QueryText",
            object(
                json!({
                    "where": text, "order": text, "shuffle": number, "skip": number,
                    "limit": number, "all": switch, "fields": names, "count": switch,
                    "facet": names, "aggregate": names, "memory": number, "timeout": real(),
                    "partial": switch, "explain": switch, "strict": switch,
                }),
                json!({"where": "seconds > 500", "order": "-seconds", "limit": 5}),
            ),
        ),
    ]
}

fn coprocessors() -> Group {
    let (text, number) = (text(), number());
    let limits = json!({"fuel": number, "memory_bytes": number, "output_bytes": number});
    let called = both(
        limits,
        json!({"columns": list(text.clone()), "argument": any()}),
    );
    let versioned = both(called.clone(), json!({"version": number}));
    let one = json!({
        "name": "recrawl", "version": 2, "kinds": ["filter", "map"], "bytes": 61_440,
        "time_micros": 1_767_225_600_000_000_u64,
    });
    let trigger = json!({
        "coprocessor": "stamp", "version": 1, "argument": {"field": "seen"},
        "fuel": 10_000_000, "memory_bytes": 16_777_216, "output_bytes": 1_048_576,
    });
    let with = |more: Value, to: &Value| both(to.clone(), more);
    vec![
        (
            "Coprocessor",
            object(
                json!({
                    "name": text, "version": number, "kinds": list(text.clone()),
                    "bytes": number, "time_micros": number,
                }),
                one.clone(),
            ),
        ),
        (
            "Coprocessors",
            object(
                json!({"coprocessors": list(named("Coprocessor"))}),
                json!({"coprocessors": [one]}),
            ),
        ),
        (
            "CoprocessorRun",
            object(
                with(json!({"coprocessor": text, "as": kind()}), &called),
                json!({"coprocessor": "recrawl/2", "as": "filter", "argument": {"days": 7}}),
            ),
        ),
        (
            "NewTrigger",
            object(
                versioned.clone(),
                json!({"version": 1, "argument": {"field": "seen"}}),
            ),
        ),
        (
            "Trigger",
            object(
                with(json!({"coprocessor": text}), &versioned),
                trigger.clone(),
            ),
        ),
        (
            "Triggers",
            object(
                json!({"triggers": list(named("Trigger"))}),
                json!({"triggers": [trigger]}),
            ),
        ),
    ]
}

/// What a coprocessor is run as.
fn kind() -> Value {
    json!({"type": "string", "enum": ["filter", "map", "aggregate"]})
}
