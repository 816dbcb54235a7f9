//! `inner_hits` of a `collapse`: the documents of each group, in an order of their own.

use quiredb::View;
use quiredb::query::{Answer, Filter, Order, Query};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;

use super::filter::{known, object, text, unsupported};
use super::hit_writer::HitWriter;
use super::shown_fields::ShownFields;
use super::sort::orders;
use crate::collections::coerce::Mappings;
use crate::documents::source::{Source, SourceBody};
use crate::http::answer::write_string;
use crate::http::failure::Outcome;

/// Documents of a group by default and at the most, and how many kinds of them.
const SIZE_DEFAULT: u64 = 3;
const SIZE_MAX: u64 = 100;
const KINDS_MAX: usize = 16;

/// Bytes that the documents of all groups of a page may have.
const BYTES_MAX: usize = 4 << 20;

/// The documents of a group that are shown in its hit.
#[derive(Debug, Clone)]
pub(super) struct InnerHits {
    name: String,
    skip: u64,
    limit: u64,
    orders: Vec<Order>,
    source: Source,
    with_version: bool,
    with_seq_no: bool,
}

impl InnerHits {
    /// Reads `inner_hits`, one or several. `field` is the name of one without a name.
    pub(super) fn all(inner: Option<&Json>, field: &str) -> Outcome<Vec<InnerHits>> {
        let all = match inner {
            None | Some(Json::Null) => return Ok(Vec::new()),
            Some(Json::Array(all)) => all.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        if all.len() > KINDS_MAX {
            let what = format!("[collapse] has more than {KINDS_MAX} [inner_hits]");
            return Err(unsupported(what));
        }
        let all: Vec<InnerHits> = all
            .iter()
            .map(|one| InnerHits::of(object(one, "inner_hits")?, field))
            .collect::<Outcome<_>>()?;
        for (at, one) in all.iter().enumerate() {
            if all.iter().take(at).any(|other| other.name == one.name) {
                return Err(unsupported(format!(
                    "[collapse] has two [inner_hits] of the name [{}]",
                    one.name
                )));
            }
        }
        Ok(all)
    }

    fn of(one: &Map<String, Json>, field: &str) -> Outcome<InnerHits> {
        let names = [
            "name",
            "from",
            "size",
            "sort",
            "_source",
            "version",
            "seq_no_primary_term",
            "ignore_unmapped",
        ];
        known(one, "inner_hits", &names)?;
        let number = |name: &str, default: u64| match one.get(name) {
            None | Some(Json::Null) => Ok(default),
            Some(number) => match number.as_u64().filter(|number| *number <= SIZE_MAX) {
                Some(number) => Ok(number),
                None => Err(unsupported(format!(
                    "[{name}] of [inner_hits] must be from 0 to {SIZE_MAX}"
                ))),
            },
        };
        let flag = |name: &str| match one.get(name) {
            None | Some(Json::Null) => Ok(false),
            Some(Json::Bool(flag)) => Ok(*flag),
            Some(_) => Err(unsupported(format!(
                "[{name}] of [inner_hits] must be a boolean"
            ))),
        };
        let name = one.get("name").filter(|name| !name.is_null());
        let name = name.map(|name| text(Some(name), "[name] of [inner_hits] must be a string"));
        let source = one.get("_source").filter(|source| !source.is_null());
        let source = source.cloned().unwrap_or(Json::Bool(true));
        let source = serde_json::from_value::<SourceBody>(source).map_err(|_| {
            unsupported("[_source] must be a boolean, patterns, or [includes] and [excludes]")
        })?;
        let sort = one.get("sort").filter(|sort| !sort.is_null());
        flag("ignore_unmapped")?;
        Ok(InnerHits {
            name: name.transpose()?.unwrap_or(field).to_owned(),
            skip: number("from", 0)?,
            limit: number("size", SIZE_DEFAULT)?,
            orders: sort.map_or(Ok(Vec::new()), |sort| orders(sort, false))?,
            source: source.source()?,
            with_version: flag("version")?,
            with_seq_no: flag("seq_no_primary_term")?,
        })
    }

    /// Orders by the types of mappings.
    pub(super) fn adapt(&mut self, mappings: &Mappings) -> Outcome<()> {
        mappings.convert_orders(&mut self.orders)
    }
}

/// What the hit of a group shows of the documents that match `filter`: `page` finds them.
/// `bytes` is what the hits before it take; a total is a number or an object.
///
/// # Errors
/// Those of `page`; 400 if all take too much.
pub(super) fn write(
    all: &[InnerHits],
    views: &[View],
    filter: &Filter,
    (bytes, total_as_int): (&mut usize, bool),
    page: impl Fn(Query) -> Outcome<Answer>,
) -> Outcome<Vec<u8>> {
    let mut out = b",\"inner_hits\":{".to_vec();
    for (at, one) in all.iter().enumerate() {
        let query = Query {
            order: one.orders.clone(),
            skip: one.skip,
            limit: Some(one.limit),
            count: true,
            ..quiredb::query::find(filter.clone())
        };
        let answer = page(query)?;
        let writer = HitWriter {
            source: one.source.clone(),
            fields: Arc::new(ShownFields::default()),
            with_id: true,
            orders: one.orders.clone(),
            sort_shown: Arc::default(),
            with_version: one.with_version,
            with_seq_no: one.with_seq_no,
            by_place: false,
            inner: Arc::default(),
        };
        if at > 0 {
            out.push(b',');
        }
        write_string(&one.name, &mut out);
        let total = match total_as_int {
            true => json!(answer.count),
            false => json!({"value": answer.count, "relation": "eq"}),
        };
        let is_scored = one.orders.is_empty() && !answer.hits.is_empty();
        let score = if is_scored { "1.0" } else { "null" };
        let head = format!(":{{\"hits\":{{\"total\":{total},\"max_score\":{score},\"hits\":[");
        out.extend_from_slice(head.as_bytes());
        let left = BYTES_MAX.saturating_sub(*bytes + out.len());
        let hits = &answer.hits;
        let (written, _) = writer.write_places(views, hits, left as u64, true, &mut out)?;
        if written < hits.len() || *bytes + out.len() > BYTES_MAX {
            return Err(unsupported(format!(
                "the documents of [inner_hits] are more than {BYTES_MAX} bytes: set a smaller \
                 [size], or fewer fields in [_source]"
            )));
        }
        out.extend_from_slice(b"]}}");
    }
    out.push(b'}');
    *bytes += out.len();
    Ok(out)
}
