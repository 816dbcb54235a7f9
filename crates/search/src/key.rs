//! Keys of the search index.
//!
//! # Layout
//! ```text
//! | field: the path, as the term of a string | what | cluster (2, big-endian) |
//!   what: 0x00                      documents with a value that is not null
//!         a term, from 0x01 on      documents with this value
//!         0xfd                      documents with several values
//!         0xfe, then 16 bytes       documents with a long value whose term has this XXH3-128
//!         0xff                      documents with more values than are indexed
//! ```
//! Terms are in the order of values, and no term is a prefix of another, so the postings of a range
//! of values are neighbours. The empty path, which no query can name, has all documents as `0x00`,
//! and three lists, whose postings hold docid 0 alone:
//! ```text
//! | the empty path | 0xf0, then a path | cluster 0 |      fields that are in the tree
//! | the empty path | 0xf1, then a name | cluster 0 |      fields that were refused
//! | the empty path | 0xf2, then a path | cluster 0 |      fields with postings of 0xff
//! ```

use quire_index::term;
use quire_model::ValueRef;
use quire_model::ordered::{Direction, OrderedValue};
use std::borrow::Cow;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

/// Terms up to this many bytes are kept as they are; of longer ones only a hash is.
pub(crate) const TERM_BYTES_MAX: usize = 256;

/// Texts longer than this are hashed piece by piece.
const PIECE_BYTES: usize = 16 << 10;

/// What the term of a text has before its bytes, and behind them.
const TEXT_BEGIN_BYTES: usize = 1;
const TEXT_END_BYTES: usize = 2;

pub(crate) const PRESENT: u8 = 0x00;
pub(crate) const SEVERAL: u8 = 0xfd;
pub(crate) const LONG: u8 = 0xfe;
pub(crate) const MANY: u8 = 0xff;
const LISTED: u8 = 0xf0;
const REFUSED: u8 = 0xf1;
const WITH_MANY: u8 = 0xf2;
const CLUSTER_BYTES: usize = 2;

/// The beginning of the keys of a field.
pub(crate) fn field(path: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(path.len() + 16);
    let is_term = term::encode(ValueRef::String(path), &mut key);
    assert!(is_term, "a string has a term");
    key
}

/// The path of a field, by the beginning of its keys.
pub(crate) fn path(field: &[u8]) -> Option<Cow<'_, str>> {
    match OrderedValue::decode(field, Direction::Ascending) {
        Ok((OrderedValue::String(path), _)) => Some(path),
        _ => None,
    }
}

/// Appends what the documents with a value that is not null are kept under.
pub(crate) fn push_present(key: &mut Vec<u8>) {
    key.push(PRESENT);
}

/// What the documents with a value of this term are kept under, after the field: its *entry*.
pub(crate) fn of_term(term: &[u8]) -> Cow<'_, [u8]> {
    if term.len() <= TERM_BYTES_MAX {
        return Cow::Borrowed(term);
    }
    Cow::Owned(long_entry(xxh3_128(term)).to_vec())
}

/// Whether an entry stands for a long value, or for more values than are indexed: only the document
/// says what these are.
pub(crate) fn is_long(entry: &[u8]) -> bool {
    matches!(entry.first(), Some(&(LONG | MANY)))
}

/// Appends the entry of a value, as [`of_term`] makes it of the term; false, and nothing appended,
/// for an array or an object. The term of a long text is hashed in pieces: it is never in memory
/// whole.
pub(crate) fn encode_entry(value: ValueRef<'_>, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let hash = match value {
        ValueRef::String(text) if text.len() > PIECE_BYTES => hash_of_text(text, out),
        value => {
            if !term::encode(value, out) {
                return false;
            }
            let term = out.get(start..).unwrap_or_default();
            if term.len() <= TERM_BYTES_MAX {
                return true;
            }
            xxh3_128(term)
        }
    };
    out.truncate(start);
    out.extend_from_slice(&long_entry(hash));
    true
}

/// The hash of a text's term. The end of `out` is used meanwhile.
fn hash_of_text(text: &str, out: &mut Vec<u8>) -> u128 {
    let (start, mut hasher) = (out.len(), Xxh3Default::new());
    let (mut rest, mut begin) = (text, 0);
    while !rest.is_empty() {
        let (piece, others) = split_at_char(rest, PIECE_BYTES);
        out.truncate(start);
        let is_term = term::encode(ValueRef::String(piece), out);
        assert!(is_term, "a string has a term");
        // The terms of all pieces are that of the text, but for where they begin and end.
        let end = match others {
            "" => 0,
            _ => TEXT_END_BYTES,
        };
        let inner = start + begin..out.len() - end;
        hasher.update(out.get(inner).unwrap_or_default());
        (rest, begin) = (others, TEXT_BEGIN_BYTES);
    }
    hasher.digest128()
}

/// The first characters of a text that has more bytes, up to this number of them, and the others.
fn split_at_char(text: &str, bytes: usize) -> (&str, &str) {
    let mut at = bytes.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    text.split_at(at)
}

fn long_entry(hash: u128) -> [u8; 17] {
    let mut entry = [LONG; 17];
    let (_, of_hash) = entry.split_at_mut(1);
    of_hash.copy_from_slice(&hash.to_be_bytes());
    entry
}

/// What the keys of the list of fields begin with.
pub(crate) fn listed() -> Vec<u8> {
    [field(""), vec![LISTED]].concat()
}

/// What the keys of the list of fields that were refused begin with.
pub(crate) fn refused() -> Vec<u8> {
    [field(""), vec![REFUSED]].concat()
}

/// What the keys of the list of fields begin with of which a document has more values than are
/// indexed.
pub(crate) fn with_many() -> Vec<u8> {
    [field(""), vec![WITH_MANY]].concat()
}

/// Whether an entry is one of the lists, and says nothing of documents.
pub(crate) fn is_of_list(entry: &[u8]) -> bool {
    let lists = [listed(), refused(), with_many()];
    lists.iter().any(|list| entry.starts_with(list))
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
        [MANY] => format!("more values of field {path:?} than are indexed"),
        _ => value().unwrap_or_else(|| format!("no value of field {path:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_that_of_the_term_however_long_the_text_is() {
        let texts = ["", "a", "\0", "é\0€x"];
        for text in texts {
            for times in [0, 1, 80, 130, 5_000, 20_000] {
                let text = text.repeat(times);
                let (mut term, mut entry) = (Vec::new(), vec![7]);
                assert!(term::encode(ValueRef::String(&text), &mut term));
                assert!(encode_entry(ValueRef::String(&text), &mut entry));
                assert_eq!(entry[1..], *of_term(&term), "{} bytes", text.len());
                assert_eq!(is_long(&entry[1..]), term.len() > TERM_BYTES_MAX);
            }
        }
        let mut entry = Vec::new();
        assert!(encode_entry(ValueRef::Int(5), &mut entry) && !is_long(&entry));
    }
}
