//! What the head of a request says about where its body ends, and for whom it is.
//!
//! Two programs that read such a head differently take the rest of a connection for different
//! requests (request smuggling). So what can be read in two ways is refused.

use axum::http::{HeaderMap, StatusCode, header};

use super::failure::{Failure, Outcome};

/// Refuses a head with two hosts, or a transfer coding other than `chunked`.
///
/// # Errors
/// 400 for a second `Host`; 501 for a transfer coding that is not known.
pub(crate) fn check(headers: &HeaderMap) -> Outcome<()> {
    if headers.get_all(header::HOST).iter().count() > 1 {
        return Err(Failure::illegal_argument(
            "the request has two [Host] headers",
        ));
    }
    let codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    for coding in codings.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')) {
        let coding = coding.trim_ascii();
        if !coding.eq_ignore_ascii_case(b"chunked") {
            let reason = format!(
                "Transfer-Encoding [{}] is not supported; send [chunked] alone, and a compressed \
                 body with [Content-Encoding: gzip]",
                String::from_utf8_lossy(coding)
            );
            return Err(Failure::new(
                StatusCode::NOT_IMPLEMENTED,
                "illegal_argument_exception",
                reason,
            ));
        }
    }
    Ok(())
}
