//! [`HitWriter`]: how hits are written.

use quiredb::query::{Cast, Hit, Order, OrderedAs};
use quiredb::{ID, ValueRef, View, Within};
use std::sync::Arc;

use super::after::place_text;
use super::execute::failed;
use super::shown_fields::ShownFields;
use crate::documents::source::Source;
use crate::http::answer::write_string;
use crate::http::failure::Outcome;

/// How hits are written.
#[derive(Debug, Clone)]
pub(crate) struct HitWriter {
    /// Which part of a document is shown.
    pub(crate) source: Source,
    /// Which values are shown beside it.
    pub(crate) fields: Arc<ShownFields>,
    pub(crate) with_id: bool,
    pub(crate) orders: Vec<Order>,
    pub(crate) with_version: bool,
    pub(crate) with_seq_no: bool,
    /// Whether the last order is by the place in one of several collections.
    pub(crate) by_place: bool,
}

impl HitWriter {
    /// Reads the documents of hits and appends them, the first without a comma if `is_first`. Ends
    /// before the first that does not fit in `bytes_max` with those before it. Returns the number
    /// of those written, and the bytes of the one that does not fit.
    pub(crate) fn write_places(
        &self,
        views: &[View],
        hits: &[Hit],
        bytes_max: u64,
        mut is_first: bool,
        out: &mut Vec<u8>,
    ) -> Outcome<(usize, Option<u64>)> {
        let found = View::documents_within(views, hits, bytes_max).map_err(failed)?;
        assert!(found.len() == hits.len(), "each hit has one document");
        for (count, (hit, found)) in hits.iter().zip(found).enumerate() {
            let found = match found {
                Within::Found(found) => found,
                Within::Longer(bytes) => return Ok((count, Some(bytes))),
                Within::Absent => continue,
            };
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            let number = number_of(views, *hit);
            let index = views.get(number).map_or("", View::collection_name);
            self.write(index, number, &found, out);
        }
        Ok((hits.len(), None))
    }

    /// Appends a hit in the collection of this name and of this number among those searched.
    pub(crate) fn write(
        &self,
        index: &str,
        number: usize,
        found: &quiredb::Found,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(b"{\"_index\":");
        write_string(index, out);
        if self.with_id {
            out.extend_from_slice(b",\"_id\":");
            write_string(&found.key.to_string(), out);
        }
        if self.with_version {
            out.extend_from_slice(format!(",\"_version\":{}", found.shown_version()).as_bytes());
        }
        if self.with_seq_no {
            let seq_no = format!(",\"_seq_no\":{},\"_primary_term\":1", found.version);
            out.extend_from_slice(seq_no.as_bytes());
        }
        let score = if self.orders.is_empty() {
            "1.0"
        } else {
            "null"
        };
        out.extend_from_slice(format!(",\"_score\":{score}").as_bytes());
        if self.source.shown {
            out.extend_from_slice(b",\"_source\":");
            let document = ValueRef::Object(found.document.root());
            self.source.fields.write(document, "", out);
        }
        if !self.fields.is_empty() {
            self.fields.write(&found.document, out);
        }
        for (at, order) in self.orders.iter().enumerate() {
            out.extend_from_slice(if at == 0 { b",\"sort\":[" } else { b"," });
            if order.path.as_str() == ID {
                // As text, as `_id` is elsewhere.
                let text = match self.by_place && at + 1 == self.orders.len() {
                    true => place_text(number, &found.key),
                    false => found.key.to_string(),
                };
                write_string(&text, out);
                continue;
            }
            let value = order.value_of(&found.document);
            let address = match order.by {
                OrderedAs::Cast(Cast::Address) => value.as_ref().and_then(Cast::address_text),
                _ => None,
            };
            match (address, value) {
                (Some(address), _) => write_string(&address, out),
                (None, Some(value)) => value.write_json(out),
                (None, None) => out.extend_from_slice(b"null"),
            }
        }
        if !self.orders.is_empty() {
            out.push(b']');
        }
        out.push(b'}');
    }
}

/// The number of the collection that a hit is in. Shards are numbered across all collections.
pub(crate) fn number_of(views: &[View], hit: Hit) -> usize {
    let mut end = 0;
    let found = views.iter().position(|view| {
        end += view.partition_count();
        hit.shard < end
    });
    found.unwrap_or(views.len())
}
