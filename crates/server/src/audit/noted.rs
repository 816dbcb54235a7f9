//! What a caller may do, and where it is noted what it may not: the items of a body, and the keys
//! of memcached, which have no status of their own.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::request::Parts;
use parking_lot::Mutex;

use super::event::{Event, Peer};
use super::log::Audit;
use crate::access::grant::Grant;

/// Names that one request or connection notes. A body may name any number of collections.
const NOTED_MAX: usize = 64;

/// What the caller of a request, or of a connection of memcached, may do. What it may not, and what
/// it creates by writing, is noted.
pub(crate) struct AuditedGrant {
    grant: Arc<Grant>,
    notes: Option<Notes>,
}

struct Notes {
    audit: Audit,
    protocol: &'static str,
    address: Option<SocketAddr>,
    /// The method and the path, over HTTP.
    request: Option<(String, String)>,
    /// Names of collections that were noted as refused.
    refused: Mutex<BTreeSet<String>>,
}

impl AuditedGrant {
    /// The caller of a request over HTTP.
    pub(crate) fn http(grant: Arc<Grant>, audit: Option<&Audit>, parts: &Parts) -> AuditedGrant {
        let notes = audit.map(|audit| Notes {
            audit: audit.clone(),
            protocol: "http",
            address: parts.extensions.get::<Peer>().and_then(|peer| peer.address),
            request: Some((parts.method.to_string(), parts.uri.path().to_owned())),
            refused: Mutex::default(),
        });
        AuditedGrant { grant, notes }
    }

    /// The caller of a connection of memcached.
    pub(crate) fn memcached(
        grant: Arc<Grant>,
        audit: Option<&Audit>,
        address: Option<SocketAddr>,
    ) -> AuditedGrant {
        let notes = audit.map(|audit| Notes {
            audit: audit.clone(),
            protocol: "memcached",
            address,
            request: None,
            refused: Mutex::default(),
        });
        AuditedGrant { grant, notes }
    }

    /// What is granted.
    pub(crate) fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }

    /// From now on this is granted.
    pub(crate) fn renew(&mut self, grant: Arc<Grant>) {
        self.grant = grant;
    }

    /// Notes that an item was refused: each name of collections once.
    pub(crate) fn note_refused(&self, named: &str) {
        let Some(notes) = &self.notes else { return };
        let mut refused = notes.refused.lock();
        if refused.len() < NOTED_MAX && refused.insert(named.to_owned()) {
            self.note(notes, "refused", Some(named), StatusCode::FORBIDDEN);
        }
    }

    /// Notes that the first write to a collection created it.
    pub(crate) fn note_created(&self, collection: &str) {
        if let Some(notes) = &self.notes {
            self.note(notes, "admin", Some(collection), StatusCode::OK);
        }
    }

    /// Notes that the request changed what belongs to others.
    pub(crate) fn note_admin(&self) {
        if let Some(notes) = &self.notes {
            self.note(notes, "admin", None, StatusCode::OK);
        }
    }

    fn note(
        &self,
        notes: &Notes,
        event: &'static str,
        collection: Option<&str>,
        status: StatusCode,
    ) {
        let request = notes.request.as_ref();
        notes.audit.note(&Event {
            event,
            protocol: notes.protocol,
            address: notes.address,
            token: Some(&self.grant.name),
            method: request.map(|(method, _)| method.as_str()),
            path: request.map(|(_, path)| path.as_str()),
            collection,
            status: status.as_u16(),
        });
    }
}

impl Deref for AuditedGrant {
    type Target = Grant;

    fn deref(&self) -> &Grant {
        &self.grant
    }
}
