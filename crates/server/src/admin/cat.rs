//! `_cat/indices`: a table of collections for people, or the same as JSON.

use crate::collections::selection::Selection;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::table::{Column, Table};

const COLUMNS: &[Column] = &[
    ("health", "h", false),
    ("status", "s", false),
    ("index", "i", false),
    ("uuid", "id", false),
    ("pri", "p", true),
    ("rep", "r", true),
    ("docs.count", "dc", true),
    ("docs.deleted", "dd", true),
    ("store.size", "ss", true),
    ("pri.store.size", "pri.store.size", true),
];

/// `GET /_cat/indices`
pub(crate) async fn indices(call: Call<Engine>) -> Outcome<Answer> {
    let params = &call.params;
    params.only("bytes", &["", "b"], "only [b] is supported")?;
    let is_exact = params.text("bytes") == Some("b");
    let table = Table::of(params, COLUMNS)?;
    let selection = Selection::of(&call)?;
    let work = move |engine: &Engine| {
        let mut rows = Vec::new();
        for collection in selection.collections(engine)? {
            let failed = |error: quiredb::Error| Failure::engine(&error, Some(collection.name()));
            let stats = collection.stats().map_err(failed)?;
            let size = if is_exact {
                stats.disk_bytes.to_string()
            } else {
                size(stats.disk_bytes)
            };
            rows.push(vec![
                "green".into(),
                "open".into(),
                stats.name,
                "_na_".into(),
                stats.partitions.to_string(),
                "0".into(),
                stats.documents.to_string(),
                "0".into(),
                size.clone(),
                size,
            ]);
        }
        Ok(table.answer(&rows))
    };
    call.state.read(work).await?
}

/// Bytes as OpenSearch writes them for people: `208b`, `5.2kb`.
fn size(bytes: u64) -> String {
    let units = ["b", "kb", "mb", "gb", "tb", "pb"];
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = if unit == 0 {
        bytes.to_string()
    } else {
        format!("{value:.1}")
    };
    format!(
        "{}{}",
        text.trim_end_matches(".0"),
        units.get(unit).unwrap_or(&"b")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_opensearch_does() {
        let cases = [
            (0, "0b"),
            (208, "208b"),
            (1024, "1kb"),
            (5325, "5.2kb"),
            (3 << 20, "3mb"),
            (u64::MAX, "16384pb"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected);
        }
    }
}
