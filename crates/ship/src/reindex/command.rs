//! The commands: plan, run, status, switch, rollback, clean.

use super::build;
use super::clean;
use super::cluster::Cluster;
use super::facts;
use super::follow::{follow, seed, target};
use super::journal::{Journal, Said};
use super::plan::{Plan, decide};
use super::record::{Place, Record, Step};
use super::session::{ReindexEvent, Session, positions};
use super::switch;
use super::verify::Verification;
use crate::bulk_sink::Server;
use crate::checkpoint::Checkpoint;
use crate::config::{PipeConfig, SinkConfig};
use crate::error::{Error, Result};
use crate::reindex_config::ReindexConfig;
use crate::topic::Source;
use quire_env::{Env, ErrorKind, FileLock};
use serde::Serialize;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Attempts of a request of a command that only looks.
const LOOK_ATTEMPTS: u32 = 3;

/// Lines of the journal that a status shows.
const STATUS_LINES: usize = 20;

/// How often a process that follows looks whether another command was given.
const FOLLOW_CHECK: Duration = Duration::from_millis(500);

/// A reindex of the index of a sink, as the file of a pipe describes it.
#[derive(Debug)]
pub struct Reindex {
    env: Arc<dyn Env>,
    config: ReindexConfig,
    sink: SinkConfig,
    pipe_state: PathBuf,
    folder: PathBuf,
}

/// How far a reindex is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReindexStatus {
    /// The alias, and the indexes that it stands for at the moment.
    pub alias: String,
    /// None if the cluster does not answer.
    pub serving: Option<Vec<String>>,
    /// Why the cluster does not answer.
    pub away: Option<String>,
    /// The index that was there before; none if there was none, or no run was begun.
    pub old: Option<String>,
    /// The index that is built; none if no run was begun.
    pub new: Option<String>,
    /// What is complete.
    pub done: Vec<Step>,
    /// Settings that are changed, and what they will be put back to.
    pub changed: Vec<(Place, String, Value)>,
    /// The stored position of each index that is followed into.
    pub positions: Vec<(String, Checkpoint)>,
    /// Whether a command works on it at the moment.
    pub is_running: bool,
    /// The last lines of the journal.
    pub journal: Vec<Said>,
    /// The file of the journal.
    pub journal_path: PathBuf,
}

/// How a command is watched and stopped.
struct Caller<'c> {
    observe: &'c (dyn Fn(&ReindexEvent) + Sync),
    stop: &'c (dyn Fn() -> bool + Sync),
}

impl Reindex {
    /// What the file describes.
    ///
    /// # Errors
    /// If it has no part `[reindex]`.
    pub fn new(env: Arc<dyn Env>, config: &PipeConfig) -> Result<Reindex> {
        let part = config.reindex.clone().ok_or_else(|| {
            Error::Config("the file has no part [reindex], which may be empty".to_owned())
        })?;
        let sink = config.reindex_sink().map_err(Error::Config)?.clone();
        let pipe_state = config.state();
        let folder = pipe_state.join(format!("{}.reindex", sink.name));
        Ok(Reindex {
            env,
            config: part,
            sink,
            pipe_state,
            folder,
        })
    }

    /// Whether a run goes on following.
    pub fn keeps_following(&self) -> bool {
        self.config.keep_following == Some(true)
    }

    fn alias(&self) -> &str {
        self.sink.index.as_deref().unwrap_or_default()
    }

    fn cluster<'s>(&'s self, attempts_max: u32, caller: &Caller<'s>) -> Result<Cluster<'s>> {
        Ok(Cluster {
            http: self.sink.http(&*self.env)?,
            env: &*self.env,
            attempts_max,
            stop: caller.stop,
            waiting: &|_| (),
        })
    }

    /// What a run would do, or does, if one is under way. Changes nothing.
    ///
    /// # Errors
    /// If the cluster does not answer, or can't be used so.
    pub fn plan(&self, source: &dyn Source) -> Result<Plan> {
        let caller = Caller {
            observe: &|_| (),
            stop: &|| false,
        };
        let cluster = self.cluster(LOOK_ATTEMPTS, &caller)?;
        let server = cluster.server()?;
        let facts = facts::read(&cluster, &server, &self.config, self.alias(), source)?;
        let mut plan = decide(&facts, &self.config);
        let (history, _) = Journal::look(&*self.env, &self.folder, 0)?;
        if let Some(begin) = &history.begin {
            plan.new.clone_from(&begin.new);
            plan.old.clone_from(&begin.old);
            let done = Step::ALL.into_iter().filter(|step| history.is_done(*step));
            plan.done = done.collect();
        }
        Ok(plan)
    }

    /// Builds the new index, or goes on with that, up to a comparison with the source. A run that
    /// is complete is only compared.
    ///
    /// # Errors
    /// Of the source or the cluster. What was changed is put back by the next run, or
    /// [`clean`](Reindex::clean).
    pub fn run(
        &self,
        source: &dyn Source,
        observe: &(dyn Fn(&ReindexEvent) + Sync),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Verification> {
        let caller = Caller { observe, stop };
        self.command(&caller, |session| {
            if session.history().begin.is_none() {
                let Session {
                    cluster, server, ..
                } = &*session;
                let facts = facts::read(cluster, server, &self.config, self.alias(), source)?;
                let begin = decide(&facts, &self.config).begin;
                session.record(Record::Begin(Box::new(begin)))?;
            }
            let own = session.own(source);
            if own.is_some() && session.history().moved.is_some() {
                return Err(Error::Reindex(
                    "the alias was switched, and clients write to the new index since: `quire \
                     reindex clean --drop` ends this reindex"
                        .to_owned(),
                ));
            }
            build::run(session, own.as_deref().unwrap_or(source))
        })
    }

    /// Follows into the old and the new index until stopped; pauses while another command works
    /// on them.
    ///
    /// # Errors
    /// Of the source or the cluster; [`Error::Stopped`] in the end.
    pub fn follow(
        &self,
        source: &dyn Source,
        observe: &(dyn Fn(&ReindexEvent) + Sync),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<()> {
        if !source.grows() {
            return Err(Error::Config(
                "keep_following needs a source that grows: a server, or files".to_owned(),
            ));
        }
        let caller = Caller { observe, stop };
        loop {
            // Between two commands.
            let looked = self.command(&caller, |session| {
                let begin = session.begun(Some(source))?;
                // An index needs nothing of what it has itself.
                let old = begin.old.filter(|_| !begin.is_own);
                if let Some(old) = &old {
                    seed(session, source, old)?;
                }
                let both: Vec<_> = old.into_iter().chain([begin.new]).collect();
                let journal_bytes = Journal::bytes(&*self.env, &self.folder);
                Ok((both, journal_bytes, session.own(source)))
            });
            let (indexes, journal_bytes, own) = match looked {
                Err(Error::InUse(_)) => {
                    if stop() {
                        return Err(Error::Stopped);
                    }
                    self.env.sleep(FOLLOW_CHECK);
                    continue;
                }
                looked => looked?,
            };
            let is_new = || Journal::bytes(&*self.env, &self.folder) != journal_bytes;
            let targets = indexes
                .iter()
                .map(|index| target(&self.env, &self.sink, index));
            let targets = targets.collect::<Result<Vec<_>>>()?;
            let stop_or_new = || stop() || is_new();
            let positions = positions(&self.folder);
            match follow(
                &self.env,
                own.as_deref().unwrap_or(source),
                &targets,
                &positions,
                observe,
                &stop_or_new,
            ) {
                Err(Error::Stopped) if !stop() => {}
                end => return end,
            }
        }
    }

    /// Moves the alias to the new index, once that is level with the source; see
    /// [`rollback`](Reindex::rollback) for the way back. Returns the index.
    ///
    /// # Errors
    /// If the new index is not complete, or not found equal to the source unless
    /// `even_unverified`; of the source or the cluster.
    pub fn switch(
        &self,
        source: &dyn Source,
        even_unverified: bool,
        observe: &(dyn Fn(&ReindexEvent) + Sync),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<String> {
        let caller = Caller { observe, stop };
        self.command(&caller, |session| {
            let own = session.own(source);
            switch::switch(session, own.as_deref().unwrap_or(source), even_unverified)
        })
    }

    /// Moves the alias back to the old index, and brings that level. Returns the index.
    ///
    /// # Errors
    /// If nothing was switched; of the source or the cluster.
    pub fn rollback(
        &self,
        source: &dyn Source,
        observe: &(dyn Fn(&ReindexEvent) + Sync),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<String> {
        let caller = Caller { observe, stop };
        self.command(&caller, |session| switch::rollback(session, source))
    }

    /// Puts back every setting that is changed. With `drops`, the source, removes the index that
    /// the alias does not stand for, and what the source holds for this reindex, and ends it;
    /// returns that index.
    ///
    /// # Errors
    /// Of the cluster; with `drops`, of the source.
    pub fn clean(
        &self,
        drops: Option<&dyn Source>,
        observe: &(dyn Fn(&ReindexEvent) + Sync),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<String>> {
        let caller = Caller { observe, stop };
        self.command(&caller, |session| clean::clean(session, drops))
    }

    /// How far it is. Changes nothing.
    ///
    /// # Errors
    /// Of the files. A cluster that does not answer is no error.
    pub fn status(&self) -> Result<ReindexStatus> {
        let env = &*self.env;
        let (history, journal) = Journal::look(env, &self.folder, STATUS_LINES)?;
        let caller = Caller {
            observe: &|_| (),
            stop: &|| false,
        };
        let serving = self.cluster(1, &caller)?.alias(self.alias());
        let begin = history.begin.as_ref();
        let old = begin.and_then(|begin| begin.old.clone());
        let new = begin.map(|begin| begin.new.clone());
        let mut stored = Vec::new();
        for index in old.iter().chain(&new) {
            let path = Checkpoint::path(&positions(&self.folder), index);
            stored.extend(Checkpoint::load(env, &path)?.map(|at| (index.clone(), at)));
        }
        let changed = history.places().into_iter().flat_map(|place| {
            let changed = history.changed(&place).into_iter();
            changed.map(move |(name, setting)| (place.clone(), name, setting.former))
        });
        Ok(ReindexStatus {
            alias: self.alias().to_owned(),
            away: serving.as_ref().err().map(ToString::to_string),
            serving: serving.ok().map(|behind| behind.into_keys().collect()),
            old,
            new,
            done: Step::ALL
                .into_iter()
                .filter(|step| history.is_done(*step))
                .collect(),
            changed: changed.collect(),
            positions: stored,
            is_running: env.exists(&self.folder)? && self.lock()?.is_none(),
            journal,
            journal_path: Journal::path(&self.folder),
        })
    }

    /// None if another process has it.
    fn lock(&self) -> Result<Option<Box<dyn FileLock>>> {
        match self.env.lock_dir(&self.folder) {
            Ok(lock) => Ok(Some(lock)),
            Err(error) if error.kind() == ErrorKind::Locked => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn command<T>(
        &self,
        caller: &Caller<'_>,
        work: impl FnOnce(&mut Session<'_>) -> Result<T>,
    ) -> Result<T> {
        self.env.create_dir_all(&self.folder)?;
        let Some(_lock) = self.lock()? else {
            let folder = self.folder.display();
            return Err(Error::InUse(folder.to_string()));
        };
        let journal = Journal::open(&*self.env, &self.folder)?;
        let waiting = |why: &str| {
            let why = why.to_owned();
            (caller.observe)(&ReindexEvent::Waiting { why });
        };
        let cluster = Cluster {
            http: self.sink.http(&*self.env)?,
            env: &*self.env,
            attempts_max: u32::MAX,
            stop: caller.stop,
            waiting: &waiting,
        };
        let server: Server = cluster.server()?;
        work(&mut Session {
            env: &self.env,
            config: &self.config,
            sink: &self.sink,
            pipe_state: &self.pipe_state,
            folder: &self.folder,
            cluster,
            server,
            journal,
            observe: caller.observe,
        })
    }
}
