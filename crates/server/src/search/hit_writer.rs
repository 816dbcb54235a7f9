//! [`HitWriter`]: how hits are written.

use jiff::tz::TimeZone;
use quire_model::ordered::OrderedValue;
use quiredb::query::{Cast, DateFormat, Hit, Order, OrderedAs, Value};
use quiredb::{ID, ValueRef, View, Within};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::after::place_text;
use super::execute::failed;
use super::filter::INDEX;
use super::shown_fields::ShownFields;
use super::sort::SortShown;
use crate::documents::source::Source;
use crate::http::answer::write_string;
use crate::http::failure::Outcome;

/// Members of the objects of some hits, each with a comma before it.
pub(crate) type Shown = BTreeMap<Hit, Vec<u8>>;

/// How hits are written.
#[derive(Debug, Clone)]
pub(crate) struct HitWriter {
    /// Which part of a document is shown.
    pub(crate) source: Source,
    /// Which values are shown beside it.
    pub(crate) fields: Arc<ShownFields>,
    pub(crate) with_id: bool,
    pub(crate) orders: Vec<Order>,
    /// How the values of the orders are shown; dates without a format are numbers.
    pub(crate) sort_shown: Arc<SortShown>,
    pub(crate) with_version: bool,
    pub(crate) with_seq_no: bool,
    /// What else is shown in some hits.
    pub(crate) inner: Arc<Shown>,
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
            if let Some(inner) = self.inner.get(hit) {
                out.pop();
                out.extend_from_slice(inner);
                out.push(b'}');
            }
        }
        Ok((hits.len(), None))
    }

    /// Whether hits have a score.
    pub(crate) fn is_scored(&self) -> bool {
        self.sort_shown.is_scored(&self.orders)
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
        let score = if self.is_scored() { "1.0" } else { "null" };
        out.extend_from_slice(format!(",\"_score\":{score}").as_bytes());
        if self.source.shown {
            out.extend_from_slice(b",\"_source\":");
            let document = ValueRef::Object(found.document.root());
            self.source.fields.write(document, "", out);
        }
        if !self.fields.is_empty() {
            self.fields.write(&found.document, out);
        }
        let mut place = 0;
        for (at, order) in self.orders.iter().enumerate() {
            out.extend_from_slice(if at == 0 { b",\"sort\":[" } else { b"," });
            while self.sort_shown.is_score(place) {
                out.extend_from_slice(b"1.0,");
                place += 1;
            }
            place += 1;
            if order.path.as_str() == ID {
                // As text, as `_id` is elsewhere.
                let text = match self.by_place && at + 1 == self.orders.len() {
                    true => place_text(number, &found.key),
                    false => found.key.to_string(),
                };
                write_string(&text, out);
                continue;
            }
            if order.path.as_str() == INDEX {
                write_string(index, out);
                continue;
            }
            let value = order.value_of(&found.document);
            let format = self.sort_shown.formats.get(at).and_then(Option::as_ref);
            let text = match (&order.by, format) {
                (OrderedAs::Cast(Cast::Address), _) => value.as_ref().and_then(Cast::address_text),
                (by, Some(format)) => date_text(by, value.as_ref(), format),
                (_, None) => None,
            };
            match (text, value) {
                (Some(text), _) => write_string(&text, out),
                (None, Some(value)) => value.write_json(out),
                (None, None) => out.extend_from_slice(b"null"),
            }
        }
        if !self.orders.is_empty() {
            while self.sort_shown.is_score(place) {
                out.extend_from_slice(b",1.0");
                place += 1;
            }
            out.push(b']');
        }
        out.push(b'}');
    }
}

/// The date that hits are sorted by, in a format; none if it is no date.
fn date_text(by: &OrderedAs, value: Option<&Value>, format: &DateFormat) -> Option<String> {
    let OrderedValue::Int(number) = value?.get() else {
        return None;
    };
    match by {
        OrderedAs::Cast(Cast::Date | Cast::DateAs(_)) => Some(format.write(number, &TimeZone::UTC)),
        OrderedAs::Cast(Cast::Nanos) => Some(format.write_nanos(number, &TimeZone::UTC)),
        _ => None,
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
