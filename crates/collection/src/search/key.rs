//! Keys of the search index.
//!
//! # Layout
//! ```text
//! | field: the path, as the term of a string | what | cluster (2, big-endian) |
//!   what: 0x00                      documents with a value that is not null
//!         a term, from 0x01 on      documents with this value
//!         0xfd                      documents with several values
//!         0xfe, then 16 bytes       documents with a long value whose term has this XXH3-128
//! ```
//! Terms are in the order of values, and no term is a prefix of another, so the postings of a range
//! of values are neighbours. The empty path, which no query can name, has all documents as `0x00`,
//! and two lists, whose postings hold docid 0 alone:
//! ```text
//! | the empty path | 0xf0, then a path | cluster 0 |      fields that are in the tree
//! | the empty path | 0xf1, then a name | cluster 0 |      fields that were refused
//! ```

use quire_index::term;
use quire_model::ValueRef;
use quire_model::ordered::{Direction, OrderedValue};
use std::borrow::Cow;

/// Terms up to this many bytes are kept as they are; of longer ones only a hash is.
pub(crate) const TERM_BYTES_MAX: usize = 256;

pub(crate) const PRESENT: u8 = 0x00;
pub(crate) const SEVERAL: u8 = 0xfd;
pub(crate) const LONG: u8 = 0xfe;
const LISTED: u8 = 0xf0;
const REFUSED: u8 = 0xf1;
const CLUSTER_BYTES: usize = 2;

/// The beginning of the keys of a field.
pub(crate) fn field(path: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(path.len() + 16);
    let is_term = term::encode(ValueRef::String(path), &mut key);
    assert!(is_term, "a string has a term");
    key
}

/// Appends what the documents with a value that is not null are kept under.
pub(crate) fn push_present(key: &mut Vec<u8>) {
    key.push(PRESENT);
}

/// What the documents with a value of this term are kept under, after the field.
pub(crate) fn of_term(term: &[u8]) -> Cow<'_, [u8]> {
    if term.len() <= TERM_BYTES_MAX {
        return Cow::Borrowed(term);
    }
    let hash = xxhash_rust::xxh3::xxh3_128(term).to_be_bytes();
    Cow::Owned([&[LONG], hash.as_slice()].concat())
}

/// What the keys of the list of fields begin with.
pub(crate) fn listed() -> Vec<u8> {
    [field(""), vec![LISTED]].concat()
}

/// What the keys of the list of fields that were refused begin with.
pub(crate) fn refused() -> Vec<u8> {
    [field(""), vec![REFUSED]].concat()
}

/// Whether an entry is one of the lists, and says nothing of documents.
pub(crate) fn is_of_list(entry: &[u8]) -> bool {
    entry.starts_with(&listed()) || entry.starts_with(&refused())
}

/// A hash of the value of a term, by which values are told apart.
pub(crate) fn term_hash(term: &[u8]) -> u64 {
    entry_hash(&of_term(term))
}

/// The same of what the documents with the value are kept under.
pub(crate) fn entry_hash(entry: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(entry)
}

/// Appends a cluster.
pub(crate) fn push_cluster(key: &mut Vec<u8>, cluster: u16) {
    key.extend_from_slice(&cluster.to_be_bytes());
}

/// The key without its cluster, and the cluster; none for bytes too short to be a key.
pub(crate) fn split_cluster(key: &[u8]) -> Option<(&[u8], u16)> {
    let (rest, cluster) = key.split_last_chunk::<CLUSTER_BYTES>()?;
    Some((rest, u16::from_be_bytes(*cluster)))
}

/// The least key after all keys that begin with `prefix`; none if there is no such key.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut after = prefix[..=kept].to_vec();
    after[kept] += 1;
    Some(after)
}

/// Where the terms of a field begin and end.
pub(crate) fn terms(field: &[u8]) -> (Vec<u8>, Vec<u8>) {
    ([field, term::NULL].concat(), [field, &[SEVERAL]].concat())
}

/// Where the hashes of long terms of a field begin and end.
pub(crate) fn long_terms(field: &[u8]) -> (Vec<u8>, Vec<u8>) {
    ([field, &[LONG]].concat(), [field, &[LONG + 1]].concat())
}

/// What an entry, a key without its cluster, stands for, in words.
pub(crate) fn entry_words(entry: &[u8]) -> String {
    let Ok((OrderedValue::String(path), what)) = OrderedValue::decode(entry, Direction::Ascending)
    else {
        return "an entry that makes no sense".to_string();
    };
    let value = || term::decode(what).map(|value| format!("value {value:?} of field {path:?}"));
    match what {
        [PRESENT] if path.is_empty() => "all documents".to_string(),
        [PRESENT] => format!("values of field {path:?}"),
        [SEVERAL] => format!("several values of field {path:?}"),
        [LONG, ..] => format!("a long value of field {path:?}"),
        _ => value().unwrap_or_else(|| format!("no value of field {path:?}")),
    }
}
