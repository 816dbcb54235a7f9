//! `adjacency_matrix`: the documents of each filter, and those of each two.

use quiredb::query::{Facet, FacetKind, Filter};
use serde_json::Value as Json;

use super::body::{Body, Reading};
use super::kind::{Kind, QUERIES_MAX};
use crate::http::failure::Outcome;
use crate::search::filter::object;

pub(super) fn adjacency_matrix(body: &Json, reading: &Reading<'_>) -> Outcome<(Kind, Facet)> {
    let names = ["filters", "separator", "show_only_intersecting"];
    let body = Body::of("adjacency_matrix", body, &names)?;
    let filters = body.get("filters");
    let filters =
        filters.ok_or_else(|| body.refused("it needs [filters], an object of queries"))?;
    let separator = body.text("separator")?.unwrap_or("&");
    let only_both = body.flag("show_only_intersecting")?;
    let mut all: Vec<(String, Filter)> = Vec::new();
    for (name, query) in object(filters, "filters")? {
        all.push((name.clone(), reading.filter(query)?));
    }
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    let (count, mut cells) = (all.len(), Vec::new());
    if count == 0 || count * (count + 1) / 2 > QUERIES_MAX {
        return Err(body.refused(&format!(
            "there are {count} filters: they and each two of them must be 1 to {QUERIES_MAX}"
        )));
    }
    for (at, (name, filter)) in all.iter().enumerate() {
        if !only_both {
            cells.push((name.clone(), filter.clone()));
        }
        for (other, and) in all.iter().skip(at + 1) {
            let both = filter.clone().and(and.clone());
            cells.push((format!("{name}{separator}{other}"), both));
        }
    }
    cells.sort_by(|(one, _), (other, _)| one.cmp(other));
    let (names, filters) = cells.into_iter().unzip();
    Ok((Kind::Adjacency(names), FacetKind::Filters(filters).into()))
}
