//! [`Scan`]: answering a query from documents that are shown one after the other, without any index.
//!
//! What is gathered is what shards give ([`Prepared::answer`]), so the answer is the same. No
//! document is kept: the page of an ordered query is a list of docids, for whoever shows the
//! documents to read them again.

use crate::aggregate::Gathered;
use crate::explain::{How, Trace};
use crate::meter::Meter;
use crate::prepared::Prepared;
use crate::sort::{SortKey, TopHits, offer, push_key};
use crate::timer::Timer;
use crate::top::Top;
use crate::values::{has_value, values};
use crate::{Answer, Error, Explain, Hit, Options, Path, Result, UnknownFields, Value};
use quire_model::{Document, ObjectRef};
use std::collections::BTreeSet;
use std::time::Duration;

/// A query being answered from documents: see [`Prepared::scan`].
#[derive(Debug)]
pub struct Scan<'q> {
    prepared: &'q Prepared,
    timer: Timer<'q>,
    start: Duration,
    meter: Meter,
    seen: u64,
    matched: u64,
    /// Hits that are still passed over, and still wanted, of a query without an order.
    skip: u64,
    left: u64,
    top: TopHits,
    gathered: Vec<Gathered>,
    /// Fields that must be there and that no document had so far.
    missing: Vec<&'q Path>,
    scratch: Vec<u8>,
}

impl Prepared {
    /// Begins to answer from documents, each of which is then [seen](Scan::see) once.
    ///
    /// ```
    /// use quire_model::Document;
    /// use quire_query::{Hit, Options, field, find};
    ///
    /// let dear = find(field("price").gte(10)).order_by(field("price").descending()).with_count().prepare()?;
    /// let mut scan = dear.scan(&Options::default());
    /// for (doc, json) in [r#"{"price":12}"#, r#"{"price":7}"#, r#"{"price":30}"#].iter().enumerate() {
    ///     scan.see(Hit { shard: 0, doc: doc as u32 }, &Document::from_json(json.as_bytes())?)?;
    /// }
    /// let answer = scan.finish()?;
    /// assert_eq!(answer.count, Some(2));
    /// assert_eq!(answer.hits, [Hit { shard: 0, doc: 2 }, Hit { shard: 0, doc: 0 }]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn scan<'q>(&'q self, options: &Options<'q>) -> Scan<'q> {
        let query = &self.query;
        let (skip, left, first) = match query.order.is_empty() {
            true => (query.skip, query.limit.unwrap_or(u64::MAX), 0),
            false => (0, 0, self.hits_max()),
        };
        let mut missing = BTreeSet::new();
        if options.unknown_fields == UnknownFields::Refuse {
            self.each_path(&mut |path| {
                missing.insert(path);
            });
        }
        let timer = Timer(options.clock);
        Scan {
            prepared: self,
            timer,
            start: timer.now(),
            meter: Meter::new(options.memory_bytes_max),
            seen: 0,
            matched: 0,
            skip,
            left,
            top: Top::new(first),
            gathered: self.gather(),
            missing: missing.into_iter().collect(),
            scratch: Vec::new(),
        }
    }
}

impl Scan<'_> {
    /// Takes a document in; true if it is a hit on the page of a query without an order, in the
    /// order they are shown.
    ///
    /// # Errors
    /// `TooLarge` if more would be held than may be.
    pub fn see(&mut self, hit: Hit, document: &Document) -> Result<bool> {
        let root = document.root();
        self.seen += 1;
        self.missing.retain(|path| !has_value(path, root));
        if !self.prepared.root.accepts(root, &mut self.scratch) {
            return Ok(false);
        }
        self.matched += 1;
        self.aggregate(root)?;
        if !self.top.is_nothing() {
            let key = self.sort_key(root);
            offer(&mut self.top, key, hit, &mut self.meter)?;
        }
        let is_hit = self.skip == 0 && self.left > 0;
        self.left -= u64::from(is_hit);
        self.skip = self.skip.saturating_sub(1);
        Ok(is_hit)
    }

    /// Whether the answer is there: no document that is still to come would change it.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let is_counted = self.prepared.query.count || !self.gathered.is_empty();
        self.left == 0 && self.top.is_nothing() && !is_counted && self.missing.is_empty()
    }

    /// The answer. Its hits are those of an ordered query; the others were said to be hits when
    /// they were seen.
    ///
    /// # Errors
    /// `UnknownField` by option: no document had a field that the query speaks of.
    pub fn finish(self) -> Result<Answer> {
        if let Some(path) = self.missing.first() {
            let path = path.to_string();
            return Err(Error::UnknownField { path });
        }
        let query = &self.prepared.query;
        let skip = usize::try_from(query.skip).unwrap_or(usize::MAX);
        let first = self.top.into_sorted().into_iter();
        let time = self.timer.since(self.start);
        let explain = self.timer.0.map(|_| {
            let mut filter = Trace {
                what: "every document looked at".into(),
                at_most: self.seen,
                ..Trace::default()
            };
            filter.done(How::Tested, self.matched, time);
            Box::new(Explain {
                shards: 1,
                documents: self.seen,
                filtering: time,
                filter,
                ..Explain::default()
            })
        });
        Ok(Answer {
            hits: first.skip(skip).map(|(_, hit)| hit).collect(),
            explain,
            ..self.prepared.concluded(self.matched, self.gathered)
        })
    }

    fn aggregate(&mut self, root: ObjectRef<'_>) -> Result<()> {
        let aggregates = self.prepared.query.aggregates.iter();
        let wanted = aggregates.zip(&self.prepared.among);
        for (((_, aggregate), among), gathered) in wanted.zip(&mut self.gathered) {
            let is_among = among
                .as_ref()
                .is_none_or(|node| node.accepts(root, &mut self.scratch));
            match aggregate.what.path() {
                _ if !is_among => {}
                None => gathered.add_documents(1),
                Some(path) => {
                    let values = values(path, root, &mut self.scratch);
                    gathered.add_document(&values, &mut self.meter)?;
                }
            }
        }
        Ok(())
    }

    fn sort_key(&mut self, root: ObjectRef<'_>) -> SortKey {
        let mut key = SortKey::new();
        for order in &self.prepared.query.order {
            let value = order.value_in(root, &mut self.scratch);
            push_key(&mut key, value.as_ref().map(Value::term), order.direction);
        }
        key
    }
}
