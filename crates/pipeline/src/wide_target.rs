//! A wide collection as a target: documents are rows.

use crate::target::{Outcomes, Target};
use quiredb::wide::WideCollection;
use quiredb::{CollectionSettings, Durability, Key, Position, Result, Write, partition_of};
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
        let writes = groups.iter().flat_map(|(_, writes)| writes.iter());
        let rows = writes.map(|write| self.write_of(write));
        let mut done = self.write_all(rows, durability).into_iter();
        let of_group = |(_, writes): &(u32, &[Write])| {
            let done = done.by_ref().take(writes.len());
            done.map(|written| written.map(drop)).collect()
        };
        groups.iter().map(of_group).collect()
    }

    fn sync(&self) -> Result<()> {
        WideCollection::sync(self)
    }

    fn positions(&self) -> Result<Vec<Position>> {
        Ok(WideCollection::positions(self))
    }
}
