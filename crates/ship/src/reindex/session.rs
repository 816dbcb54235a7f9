//! What every part of a reindex works with: the cluster, the journal, the source, the caller.

use super::cluster::Cluster;
use super::history::History;
use super::journal::{Journal, Said};
use super::record::{Begin, Record};
use crate::bulk_sink::Server;
use crate::config::SinkConfig;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::reindex_config::ReindexConfig;
use crate::topic::Source;
use quire_env::Env;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a reindex reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ReindexEvent {
    /// A line of the journal.
    Journal(Said),
    /// Documents on their way.
    Progress(Box<Progress>),
    /// What is waited for.
    Waiting {
        /// Why.
        why: String,
    },
}

/// A command on a reindex, which no other process has at the same time.
pub(crate) struct Session<'a> {
    pub(crate) env: &'a Arc<dyn Env>,
    pub(crate) config: &'a ReindexConfig,
    pub(crate) sink: &'a SinkConfig,
    /// The folder of the pipe's positions, and the one of the reindex.
    pub(crate) pipe_state: &'a Path,
    pub(crate) folder: &'a Path,
    pub(crate) cluster: Cluster<'a>,
    pub(crate) server: Server,
    pub(crate) journal: Journal,
    pub(crate) observe: &'a (dyn Fn(&ReindexEvent) + Sync),
}

impl Session<'_> {
    /// Adds a record to the journal. What it announces is done after that.
    ///
    /// # Errors
    /// Of the file, or to stop.
    pub(crate) fn record(&mut self, record: Record) -> Result<()> {
        self.check()?;
        let said = self.journal.append(&**self.env, record)?;
        (self.observe)(&ReindexEvent::Journal(said));
        self.check()
    }

    /// Ends what must stop.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(crate) fn check(&self) -> Result<()> {
        match (self.cluster.stop)() {
            true => Err(Error::Stopped),
            false => Ok(()),
        }
    }

    pub(crate) fn history(&self) -> &History {
        self.journal.history()
    }

    /// The run that was begun.
    ///
    /// # Errors
    /// If there is none, or it is one of another source or server.
    pub(crate) fn begun(&self, source: Option<&dyn Source>) -> Result<Begin> {
        let begin = self.history().begin.clone();
        let begin = begin.ok_or_else(|| {
            Error::Reindex("no reindex was begun: run `quire reindex run` first".to_owned())
        })?;
        let other = match source {
            Some(source) if source.identity() != begin.source => Some(&begin.source),
            _ if begin.url != self.cluster.http.url() => Some(&begin.url),
            _ => None,
        };
        match other {
            None => Ok(begin),
            Some(other) => Err(Error::Reindex(format!(
                "a reindex of {other} was begun and is not over; end it by `quire reindex clean \
                 --drop` with the file as it was"
            ))),
        }
    }

    /// The source by the old index's own name, if it is that index: the alias that may name it
    /// moves.
    pub(crate) fn own(&self, source: &dyn Source) -> Option<Box<dyn Source>> {
        let begin = self.history().begin.as_ref().filter(|begin| begin.is_own)?;
        source.of_collection(begin.old.as_ref()?)
    }

    /// The folder of positions of indexes that a reindex follows into.
    pub(crate) fn positions(&self) -> PathBuf {
        positions(self.folder)
    }

    pub(crate) fn waits(&self, why: impl Into<String>) {
        (self.observe)(&ReindexEvent::Waiting { why: why.into() });
    }
}

/// The folder of positions below that of a reindex.
pub(crate) fn positions(folder: &Path) -> PathBuf {
    folder.join("positions")
}
