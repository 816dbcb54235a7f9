//! Ships a source to many sinks at once, each at its own speed.

use crate::checkpoint::Checkpoint;
use crate::dead_letters::DeadLetters;
use crate::deliver::{Delivery, Tally};
use crate::error::{Error, Result};
use crate::lane::Lane;
use crate::progress::Progress;
use crate::sink::Sink;
use crate::topic::Source;
use crate::tuner::Tuner;
use parking_lot::Mutex;
use quire_env::{Env, ErrorKind, FileLock};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// A sink with its name and how it is sent to.
#[derive(Debug, Clone)]
pub struct Target {
    /// Names its files; unique within a pipe.
    pub name: String,
    /// Where changes go.
    pub sink: Arc<dyn Sink>,
    /// Bytes of a bulk; found by measuring if there is none.
    pub bulk_bytes: Option<usize>,
    /// Bulks at once; found by measuring if there is none.
    pub concurrency: Option<usize>,
    /// The most documents that may be refused in a run.
    pub dead_letters_max: u64,
}

/// How a run goes.
#[derive(Debug, Clone)]
pub struct ShipOptions {
    /// The folder of positions and dead letters.
    pub state: PathBuf,
    /// End when every sink is level with the source.
    pub once: bool,
    /// The time between two reports of a sink.
    pub report_every: Duration,
}

/// Ships until every sink is level, or `stop` says so. A sink that fails leaves the others, and its
/// last progress says why. Returns what became of each, in their order.
///
/// # Errors
/// If another process ships with the same state, or its folder can't be made.
pub fn ship(
    env: &Arc<dyn Env>,
    source: &dyn Source,
    targets: &[Target],
    options: &ShipOptions,
    observe: &(dyn Fn(&Progress) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Result<Progress>>> {
    let _lock = lock_state(&**env, &options.state)?;
    thread::scope(|scope| {
        let lanes = targets.iter().map(|target| {
            let lane = thread::Builder::new().name(target.name.clone());
            lane.spawn_scoped(scope, || {
                ship_and_say_why(env, source, target, options, observe, stop)
            })
        });
        let lanes: Vec<_> = lanes.collect();
        let ends = lanes.into_iter().zip(targets).map(|(lane, target)| {
            let lane = lane.map_err(Error::Thread)?;
            let panicked = |_| Error::Panicked(target.name.clone());
            lane.join().map_err(panicked)?
        });
        Ok(ends.collect())
    })
}

/// Makes the folder of positions, and has it for this process alone.
///
/// # Errors
/// If another process has it, or it can't be made.
pub(crate) fn lock_state(env: &dyn Env, state: &Path) -> Result<Box<dyn FileLock>> {
    env.create_dir_all(state)?;
    env.lock_dir(state).map_err(|error| {
        if error.kind() == ErrorKind::Locked {
            return Error::Config(format!(
                "{} is in use: another process ships with these positions",
                state.display()
            ));
        }
        error.into()
    })
}

/// The stored position of a sink; none if it was never shipped to.
///
/// # Errors
/// Of the file.
pub fn status(env: &dyn Env, state: &Path, sink: &str) -> Result<Option<Checkpoint>> {
    Checkpoint::load(env, &Checkpoint::path(state, sink))
}

/// Ships to a sink; if that fails, reports so at once: the other sinks may go on for long.
fn ship_and_say_why(
    env: &Arc<dyn Env>,
    source: &dyn Source,
    target: &Target,
    options: &ShipOptions,
    observe: &(dyn Fn(&Progress) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Progress> {
    let last = Mutex::new(Progress {
        sink: target.name.clone(),
        ..Progress::default()
    });
    let remember = |progress: &Progress| {
        last.lock().clone_from(progress);
        observe(progress);
    };
    let end = ship_to(env, source, target, options, &remember, stop);
    if let Err(error) = &end
        && !matches!(error, Error::Stopped)
    {
        let mut last = last.into_inner();
        last.failed = Some(with_causes(error));
        observe(&last);
    }
    end
}

/// An error with its causes, between colons.
fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

fn ship_to(
    env: &Arc<dyn Env>,
    source: &dyn Source,
    target: &Target,
    options: &ShipOptions,
    observe: &(dyn Fn(&Progress) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Progress> {
    let path = Checkpoint::path(&options.state, &target.name);
    let checkpoint = match Checkpoint::load(&**env, &path)? {
        None => Checkpoint::begin(source.identity()),
        Some(stored) if stored.source == source.identity() => stored,
        Some(stored) => {
            return Err(Error::Config(format!(
                "sink {} has a position of another source: {}, not {}; remove {} to begin anew",
                target.name,
                stored.source,
                source.identity(),
                path.display()
            )));
        }
    };
    let dead = options.state.join(format!("{}.dead.ndjson", target.name));
    let dead_letters = DeadLetters::new(Arc::clone(env), dead);
    let delivery = Delivery {
        env: &**env,
        name: &target.name,
        sink: &*target.sink,
        dead_letters: &dead_letters,
        dead_letters_max: target.dead_letters_max,
        stop,
        failed: AtomicBool::new(false),
        tally: Tally::default(),
        waiting_for: Mutex::new(None),
    };
    delivery.until_answer(|| target.sink.begin(checkpoint.mark.as_ref()))?;
    let lane = Lane {
        source,
        delivery: &delivery,
        checkpoint_path: &path,
        once: options.once || !source.grows(),
        report_every: options.report_every,
        observe,
    };
    let tuner = Tuner::new(
        target.bulk_bytes,
        target.concurrency,
        target.sink.concurrency_max(),
    );
    let progress = lane.run(checkpoint, tuner)?;
    delivery.until_answer(|| target.sink.finish())?;
    Ok(progress)
}
