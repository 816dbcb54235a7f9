//! Who may call.
//!
//! If the server has a token, every caller that sends it may call. Without a token the server
//! listens on loopback addresses alone, so every program of this machine may call. A web browser is
//! such a program too, and it runs pages of other sites. So without a token a request is refused if
//! it comes from another site's page (`Origin`), or if it was sent to a host name: an attacker's
//! name server can point such a name at this machine (DNS rebinding).

use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};

use super::failure::{Failure, Outcome};
use crate::net::token::is_same_token;

/// Decides whether a request may be answered.
///
/// # Errors
/// 401 if the token is missing or wrong, 403 for a page of another site.
pub(crate) fn admit(parts: &Parts, token: Option<&str>) -> Outcome<()> {
    match token {
        Some(token) => check_token(&parts.headers, token),
        None => check_site(parts),
    }
}

fn check_token(headers: &HeaderMap, token: &str) -> Outcome<()> {
    let sent = headers
        .get(header::AUTHORIZATION)
        .map(|value| value.as_bytes());
    let sent = sent.and_then(|value| value.split_at_checked(7));
    let reason = match sent {
        Some((scheme, sent)) if scheme.eq_ignore_ascii_case(b"bearer ") => {
            match is_same_token(sent, token.as_bytes()) {
                true => return Ok(()),
                false => "wrong token",
            }
        }
        _ => "missing token: send it as [Authorization: Bearer <token>]",
    };
    Err(Failure::new(
        StatusCode::UNAUTHORIZED,
        "security_exception",
        reason,
    ))
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
        admit(&request.body(()).unwrap().into_parts().0, token)
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
        for wrong in [
            "Bearer s3cre",
            "Bearer s3crets",
            "Bearer S3cret",
            "Bearer ",
            "Basic s3cret",
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
