//! `_analyze`: the tokens that an analyzer makes of a text. Nothing here analyzes what it indexes;
//! clients use it to look at their own texts.

use serde_json::{Value as Json, json};
use unicode_segmentation::UnicodeSegmentation;

use super::filter::{known, unsupported};
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
}

/// `GET|POST /_analyze`, `/{collection}/_analyze`
pub(crate) async fn analyze(call: Call<Engine>) -> Outcome<Answer> {
    if call.path_param("collection").is_some() {
        let selection = Selection::of(&call)?;
        let exists = move |engine: &Engine| selection.collections(engine).map(drop);
        call.state.read(exists).await??;
    }
    let body = call.take_small_body().await?;
    let body = parse(&body.bytes)?;
    known(&body, "_analyze", &["analyzer", "text", "explain"])?;
    if body.get("explain").is_some_and(|explain| explain != false) {
        return Err(unsupported("[explain] is not supported"));
    }
    let analyzer = match body.get("analyzer").map(Json::as_str) {
        None | Some(Some("standard")) => Analyzer::Standard,
        Some(Some("keyword")) => Analyzer::Keyword,
        Some(other) => {
            let name = other.unwrap_or_default();
            return Err(unsupported(format!(
                "failed to find analyzer [{name}]: there are [keyword] and [standard]"
            )));
        }
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
        position = add_tokens(analyzer, text, position, offset, &mut tokens)? + POSITION_GAP;
        offset += text.encode_utf16().count() + 1;
    }
    Ok(Answer::ok(&json!({"tokens": tokens})))
}

/// Appends the tokens of a text, which begins at this position and at this offset in UTF-16 code
/// units. Returns the position after the last one.
///
/// # Errors
/// 400 if there are too many.
fn add_tokens(
    analyzer: Analyzer,
    text: &str,
    mut position: usize,
    offset: usize,
    tokens: &mut Vec<Json>,
) -> Outcome<usize> {
    let words: Vec<(usize, &str)> = match analyzer {
        Analyzer::Keyword => vec![(0, text)],
        Analyzer::Standard => text.unicode_word_indices().flat_map(pieces).collect(),
    };
    let (mut end, mut at) = (offset, 0);
    for (begin, word) in words {
        if tokens.len() == TOKENS_MAX {
            return Err(unsupported(format!(
                "the text has more than [{TOKENS_MAX}] tokens, which is the most of an answer"
            )));
        }
        let between = text.get(at..begin).unwrap_or_default();
        let start = end + between.encode_utf16().count();
        end = start + word.encode_utf16().count();
        at = begin + word.len();
        let (token, kind) = match analyzer {
            Analyzer::Keyword => (word.to_owned(), "word"),
            Analyzer::Standard => (word.to_lowercase(), kind_of(word)),
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
