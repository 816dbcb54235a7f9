//! `_analyze`: the tokens that an analyzer makes of a text. Nothing here analyzes what it indexes;
//! clients use it to look at their own texts.

use quiredb::Mapping;
use serde_json::{Map, Value as Json, json};
use unicode_segmentation::UnicodeSegmentation;

use super::filter::{known, text, unsupported};
use super::request::parse;
use crate::collections::selection::Selection;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};

/// The longest token of the standard analyzer, in characters: a longer word is cut into several.
const TOKEN_MAX: usize = 255;

/// What lies between the positions of two texts.
const POSITION_GAP: usize = 100;

/// The most tokens of an answer.
const TOKENS_MAX: usize = 10_000;

/// How a text becomes tokens.
#[derive(Clone, Copy)]
enum Analyzer {
    /// The whole text is one token.
    Keyword,
    /// Its words by UAX #29, in lower case.
    Standard,
    /// Its words as they are: the tokenizer of the standard analyzer.
    Words,
}

/// The setting of a collection that says how many tokens an answer may have.
const TOKENS_SETTING: &str = "index.analyze.max_token_count";

/// `GET|POST /_analyze`, `/{collection}/_analyze`
pub(crate) async fn analyze(call: Call<Engine>) -> Outcome<Answer> {
    let (mut tokens_max, mut mappings) = (TOKENS_MAX, Vec::new());
    if call.path_param("collection").is_some() {
        let selection = Selection::of(&call)?;
        let settings = move |engine: &Engine| {
            let collections = selection.collections(engine)?;
            let limits = collections.iter().filter_map(|collection| {
                let settings = collection.settings();
                let limit = settings.api.settings.get(TOKENS_SETTING)?;
                limit.as_str()?.parse().ok()
            });
            let mappings = collections.iter().map(|one| one.settings().mapping.clone());
            Ok::<(Option<usize>, Vec<Mapping>), Failure>((limits.min(), mappings.collect()))
        };
        let limit;
        (limit, mappings) = call.state.read(settings).await??;
        tokens_max = limit.unwrap_or(TOKENS_MAX);
    }
    let body = call.take_small_body().await?;
    let body = parse(&body.bytes)?;
    known(
        &body,
        "_analyze",
        &["analyzer", "tokenizer", "field", "text", "explain"],
    )?;
    let explains = match body.get("explain") {
        None => false,
        Some(Json::Bool(explains)) => *explains,
        Some(_) => return Err(unsupported("[explain] must be a boolean")),
    };
    let (analyzer, name, is_tokenizer) = match body.get("field") {
        None | Some(Json::Null) => analyzer_of(&body)?,
        Some(field) => (analyzer_of_field(&body, field, &mappings)?, "", false),
    };
    let name = match (name, analyzer) {
        ("", Analyzer::Keyword) => "keyword",
        ("", _) => "standard",
        (name, _) => name,
    };
    let refused = || Failure::validation("text is missing: it is a string, or a list of strings");
    let texts: Vec<&str> = match body.get("text") {
        Some(Json::String(text)) => vec![text],
        Some(Json::Array(texts)) => {
            let texts = texts.iter().map(|text| text.as_str().ok_or_else(refused));
            texts.collect::<Outcome<_>>()?
        }
        _ => return Err(refused()),
    };
    let mut tokens = Vec::new();
    let (mut position, mut offset) = (0, 0);
    for text in texts {
        let end = add_tokens(analyzer, text, (position, offset), tokens_max, &mut tokens)?;
        position = end + POSITION_GAP;
        offset += text.encode_utf16().count() + 1;
    }
    let made = json!({"name": name, "tokens": tokens});
    Ok(Answer::ok(&match (explains, is_tokenizer) {
        (false, _) => json!({ "tokens": tokens }),
        (true, false) => json!({"detail": {"custom_analyzer": false, "analyzer": made}}),
        (true, true) => json!({"detail": {"custom_analyzer": true, "tokenizer": made}}),
    }))
}

/// The analyzer of a field: that of its mapping, or the standard one, as of text that no mapping
/// names.
fn analyzer_of_field(
    body: &Map<String, Json>,
    field: &Json,
    mappings: &[Mapping],
) -> Outcome<Analyzer> {
    if body.contains_key("analyzer") || body.contains_key("tokenizer") {
        return Err(unsupported("[field] can't be beside an analyzer"));
    }
    let field = text(Some(field), "[field] must be the name of a field")?;
    let [mapping] = mappings else {
        return Err(Failure::illegal_argument(
            "[field] is analyzed as in one collection: name it in the path",
        ));
    };
    let Some(kind) = mapping.kind(field) else {
        return Ok(Analyzer::Standard);
    };
    if !kind.is_text() {
        return Err(Failure::illegal_argument(format!(
            "Can't process field [{field}], Analysis requests are only supported on tokenized \
             fields"
        )));
    }
    let mut rules = mapping.fields().into_iter();
    let rule = rules.find(|(path, ..)| path == field);
    let named = rule.and_then(|(_, _, rule)| rule.get("analyzer")?.as_str().map(str::to_owned));
    match (kind.is_analyzed(), named.as_deref()) {
        (false, _) | (true, Some("keyword")) => Ok(Analyzer::Keyword),
        (true, None | Some("standard" | "default")) => Ok(Analyzer::Standard),
        (true, Some(other)) => Err(unsupported(format!(
            "[{field}] has the analyzer [{other}]: there are [keyword] and [standard]"
        ))),
    }
}

/// The analyzer or the tokenizer that a body names, its name, and whether it is a tokenizer.
fn analyzer_of(body: &Map<String, Json>) -> Outcome<(Analyzer, &str, bool)> {
    let named = |kind: &str| match body.get(kind) {
        None => Ok(None),
        Some(Json::String(name)) => Ok(Some(name.as_str())),
        Some(_) => Err(unsupported(format!("[{kind}] must be a name"))),
    };
    let missing = |kind: &str, name: &str| {
        unsupported(format!(
            "failed to find {kind} [{name}]: there are [keyword] and [standard]"
        ))
    };
    match (named("analyzer")?, named("tokenizer")?) {
        (None, None) => Ok((Analyzer::Standard, "standard", false)),
        (Some(name @ "standard"), None) => Ok((Analyzer::Standard, name, false)),
        (Some(name @ "keyword"), None) => Ok((Analyzer::Keyword, name, false)),
        (Some(name), None) => Err(missing("analyzer", name)),
        (None, Some(name @ "standard")) => Ok((Analyzer::Words, name, true)),
        (None, Some(name @ "keyword")) => Ok((Analyzer::Keyword, name, true)),
        (None, Some(name)) => Err(missing("tokenizer", name)),
        (Some(_), Some(_)) => Err(unsupported(
            "cannot define extra components on a named analyzer",
        )),
    }
}

/// Appends the tokens of a text, which begins at this position and at this offset in UTF-16 code
/// units. Returns the position after the last one.
///
/// # Errors
/// 400 if there are too many.
fn add_tokens(
    analyzer: Analyzer,
    text: &str,
    (mut position, offset): (usize, usize),
    tokens_max: usize,
    tokens: &mut Vec<Json>,
) -> Outcome<usize> {
    let words: Vec<(usize, &str)> = match analyzer {
        Analyzer::Keyword => vec![(0, text)],
        Analyzer::Standard | Analyzer::Words => {
            text.unicode_word_indices().flat_map(pieces).collect()
        }
    };
    let (mut end, mut at) = (offset, 0);
    for (begin, word) in words {
        if tokens.len() == tokens_max {
            return Err(unsupported(format!(
                "The number of tokens produced by calling _analyze has exceeded the allowed \
                 maximum of [{tokens_max}]. This limit can be set by changing the \
                 [{TOKENS_SETTING}] index level setting."
            )));
        }
        let between = text.get(at..begin).unwrap_or_default();
        let start = end + between.encode_utf16().count();
        end = start + word.encode_utf16().count();
        at = begin + word.len();
        let (token, kind) = match analyzer {
            Analyzer::Keyword => (word.to_owned(), "word"),
            Analyzer::Standard => (word.to_lowercase(), kind_of(word)),
            Analyzer::Words => (word.to_owned(), kind_of(word)),
        };
        tokens.push(json!({
            "token": token,
            "start_offset": start,
            "end_offset": end,
            "type": kind,
            "position": position,
        }));
        position += 1;
    }
    Ok(position)
}

/// A word as tokens that are not too long.
fn pieces((begin, word): (usize, &str)) -> Vec<(usize, &str)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(rest) = word.get(at..).filter(|rest| !rest.is_empty()) {
        let cut = rest.char_indices().nth(TOKEN_MAX);
        let length = cut.map_or(rest.len(), |(length, _)| length);
        pieces.push((begin + at, rest.get(..length).unwrap_or_default()));
        at += length;
    }
    pieces
}

/// The type of a word, as Lucene's standard tokenizer calls it.
fn kind_of(word: &str) -> &'static str {
    match word.chars().next() {
        Some('\u{3041}'..='\u{309f}') => "<HIRAGANA>",
        Some('\u{30a0}'..='\u{30ff}') => "<KATAKANA>",
        Some('\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7a3}') => "<HANGUL>",
        Some('\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}') => "<IDEOGRAPHIC>",
        _ if word.chars().any(char::is_alphabetic) => "<ALPHANUM>",
        _ => "<NUM>",
    }
}
