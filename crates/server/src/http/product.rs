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
        _ => Ok(()),
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
