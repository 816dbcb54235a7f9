//! Queries over collections: by the search indexes of their partitions, or by reading every
//! document, where one has no index that is complete and has all fields of the query, and where it
//! is expected to cost less.
//!
//! Documents are read partition by partition, in the order of their docids, which is that of their
//! first writes. Where a wide collection has no index, the columns that the query names are read of
//! every row. Frozen files have indexes; their documents are read if a field was frozen for another
//! use than that of the query, or beside a collection whose documents are read. Hits of a query
//! without an order come in this order. A document without a field `_id` has its key as that field.
//! Memory holds a batch of documents, and what the answer needs.

use crate::collection::Collection;
use crate::query_scan::{check_bytes, scan, scan_nanos};
use crate::view::{NamedViews, PARTS, PartView, QueriedPart, View};
use crate::{Error, Result};
use quire_collection::{Found, Within};
use quire_frozen::FrozenFile;
use quire_model::DocId;
use quire_query::{
    Access, Aggregated, Answer, Constant, Explain, Hit, Options, Prepared, Query, Shard,
    WithConstant, Workers,
};
use quire_search::{IndexedView, LiveShard};
use smallvec::SmallVec;

/// Documents of a page that are read at a time.
const READ_AT_ONCE: usize = 256;

/// What it costs to come to the first document.
const SCAN_BEGIN_NANOS: u64 = 5_000;

/// Reading ends after this many times the documents that were expected to fill the page, and some.
const READ_PART: u64 = 3;
const SCAN_DOCUMENTS_MIN: u64 = 32;

/// A page is looked for in the first documents, a batch of them, before anything is planned, if the
/// plan takes this many lookups: it then costs more than reading these. The next query with the
/// same predicates is planned, as what the lookups find is shared.
const PROBED_DOCUMENTS: u64 = 32;
const PROBED_LOOKUPS_MIN: u64 = 3;

/// Every document is read if that saves more than this.
const SAVED_NANOS_MIN: u64 = 200_000;

/// What a query gives of a collection.
#[derive(Debug, Clone)]
pub struct Page {
    /// The hits, in order, whole: of the fields that the query selects see
    /// [`write_fields`](quire_query::write_fields).
    pub documents: Vec<Found>,
    /// How many documents match, if the query wants that.
    pub count: Option<u64>,
    /// What the aggregates say, in the order of the query.
    pub aggregates: Vec<(String, Aggregated)>,
    /// How the answer was found, if the options have a clock.
    pub explain: Option<Box<Explain>>,
}

impl Collection {
    /// Answers a query as of now.
    ///
    /// ```
    /// use quiredb::query::{field, find};
    /// use quiredb::{CollectionSettings, Database, Document, Key};
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path())?;
    /// let cars = database.create_collection("cars", CollectionSettings::default())?;
    /// let [audi, fiat] = [r#"{"mark":"audi","price":12}"#, r#"{"mark":"fiat","price":7}"#];
    /// for (key, json) in [("a", audi), ("b", fiat)] {
    ///     cars.put_at(&Key::parse(key)?, &Document::from_json(json.as_bytes())?)?;
    /// }
    /// let cheap = find(field("price").lt(10)).order_by(field("price").ascending());
    /// let cheap = cars.query(cheap.limit(10))?;
    /// assert_eq!(cheap.documents[0].key, Key::parse("b")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` for a query that makes no sense; `TooLarge` if its answer, documents and all,
    /// would take more than 64 MiB ([`View::query`] and [`View::documents`] give it piece by
    /// piece); `Corrupt` for damage.
    pub fn query(&self, query: Query) -> Result<Page> {
        let query = query.prepare()?;
        self.view()?.page(&query, &Options::default())
    }
}

impl View {
    /// What a query gives, documents and all.
    pub(crate) fn page(&self, query: &Prepared, options: &Options<'_>) -> Result<Page> {
        let answer = self.query(query, options)?;
        let (mut documents, mut bytes) = (Vec::with_capacity(answer.hits.len()), 0);
        for hits in answer.hits.chunks(READ_AT_ONCE) {
            for found in self.documents(hits)? {
                bytes += size_of::<Found>() + found.document.as_bytes().len();
                documents.push(found);
            }
            check_bytes(bytes, "giving all these documents at once", options)?;
        }
        Ok(Page {
            documents,
            count: answer.count,
            aggregates: answer.aggregates,
            explain: answer.explain,
        })
    }

    /// Answers a query. A hit's shard is the document's partition, its doc the docid.
    ///
    /// # Errors
    /// As of [`Collection::query`].
    pub fn query(&self, query: &Prepared, options: &Options<'_>) -> Result<Answer> {
        View::query_all(std::slice::from_ref(self), query, options)
    }

    /// Answers a query of several collections together. Partitions are numbered on from one view to
    /// the next.
    ///
    /// # Errors
    /// As of [`Collection::query`].
    pub fn query_all(views: &[View], query: &Prepared, options: &Options<'_>) -> Result<Answer> {
        // Nothing is read for it, and so there is nothing to measure where a plan is wanted.
        if query.is_count_of_all() {
            let count: u64 = views.iter().map(View::count).sum();
            let shards = views.iter().map(|view| u64::from(view.partition_count()));
            let explain = options
                .clock
                .map(|_| Explain::of_count(count, shards.sum()));
            return Ok(Answer {
                explain: explain.map(Box::new),
                ..query.counted(count)
            });
        }
        let Some(env) = views.first().map(View::env) else {
            return answer(views, query, options);
        };
        let run_all = |count: usize, part: &(dyn Fn(usize) + Sync)| env.run_all(count, part);
        let workers = Workers::new(env.cores(), &run_all);
        let options = Options {
            workers: options.workers.or(workers),
            ..*options
        };
        answer(views, query, &options)
    }

    /// The documents that hits of this view name, in that order.
    ///
    /// # Errors
    /// `Corrupt` if the bytes on disk are damaged; `Invalid` for a hit that is none of this view.
    pub fn documents(&self, hits: &[Hit]) -> Result<Vec<Found>> {
        View::documents_of(std::slice::from_ref(self), hits)
    }

    /// The documents that hits of [`query_all`](View::query_all) name, in that order.
    ///
    /// # Errors
    /// As of [`documents`](View::documents).
    pub fn documents_of(views: &[View], hits: &[Hit]) -> Result<Vec<Found>> {
        documents_by(views, hits, |partition, docids| partition.documents(docids))
    }

    /// As [`documents_of`](View::documents_of), as far as the documents fit in `bytes_max`
    /// together. The others are not read.
    ///
    /// # Errors
    /// As of [`documents`](View::documents).
    pub fn documents_within(views: &[View], hits: &[Hit], bytes_max: u64) -> Result<Vec<Within>> {
        let mut left = bytes_max;
        documents_by(views, hits, |partition, docids| {
            partition.documents_within(docids, None, &mut left)
        })
    }

    /// As [`documents_within`](View::documents_within), for changes by key and version: of a row of
    /// a wide collection the document has the key alone, and no column group is read.
    ///
    /// # Errors
    /// As there.
    pub fn heads_within(views: &[View], hits: &[Hit], bytes_max: u64) -> Result<Vec<Within>> {
        let mut left = bytes_max;
        documents_by(views, hits, |partition, docids| {
            partition.documents_within(docids, Some(&[]), &mut left)
        })
    }
}

fn answer(views: &[View], query: &Prepared, options: &Options<'_>) -> Result<Answer> {
    let names = View::names_in(views, query)?;
    let views = (views, names.as_slice());
    if let Some(answer) = answer_by_indexes(views, query, options)? {
        return Ok(answer);
    }
    match scan(views, query, options, u64::MAX)? {
        Some(answer) => Ok(answer),
        None => Err(Error::Invalid("a scan ended before its end".into())),
    }
}

/// What `read` gives for the docids of each partition, in the order of `hits`.
fn documents_by<T: Clone>(
    views: &[View],
    hits: &[Hit],
    mut read: impl FnMut(PartView<'_>, &[DocId]) -> Result<Vec<T>>,
) -> Result<Vec<T>> {
    let mut found: Vec<Option<T>> = vec![None; hits.len()];
    for (shard, partition) in (0..).zip(View::parts_of(views)) {
        let places = || (0..).zip(hits).filter(|(_, hit)| hit.shard == shard);
        let docids: Vec<DocId> = places().map(|(_, hit)| DocId(hit.doc)).collect();
        if docids.is_empty() {
            continue;
        }
        for ((place, _), document) in places().zip(read(partition, &docids)?) {
            let place: usize = place;
            found[place] = Some(document);
        }
    }
    let found: Option<Vec<T>> = found.into_iter().collect();
    found.ok_or_else(|| Error::Invalid("a hit names a partition that there is not".into()))
}

/// A partition that is queried by its indexes.
enum Indexed<'v> {
    Live(&'v dyn IndexedView, Box<LiveShard<'v>>),
    Frozen(&'v FrozenFile),
}

impl<'v> Indexed<'v> {
    /// None for a partition that has no index for the query.
    fn new((part, constant): QueriedPart<'v>, query: &Prepared) -> Result<Option<Indexed<'v>>> {
        Ok(match part {
            PartView::Plain(partition) => Indexed::live_of(partition, constant, query)?,
            PartView::Wide(partition, _) => Indexed::live_of(partition, constant, query)?,
            PartView::Frozen(files, number) => Some(Indexed::Frozen(files.file(number)?)),
        })
    }

    fn live_of(
        view: &'v dyn IndexedView,
        constant: Option<&Constant>,
        query: &Prepared,
    ) -> Result<Option<Indexed<'v>>> {
        let shard = view.search(query, constant.map(Constant::path));
        let shard = shard.map_err(quire_collection::Error::from)?;
        Ok(shard.map(|shard| Indexed::Live(view, shard)))
    }

    fn shard(&self) -> &dyn Shard {
        match self {
            Indexed::Live(_, shard) => &**shard,
            Indexed::Frozen(file) => *file,
        }
    }

    fn live(&self) -> Option<(&'v dyn IndexedView, &LiveShard<'v>)> {
        match self {
            Indexed::Live(view, shard) => Some((*view, shard)),
            Indexed::Frozen(_) => None,
        }
    }
}

/// The answer by the search indexes of all partitions; `None` if one of them has none that can be
/// used, or if too many values would be in memory. An index that turns out to be damaged is built
/// anew in the background.
fn answer_by_indexes(
    (views, names): NamedViews<'_>,
    query: &Prepared,
    options: &Options<'_>,
) -> Result<Option<Answer>> {
    if options.access == Some(Access::Scan) {
        return Ok(None);
    }
    if let [view] = views
        && let Some(files) = view.frozen()
        && names.is_empty()
    {
        return match files.query(query, options) {
            Err(Error::Query(error)) if is_unsupported(&error) => Ok(None),
            answer => answer.map(Some),
        };
    }
    let parts = View::parts_for(views, names);
    let mut indexed = SmallVec::<[_; PARTS]>::new();
    for part in &parts {
        match Indexed::new(*part, query)? {
            Some(one) => indexed.push(one),
            None => return Ok(None),
        }
    }
    let with_constant: Vec<Option<WithConstant<'_>>> = match names {
        [] => Vec::new(),
        _ => (indexed.iter().zip(&parts))
            .map(|(one, (_, constant))| Some(WithConstant::new(one.shard(), (*constant)?)))
            .collect(),
    };
    let shards = indexed.iter().enumerate();
    let shards: SmallVec<[&dyn Shard; PARTS]> = shards
        .map(|(at, one)| match with_constant.get(at) {
            Some(Some(with)) => with,
            Some(None) | None => one.shard(),
        })
        .collect();
    let live: SmallVec<[_; PARTS]> = indexed.iter().filter_map(Indexed::live).collect();
    if live.len() < indexed.len() {
        // A field that was not frozen has no values by an index, and may have some in documents:
        // which of the two answers must not follow from costs.
        return match query.answer(&shards, options) {
            Err(error) if is_unsupported(&error) || has_to_scan(&live) => Ok(None),
            answer => Ok(Some(answer?)),
        };
    }
    let lookups = |(_, shard): &(_, &LiveShard<'_>)| shard.lookups(query);
    if options.access.is_none()
        && let Some(hits) = query.first_hits()
        && (1..=PROBED_DOCUMENTS).contains(&hits)
        && live.iter().map(lookups).max() >= Some(PROBED_LOOKUPS_MIN)
        && let Some(answer) = scan((views, names), query, options, PROBED_DOCUMENTS)?
    {
        return Ok(Some(answer));
    }
    if let Some(answer) = query.counted_at_once(&shards, options)? {
        return Ok(Some(answer));
    }
    let documents_max = match options.access {
        None => documents_to_scan(query, &shards, scan_nanos(views)),
        Some(_) => 0,
    };
    if documents_max == u64::MAX {
        return Ok(None);
    }
    let scanned = match documents_max {
        0 => None,
        _ => scan((views, names), query, options, documents_max)?,
    };
    let answer = match scanned {
        Some(answer) => return Ok(Some(answer)),
        None => query.answer(&shards, options),
    };
    if answer.is_err() && has_to_scan(&live) {
        return Ok(None);
    }
    Ok(Some(answer?))
}

/// Whether a field was frozen for another use than that of a query.
fn is_unsupported(error: &quire_query::Error) -> bool {
    error.kind() == quire_query::ErrorKind::Unsupported
}

/// Whether an index turned out to be damaged, or says that documents are to be read.
fn has_to_scan(live: &[(&dyn IndexedView, &LiveShard<'_>)]) -> bool {
    let damaged = live
        .iter()
        .filter(|(view, shard)| view.index_is_damaged(shard));
    damaged.count() > 0 || live.iter().any(|(_, shard)| shard.needs_scan())
}

/// How many documents a query is to read one after the other before it turns to the indexes: all of
/// them if that is expected to cost less; some if that many are expected to fill the page.
///
/// Documents that match may all come late, where values follow from each other. So reading stops
/// when it has cost three quarters of what the indexes do, or is well past what was expected.
fn documents_to_scan(query: &Prepared, shards: &[&dyn Shard], scan_nanos: u64) -> u64 {
    let (mut by_index, mut expected, mut documents) = (0u64, 0u64, 0u64);
    for shard in shards {
        // An error is met again by the query itself.
        let (Ok(cost), Ok(docs)) = (query.cost_on(*shard), shard.doc_count()) else {
            return 0;
        };
        by_index = by_index.saturating_add(cost.nanos);
        expected += cost.expected;
        documents += docs;
    }
    if by_index > scan_nanos.saturating_add(SAVED_NANOS_MIN) {
        return u64::MAX;
    }
    let Some(hits) = query.first_hits().filter(|hits| *hits < expected) else {
        return 0;
    };
    let read = u128::from(documents) * u128::from(hits) / u128::from(expected.max(1));
    let read = u64::try_from(read).unwrap_or(u64::MAX);
    let each = (scan_nanos / documents.max(1)).max(1);
    let worth = (by_index / 4 * 3).saturating_sub(SCAN_BEGIN_NANOS) / each;
    // Chance may make it half as many again.
    match read.saturating_add(read / 2) < worth {
        true => worth.min(read.saturating_mul(READ_PART) + SCAN_DOCUMENTS_MIN),
        false => 0,
    }
}
