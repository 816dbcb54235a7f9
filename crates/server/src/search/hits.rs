//! The answer to a search, made piece by piece.

use quire_model::ordered::Direction;
use quiredb::query::{Answer, Filter, Hit, Options, Path, Query, field, find};
use quiredb::{ID, Key, Use, View};
use serde_json::Value as Json;
use std::cell::RefCell;
use std::sync::Arc;
use tokio::time::Instant;

use super::after::{after, place_of, read_formatted};
use super::aggregations::{Answers, add_empty, complete, write};
use super::by_key::page_by_key;
use super::by_time::{is_by_time, page_bound};
use super::collapse::Collapse;
use super::derived::derive_types;
use super::execute::{failed, options};
use super::filter::{unsupported, whole_text};
use super::hit_writer::{HitWriter, Shown, number_of};
use super::objects::find_objects;
use super::request::Request;
use super::searching::Searching;
use crate::documents::lookup::Group;
use crate::engine::timed_out;
use crate::http::answer::write_string;
use crate::http::body::WHOLE_BYTES_MAX;
use crate::http::buffers::{Buffers, Held, LARGE_BYTES};
use crate::http::failure::{Failure, Outcome};

/// Bytes of the answer that are made at a time.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// Documents read at a time: at the start, and at the most.
const GROUP_FIRST: usize = 16;
const GROUP_MAX: usize = 256;

/// The hits that are not written yet.
pub(crate) enum Hits {
    /// Documents to be read.
    Places(std::vec::IntoIter<Hit>),
    /// Documents of the only view.
    Documents(std::vec::IntoIter<quiredb::Found>),
}

/// A search whose hits are found, and its answer so far.
pub(crate) struct Search {
    views: Arc<Vec<View>>,
    writer: HitWriter,
    hits: Hits,
    /// The text before the hits, and after; none once written.
    head: Option<Vec<u8>>,
    tail: Option<Vec<u8>>,
    group: Group,
    is_first: bool,
    /// The next document is large: its bytes.
    longer: Option<u64>,
    /// The memory reserved for the hits.
    held: Option<Held>,
}

impl Search {
    /// Finds the hits. `id` is the name and the text of an id that the answer begins with. Blocks.
    pub(crate) fn begin(
        views: Arc<Vec<View>>,
        request: Request,
        id: Option<(&str, &str)>,
        stop: &(dyn Fn() -> bool + Sync),
        (mut held, buffers): (Option<Held>, &Buffers),
        begun: Instant,
    ) -> Outcome<Search> {
        let Found {
            hits,
            answer,
            query,
            inner,
        } = find_hits(
            &views,
            &request,
            stop,
            begun,
            held.as_mut().map(|held| (held, buffers)),
        )?;
        if let (Some(held), Hits::Places(hits)) = (&mut held, &hits) {
            let shown = inner.values().map(Vec::len).sum::<usize>();
            held.resize(size_of_val(hits.as_slice()) + shown)?;
        }
        let (count, is_partial) = (answer.count, answer.is_partial);
        let tail = tail(&views, &request, answer)?;
        let writer = HitWriter {
            orders: query.order,
            inner: Arc::new(inner),
            ..writer_of(&views, &request)
        };
        let is_scored = writer.is_scored() && !hits.is_empty();
        let head = head(
            &views,
            (count, is_partial),
            request.total_as_int,
            is_scored,
            id,
            begun,
        );
        Ok(Search {
            views,
            writer,
            hits,
            head: Some(head),
            tail: Some(tail),
            group: Group::new(GROUP_FIRST, GROUP_MAX, PIECE_BYTES),
            is_first: true,
            longer: None,
            held,
        })
    }

    /// Whether the whole answer is made.
    pub(crate) fn is_done(&self) -> bool {
        self.tail.is_none()
    }

    /// The bytes of the next document, if it is large: before it is read, memory for it is to be
    /// reserved and given to [`next_piece`](Self::next_piece).
    pub(crate) fn longer(&self) -> Option<u64> {
        self.longer
    }

    /// Makes the next piece of the answer. It ends before a large document, unless it begins with
    /// one for which there is memory: `has_room`. Blocks.
    pub(crate) fn next_piece(&mut self, has_room: bool) -> Outcome<Vec<u8>> {
        let views = Arc::clone(&self.views);
        let fetching = (!self.hits.is_empty()).then(|| Searching::begin(&views, Use::Fetch));
        let is_begin = self.head.is_some();
        let piece = self.piece(has_room);
        if let Some(fetching) = fetching {
            fetching.end(u64::from(is_begin));
        }
        piece
    }

    fn piece(&mut self, has_room: bool) -> Outcome<Vec<u8>> {
        let large = self.longer.filter(|_| has_room);
        let mut out = self.head.take().unwrap_or_default();
        if let Some(bytes) = large {
            out.reserve_exact(usize::try_from(bytes + bytes / 8).unwrap_or(0));
            self.longer = None;
        }
        while out.len() < PIECE_BYTES && !self.hits.is_empty() && self.longer.is_none() {
            let before = out.len();
            let count = match &mut self.hits {
                Hits::Places(places) => {
                    let (size, bytes_max) = match large {
                        Some(bytes) => (1, bytes),
                        None => (self.group.size(), LARGE_BYTES),
                    };
                    let hits = places.as_slice();
                    let hits = hits.get(..size.min(hits.len())).unwrap_or_default();
                    let (views, first) = (&self.views, self.is_first);
                    let (count, longer) = self
                        .writer
                        .write_places(views, hits, bytes_max, first, &mut out)?;
                    self.is_first = first && count == 0;
                    self.longer = longer.filter(|_| count == 0);
                    places.by_ref().take(count).for_each(drop);
                    count
                }
                Hits::Documents(documents) => {
                    let index = self.views.first().map_or("", View::collection_name);
                    for found in documents.by_ref().take(self.group.size()) {
                        // What it takes was reserved before it was read.
                        let bytes = found.document.as_bytes().len();
                        if bytes as u64 > LARGE_BYTES {
                            out.reserve_exact(bytes + bytes / 8);
                        }
                        if !std::mem::take(&mut self.is_first) {
                            out.push(b',');
                        }
                        self.writer.write(index, 0, &found, &mut out);
                        if out.len() >= PIECE_BYTES {
                            break;
                        }
                    }
                    let left = documents.as_slice().iter();
                    let left = left.map(|found| found.document.as_bytes().len()).sum();
                    if let Some(held) = self.held.as_mut().filter(|held| left < held.bytes()) {
                        held.resize(left)?;
                    }
                    self.group.size()
                }
            };
            self.group.was(count, out.len() - before);
            if large.is_some() {
                break;
            }
        }
        if self.hits.is_empty()
            && let Some(tail) = self.tail.take()
        {
            out.extend_from_slice(&tail);
        }
        Ok(out)
    }

    /// The whole answer; `out` is the first piece of it, and its memory is reserved. Blocks.
    ///
    /// # Errors
    /// 400 if it is too long to be filtered, 429 if there is no memory for it.
    pub(crate) fn whole(
        &mut self,
        mut out: Vec<u8>,
        buffers: &Buffers,
    ) -> Outcome<(Vec<u8>, Held)> {
        let mut held = buffers.hold_now(out.capacity())?;
        while !self.is_done() {
            let room = match self.longer {
                Some(bytes) => buffers.hold_large_now(bytes)?,
                None => buffers.hold_now(2 * PIECE_BYTES)?,
            };
            let piece = self.next_piece(true)?;
            // A vector that grows may allocate twice what it needs.
            held.resize((out.len() + piece.len()).saturating_mul(2))?;
            out.extend_from_slice(&piece);
            drop((piece, room));
            if out.len() > WHOLE_BYTES_MAX {
                return Err(Failure::illegal_argument(
                    "parameter [filter_path] can't be applied to an answer of this length: set a \
                     smaller [size], or use [_source] instead",
                ));
            }
        }
        Ok((out, held))
    }
}

impl Hits {
    /// The places; none of documents that are there already.
    pub(crate) fn into_places(self) -> std::vec::IntoIter<Hit> {
        match self {
            Hits::Places(places) => places,
            Hits::Documents(_) => Vec::new().into_iter(),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Hits::Places(hits) => hits.as_slice().is_empty(),
            Hits::Documents(hits) => hits.as_slice().is_empty(),
        }
    }
}

/// How the hits of a search are written.
pub(crate) fn writer_of(views: &[View], request: &Request) -> HitWriter {
    HitWriter {
        source: request.source.clone(),
        fields: Arc::clone(&request.fields),
        with_id: request.with_id,
        orders: request.query.order.clone(),
        sort_shown: Arc::clone(&request.sort_shown),
        inner: Arc::default(),
        with_version: request.with_version,
        with_seq_no: request.with_seq_no,
        by_place: request.by_place && views.len() > 1,
    }
}

/// The hits of a search and what else it answers.
pub(crate) struct Found {
    pub(crate) hits: Hits,
    pub(crate) answer: Answer,
    /// The query, its fields named as the documents have them.
    pub(crate) query: Query,
    /// What hits show beside their documents.
    pub(crate) inner: Shown,
}

/// Finds the hits of a search, and what it says of all documents that match. `held` is its memory:
/// large documents of a page by key are reserved in it.
///
/// # Errors
/// Also 429 if there is no memory for the first document of such a page.
pub(crate) fn find_hits(
    views: &[View],
    request: &Request,
    stop: &(dyn Fn() -> bool + Sync),
    begun: Instant,
    held: Option<(&mut Held, &Buffers)>,
) -> Outcome<Found> {
    let searching = Searching::begin(views, Use::Query);
    let with_values = |part, held| {
        let mut found = part_of(views, request, part, stop, begun, held)?;
        add_values(views, request, stop, &mut found)?;
        Ok::<_, Failure>(found)
    };
    let whole = Part {
        query: request.query.clone(),
        collapse: request.collapse.clone(),
        search_after: request.search_after.as_deref(),
    };
    let found = match &request.post_filter {
        None => with_values(whole, held)?,
        // Aggregations see what the filter leaves out, and the page and the total do not.
        Some(post_filter) => {
            let (of_all, of_page) = split(&whole.query);
            let aggregated = match of_all.is_aggregated() {
                true => {
                    let of_all = Part {
                        query: Query {
                            count: false,
                            ..of_all
                        },
                        collapse: None,
                        search_after: None,
                    };
                    with_values(of_all, None)?.answer
                }
                false => Answer::default(),
            };
            let query = Query {
                filter: whole.query.filter.and(post_filter.clone()),
                count: whole.query.count,
                ..of_page
            };
            let page = Part { query, ..whole };
            let page = part_of(views, request, page, stop, begun, held)?;
            let answer = Answer {
                count: page.answer.count,
                is_partial: page.answer.is_partial || aggregated.is_partial,
                ..aggregated
            };
            Found { answer, ..page }
        }
    };
    searching.end_of_groups(&request.groups);
    Ok(found)
}

/// Adds buckets of the values that no document has that matches, where they are wanted.
fn add_values(
    views: &[View],
    request: &Request,
    stop: &(dyn Fn() -> bool + Sync),
    found: &mut Found,
) -> Outcome<()> {
    let run = |mut query: Query| {
        derive_types(&mut query, &request.mappings, views, stop)?;
        find_objects(&mut query, views, stop)?;
        let query = query.prepare().map_err(|error| failed(error.into()))?;
        let options = Options {
            memory_bytes_max: request.limits.memory_bytes,
            ..options(stop)
        };
        View::query_all(views, &query, &options).map_err(failed)
    };
    let (query, answer) = (&found.query, &mut found.answer);
    add_empty(&request.aggregations, query, answer, &request.visible, run)
}

/// A part of a search.
struct Part<'a> {
    query: Query,
    collapse: Option<Collapse>,
    search_after: Option<&'a [Json]>,
}

/// Finds a part of a search.
fn part_of(
    views: &[View],
    request: &Request,
    part: Part<'_>,
    stop: &(dyn Fn() -> bool + Sync),
    begun: Instant,
    held: Option<(&mut Held, &Buffers)>,
) -> Outcome<Found> {
    let Part {
        mut query,
        mut collapse,
        search_after,
    } = part;
    name_whole_texts(views, &mut query, collapse.as_mut(), stop)?;
    derive_types(&mut query, &request.mappings, views, stop)?;
    find_objects(&mut query, views, stop)?;
    let limits = request.limits;
    let is_over = || {
        let mut timeout = limits.timeout.iter();
        stop() || timeout.any(|timeout| begun.elapsed() >= *timeout)
    };
    let clock = || begun.elapsed();
    let options = Options {
        partial: limits.partial && limits.timeout.is_some(),
        memory_bytes_max: limits.memory_bytes,
        clock: request.noted.is_some().then_some(&clock),
        ..options(&is_over)
    };
    let run = |query: Query| {
        let query = query.prepare().map_err(|error| failed(error.into()))?;
        let answer = View::query_all(views, &query, &options);
        let mut answer = answer.map_err(|error| match (is_over() && !stop(), limits.timeout) {
            (true, Some(timeout)) => timed_out("search", timeout),
            _ => failed(error),
        })?;
        if let (Some(noted), Some(plan)) = (&request.noted, answer.explain.take()) {
            noted.set_plan(plan);
        }
        Ok::<_, Failure>(answer)
    };
    let page = |mut query: Query| -> Outcome<Answer> {
        if let Some(bound) = page_bound(views, &query, run)? {
            query.filter = query.filter.and(bound);
        }
        run(query)
    };
    if let Some(collapse) = &collapse {
        let (of_all, of_page) = split(&query);
        let answer = match of_all.count || of_all.is_aggregated() {
            true => run(of_all)?,
            false => Answer::default(),
        };
        let (hits, inner) = collapse.hits(views, &of_page, request.total_as_int, page)?;
        return Ok(Found {
            hits: Hits::Places(hits.into_iter()),
            answer,
            query,
            inner,
        });
    }
    let Some(values) = search_after else {
        let mut answer = match query.count || query.is_aggregated() {
            // They are about all documents, and the page is not.
            true if is_by_time(&query) => {
                let (of_all, of_page) = split(&query);
                let (all, of_page) = (run(of_all)?, page(of_page)?);
                Answer {
                    hits: of_page.hits,
                    is_partial: all.is_partial || of_page.is_partial,
                    ..all
                }
            }
            true => run(query.clone())?,
            false => page(query.clone())?,
        };
        let hits = std::mem::take(&mut answer.hits);
        return Ok(Found {
            hits: Hits::Places(hits.into_iter()),
            answer,
            query,
            inner: Shown::new(),
        });
    };
    let values = &read_formatted(values, &query.order, &request.sort_shown.formats)?;
    let (of_all, of_page) = split(&query);
    let answer = match of_all.count || of_all.is_aggregated() {
        true => run(of_all)?,
        false => Answer::default(),
    };
    let has_text = |strings: Filter| {
        let any = find(strings).limit(1);
        Ok(!run(any)?.hits.is_empty())
    };
    if request.by_place && views.len() > 1 {
        let hits = after_place(views, of_page, values, has_text, (run, page))?;
        return Ok(Found {
            hits: Hits::Places(hits.into_iter()),
            answer,
            query,
            inner: Shown::new(),
        });
    }
    let hits = match by_key(views, &of_page, values)? {
        Some((view, key)) => {
            let size = usize::try_from(of_page.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
            let matching = find(of_page.filter).prepare();
            let matching = matching.map_err(|error| failed(error.into()))?;
            let (held, refused) = (RefCell::new(held), RefCell::new(None));
            let has_room = |page: usize, bytes: u64| match &mut *held.borrow_mut() {
                Some((held, of)) if bytes > LARGE_BYTES => {
                    let grown = held.grow_large(of, page, bytes);
                    grown
                        .map_err(|failure| refused.replace(Some(failure)))
                        .is_ok()
                }
                _ => true,
            };
            let page = page_by_key(view, &matching, Some(&key), size, &has_room, stop)?;
            match refused.into_inner().filter(|_| page.found.is_empty()) {
                Some(failure) => return Err(failure),
                None => Hits::Documents(page.found.into_iter()),
            }
        }
        None => {
            let (beyond, _) = after(&of_page.order, values, has_text)?;
            let filter = of_page.filter.clone().and(beyond);
            Hits::Places(page(Query { filter, ..of_page })?.hits.into_iter())
        }
    };
    Ok(Found {
        hits,
        answer,
        query,
        inner: Shown::new(),
    })
}

/// The page after a place in several collections: first the documents of the same key and of the
/// same values in the collections after it, then those that come after in the orders.
fn after_place(
    views: &[View],
    of_page: Query,
    values: &[Json],
    has_text: impl Fn(Filter) -> Outcome<bool>,
    (run, page): (
        impl Fn(Query) -> Outcome<Answer>,
        impl Fn(Query) -> Outcome<Answer>,
    ),
) -> Outcome<Vec<Hit>> {
    let (number, key) = place_of(values)?;
    let mut values = values.to_vec();
    if let Some(last) = values.last_mut() {
        *last = key.into();
    }
    let (beyond, at) = after(&of_page.order, &values, has_text)?;
    let limited = |filter: Filter| Query {
        filter: of_page.filter.clone().and(filter),
        ..of_page.clone()
    };
    let limit = of_page.limit.unwrap_or(u64::MAX);
    let mut hits = run(Query {
        limit: None,
        ..limited(Filter::And(at))
    })?
    .hits;
    hits.retain(|hit| number_of(views, *hit) > number);
    hits.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let limit = limit - hits.len() as u64;
    if limit > 0 {
        let rest = Query {
            limit: Some(limit),
            ..limited(beyond)
        };
        hits.extend(page(rest)?.hits);
    }
    Ok(hits)
}

/// A query of the total and the aggregates, which are about all documents, and one of the page.
fn split(query: &Query) -> (Query, Query) {
    let of_all = Query {
        order: Vec::new(),
        limit: Some(0),
        ..query.clone()
    };
    let of_page = Query {
        count: false,
        facets: Vec::new(),
        ..query.clone()
    };
    (of_all, of_page)
}

/// The only view and the key to go on after, if the order is that of keys alone.
fn by_key<'v>(
    views: &'v [View],
    query: &Query,
    values: &[Json],
) -> Outcome<Option<(&'v View, Key)>> {
    let is_about_id = query.order.iter().any(|order| order.path.as_str() == ID);
    if is_about_id && views.len() > 1 {
        return Err(unsupported(
            "[search_after] with [_id] or [_doc] is about one collection: two of them may have \
             documents of the same id; [_shard_doc] as the last order is about several",
        ));
    }
    match (views, query.order.as_slice(), values) {
        ([view], [order], [value])
            if is_about_id
                && order.direction == Direction::Ascending
                && query.skip == 0
                && view.is_plain() =>
        {
            let text = match value {
                Json::String(text) => text.clone(),
                Json::Number(number) => number.to_string(),
                _ => return Ok(None),
            };
            Ok(Key::parse(&text).ok().map(|key| (view, key)))
        }
        _ => Ok(None),
    }
}

/// Takes `x.keyword` for `x` in the orders and aggregates, if a document has a value at `x`.
fn name_whole_texts(
    views: &[View],
    query: &mut Query,
    collapse: Option<&mut Collapse>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome<()> {
    let rename = |path: &mut Path| -> Outcome<()> {
        let Some(whole) = whole_text(path.as_str()) else {
            return Ok(());
        };
        let one = find(field(whole).exists()).limit(1).prepare();
        let one = one.map_err(|error| failed(error.into()))?;
        let found = View::query_all(views, &one, &options(stop)).map_err(failed)?;
        if !found.hits.is_empty() {
            *path = Path::new(whole);
        }
        Ok(())
    };
    for order in &mut query.order {
        rename(&mut order.path)?;
    }
    if let Some(collapse) = collapse {
        collapse.rename(rename)?;
    }
    let mut facets = query.facets.iter_mut();
    facets.try_for_each(|(_, facet)| facet.each_path_mut(&mut |path| rename(path)))
}

/// The text before the hits.
pub(crate) fn head(
    views: &[View],
    (count, timed_out): (Option<u64>, bool),
    total_as_int: bool,
    is_scored: bool,
    id: Option<(&str, &str)>,
    begun: Instant,
) -> Vec<u8> {
    let mut out = b"{".to_vec();
    if let Some((name, id)) = id {
        write_string(name, &mut out);
        out.push(b':');
        write_string(id, &mut out);
        out.push(b',');
    }
    let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let partitions: u64 = views
        .iter()
        .map(|view| u64::from(view.partition_count()))
        .sum();
    let mut text = format!(
        "\"took\":{took},\"timed_out\":{timed_out},\"_shards\":{{\"total\":{partitions},\
         \"successful\":{partitions},\"skipped\":0,\"failed\":0}},\"hits\":{{"
    );
    match count {
        Some(count) if total_as_int => text.push_str(&format!("\"total\":{count},")),
        Some(count) => {
            let total = format!("\"total\":{{\"value\":{count},\"relation\":\"eq\"}},");
            text.push_str(&total);
        }
        None => {}
    }
    let score = if is_scored { "1.0" } else { "null" };
    text.push_str(&format!("\"max_score\":{score},\"hits\":["));
    out.extend_from_slice(text.as_bytes());
    out
}

/// The text after the hits.
pub(crate) fn tail(views: &[View], request: &Request, answer: Answer) -> Outcome<Vec<u8>> {
    let mut out = b"]}".to_vec();
    if !request.aggregations.is_empty() {
        let faceted = answer.facets.into_iter().map(|(_, faceted)| faceted);
        let said = complete(
            &request.aggregations,
            faceted.collect(),
            request.mappings.buckets_max(),
        )?;
        let how = Answers {
            typed: request.typed_keys,
            views,
        };
        out.extend_from_slice(b",\"aggregations\":{");
        write(&request.aggregations, &said, &how, &mut out)?;
        out.push(b'}');
    }
    out.push(b'}');
    Ok(out)
}
