//! What of a request is in the audit log.

use axum::http::StatusCode;
use axum::http::request::Parts;

use super::failure::Outcome;
use crate::access::grant::Grant;
use crate::audit::{Audit, Event, Peer};
use std::sync::Arc;

/// Notes that a caller was admitted, once for each connection and token, or was not.
pub(crate) fn authentication(audit: Option<&Audit>, parts: &Parts, admitted: &Outcome<Arc<Grant>>) {
    let Some(audit) = audit else { return };
    let peer = parts.extensions.get::<Peer>();
    match admitted {
        Ok(grant) => {
            if peer.is_none_or(|peer| peer.is_new(&grant.name)) {
                note(audit, "authentication", parts, Some(grant), StatusCode::OK);
            }
        }
        Err(failure) => note(audit, "authentication", parts, None, failure.status),
    }
}

/// Notes that a caller may not do what it requests.
pub(crate) fn refused(audit: Option<&Audit>, parts: &Parts, grant: &Grant) {
    if let Some(audit) = audit {
        note(audit, "refused", parts, Some(grant), StatusCode::FORBIDDEN);
    }
}

/// Notes that a caller is over a limit, once for each connection.
pub(crate) fn limited(audit: Option<&Audit>, parts: &Parts, grant: Option<&Grant>) {
    let peer = parts.extensions.get::<Peer>();
    if let Some(audit) = audit
        && peer.is_none_or(Peer::is_newly_limited)
    {
        note(
            audit,
            "refused",
            parts,
            grant,
            StatusCode::TOO_MANY_REQUESTS,
        );
    }
}

/// Notes that a caller changed something other than documents, or tried to.
pub(crate) fn admin(audit: Option<&Audit>, parts: &Parts, grant: &Grant, status: StatusCode) {
    if let Some(audit) = audit {
        note(audit, "admin", parts, Some(grant), status);
    }
}

fn note(
    audit: &Audit,
    event: &'static str,
    parts: &Parts,
    grant: Option<&Grant>,
    status: StatusCode,
) {
    let peer = parts.extensions.get::<Peer>();
    audit.note(&Event {
        event,
        protocol: "http",
        address: peer.and_then(|peer| peer.address),
        token: grant.map(|grant| grant.name.as_str()),
        method: Some(parts.method.as_str()),
        path: Some(parts.uri.path()),
        collection: None,
        status: status.as_u16(),
    });
}
