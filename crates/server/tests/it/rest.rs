//! Cases of the REST API, by folder as OpenSearch has them: requests, and what their answers hold.
//!
//! A file of `tests/rest` is a list of cases, each with a database of its own:
//! `{"case": what it shows, "steps": [{"call": "GET /a", "body": …, "lines": […], "raw": a body as
//! text, "status": 200, "match": {POINTER: VALUE}, "text": a whole text, "has": a part of the
//! text}]}`.
//! The status is 200 where none is given. A pointer is one of RFC 6901; a value of null is also
//! what an answer lacks.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::site::Site;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    call: String,
    #[serde(default)]
    body: Option<Value>,
    /// A body of lines.
    #[serde(default)]
    lines: Vec<Value>,
    /// A body as it is sent.
    #[serde(default)]
    raw: Option<String>,
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    r#match: Map<String, Value>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    has: Option<String>,
}

fn ok() -> u16 {
    200
}

impl Step {
    fn body(&self) -> String {
        match (&self.raw, &self.body) {
            (Some(raw), _) => raw.clone(),
            (None, Some(body)) => body.to_string(),
            (None, None) => self.lines.iter().map(|line| format!("{line}\n")).collect(),
        }
    }

    async fn run(&self, site: &Site, case: &str) {
        let reply = site.call(&self.call, self.body()).await;
        let (call, text) = (&self.call, &reply.text);
        assert_eq!(reply.status, self.status, "{case}: {call}: {text}");
        if let Some(expected) = &self.text {
            assert_eq!(text, expected, "{case}: {call}");
        }
        if let Some(part) = &self.has {
            assert!(text.contains(part.as_str()), "{case}: {call}: {text}");
        }
        for (pointer, expected) in &self.r#match {
            let answer = reply.json();
            let found = answer.pointer(pointer).unwrap_or(&Value::Null);
            assert_eq!(found, expected, "{case}: {call}: {pointer} of {text}");
        }
    }
}

async fn run(file: &str) {
    let cases: Vec<Case> = serde_json::from_str(file).unwrap();
    assert!(!cases.is_empty());
    for Case { case, steps } in cases {
        let site = Site::new();
        for step in steps {
            step.run(&site, &case).await;
        }
    }
}

macro_rules! folders {
    ($($name:ident: $file:literal;)*) => {
        $(#[tokio::test]
        async fn $name() {
            run(include_str!(concat!("../rest/", $file, ".json"))).await;
        })*
    };
}

folders! {
    bulk: "bulk";
    cat: "cat";
    cluster: "cluster";
    documents: "documents";
    mget: "mget";
    msearch: "msearch";
    nodes: "nodes";
    scroll: "scroll";
    search: "search";
    search_aggregation: "search.aggregation";
    search_names: "search.names";
    search_exists: "search.exists";
    search_match: "search.match";
    search_measures: "search.measures";
    search_types: "search.types";
    search_dates: "search.dates";
    search_collapse: "search.collapse";
    search_formats: "search.formats";
    search_index: "search.index";
    search_lines: "search.lines";
    search_pages: "search.pages";
    search_sort: "search.sort";
    search_untyped: "search.untyped";
    shippers: "shippers";
    tasks: "tasks";
    versions: "versions";
    indices_aliases: "indices.aliases";
    indices_analyze: "indices.analyze";
    indices_blocks: "indices.blocks";
    indices_delete: "indices.delete";
    indices_exists: "indices.exists";
    indices_open: "indices.open";
    indices_resize: "indices.resize";
    indices_resolve: "indices.resolve";
    indices_rollover: "indices.rollover";
    indices_mappings: "indices.mappings";
    indices_settings: "indices.settings";
    indices_stats: "indices.stats";
    indices_templates: "indices.templates";
    field_caps: "field_caps";
}
