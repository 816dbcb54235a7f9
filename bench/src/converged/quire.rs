//! Quire in this process, as the parts use it.

use super::{Report, Setup};
use crate::Result;
use quiredb::{
    Collection, CollectionSettings, CollectionStats, Database, Document, Durability, Key, ValueRef,
    Write,
};
use std::time::{Duration, Instant};

/// Documents that are written together while loading.
pub(super) const BATCH: usize = 1000;

/// What takes longer to be indexed is taken as hung.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Every field of an advert but its text.
pub(super) const ALL_BUT_TEXT: &str = r#"{"default":"all","text":"none"}"#;

pub(super) struct Quire {
    pub(super) database: Database,
    pub(super) documents: Collection,
}

impl Quire {
    /// A new database with a collection; `index` is what its settings say of indexes.
    pub(super) fn create(setup: &Setup, partitions: u32, index: &str) -> Result<Quire> {
        let database = Database::builder(setup.engine_dir().join("quire"))
            .memory(setup.memory_bytes())
            .scrub_every(None)
            .open()?;
        let documents = database.create_collection("documents", settings(partitions, index)?)?;
        Ok(Quire {
            database,
            documents,
        })
    }

    /// Writes many documents or patches.
    pub(super) fn write(&self, writes: Vec<Write>) -> Result<()> {
        let batch = self.documents.batch().durability(Durability::None);
        for result in batch.writes(writes).write() {
            result?;
        }
        Ok(())
    }

    /// Loads documents, then waits until they are on disk and in the index.
    pub(super) fn load(&self, texts: impl Iterator<Item = Result<String>>) -> Result<u64> {
        let (mut writes, mut count) = (Vec::with_capacity(BATCH), 0);
        for text in texts {
            let document = Document::from_json(text?.as_bytes())?;
            writes.push(Write::put(self.documents.key_of(&document)?, document));
            count += 1;
            if writes.len() == BATCH {
                self.write(std::mem::replace(&mut writes, Vec::with_capacity(BATCH)))?;
            }
        }
        self.write(writes)?;
        Ok(count)
    }

    /// Waits until the index has every write, and all is on disk.
    pub(super) fn settle(&self) -> Result<CollectionStats> {
        self.documents.flush()?;
        self.level()
    }

    /// Waits until the index, if there is one, has every write.
    pub(super) fn level(&self) -> Result<CollectionStats> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let stats = self.documents.stats()?;
            let index = stats.index.as_ref();
            if index.is_none_or(|index| index.complete && index.lag_records == 0) {
                return Ok(stats);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err("the index does not follow".into())
    }

    /// Waits until background work has come to rest: no more CPU is taken.
    pub(super) fn rest(&self) -> Result<()> {
        let mut before = process_cpu_nanos();
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let now = process_cpu_nanos();
            if now - before < 4_000_000 {
                return Ok(());
            }
            before = now;
        }
    }

    /// Adds what the collection takes on disk.
    pub(super) fn sizes(&self, report: &mut Report) -> Result<()> {
        let stats = self.documents.stats()?;
        if let Some(index) = &stats.index {
            report.add("index", "MB", index.bytes as f64 / 1e6);
        }
        report.add("all on disk", "MB", stats.disk_bytes as f64 / 1e6);
        Ok(())
    }
}

pub(super) fn settings(partitions: u32, index: &str) -> Result<CollectionSettings> {
    let text = format!(r#"{{"partitions":{partitions},"index":{index}}}"#);
    Ok(CollectionSettings::from_json(text.as_bytes())?)
}

/// CPU nanoseconds of all threads of this process so far.
pub(super) fn process_cpu_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A key of a number.
pub(super) fn key(number: u64) -> Result<Key> {
    Ok(Key::from_value(ValueRef::Int(i64::try_from(number)?))?)
}
