//! How the documents of a change by query are divided into slices.

use std::sync::Arc;

use quiredb::View;
use quiredb::query::Query;
use quiredb::wide::WideCollection;

use super::act::Act;
use super::places::Places;
use super::report::Report;
use super::slice::{Job, Part, Slice};
use crate::collections::selection::Searched;
use crate::http::buffers::Buffers;
use crate::http::failure::{Failure, Outcome};
use crate::search::execute::failed;

/// See the module.
pub(super) struct Division {
    pub(super) job: Arc<Job>,
    /// What is read.
    pub(super) sources: Vec<Searched>,
    /// The documents, with their order if they have one.
    pub(super) query: Query,
    /// The number of slices.
    count: u32,
}

impl Division {
    /// Divides documents into as many slices as `job` says; if it says none, into at most
    /// `auto_max`.
    ///
    /// # Errors
    /// If there are fewer documents to do than slices.
    pub(super) fn new(
        job: Arc<Job>,
        (sources, views): (Vec<Searched>, &[View]),
        query: Query,
        auto_max: u32,
    ) -> Outcome<Division> {
        let partitions = partitions(&sources, views);
        let manner = &job.manner;
        let count = manner.slices.unwrap_or(partitions.min(auto_max));
        let filled = count.min(partitions);
        if manner.slices.is_some() && manner.most < u64::from(filled) {
            return Err(Failure::validation(&format!(
                "[max_docs] is [{}] and must be at least [slices], which is [{count}]",
                manner.most
            )));
        }
        Ok(Division {
            job,
            sources,
            query,
            count,
        })
    }

    /// The slices of the documents that views of the sources show.
    ///
    /// # Errors
    /// 429 if there is no memory for the places of documents.
    pub(super) fn slices(&self, views: &[View], buffers: &Buffers) -> Outcome<Vec<Slice>> {
        let slices = (0..self.count).map(|number| self.slice(number, views, buffers));
        slices.collect()
    }

    fn slice(&self, number: u32, views: &[View], buffers: &Buffers) -> Outcome<Slice> {
        let all = self.job.manner.most;
        // Those that have documents: more of them, if a collection was split since it was divided.
        let filled = self.count.min(partitions(&self.sources, views));
        let most = share(all, u64::from(number), u64::from(filled));
        let places = |views: Vec<View>, of: Option<&WideCollection>| -> Outcome<Part> {
            let of = of.filter(|_| !matches!(self.job.act, Act::Copy { .. }));
            let places = Places::new(views, self.query.clone(), most, of.cloned(), buffers)?;
            Ok(Part::Places(Box::new(places)))
        };
        let mut left = Vec::new();
        if !self.query.order.is_empty() {
            left.push(places(views.to_vec(), None)?);
        } else {
            for (source, view) in self.sources.iter().zip(views) {
                let (collection, wide) = match source {
                    Searched::Plain(collection) => (Some(collection), None),
                    Searched::Wide(wide) => (None, Some(wide)),
                    Searched::Frozen(_) => (None, None),
                };
                let Some(collection) = collection else {
                    // These are not divided.
                    if number == 0 {
                        left.push(places(vec![view.clone()], wide)?);
                    }
                    continue;
                };
                let of = |view: View| Part::Keys {
                    collection: collection.clone(),
                    view,
                    after: None,
                };
                if self.count == 1 {
                    left.push(of(view.clone()));
                    continue;
                }
                for partition in (number..view.partition_count()).step_by(self.count as usize) {
                    left.push(of(view.partition(partition).map_err(failed)?));
                }
            }
        }
        left.reverse();
        Ok(Slice {
            job: Arc::clone(&self.job),
            left,
            most,
            report: Report::default(),
        })
    }

    /// Views of the sources that hold no memory that writes may wait for. Blocks.
    ///
    /// # Errors
    /// If a source is gone.
    pub(super) fn flushed_views(&self) -> Outcome<Vec<View>> {
        let view = |source: &Searched| {
            source.flushed_view().or_else(|failure| {
                // Documents may be deleted because the disk is full.
                tracing::warn!(
                    collection = source.name(),
                    reason = failure.reason(),
                    "a change by query reads memtables, which could not be flushed"
                );
                source.view()
            })
        };
        self.sources.iter().map(view).collect()
    }
}

/// The partitions that are divided among slices: those of the source that has the most.
fn partitions(sources: &[Searched], views: &[View]) -> u32 {
    let partitions = sources
        .iter()
        .zip(views)
        .map(|(source, view)| match source {
            Searched::Plain(_) => view.partition_count(),
            Searched::Wide(_) | Searched::Frozen(_) => 1,
        });
    partitions.max().unwrap_or(1)
}

/// The part of a number of documents that one of `count` slices does.
fn share(most: u64, slice: u64, count: u64) -> u64 {
    match slice < count {
        true => most / count + u64::from(slice < most % count),
        false => 0,
    }
}
