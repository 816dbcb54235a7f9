//! Who may call.
//!
//! If the server has tokens, a caller that sends one may do what the token grants. It is sent as
//! `Authorization: Bearer <token>`, or as the password of `Basic`, with any name of a user, as
//! clients of OpenSearch do. Without a token the server
//! listens on loopback addresses alone, so every program of this machine may call. A web browser is
//! such a program too, and it runs pages of other sites. So without a token a request is refused if
//! it comes from another site's page (`Origin`), or if it was sent to a host name: an attacker's
//! name server can point such a name at this machine (DNS rebinding).

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::failure::{Failure, Outcome};
use crate::access::caller::Access;
use crate::access::grant::Grant;

/// What the caller of a request may do.
///
/// # Errors
/// 401 if the token is missing or wrong, 403 for a page of another site.
pub(crate) fn admit(parts: &Parts, access: &Access) -> Outcome<Arc<Grant>> {
    match access.without_token() {
        Some(grant) => check_site(parts).map(|()| grant),
        None => check_token(&parts.headers, access),
    }
}

/// Whether the request has a token, right or wrong.
pub(crate) fn has_token(headers: &HeaderMap) -> bool {
    headers.contains_key(header::AUTHORIZATION)
}

fn check_token(headers: &HeaderMap, access: &Access) -> Outcome<Arc<Grant>> {
    let sent = headers
        .get(header::AUTHORIZATION)
        .map(|value| value.as_bytes());
    let reason = match sent.and_then(token_of) {
        Some(token) => match access.grant(&token) {
            Some(grant) => return Ok(grant),
            None => "wrong token",
        },
        None => {
            "missing token: send it as [Authorization: Bearer <token>], or as the password of \
             [Basic]"
        }
    };
    Err(Failure::new(
        StatusCode::UNAUTHORIZED,
        "security_exception",
        reason,
    ))
}

/// The token in a header `Authorization`.
fn token_of(value: &[u8]) -> Option<Vec<u8>> {
    let space = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = value.split_at_checked(space)?;
    let rest = rest.get(1..)?;
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(rest.to_vec());
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let pair = STANDARD.decode(rest).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    pair.get(colon + 1..).map(<[u8]>::to_vec)
}

fn check_site(parts: &Parts) -> Outcome<()> {
    let refused = |reason: String| {
        Err(Failure::new(
            StatusCode::FORBIDDEN,
            "security_exception",
            reason,
        ))
    };
    let text = |name: HeaderName| {
        parts
            .headers
            .get(name)
            .map(|value| value.to_str().unwrap_or("?"))
    };
    // HTTP/2 sends the host as a part of the URI.
    let host = parts
        .uri
        .authority()
        .map(|host| host.as_str())
        .or_else(|| text(header::HOST));
    if let Some(host) = host
        && !is_local_name(host)
    {
        return refused(format!(
            "host [{host}] is neither an IP address nor localhost; set a token to serve under a \
             name"
        ));
    }
    match text(header::ORIGIN) {
        Some(origin) if origin.split_once("://").map(|(_, site)| site) != host => refused(format!(
            "pages of [{origin}] may not call this server; set a token to allow other sites"
        )),
        _ => Ok(()),
    }
}

/// Whether the host, with or without a port, is an IP address or localhost: no name server decides
/// where it is.
fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn admitted(headers: &[(&str, &str)], token: Option<&str>) -> Result<(), u16> {
        let mut request = Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let access = Access::new(token.map(str::to_owned), None);
        admit(&request.body(()).unwrap().into_parts().0, &access)
            .map(|_| ())
            .map_err(|failure| failure.status.as_u16())
    }

    #[test]
    fn only_the_token_lets_in_where_there_is_one() {
        let token = Some("s3cret");
        assert_eq!(
            admitted(&[("authorization", "Bearer s3cret")], token),
            Ok(())
        );
        assert_eq!(
            admitted(
                &[
                    ("authorization", "bearer s3cret"),
                    ("origin", "https://a.b")
                ],
                token
            ),
            Ok(())
        );
        // user:s3cret
        let basic = [("authorization", "Basic dXNlcjpzM2NyZXQ=")];
        assert_eq!(admitted(&basic, token), Ok(()));
        for wrong in [
            "Bearer s3cre",
            "Bearer s3crets",
            "Bearer S3cret",
            "Bearer ",
            "Basic s3cret",
            "Basic YTpzM2NyZXR4",
            "Digest s3cret",
            "s3cret",
            "é",
        ] {
            assert_eq!(
                admitted(&[("authorization", wrong)], token),
                Err(401),
                "{wrong}"
            );
        }
        assert_eq!(admitted(&[], token), Err(401));
    }

    #[test]
    fn pages_of_other_sites_are_kept_out_where_there_is_no_token() {
        for host in [
            "localhost:9200",
            "127.0.0.1",
            "[::1]:9200",
            "a.localhost",
            "LOCALHOST",
        ] {
            assert_eq!(admitted(&[("host", host)], None), Ok(()), "{host}");
        }
        for host in [
            "evil.example:9200",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[evil",
        ] {
            assert_eq!(admitted(&[("host", host)], None), Err(403), "{host}");
        }
        let from = |origin| admitted(&[("host", "localhost:9200"), ("origin", origin)], None);
        assert_eq!(from("http://localhost:9200"), Ok(()));
        for origin in ["http://localhost:3000", "https://evil.example", "null"] {
            assert_eq!(from(origin), Err(403), "{origin}");
        }
        assert_eq!(admitted(&[], None), Ok(()));
    }
}
