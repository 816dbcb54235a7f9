//! What clients of Elasticsearch look for in answers, and are refused for without it.
//!
//! Clients of Elasticsearch 8 send media types of their own and read the answer only if it says
//! that it comes from Elasticsearch. Some find out after the request was done. So a server that is
//! OpenSearch refuses their requests before anything is applied.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;

use super::failure::{Failure, Outcome};
use crate::compat::Compat;

/// What media types of Elasticsearch begin with.
const VENDOR: &str = "application/vnd.elasticsearch+";

/// How media types end whose formats OpenSearch has.
const OTHERS: [&str; 3] = ["/yaml", "/cbor", "/smile"];

const PRODUCT: HeaderName = HeaderName::from_static("x-elastic-product");

/// Refuses a request of a client that would not read the answer.
///
/// # Errors
/// 406.
pub(crate) fn check(compat: Compat, headers: &HeaderMap) -> Outcome<()> {
    let is_vendor = [header::ACCEPT, header::CONTENT_TYPE]
        .iter()
        .any(|name| vendor(headers, name).is_some());
    match compat {
        Compat::OpenSearch if is_vendor => Err(Failure::new(
            StatusCode::NOT_ACCEPTABLE,
            "media_type_header_exception",
            "this server speaks as OpenSearch: media types of Elasticsearch are answered by \
             `quire serve --compat elasticsearch`; nothing was applied",
        )),
        _ => check_format(headers),
    }
}

/// Refuses a request that accepts only formats that OpenSearch has and no answer here.
fn check_format(headers: &HeaderMap) -> Outcome<()> {
    let accept = headers.get(header::ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let is_other = |media: &str| {
        let media = media.split(';').next().unwrap_or(media).trim();
        OTHERS.iter().any(|other| media.ends_with(other))
    };
    match accept.filter(|accept| accept.split(',').all(is_other)) {
        None => Ok(()),
        Some(accept) => Err(Failure::new(
            StatusCode::NOT_ACCEPTABLE,
            "not_acceptable_exception",
            format!("answers are JSON, or text where they are tables, and not [{accept}]"),
        )),
    }
}

/// Adds to an answer what clients of the product look for. `accept` is the media type of
/// Elasticsearch that the request named.
pub(crate) fn sign(compat: Compat, response: &mut Response, accept: Option<HeaderValue>) {
    if compat == Compat::OpenSearch {
        return;
    }
    let headers = response.headers_mut();
    headers.insert(PRODUCT, HeaderValue::from_static("Elasticsearch"));
    let is_json = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    if let Some(accept) = accept.filter(|_| is_json) {
        headers.insert(header::CONTENT_TYPE, accept);
    }
}

/// The media type of Elasticsearch for JSON that a request accepts.
pub(crate) fn accepted(headers: &HeaderMap) -> Option<HeaderValue> {
    let accepted = vendor(headers, &header::ACCEPT)?;
    let first = accepted.split(',').next()?.trim();
    let is_json = first.strip_prefix(VENDOR)?.starts_with("json");
    is_json.then(|| HeaderValue::from_str(first).ok())?
}

/// The text of a header that names a media type of Elasticsearch.
fn vendor<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let text = headers.get(name)?.to_str().ok()?;
    text.starts_with(VENDOR).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_that_no_answer_has_are_refused_if_nothing_else_is_accepted() {
        for (accept, is_refused) in [
            ("application/yaml", true),
            ("application/cbor; q=1, application/smile", true),
            ("application/yaml, */*", false),
            ("application/json", false),
            ("text/plain", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            let checked = check(Compat::OpenSearch, &headers);
            assert_eq!(checked.is_err(), is_refused, "{accept}");
        }
    }

    #[test]
    fn only_json_of_elasticsearch_is_named_in_the_answer() {
        for (accept, expected) in [
            (
                "application/vnd.elasticsearch+json; compatible-with=8",
                Some("application/vnd.elasticsearch+json; compatible-with=8"),
            ),
            (
                "application/vnd.elasticsearch+json; compatible-with=8,text/plain",
                Some("application/vnd.elasticsearch+json; compatible-with=8"),
            ),
            ("application/vnd.elasticsearch+x-ndjson", None),
            ("application/json", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            let found = accepted(&headers);
            let found = found.as_ref().and_then(|value| value.to_str().ok());
            assert_eq!(found, expected, "{accept}");
            let is_refused = check(Compat::OpenSearch, &headers).is_err();
            assert_eq!(is_refused, accept.contains("vnd"), "{accept}");
            assert!(check(Compat::Elasticsearch, &headers).is_ok());
        }
    }
}
