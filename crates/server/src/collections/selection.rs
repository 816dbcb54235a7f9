//! The collections that a request names.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use axum::http::StatusCode;
use quiredb::query::{Filter, field};
use quiredb::wide::WideCollection;
use quiredb::{
    Collection, CollectionFields, CollectionSettings, CollectionStats, FrozenCollection, Mapping,
    Usage, View,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::api_settings::Use;
use super::states::States;
use crate::engine::{Engine, is_wide, not_opened};
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;
use crate::http::names::{Named, named};
use crate::search::filter::{INDEX, filter};

/// The collections that a request names: names and patterns between commas, of which `-NAME` behind
/// a pattern takes out what it matches. All collections if it names none.
pub(crate) struct Selection {
    names: Vec<String>,
    ignore_missing: bool,
    /// Whether a pattern may match none.
    allow_none: bool,
    /// What patterns stand for.
    states: States,
    /// What the collections are for.
    what: Use,
}

impl Selection {
    /// The collections whose documents a request reads: of patterns the open ones, unless it says
    /// otherwise. One that is closed is refused by name.
    pub(crate) fn of<S>(call: &Call<S>) -> Outcome<Selection> {
        Selection::for_use(call, Use::Read, States::OPEN)
    }

    /// The collections that a request looks at, closed ones too where it names them; patterns stand
    /// for `states` unless it says otherwise.
    pub(crate) fn about<S>(call: &Call<S>, states: States) -> Outcome<Selection> {
        Selection::for_use(call, Use::Look, states)
    }

    /// As [`about`](Selection::about), for the health and the figures of the server.
    pub(crate) fn watched<S>(call: &Call<S>, states: States) -> Outcome<Selection> {
        Selection::for_use(call, Use::Watch, states)
    }

    /// The collections that a request uses in this way.
    pub(crate) fn for_use<S>(call: &Call<S>, what: Use, states: States) -> Outcome<Selection> {
        let ignore_missing = call.params.flag("ignore_unavailable")?.unwrap_or(false);
        let allow_none = call.params.flag("allow_no_indices")?.unwrap_or(true);
        call.params.flag("ignore_throttled")?;
        let states = match call.params.text("expand_wildcards") {
            Some(words) => States::parse(words)?,
            None => states,
        };
        let names = call
            .path_param("collection")
            .unwrap_or("_all")
            .split(',')
            .map(str::to_owned)
            .collect();
        Ok(Selection {
            names,
            ignore_missing,
            allow_none,
            states,
            what,
        })
    }

    /// Of these names and patterns.
    pub(crate) fn of_names(names: Vec<String>, ignore_missing: bool) -> Selection {
        Selection {
            names,
            ignore_missing,
            allow_none: true,
            states: States::OPEN,
            what: Use::Read,
        }
    }

    /// The collections, sorted by name, each once; wide and frozen ones are left out. Filters of
    /// aliases are for those that search.
    ///
    /// # Errors
    /// 404 for a name without a collection. A pattern may match none.
    pub(crate) fn collections(&self, engine: &Engine) -> Outcome<Vec<Collection>> {
        Ok(self.both(engine)?.0)
    }

    /// As [`collections`](Selection::collections), and the wide ones, sorted by name.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn both(&self, engine: &Engine) -> Outcome<(Vec<Collection>, Vec<WideCollection>)> {
        let (mut plain, mut wide) = (Vec::new(), Vec::new());
        for one in self.all(engine)? {
            match one {
                Searched::Plain(collection) => plain.push(collection),
                Searched::Wide(collection) => wide.push(collection),
                Searched::Frozen(_) => {}
            }
        }
        Ok((plain, wide))
    }

    /// As [`collections`](Selection::collections), for what is done with plain ones alone.
    ///
    /// # Errors
    /// As there; 400 if a wide or a frozen collection is named. Patterns leave these out.
    pub(crate) fn plain(&self, engine: &Engine) -> Outcome<Vec<Collection>> {
        self.refuse_frozen(engine)?;
        self.refuse_wide(engine)?;
        self.collections(engine)
    }

    /// As [`searched`](Selection::searched), for what changes documents: frozen ones can't be.
    ///
    /// # Errors
    /// As there; 400 if a frozen collection is named. Patterns leave these out.
    pub(crate) fn changed(&self, engine: &Engine) -> Outcome<(Vec<Searched>, Filter)> {
        self.refuse_frozen(engine)?;
        let (mut all, filter) = self.searched(engine)?;
        all.retain(|one| !matches!(one, Searched::Frozen(_)));
        Ok((all, filter))
    }

    /// Refuses the name of a frozen collection.
    fn refuse_frozen(&self, engine: &Engine) -> Outcome<()> {
        let mut names = self.names.iter();
        match names.find(|name| engine.frozen(name).is_some()) {
            Some(name) => engine.collection_named(name).map(drop),
            None => Ok(()),
        }
    }

    /// Refuses the name of a wide collection, and that of an alias which has one.
    fn refuse_wide(&self, engine: &Engine) -> Outcome<()> {
        let mut wide = self.names.iter().flat_map(|name| engine.wide_names(name));
        match wide.next() {
            Some(name) => engine.collection_named(&name).map(drop),
            None => Ok(()),
        }
    }

    /// The collections, and the filter of the aliases that they are searched by: every document
    /// that is searched must match it.
    ///
    /// # Errors
    /// As [`collections`](Selection::collections).
    pub(crate) fn searched(&self, engine: &Engine) -> Outcome<(Vec<Searched>, Filter)> {
        if let Some(one) = self.one(engine)? {
            return Ok((vec![one], Filter::All));
        }
        let chosen = self.chosen(engine)?;
        let filter = filter_of_all(&chosen, engine.now_millis())?;
        Ok((self.open(engine, chosen)?, filter))
    }

    /// The collection of a request that names one and nothing else: most do, and it is found
    /// without lists of names. None if the name may stand for anything else.
    fn one(&self, engine: &Engine) -> Outcome<Option<Searched>> {
        let [name] = self.names.as_slice() else {
            return Ok(None);
        };
        let is_name = name != "_all" && !name.contains('*') && !name.starts_with('-');
        let database = engine.database();
        let is_one = is_name
            && !self.ignore_missing
            && !database.aliases().contains_key(name)
            && database.has_collection(name);
        if !is_one {
            return Ok(None);
        }
        engine.check_use(name, self.what)?;
        match Searched::open(engine, name) {
            // It was dropped meanwhile.
            Err(failure) if failure.status == StatusCode::NOT_FOUND => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// The collections, for what is not about single documents: filters of aliases don't matter.
    ///
    /// # Errors
    /// As [`collections`](Selection::collections).
    pub(crate) fn all(&self, engine: &Engine) -> Outcome<Vec<Searched>> {
        self.open(engine, self.chosen(engine)?)
    }

    fn open(
        &self,
        engine: &Engine,
        mut chosen: BTreeMap<String, Vec<Value>>,
    ) -> Outcome<Vec<Searched>> {
        let kept = engine.database().api_settings();
        if self.ignore_missing {
            let is_open = |name: &String| !kept.get(name).is_some_and(|kept| kept.closed);
            chosen.retain(|name, _| !self.what.needs_open() || is_open(name));
        }
        for name in chosen.keys() {
            engine.check_use(name, self.what)?;
        }
        // A collection that was dropped meanwhile is left out.
        let opened = chosen.keys().map(|name| Searched::open(engine, name));
        let opened = opened.filter_map(|collection| match collection {
            Err(failure) if failure.status == StatusCode::NOT_FOUND => None,
            other => Some(other),
        });
        opened.collect()
    }

    /// The collections, each with the names and the filters that it is searched by.
    ///
    /// # Errors
    /// As [`collections`](Selection::collections).
    pub(crate) fn searched_by(&self, engine: &Engine) -> Outcome<Vec<SearchedBy>> {
        let aliases = engine.database().aliases();
        let chosen = self.chosen(engine)?;
        let searched = chosen.into_iter().map(|(name, filters)| {
            let by = aliases.iter().filter(|(alias, of)| {
                let mut names = self.names.iter();
                let is_named = |pattern: &String| glob(pattern.as_bytes(), alias.as_bytes());
                of.contains_key(&name) && names.any(is_named)
            });
            Ok(SearchedBy {
                aliases: by.map(|(alias, _)| alias.clone()).collect(),
                searched: Searched::open(engine, &name)?,
                filters,
            })
        });
        searched.collect()
    }

    /// The names and those that patterns match, sorted; aliases stand for nothing, and no pattern
    /// matches a frozen collection. A name that no collection has is among them.
    ///
    /// # Errors
    /// 404 for a pattern that matches none, where one must be.
    pub(crate) fn named(&self, engine: &Engine) -> Outcome<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        for one in named(self.names.iter().map(String::as_str)) {
            let name = match one {
                Named::Of(name) => name,
                Named::Without(pattern) => {
                    found.retain(|name: &String| !glob(pattern.as_bytes(), name.as_bytes()));
                    continue;
                }
            };
            let pattern = if name == "_all" { "*" } else { name };
            if !pattern.contains('*') {
                found.insert(name.to_owned());
                continue;
            }
            let kept = engine.database().api_settings();
            let all = engine.collections().into_iter();
            let all =
                all.filter(|one| self.states.has(kept.get(one)) && engine.frozen(one).is_none());
            let before = found.len();
            found.extend(all.filter(|one| glob(pattern.as_bytes(), one.as_bytes())));
            if found.len() == before && !self.allow_none {
                return Err(Failure::index_not_found(name));
            }
        }
        Ok(found)
    }

    /// The names of the collections, each with the filters by one of which it is searched; none if
    /// one of its names has no filter.
    fn chosen(&self, engine: &Engine) -> Outcome<BTreeMap<String, Vec<Value>>> {
        let aliases = engine.database().aliases();
        // Hardly any request has a pattern, and there may be thousands of collections.
        let all = LazyCell::new(|| engine.collections());
        let kept = engine.database().api_settings();
        let mut chosen: BTreeMap<String, Option<Vec<Value>>> = BTreeMap::new();
        for one in named(self.names.iter().map(String::as_str)) {
            let (name, is_without) = match one {
                Named::Of(name) => (name, false),
                Named::Without(name) => (name, true),
            };
            let pattern = if name == "_all" { "*" } else { name };
            let is_pattern = pattern.contains('*');
            // A pattern takes out what it matches in any state.
            let is_any = !is_pattern || is_without;
            let has_state = |name: &String| is_any || self.states.has(kept.get(name));
            let is_matched = |name: &String| glob(pattern.as_bytes(), name.as_bytes());
            let mut matched: Vec<String> = match is_pattern {
                true => all
                    .iter()
                    .filter(|name| is_matched(name))
                    .cloned()
                    .collect(),
                false if engine.database().has_collection(name) => vec![name.to_owned()],
                false => Vec::new(),
            };
            matched.retain(has_state);
            let may_be_none = match is_pattern {
                true => self.allow_none,
                false => self.ignore_missing,
            };
            let mut aliased = aliases
                .iter()
                .filter(|(alias, _)| is_matched(alias))
                .flat_map(|(_, collections)| collections)
                .filter(|(name, alias)| {
                    let is_shown = is_any || self.states.has_hidden();
                    has_state(name) && (is_shown || alias.is_hidden != Some(true))
                })
                .peekable();
            if matched.is_empty() && aliased.peek().is_none() && !may_be_none {
                return Err(Failure::index_not_found(name));
            }
            if is_without {
                matched.extend(aliased.map(|(name, _)| name.clone()));
                chosen.retain(|name, _| !matched.contains(name));
                continue;
            }
            chosen.extend(matched.into_iter().map(|name| (name, None)));
            for (name, alias) in aliased {
                let filters = chosen
                    .entry(name.clone())
                    .or_insert_with(|| Some(Vec::new()));
                match (&alias.filter, filters) {
                    (Some(filter), Some(filters)) if !filters.contains(filter) => {
                        filters.push(filter.clone());
                    }
                    (None, filters) => *filters = None,
                    _ => {}
                }
            }
        }
        if chosen.is_empty() && !self.allow_none {
            return Err(Failure::index_not_found(&self.names.join(",")));
        }
        let of_all = chosen.into_iter();
        Ok(of_all
            .map(|(name, filters)| (name, filters.unwrap_or_default()))
            .collect())
    }
}

/// A collection that is searched, and by which names.
pub(crate) struct SearchedBy {
    pub(crate) searched: Searched,
    /// The aliases among the names, sorted.
    pub(crate) aliases: Vec<String>,
    /// A document must match one of these; none if all of it is searched.
    pub(crate) filters: Vec<Value>,
}

/// A collection that can be searched.
pub(crate) enum Searched {
    Plain(Collection),
    Wide(WideCollection),
    Frozen(FrozenCollection),
}

impl Searched {
    /// The collection of this name.
    ///
    /// # Errors
    /// 404 if there is none.
    pub(crate) fn open(engine: &Engine, name: &str) -> Outcome<Searched> {
        if let Some(frozen) = engine.frozen(name) {
            return Ok(Searched::Frozen(frozen));
        }
        // One look: the collection may be dropped, and its name given to another, at any time.
        match engine.database().collection_named(name) {
            Ok(collection) => Ok(Searched::Plain(collection)),
            Err(error) if is_wide(&error) => engine.wide_collection(name).map(Searched::Wide),
            Err(error) => Err(not_opened(&error, name)),
        }
    }

    /// The frozen collection of this name, or another one, or the only one of the alias.
    ///
    /// # Errors
    /// As [`Engine::collection`].
    pub(crate) fn only(engine: &Engine, name: &str) -> Outcome<Searched> {
        if let Some(frozen) = engine.frozen(name) {
            return Ok(Searched::Frozen(frozen));
        }
        match engine.wide(name)? {
            Some(wide) => Ok(Searched::Wide(wide)),
            None => engine.collection(name).map(Searched::Plain),
        }
    }

    /// Makes everything written so far durable.
    pub(crate) fn sync(&self) -> Outcome<()> {
        let synced = match self {
            Searched::Plain(collection) => collection.sync(),
            Searched::Wide(collection) => collection.sync(),
            Searched::Frozen(_) => Ok(()),
        };
        synced.map_err(|error| Failure::engine(&error, Some(self.name())))
    }

    /// Its settings; none of a frozen one.
    pub(crate) fn settings(&self) -> Option<Arc<CollectionSettings>> {
        match self {
            Searched::Plain(collection) => Some(collection.settings()),
            Searched::Wide(collection) => Some(collection.settings()),
            Searched::Frozen(_) => None,
        }
    }

    /// The collection, unless it is a wide or a frozen one.
    pub(crate) fn plain(&self) -> Option<&Collection> {
        match self {
            Searched::Plain(collection) => Some(collection),
            Searched::Wide(_) | Searched::Frozen(_) => None,
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Searched::Plain(collection) => collection.name(),
            Searched::Wide(collection) => collection.name(),
            Searched::Frozen(collection) => collection.name(),
        }
    }

    /// A view of it as it is now, in which queries see its name.
    pub(crate) fn view(&self) -> Outcome<View> {
        Ok(self.bare_view()?.with_name_in(INDEX))
    }

    /// A view of it as it is now, in which queries see nothing but documents.
    pub(crate) fn bare_view(&self) -> Outcome<View> {
        let view = match self {
            Searched::Plain(collection) => collection.view(),
            Searched::Wide(collection) => collection.view(),
            Searched::Frozen(collection) => Ok(collection.view()),
        };
        view.map_err(|error| Failure::engine(&error, Some(self.name())))
    }

    /// A view of its files, once what it has in memory has been written to them: for work that
    /// takes long. Blocks.
    pub(crate) fn flushed_view(&self) -> Outcome<View> {
        let view = match self {
            Searched::Plain(collection) => collection.flushed_view(),
            Searched::Wide(collection) => collection.flushed_view(),
            Searched::Frozen(collection) => Ok(collection.view()),
        };
        let view = view.map_err(|error| Failure::engine(&error, Some(self.name())))?;
        Ok(view.with_name_in(INDEX))
    }

    /// How many documents it has.
    pub(crate) fn count(&self) -> Outcome<u64> {
        let count = match self {
            Searched::Plain(collection) => collection.count(),
            Searched::Wide(collection) => collection.count(),
            Searched::Frozen(collection) => Ok(collection.count()),
        };
        count.map_err(|error| Failure::engine(&error, Some(self.name())))
    }

    /// What was done with it.
    pub(crate) fn usage(&self) -> &Usage {
        match self {
            Searched::Plain(collection) => collection.usage(),
            Searched::Wide(collection) => collection.usage(),
            Searched::Frozen(collection) => collection.usage(),
        }
    }

    pub(crate) fn identity(&self) -> [u8; 16] {
        match self {
            Searched::Plain(collection) => collection.identity(),
            Searched::Wide(collection) => collection.identity(),
            Searched::Frozen(collection) => collection.identity(),
        }
    }

    /// Its figures.
    pub(crate) fn stats(&self) -> Outcome<CollectionStats> {
        let stats = match self {
            Searched::Plain(collection) => collection.stats(),
            Searched::Wide(collection) => collection.stats(),
            Searched::Frozen(collection) => Ok(collection.stats()),
        };
        stats.map_err(|error| Failure::engine(&error, Some(self.name())))
    }

    /// The fields of its documents.
    pub(crate) fn fields(&self, stop: &(dyn Fn() -> bool + Sync)) -> Outcome<CollectionFields> {
        let mut go_on = |_| match stop() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let fields = match self {
            Searched::Plain(collection) => collection.fields_with(&mut go_on),
            Searched::Wide(collection) => collection.fields_with(&mut go_on),
            Searched::Frozen(collection) => collection.view().fields(&mut go_on),
        };
        fields.map_err(|error| Failure::engine(&error, Some(self.name())))
    }

    /// Its mapping, if it can have one.
    pub(crate) fn mapping(&self) -> Mapping {
        self.plain().map_or_else(Mapping::default, |collection| {
            collection.settings().mapping.clone()
        })
    }

    /// The figures of each of its partitions; none of those of a wide or a frozen one.
    pub(crate) fn partition_stats(&self) -> Outcome<Vec<CollectionStats>> {
        let Searched::Plain(collection) = self else {
            return Ok(Vec::new());
        };
        let stats = collection.partition_stats();
        stats.map_err(|error| Failure::engine(&error, Some(self.name())))
    }

    pub(crate) fn partitions(&self) -> u32 {
        match self {
            Searched::Plain(collection) => collection.settings().partitions,
            Searched::Wide(collection) => collection.settings().partitions,
            Searched::Frozen(collection) => collection.view().partition_count(),
        }
    }
}

/// A view of each collection.
pub(crate) fn views(collections: &[Searched]) -> Outcome<Vec<View>> {
    collections.iter().map(Searched::view).collect()
}

/// What is searched of collections, each by one of its filters.
fn filter_of_all(chosen: &BTreeMap<String, Vec<Value>>, now: i64) -> Outcome<Filter> {
    // Collections that are searched by the same filters, together.
    let mut by_filters: Vec<(&Vec<Value>, Vec<&str>)> = Vec::new();
    for (name, filters) in chosen {
        match by_filters.iter_mut().find(|(other, _)| *other == filters) {
            Some((_, names)) => names.push(name),
            None => by_filters.push((filters, vec![name])),
        }
    }
    if let [] | [_] = by_filters.as_slice() {
        let filters = by_filters.first().map(|(filters, _)| filters.as_slice());
        return filter_of(filters.unwrap_or_default(), now);
    }
    let any = by_filters.into_iter().map(|(filters, names)| {
        let of_collections = field(INDEX).is_in(names);
        Ok(match filter_of(filters, now)? {
            Filter::All => of_collections,
            filter => of_collections.and(filter),
        })
    });
    Ok(Filter::Or(any.collect::<Outcome<_>>()?))
}

/// What matches one of the filters; everything if there is none.
fn filter_of(filters: &[Value], now: i64) -> Outcome<Filter> {
    match filters {
        [] => Ok(Filter::All),
        [one] => filter(one, now),
        several => Ok(Filter::Or(
            several
                .iter()
                .map(|one| filter(one, now))
                .collect::<Outcome<_>>()?,
        )),
    }
}

/// The partitions of collections, as the `_shards` of an answer that all of them took part in.
pub(crate) fn shards(collections: &[Collection]) -> Value {
    let partitions: u64 = collections
        .iter()
        .map(|collection| u64::from(collection.settings().partitions))
        .sum();
    json!({"total": partitions, "successful": partitions, "failed": 0})
}

/// As [`shards`], of what is searched.
pub(crate) fn searched_shards(collections: &[Searched]) -> Value {
    let partitions = collections.iter().map(Searched::partitions);
    let partitions: u64 = partitions.map(u64::from).sum();
    json!({"total": partitions, "successful": partitions, "failed": 0})
}

/// As [`searched_shards`], in the answer to a search.
#[derive(Debug, Serialize)]
pub(crate) struct SearchedShards {
    total: u64,
    successful: u64,
    skipped: u64,
    failed: u64,
}

impl SearchedShards {
    pub(crate) fn of(collections: &[Searched]) -> SearchedShards {
        let total = collections.iter().map(Searched::partitions);
        let total = total.map(u64::from).sum();
        SearchedShards {
            total,
            successful: total,
            skipped: 0,
            failed: 0,
        }
    }
}
