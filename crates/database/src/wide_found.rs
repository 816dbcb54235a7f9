//! A row of a wide collection as a document that was found.

use quire_collection::Found;
use quire_wide::WideFound;

pub(crate) fn found_of(found: WideFound) -> Found {
    Found {
        key: found.key,
        version: found.version,
        external: None,
        expires_micros: None,
        partition: found.partition,
        document: found.document,
    }
}
