//! The settings of an index that OpenSearch has and Quire keeps for its clients: they are shown as
//! they were given. Of these, `index.blocks.*`, `index.hidden`, `index.analyze.max_token_count` and
//! the limits of [`SearchLimits`](super::search_limits::SearchLimits) mean what they say; the
//! others change no answer here.

use axum::http::StatusCode;
use jiff::tz::TimeZone;
use quiredb::ApiSettings;
use quiredb::query::DateFormat;
use serde_json::Value;

use crate::http::failure::{Failure, Outcome};

/// Settings that are kept, without `index.`; those with a dot at the end stand for all below them.
const KEPT: [&str; 26] = [
    "allocation.",
    "analyze.max_token_count",
    "auto_expand_replicas",
    "gc_deletes",
    "mapping.",
    "max_docvalue_fields_search",
    "max_inner_result_window",
    "max_ngram_diff",
    "max_refresh_listeners",
    "max_result_window",
    "max_terms_count",
    "merge.",
    "number_of_routing_shards",
    "priority",
    "query.default_field",
    "query_string.lenient",
    "refresh_interval",
    "requests.cache.enable",
    "routing.",
    "search.idle.after",
    "search.slowlog.",
    "indexing.slowlog.",
    "translog.",
    "unassigned.node_left.delayed_timeout",
    "warmer.enabled",
    "write.wait_for_active_shards",
];

/// When a collection was made, in milliseconds since 1970 UTC; as text. Nobody can set it.
const CREATED: &str = "index.creation_date";

/// Says that a collection is a copy that is not whole. Nobody can set it.
const UNFINISHED: &str = "index.resize.unfinished";

/// Marks a collection as a copy that is not whole, or as one that is.
pub(crate) fn set_unfinished(settings: &mut ApiSettings, is_unfinished: bool) {
    match is_unfinished {
        true => drop(
            settings
                .settings
                .insert(UNFINISHED.to_owned(), "true".into()),
        ),
        false => drop(settings.settings.remove(UNFINISHED)),
    }
}

/// Whether a collection is a copy that is not whole.
pub(crate) fn is_unfinished(settings: &ApiSettings) -> bool {
    is_true(settings, UNFINISHED)
}

/// Notes that a collection is made at this time, in milliseconds since 1970 UTC.
pub(crate) fn set_created(settings: &mut ApiSettings, millis: i64) {
    let millis = millis.to_string();
    settings.settings.insert(CREATED.to_owned(), millis.into());
}

/// When a collection was made over HTTP, in milliseconds since 1970 UTC.
pub(crate) fn created(settings: &ApiSettings) -> Option<i64> {
    settings.settings.get(CREATED)?.as_str()?.parse().ok()
}

/// A time for people, as OpenSearch writes it.
pub(crate) fn date_text(millis: i64) -> String {
    DateFormat::ISO.write(millis, &TimeZone::UTC)
}

/// The most tokens that a collection can allow an answer: they are in memory together.
const TOKENS_MAX: u32 = 100_000;

/// Settings that are true or false, without `index.`.
const FLAGS: [&str; 6] = [
    "blocks.metadata",
    "blocks.read",
    "blocks.read_only",
    "blocks.read_only_allow_delete",
    "blocks.write",
    "hidden",
];

/// What a setting is kept as; none if it is not one of those that are kept. `name` is without
/// `index.`.
///
/// # Errors
/// 400 for a value that can't be one of the setting.
pub(super) fn kept(name: &str, value: &Value) -> Outcome<Option<Value>> {
    let is_in = |kept: &&str| match kept.ends_with('.') {
        true => name.starts_with(*kept),
        false => name == *kept,
    };
    let is_flag = FLAGS.contains(&name);
    if !is_flag && name != "number_of_replicas" && !KEPT.iter().any(is_in) {
        return Ok(None);
    }
    let text = as_text(value);
    let wrong = |what: &str| {
        let shown = text.as_str().unwrap_or("a list");
        Failure::illegal_argument(format!(
            "Failed to parse value [{shown}] for setting [index.{name}]: {what}"
        ))
    };
    if is_flag && !matches!(text.as_str(), Some("true" | "false")) && !value.is_null() {
        return Err(wrong("only [true] or [false] are allowed"));
    }
    let is_of_tokens = name == "analyze.max_token_count";
    let is_number = name.starts_with("number_of_") || name.starts_with("max_");
    if (is_of_tokens || is_number) && !value.is_null() {
        let number = text.as_str().and_then(|text| text.parse::<u32>().ok());
        let number = number.ok_or_else(|| wrong("a number of at least 0 is expected"))?;
        if is_of_tokens && number > TOKENS_MAX {
            return Err(wrong("it may be 100000"));
        }
    }
    Ok(Some(text))
}

/// Settings are shown as text, lists as lists of it.
pub(super) fn as_text(value: &Value) -> Value {
    match value {
        Value::Number(_) | Value::Bool(_) => value.to_string().into(),
        Value::Array(list) => list.iter().map(as_text).collect(),
        other => other.clone(),
    }
}

/// The index blocks of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    Metadata,
    Read,
    ReadOnly,
    ReadOnlyAllowDelete,
    Write,
}

/// What a block, or the state of a collection, may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Documents are read.
    Read,
    /// Documents are written.
    Write,
    /// It is counted, flushed or merged.
    Upkeep,
    /// Settings, mapping or aliases are looked at.
    Look,
    /// The health and the figures of the server are looked at, which nothing refuses.
    Watch,
    /// They are changed.
    Change,
    /// Blocks are set and lifted.
    Configure,
    /// The collection is dropped.
    Drop,
}

impl Use {
    /// Whether a closed collection refuses it.
    pub(crate) fn needs_open(self) -> bool {
        matches!(self, Use::Read | Use::Write | Use::Upkeep)
    }
}

impl Block {
    pub(super) const ALL: [Block; 5] = [
        Block::Metadata,
        Block::Read,
        Block::ReadOnly,
        Block::ReadOnlyAllowDelete,
        Block::Write,
    ];

    /// The name in a path and in settings.
    pub(super) fn name(self) -> &'static str {
        self.setting().trim_start_matches("index.blocks.")
    }

    /// The name of the setting.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            Block::Metadata => "index.blocks.metadata",
            Block::Read => "index.blocks.read",
            Block::ReadOnly => "index.blocks.read_only",
            Block::ReadOnlyAllowDelete => "index.blocks.read_only_allow_delete",
            Block::Write => "index.blocks.write",
        }
    }

    /// The number and the words that OpenSearch has for it.
    pub(crate) fn described(self) -> (u8, &'static str) {
        match self {
            Block::ReadOnly => (5, "index read-only (api)"),
            Block::Read => (7, "index read (api)"),
            Block::Write => (8, "index write (api)"),
            Block::Metadata => (9, "index metadata (api)"),
            Block::ReadOnlyAllowDelete => (
                12,
                "disk usage exceeded flood-stage watermark, index has read-only-allow-delete block",
            ),
        }
    }

    /// What it refuses.
    pub(crate) fn refuses(self) -> &'static [Use] {
        match self {
            Block::Read => &[Use::Read],
            Block::Write => &[Use::Write],
            Block::Metadata => &[Use::Look, Use::Change, Use::Drop],
            Block::ReadOnly => &[Use::Write, Use::Change, Use::Drop],
            Block::ReadOnlyAllowDelete => &[Use::Write, Use::Change],
        }
    }

    /// What it refuses, in OpenSearch's words.
    pub(crate) fn levels(self) -> &'static [&'static str] {
        match self {
            Block::Read => &["read"],
            Block::Write => &["write"],
            Block::Metadata => &["metadata_read", "metadata_write"],
            Block::ReadOnly | Block::ReadOnlyAllowDelete => &["write", "metadata_write"],
        }
    }

    /// Those that a collection has.
    pub(crate) fn of(settings: &ApiSettings) -> impl Iterator<Item = Block> + '_ {
        let is_on = |block: &Block| is_true(settings, block.setting());
        Block::ALL.into_iter().filter(is_on)
    }
}

fn is_true(settings: &ApiSettings, name: &str) -> bool {
    let value = settings.settings.get(name);
    value.is_some_and(|value| value == "true")
}

/// Whether patterns leave a collection out unless a request says otherwise.
pub(crate) fn is_hidden(settings: &ApiSettings) -> bool {
    is_true(settings, "index.hidden")
}

/// Refuses what the state of a collection, or one of its blocks, does not allow.
///
/// # Errors
/// 400 if the collection is closed and documents are meant, 403 or 429 for a block.
pub(crate) fn check_use(name: &str, settings: &ApiSettings, what: Use) -> Outcome<()> {
    if settings.closed && what.needs_open() {
        return Err(Failure::index_closed(name));
    }
    let blocks = Block::of(settings).filter(|block| block.refuses().contains(&what));
    let blocks: Vec<Block> = blocks.collect();
    match blocks.is_empty() {
        true => Ok(()),
        false => Err(blocked(name, &blocks)),
    }
}

fn blocked(name: &str, blocks: &[Block]) -> Failure {
    let is_flood = |block: &Block| *block == Block::ReadOnlyAllowDelete;
    let status = match blocks.iter().all(is_flood) {
        true => StatusCode::TOO_MANY_REQUESTS,
        false => StatusCode::FORBIDDEN,
    };
    let reasons = blocks.iter().map(|block| {
        let (number, words) = block.described();
        let kind = match is_flood(block) {
            true => "TOO_MANY_REQUESTS",
            false => "FORBIDDEN",
        };
        format!("{kind}/{number}/{words}")
    });
    Failure::blocked(status, name, reasons)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_kept_as_text_and_wrong_ones_refused() {
        let kept = |name, value: Value| kept(name, &value).map_err(|failure| failure.status);
        assert_eq!(kept("blocks.write", json!(true)), Ok(Some("true".into())));
        assert!(kept("blocks.write", json!("yes")).is_err());
        assert_eq!(kept("number_of_replicas", json!(3)), Ok(Some("3".into())));
        assert!(kept("number_of_replicas", json!(-1)).is_err());
        assert_eq!(
            kept("translog.durability", json!("async")),
            Ok(Some("async".into()))
        );
        assert_eq!(
            kept("query.default_field", json!(["a", 1])),
            Ok(Some(json!(["a", "1"])))
        );
        assert_eq!(kept("sort.field", json!("a")), Ok(None));
    }

    #[test]
    fn a_block_refuses_what_it_is_for() {
        let with = |name: &str| ApiSettings {
            settings: [(format!("index.blocks.{name}"), "true".into())].into(),
            ..ApiSettings::default()
        };
        let all = [
            Use::Read,
            Use::Write,
            Use::Upkeep,
            Use::Look,
            Use::Watch,
            Use::Change,
            Use::Configure,
            Use::Drop,
        ];
        for (name, refused) in [
            ("read", &[Use::Read][..]),
            ("write", &[Use::Write]),
            ("metadata", &[Use::Look, Use::Change, Use::Drop]),
            ("read_only", &[Use::Write, Use::Change, Use::Drop]),
            ("read_only_allow_delete", &[Use::Write, Use::Change]),
        ] {
            for what in all {
                let checked = check_use("a", &with(name), what);
                assert_eq!(checked.is_err(), refused.contains(&what), "{name} {what:?}");
            }
        }
        let closed = ApiSettings {
            closed: true,
            ..ApiSettings::default()
        };
        for what in all {
            let is_refused = check_use("a", &closed, what).is_err();
            assert_eq!(is_refused, what.needs_open(), "{what:?}");
        }
    }
}
