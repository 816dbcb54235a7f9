//! How a write is acknowledged.
//!
//! `_seq_no` is the document's version: the position of its record in the log of its partition.
//! `_version` is its external version if it has one, else the same. A partition never changes its
//! writer, so `_primary_term` is always 1.

use axum::http::StatusCode;
use quiredb::{Effect, ErrorKind, Found, Position, Written};

use crate::http::answer::{Answer, write_string};
use crate::http::failure::Failure;
use crate::http::params::Params;

/// Whether a request wants a refresh.
pub(crate) fn wants_refresh(params: &Params) -> bool {
    matches!(params.text("refresh"), Some("" | "true"))
}

/// The acknowledgement of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ack {
    result: &'static str,
    version: u64,
    seq_no: Position,
    /// Whether the caller wanted a refresh, which every write is.
    is_refreshed: bool,
}

impl Ack {
    /// Of a put or a patch.
    pub(crate) fn put(written: Written) -> Ack {
        let result = match written.effect {
            Effect::Created => "created",
            Effect::Unchanged => "noop",
            _ => "updated",
        };
        Ack {
            result,
            version: written.shown_version(),
            seq_no: written.version,
            is_refreshed: false,
        }
    }

    /// Of a delete. That there was nothing to delete is not an error, but its status is 404.
    pub(crate) fn delete(written: Written) -> Ack {
        let result = if written.effect == Effect::Deleted {
            "deleted"
        } else {
            "not_found"
        };
        Ack {
            result,
            version: written.shown_version(),
            seq_no: written.version,
            is_refreshed: false,
        }
    }

    /// Of an update that changes nothing.
    pub(crate) fn noop(current: &Found) -> Ack {
        Ack {
            result: "noop",
            version: current.shown_version(),
            seq_no: current.version,
            is_refreshed: false,
        }
    }

    /// The same, of a request with these parameters.
    pub(crate) fn answered_to(self, params: &Params) -> Ack {
        self.refreshed(wants_refresh(params))
    }

    /// The same, of a request that wanted a refresh or not.
    pub(crate) fn refreshed(self, is_wanted: bool) -> Ack {
        Ack {
            is_refreshed: is_wanted && self.result != "noop",
            ..self
        }
    }

    /// Whether nothing was written.
    pub(crate) fn is_noop(self) -> bool {
        self.result == "noop"
    }

    pub(crate) fn status(self) -> StatusCode {
        match self.result {
            "created" => StatusCode::CREATED,
            "not_found" => StatusCode::NOT_FOUND,
            _ => StatusCode::OK,
        }
    }

    /// Appends the members of the answer, without braces.
    pub(crate) fn write(self, index: &str, id: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"_index\":");
        write_string(index, out);
        out.extend_from_slice(b",\"_id\":");
        write_string(id, out);
        let Ack {
            result,
            version,
            is_refreshed,
            ..
        } = self;
        let copies = if result == "noop" { 0 } else { 1 };
        let refreshed = match is_refreshed {
            true => "\"forced_refresh\":true,",
            false => "",
        };
        let rest = format!(
            ",\"_version\":{version},\"result\":\"{result}\",{refreshed}\
             \"_shards\":{{\"total\":{copies},\"successful\":{copies},\"failed\":0}},"
        );
        out.extend_from_slice(rest.as_bytes());
        self.write_place(out);
    }

    /// Appends `_seq_no` and `_primary_term`.
    pub(crate) fn write_place(self, out: &mut Vec<u8>) {
        let place = format!("\"_seq_no\":{},\"_primary_term\":1", self.seq_no);
        out.extend_from_slice(place.as_bytes());
    }
}

/// The answer to a single write.
pub(crate) fn acknowledge(ack: Ack, index: &str, id: &str) -> Answer {
    let mut json = b"{".to_vec();
    ack.write(index, id, &mut json);
    json.push(b'}');
    Answer::json(ack.status(), json)
}

/// Why a document could not be written.
pub(crate) fn write_failure(error: &quiredb::Error, index: &str, id: &str) -> Failure {
    match error.kind() {
        ErrorKind::Conflict => {
            let what = error.to_string();
            let what = what
                .strip_prefix(&format!("document {id}: "))
                .unwrap_or(&what);
            Failure::version_conflict(index, id, what)
        }
        ErrorKind::NotFound => Failure::index_not_found(index),
        _ => Failure::engine(error, Some(index)),
    }
}
