//! Answering a query by reading documents, one after the other.
//!
//! Threads share the partitions where that is much work, and the answer does not depend on which
//! documents are read first.

use crate::seen::Seen;
use crate::view::{NamedViews, QueriedPart, View};
use crate::{Error, Result};
use quire_query::{Answer, Hit, Options, Prepared, Scan, Workers};

/// What reading a document among all of them costs, in nanoseconds, about; and a row, whose cells
/// are put together.
const DOCUMENT_NANOS: u64 = 500;
const ROW_NANOS: u64 = 4_000;

/// What reading all documents of some views costs, in nanoseconds, about.
pub(crate) fn scan_nanos(views: &[View]) -> u64 {
    let each = |view: &View| match view.is_wide() {
        true => ROW_NANOS,
        false => DOCUMENT_NANOS,
    };
    let nanos = views.iter().map(|view| view.count() * each(view));
    nanos.sum()
}

/// Why reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The documents have ended, or the answer is complete.
    Done,
    /// The query was stopped, and what was seen until then is wanted.
    Stopped,
    /// As many documents were read as may be.
    Enough,
}

/// The answer; `None` if it takes more than `documents_max` documents, and the rest of a batch.
pub(crate) fn scan(
    (views, names): NamedViews<'_>,
    query: &Prepared,
    options: &Options<'_>,
    documents_max: u64,
) -> Result<Option<Answer>> {
    let parts = View::parts_for(views, names);
    if let Some(workers) = options.workers
        && documents_max == u64::MAX
        && parts.len() > 1
        && !query.is_paged_in_place()
        && workers.are_worth(scan_nanos(views))
        && let Some(answer) = share(&parts, query, options, workers)?
    {
        return Ok(Some(answer));
    }
    let mut scan = query.scan(options);
    let (mut page, mut left, mut is_partial) = (Vec::new(), documents_max, false);
    for (shard, part) in (0..).zip(parts) {
        let end = read(
            part,
            shard,
            query,
            options,
            &mut scan,
            &mut left,
            &mut |hit| {
                page.push(hit);
                let bytes = size_of_val(page.as_slice());
                check_bytes(bytes, "giving all these hits at once", options)
            },
        )?;
        match end {
            End::Done => {}
            End::Enough => return Ok(None),
            End::Stopped => {
                is_partial = true;
                break;
            }
        }
    }
    let mut answer = scan.finish()?;
    answer.is_partial = is_partial;
    // A query with an order has its hits from there, others from here.
    answer.hits.append(&mut page);
    Ok(Some(answer))
}

/// The answer from threads that share the partitions; `None` if what they hold together would be
/// more than a query may.
fn share(
    parts: &[QueriedPart<'_>],
    query: &Prepared,
    options: &Options<'_>,
    workers: Workers<'_>,
) -> Result<Option<Answer>> {
    let options_of_part = Options {
        memory_bytes_max: workers.memory_each(parts.len(), options.memory_bytes_max),
        ..*options
    };
    let done = workers.share(parts.len(), &|items| {
        let (mut scan, mut is_partial) = (query.scan(&options_of_part), false);
        for (item, part) in items.filter_map(|item| Some((item, *parts.get(item)?))) {
            let (shard, mut left) = (item as u32, u64::MAX);
            let mut no_page = |_| Ok(());
            let (scan, options) = (&mut scan, &options_of_part);
            is_partial =
                read(part, shard, query, options, scan, &mut left, &mut no_page)? == End::Stopped;
            if is_partial {
                break;
            }
        }
        Ok((scan, is_partial))
    });
    let (mut all, mut is_partial) = (query.scan(options), false);
    for part in done {
        let joined = part.and_then(|(scan, is_part)| {
            is_partial |= is_part;
            Ok(all.join(scan)?)
        });
        match joined {
            Err(Error::Query(quire_query::Error::TooLarge { .. })) => return Ok(None),
            joined => joined?,
        }
    }
    let mut answer = all.finish()?;
    answer.is_partial = is_partial;
    Ok(Some(answer))
}

/// Shows the documents of a partition to a scan, and the hits of a query that is paged in place to
/// `hit`. `left` documents may be read.
fn read(
    (part, constant): QueriedPart<'_>,
    shard: u32,
    query: &Prepared,
    options: &Options<'_>,
    scan: &mut Scan<'_>,
    left: &mut u64,
    hit: &mut dyn FnMut(Hit) -> Result<()>,
) -> Result<End> {
    let seen = Seen::new(query, constant.cloned());
    let mut rows = part.rows(query)?;
    while !scan.is_done() {
        match options.check_stop() {
            Err(quire_query::Error::Stopped) if options.partial => return Ok(End::Stopped),
            other => other.map_err(Error::Query)?,
        }
        if *left == 0 {
            return Ok(End::Enough);
        }
        let batch = rows.next_batch()?;
        if batch.is_empty() {
            break;
        }
        for (docid, found) in batch {
            *left = left.saturating_sub(1);
            let doc = docid.0;
            let document = seen.document(&found)?;
            if scan.see(Hit { shard, doc }, &document)? {
                hit(Hit { shard, doc })?;
            }
        }
    }
    Ok(End::Done)
}

/// Refuses what takes more memory than a query may.
pub(crate) fn check_bytes(bytes: usize, what: &'static str, options: &Options<'_>) -> Result<()> {
    let bytes_max = options.memory_bytes_max;
    match bytes > bytes_max {
        true => Err(Error::Query(quire_query::Error::TooLarge {
            what,
            bytes_max,
        })),
        false => Ok(()),
    }
}
