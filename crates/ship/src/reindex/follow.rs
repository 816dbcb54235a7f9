//! Brings indexes level with the source, and keeps them so.

use super::record::Record;
use super::session::{ReindexEvent, Session};
use crate::checkpoint::Checkpoint;
use crate::config::SinkConfig;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::ship::{ShipOptions, Target, ship};
use crate::topic::Source;
use quire_env::{Env, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const REPORT_EVERY: Duration = Duration::from_secs(1);

/// How long a process that follows takes to see that another command wants the indexes.
const LOCK_WAIT: Duration = Duration::from_secs(120);
const LOCK_CHECK: Duration = Duration::from_millis(200);

/// A wait for a source that does not answer, and how often.
const SOURCE_WAIT: Duration = Duration::from_secs(1);
const SOURCE_ATTEMPTS: u32 = 60;

/// An index as a target of its own, whose name names its position.
pub(crate) fn target(env: &Arc<dyn Env>, sink: &SinkConfig, index: &str) -> Result<Target> {
    let of_index = SinkConfig {
        index: Some(index.to_owned()),
        ..sink.clone()
    };
    Ok(Target {
        name: index.to_owned(),
        ..of_index.target(env)?
    })
}

/// Ships until an index has all that the source has.
///
/// # Errors
/// Of the source or the cluster; if documents are refused.
pub(crate) fn level(
    session: &mut Session<'_>,
    source: &dyn Source,
    index: &str,
) -> Result<Progress> {
    session.record(Record::Level {
        index: index.to_owned(),
    })?;
    let target = target(session.env, session.sink, index)?;
    let positions = session.positions();
    wait_for_positions(session, &positions)?;
    let options = ShipOptions {
        state: positions,
        once: true,
        report_every: REPORT_EVERY,
    };
    let observe = |progress: &Progress| {
        (session.observe)(&ReindexEvent::Progress(Box::new(progress.clone())));
    };
    let stop = session.cluster.stop;
    let ends = ship(session.env, source, &[target], &options, &observe, stop)?;
    let end = ends.into_iter().next().unwrap_or(Err(Error::Stopped));
    session.check()?;
    end
}

/// Waits until no other process follows: it ends when it sees the record.
///
/// # Errors
/// Of the files; if it does not end, or to stop.
pub(crate) fn wait_for_positions(session: &Session<'_>, positions: &Path) -> Result<()> {
    session.env.create_dir_all(positions)?;
    let end = session.env.monotonic() + LOCK_WAIT;
    loop {
        match session.env.lock_dir(positions) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Locked && session.env.monotonic() < end => {
                session.waits("the process that follows into the indexes");
                session.cluster.wait(LOCK_CHECK)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Gives an index that a pipe shipped to the pipe's position, if it has none of its own. All up to
/// there is in it. Without a pipe it begins at the begin, which versions make harmless.
/// What the source holds for the pipe stays the pipe's: the index gets a fork of it.
///
/// # Errors
/// Of the files; of the source, also if it does not answer.
pub(crate) fn seed(session: &Session<'_>, source: &dyn Source, index: &str) -> Result<()> {
    let env = &**session.env;
    let positions = session.positions();
    env.create_dir_all(&positions)?;
    let own = Checkpoint::path(&positions, index);
    if Checkpoint::load(env, &own)?.is_some() {
        return Ok(());
    }
    let of_pipe = Checkpoint::path(session.pipe_state, &session.sink.name);
    let stored = Checkpoint::load(env, &of_pipe)?;
    let Some(mut stored) = stored.filter(|stored| stored.source == source.identity()) else {
        return Ok(());
    };
    if let Some(place) = &stored.place {
        let forked = patiently(session, || source.fork(place))?;
        let Some(forked) = forked else { return Ok(()) };
        stored.place = Some(forked);
    }
    stored.store(env, &own)
}

/// Calls a source until it answers, for a minute at most.
///
/// # Errors
/// Of the source.
pub(crate) fn patiently<T>(
    session: &Session<'_>,
    mut call: impl FnMut() -> Result<T>,
) -> Result<T> {
    let mut failed = 0;
    loop {
        match call() {
            Err(Error::SourceAway(why)) if failed < SOURCE_ATTEMPTS => {
                failed += 1;
                session.waits(format!("the source: {why}"));
                session.cluster.wait(SOURCE_WAIT)?;
            }
            done => return done,
        }
    }
}

/// Follows into indexes until `stop` says so.
///
/// # Errors
/// Of the source or the cluster; [`Error::Stopped`] when stopped.
pub(crate) fn follow(
    env: &Arc<dyn Env>,
    source: &dyn Source,
    targets: &[Target],
    positions: &Path,
    observe: &(dyn Fn(&ReindexEvent) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    let options = ShipOptions {
        state: positions.to_owned(),
        once: false,
        report_every: REPORT_EVERY,
    };
    let observe = |progress: &Progress| {
        observe(&ReindexEvent::Progress(Box::new(progress.clone())));
    };
    for end in ship(env, source, targets, &options, &observe, stop)? {
        end?;
    }
    Err(Error::Stopped)
}
