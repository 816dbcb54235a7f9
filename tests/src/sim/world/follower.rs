//! A follower, on a machine of its own without faults.

use super::World;
use super::backup::{Snapshot, check_contents};
use super::trouble::Trouble;
use crate::sim::compare::positions_of;
use quire_env::SimEnv;
use quiredb::operations::{
    Applied, FollowerDir, Frame, Replica, copy_for_follower, serve_follower,
};
use quiredb::{Database, Result};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What a follower has of the leader.
#[derive(Debug)]
pub(super) struct Follower {
    env: Arc<SimEnv>,
    dir: FollowerDir,
    replica: Option<Replica>,
}

impl Follower {
    fn new() -> Follower {
        let env = SimEnv::new(0);
        let dir = FollowerDir::open(env.clone(), Path::new("/follower")).unwrap();
        Follower {
            env,
            dir,
            replica: None,
        }
    }

    /// Takes all that the leader has. An error is one of the leader's machine.
    fn catch_up(&mut self, leader: &Database) -> Result<()> {
        if self.replica.is_none() {
            self.copy(leader)?;
        }
        if !self.follow(leader)? {
            self.copy(leader)?;
        }
        Ok(())
    }

    fn copy(&mut self, leader: &Database) -> Result<()> {
        self.replica = None;
        let from = copy_for_follower(leader)?;
        let copy = self.dir.begin_copy(from.plan().as_bytes()).unwrap();
        for index in copy.missing().unwrap() {
            let mut bytes = Vec::new();
            from.send(index, &mut |piece| {
                bytes.extend_from_slice(&piece);
                ControlFlow::Continue(())
            })?;
            let proceed = &|_| ControlFlow::Continue(());
            copy.receive(index, &mut &bytes[..], proceed).unwrap();
        }
        let path = self.dir.finish_copy(&copy).unwrap();
        let database = Database::builder(path).env(self.env.clone()).open();
        self.replica = Some(Replica::new(database.unwrap()));
        self.dir.remove_older().unwrap();
        Ok(())
    }

    /// Takes the records of the leader up to its last ones. False if it has to be copied again.
    fn follow(&mut self, leader: &Database) -> Result<bool> {
        let replica = self.replica.as_mut().unwrap();
        let mut stream = serve_follower(leader, &replica.hello().unwrap())?;
        while let Some(bytes) = stream.next(Duration::from_millis(100))? {
            let mut bytes = &bytes[..];
            while let Some(frame) = Frame::read(&mut bytes).unwrap() {
                let is_heads = matches!(frame, Frame::Heads(..));
                if let Applied::StartOver(_) = replica.apply(frame).unwrap() {
                    return Ok(false);
                }
                if is_heads && replica.lag().records == 0 {
                    return Ok(true);
                }
            }
        }
        Ok(true)
    }
}

impl World {
    /// The follower takes what is there, and has what the model says.
    pub(super) fn follow(&mut self) {
        if self.trouble != Trouble::None {
            return;
        }
        let Some(database) = self.open() else { return };
        let mut follower = self.follower.take().unwrap_or_else(Follower::new);
        let done = self.accepted(follower.catch_up(&database), "serve a follower");
        if let Some(replica) = follower.replica.as_ref().filter(|_| done.is_some())
            && let Some(expected) = self.contents()
        {
            check_contents(replica.database(), &expected, true, "followed");
        }
        self.follower = Some(follower);
    }

    /// What can be read now, by the model.
    fn contents(&mut self) -> Option<Snapshot> {
        let mut collections = BTreeMap::new();
        for name in self.collections.keys().copied().collect::<Vec<_>>() {
            if let Some(collection) = self.collection(name) {
                let positions = positions_of(&self.observe(name, &collection)?);
                let state = self.collections[&name].state_at(&positions);
                collections.insert(name, (positions, state));
            }
        }
        Some(Snapshot {
            number: 0,
            collections,
            rows: self.wide_rows().ok()?,
        })
    }
}
