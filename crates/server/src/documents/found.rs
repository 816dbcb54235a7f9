//! The answer to a get of one document.

use quiredb::{Found, ValueRef};

use super::source::Source;
use crate::http::answer::write_string;
use crate::http::failure::{Failure, Outcome};

/// Refuses a document that has another version than the one that a request gives.
pub(crate) fn check_version(index: &str, id: &str, found: &Found, version: u64) -> Outcome<()> {
    let current = found.shown_version();
    if current == version {
        return Ok(());
    }
    let what =
        format!("current version [{current}] is different than the one provided [{version}]");
    Err(Failure::version_conflict(index, id, &what))
}

/// Appends the answer to a get.
pub(crate) fn write_found(
    index: &str,
    id: &str,
    found: Option<&Found>,
    source: &Source,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"_index\":");
    write_string(index, out);
    out.extend_from_slice(b",\"_id\":");
    write_string(id, out);
    match found {
        Some(found) => {
            let (version, seq_no) = (found.shown_version(), found.version);
            let members = format!(
                ",\"_version\":{version},\"_seq_no\":{seq_no},\"_primary_term\":1,\"found\":true"
            );
            out.extend_from_slice(members.as_bytes());
            if source.shown {
                out.extend_from_slice(b",\"_source\":");
                source
                    .fields
                    .write(ValueRef::Object(found.document.root()), "", out);
            }
        }
        None => out.extend_from_slice(b",\"found\":false"),
    }
    out.push(b'}');
}
