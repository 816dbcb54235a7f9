//! Group: writes of one partition, in their order. Documents are grouped here, once; the
//! database takes groups as they are.

use crate::target::Target;
use quiredb::{Action, Collection, Write};

/// Writes to one partition, each with a tag that says where it comes from.
#[derive(Debug, Clone)]
pub struct PartitionGroup<T> {
    partition: u32,
    writes: Vec<Write>,
    tags: Vec<T>,
}

impl<T> PartitionGroup<T> {
    /// The number of the partition.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// The writes, in their order.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// The tag of each write.
    pub(crate) fn into_tags(self) -> Vec<T> {
        self.tags
    }

    /// The tag of each write, and the writes with the number of their partition.
    pub(crate) fn into_parts(self) -> (Vec<T>, (u32, Vec<Write>)) {
        (self.tags, (self.partition, self.writes))
    }

    /// Appends the writes of `later`, which come after these.
    pub(crate) fn append(&mut self, mut later: PartitionGroup<T>) {
        assert!(
            self.partition == later.partition,
            "a group has writes of one partition"
        );
        self.writes.append(&mut later.writes);
        self.tags.append(&mut later.tags);
    }
}

/// Groups writes by partition. Writes to one key stay in their order.
///
/// ```
/// use quire_pipeline::{Grouper, write_groups};
/// use quiredb::{CollectionSettings, Database, Document, Key, SimEnv, Volumes, Write};
///
/// let database = Database::builder("/db").env(SimEnv::new(1)).open()?;
/// let jobs = database.create_collection("jobs", CollectionSettings::default())?;
/// let mut grouper = Grouper::new(&jobs);
/// for id in 0..100 {
///     let document = Document::from_json(format!(r#"{{"_id":{id}}}"#).as_bytes())?;
///     grouper.push(Write::put(Key::from(id), document), id);
/// }
/// for (id, result) in write_groups(&jobs, grouper.finish(), None) {
///     assert_eq!(jobs.get(&Key::from(id))?.unwrap().version, result?.version);
/// }
/// # Ok::<(), quiredb::Error>(())
/// ```
#[derive(Debug)]
pub struct Grouper<'a, T, C = Collection> {
    target: &'a C,
    /// How many writers there are for all of it, also if the target is split meanwhile.
    writers: u32,
    /// By partition: the index of its group, or `NO_GROUP`.
    group_indices: Vec<u32>,
    groups: Vec<PartitionGroup<T>>,
    bytes: usize,
}

const NO_GROUP: u32 = u32::MAX;

impl<'a, T, C: Target> Grouper<'a, T, C> {
    /// Groups writes to `target`.
    pub fn new(target: &'a C) -> Grouper<'a, T, C> {
        let writers = target.writers();
        Grouper {
            target,
            writers,
            group_indices: vec![NO_GROUP; writers as usize],
            groups: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds a write, after the ones added before.
    pub fn push(&mut self, write: Write, tag: T) {
        let partition = self.target.writer_of(&write.key, self.writers);
        self.bytes = self.bytes.saturating_add(document_bytes(&write));
        let count = self.groups.len();
        let index = self.group_indices.get_mut(partition as usize);
        debug_assert!(index.is_some(), "a key belongs to a partition");
        let index = index.map_or(count, |index| {
            if *index == NO_GROUP {
                *index = count as u32;
            }
            *index as usize
        });
        match self.groups.get_mut(index) {
            Some(group) => {
                group.writes.push(write);
                group.tags.push(tag);
            }
            None => self.groups.push(PartitionGroup {
                partition,
                writes: vec![write],
                tags: vec![tag],
            }),
        }
    }

    /// Bytes of the documents that it holds, encoded. The caller bounds these.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The groups, none empty, in the order of their first writes.
    pub fn finish(self) -> Vec<PartitionGroup<T>> {
        self.groups
    }
}

fn document_bytes(write: &Write) -> usize {
    match &write.action {
        Action::Put(document) | Action::Patch(document) => document.as_bytes().len(),
        Action::Delete => 0,
    }
}
