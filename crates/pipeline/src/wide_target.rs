//! A wide collection as a target: documents are rows.

use crate::target::{Outcomes, Target};
use quiredb::wide::WideCollection;
use quiredb::{
    CollectionSettings, Durability, Key, Position, Result, Write, Written, partition_of,
};
use std::sync::Arc;

impl Target for WideCollection {
    fn name(&self) -> &str {
        WideCollection::name(self)
    }

    fn settings(&self) -> Arc<CollectionSettings> {
        WideCollection::settings(self)
    }

    fn writers(&self) -> u32 {
        WideCollection::settings(self).partitions
    }

    fn writer_of(&self, key: &Key, writers: u32) -> u32 {
        partition_of(key, writers)
    }

    fn write(&self, groups: &[(u32, &[Write])], durability: Option<Durability>) -> Vec<Outcomes> {
        let mut batch = self.batch();
        let mut write = |write: &Write| batch.write(&self.write_of(write)?);
        let written: Vec<Vec<Result<Written>>> = groups
            .iter()
            .map(|(_, writes)| writes.iter().map(&mut write).collect())
            .collect();
        let failed = batch.finish_as(durability);
        let outcome = |written: Result<Written>| match failed.get(&written?.partition) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        };
        let of_group = |group: Vec<_>| group.into_iter().map(outcome).collect();
        written.into_iter().map(of_group).collect()
    }

    fn sync(&self) -> Result<()> {
        WideCollection::sync(self)
    }

    fn positions(&self) -> Result<Vec<Position>> {
        Ok(WideCollection::positions(self))
    }
}
