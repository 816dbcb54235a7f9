//! `collapse`: of the documents with one value of a field the first in the order of a search.
//!
//! Hits are read in order, and each with a value that was there is left out. Where many in a row
//! have such values, the search begins anew without the documents that have them. So a page costs
//! the documents of its groups that come before it, and no more memory than its groups.

use std::collections::BTreeSet;
use std::ops::Bound;

use quiredb::query::{Answer, Cast, Filter, Hit, Path, Query, Value, field};
use quiredb::{FieldKind, Found, View};
use serde_json::{Map, Value as Json};

use super::execute::failed;
use super::filter::{check_own_field, known, object, text, unsupported};
use super::hit_writer::Shown;
use super::inner_hits::{self, InnerHits};
use crate::collections::coerce::Mappings;
use crate::http::failure::Outcome;

/// The most groups before the end of a page.
const GROUPS_MAX: u64 = 10_000;

/// Hits that are looked at between two searches: at the least, and at the most.
const LOOK_MIN: u64 = 32;
const LOOK_MAX: u64 = 1_024;

/// Documents that are read at a time.
const READ_AT_ONCE: usize = 16;

/// The field whose values a search shows once each.
#[derive(Debug, Clone)]
pub(crate) struct Collapse {
    path: Path,
    /// As it was given.
    pub(crate) name: String,
    /// As what its values are compared.
    cast: Option<Cast>,
    /// What each hit shows of its group.
    inner: Vec<InnerHits>,
}

impl Collapse {
    /// Reads `collapse` of a body.
    ///
    /// # Errors
    /// 400 for what is no field, and an option that is not known.
    pub(crate) fn of(body: &Map<String, Json>) -> Outcome<Option<Collapse>> {
        let collapse = match body.get("collapse") {
            None | Some(Json::Null) => return Ok(None),
            Some(collapse) => object(collapse, "collapse")?,
        };
        let names = ["field", "inner_hits", "max_concurrent_group_searches"];
        known(collapse, "collapse", &names)?;
        let name = text(collapse.get("field"), "[collapse] needs a [field]")?;
        check_own_field(name)?;
        Ok(Some(Collapse {
            path: Path::new(name),
            name: name.to_owned(),
            cast: None,
            inner: InnerHits::all(collapse.get("inner_hits"), name)?,
        }))
    }

    /// Compares values by the types of mappings.
    ///
    /// # Errors
    /// 400 for a type that is neither of whole text nor of numbers, as in OpenSearch.
    pub(crate) fn adapt(&mut self, mappings: &Mappings) -> Outcome<()> {
        if let Some(kind) = mappings.kind(&self.path)
            && !kind.is_number()
            && (kind.is_analyzed() || !kind.is_text() && kind != FieldKind::Boolean)
        {
            return Err(unsupported(format!(
                "unknown type for collapse field `{}`, only keywords and numbers are accepted: it \
                 is [{}]",
                self.name,
                kind.name()
            )));
        }
        self.cast = mappings.cast(&self.path);
        mappings.rename(&mut self.path);
        self.inner
            .iter_mut()
            .try_for_each(|one| one.adapt(mappings))
    }

    /// Takes `x.keyword` for `x`, if `rename` does.
    pub(crate) fn rename(&mut self, rename: impl FnOnce(&mut Path) -> Outcome<()>) -> Outcome<()> {
        rename(&mut self.path)
    }

    /// The hits of a page of a query, and what they show of their groups: `page` finds the first
    /// hits of one.
    ///
    /// # Errors
    /// Those of `page`; 400 for a document with several values, and for a page that ends too far
    /// from the first group.
    pub(crate) fn hits(
        &self,
        views: &[View],
        query: &Query,
        total_as_int: bool,
        page: impl Fn(Query) -> Outcome<Answer>,
    ) -> Outcome<(Vec<Hit>, Shown)> {
        let (skip, limit) = (query.skip, query.limit.unwrap_or_default());
        let wanted = skip.saturating_add(limit);
        if wanted > GROUPS_MAX {
            return Err(unsupported(format!(
                "[from] + [size] with [collapse] must be up to {GROUPS_MAX}, and are {wanted}"
            )));
        }
        let (mut firsts, mut seen) = (Vec::new(), BTreeSet::new());
        let mut look = LOOK_MIN.max(wanted);
        while (firsts.len() as u64) < wanted {
            look = look.min(LOOK_MAX);
            let filter = match seen.is_empty() {
                true => query.filter.clone(),
                false => query.filter.clone().and(self.unlike(&seen)),
            };
            let hits = page(Query {
                filter,
                skip: 0,
                limit: Some(look),
                ..query.clone()
            })?
            .hits;
            let is_last = (hits.len() as u64) < look;
            for hits in hits.chunks(READ_AT_ONCE) {
                let found = View::documents_of(views, hits).map_err(failed)?;
                for (hit, found) in hits.iter().zip(&found) {
                    let value = self.value(found)?;
                    if (firsts.len() as u64) < wanted && seen.insert(value.clone()) {
                        firsts.push((*hit, value));
                    }
                }
            }
            if is_last {
                break;
            }
            look = look.saturating_mul(2);
        }
        let skip = usize::try_from(skip)
            .unwrap_or(usize::MAX)
            .min(firsts.len());
        let (mut hits, mut shown, mut bytes) = (Vec::new(), Shown::new(), 0);
        for (hit, value) in firsts.split_off(skip) {
            hits.push(hit);
            if !self.inner.is_empty() {
                let group = query.filter.clone().and(self.like(value));
                let text = inner_hits::write(
                    &self.inner,
                    views,
                    &group,
                    (&mut bytes, total_as_int),
                    &page,
                )?;
                shown.insert(hit, text);
            }
        }
        Ok((hits, shown))
    }

    /// The value of a document; none if it has none.
    fn value(&self, found: &Found) -> Outcome<Option<Value>> {
        let order = |mut order: quiredb::query::Order| {
            order = order.nulls_last();
            match &self.cast {
                Some(cast) => order.cast(cast.clone()),
                None => order,
            }
        };
        let least = order(field(self.path.as_str()).ascending()).value_of(&found.document);
        let most = order(field(self.path.as_str()).descending()).value_of(&found.document);
        match least == most {
            true => Ok(least),
            false => Err(unsupported(format!(
                "[collapse] of [{}]: document [{}] has several values there",
                self.name, found.key
            ))),
        }
    }

    /// The documents with a value, or without one.
    fn like(&self, value: Option<Value>) -> Filter {
        let path = self.path.clone();
        match (value, &self.cast) {
            (None, _) => !self.any(),
            (Some(value), None) => Filter::In(path, vec![value]),
            (Some(value), Some(cast)) => {
                let bound = Bound::Included(value);
                Filter::Cast(cast.clone(), path, bound.clone(), bound)
            }
        }
    }

    /// The documents with any value.
    fn any(&self) -> Filter {
        let path = self.path.clone();
        match &self.cast {
            Some(cast) => Filter::Cast(cast.clone(), path, Bound::Unbounded, Bound::Unbounded),
            None => Filter::Exists(path),
        }
    }

    /// The documents with none of some values.
    fn unlike(&self, seen: &BTreeSet<Option<Value>>) -> Filter {
        let mut all = Vec::new();
        if seen.contains(&None) {
            all.push(self.any());
        }
        let values: Vec<Value> = seen.iter().flatten().cloned().collect();
        let of_values = match &self.cast {
            None => Filter::In(self.path.clone(), values),
            Some(_) => {
                let values = values.into_iter();
                Filter::Or(values.map(|value| self.like(Some(value))).collect())
            }
        };
        all.push(!of_values);
        Filter::And(all)
    }
}
