//! What a backup costs writers: the same writes with and without a backup at the same time, in
//! turn, in one run.
//!
//! A database of generated documents is loaded first. Then documents are replaced at full rate, in
//! slices of equal size: one slice alone, one with a backup running from its beginning to its end
//! (a whole one, to a new place; when it ends, the next begins), and so on in pairs, the order
//! turned round each time. A pair gives one ratio; reported are the medians and the spread. In the
//! end a backup taken during the last slice is restored and compared.

use crate::measure::{Watch, in_directory, median};
use crate::results::{Better, Results};
use crate::{Result, adverts};
use quiredb::operations::{BackupOptions, backup};
use quiredb::{
    Collection, CollectionSettings, Database, DatabaseBuilder, Document, Durability, IndexedFields,
    Key, OsEnv, Volumes, Write,
};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Documents in the database
    #[arg(long, default_value_t = 200_000)]
    count: u64,
    /// Documents written in a slice
    #[arg(long, default_value_t = 100_000)]
    slice: u64,
    /// Pairs of slices, for each durability
    #[arg(long, default_value_t = 7)]
    pairs: u32,
    /// Documents in a batch
    #[arg(long, default_value_t = 1000)]
    batch: u64,
    /// Threads that write
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Bytes copied in a second: 0 for no limit, none given for the default
    #[arg(long)]
    rate_bytes: Option<u64>,
    /// Where the database and the backups are kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-backup")]
    dir: PathBuf,
}

/// One slice.
#[derive(Debug, Clone, Copy)]
struct Slice {
    wall_seconds: f64,
    cpu_seconds: f64,
    copied_bytes: u64,
}

/// What is still to be written, made before the time is taken.
struct Batches(Mutex<Vec<Vec<Write>>>);

impl Batches {
    fn next(&self) -> Option<Vec<Write>> {
        self.0.lock().ok()?.pop()
    }
}

impl Plan {
    pub(crate) fn run(&self, results: &Results) -> Result<()> {
        in_directory(&self.dir, || self.measure(results))
    }

    fn options(&self) -> BackupOptions {
        match self.rate_bytes {
            None => BackupOptions::default(),
            Some(rate) => BackupOptions {
                rate_bytes: Some(rate).filter(|rate| *rate > 0),
                ..BackupOptions::default()
            },
        }
    }

    fn measure(&self, results: &Results) -> Result<()> {
        let volumes = Volumes::single(self.dir.join("db"));
        let database = DatabaseBuilder::on(&volumes).open()?;
        let settings = CollectionSettings {
            index: IndexedFields::none(),
            ..CollectionSettings::default()
        };
        let adverts = database.create_collection("adverts", settings)?;
        for from in (0..self.count).step_by(self.slice.max(1) as usize) {
            let to = (from + self.slice).min(self.count);
            let batches = Batches(Mutex::new(self.batches(from..to, 0)?));
            self.write(&adverts, &batches, Durability::None)?;
        }
        database.flush()?;
        println!(
            "| writes | alone, docs/s | with a backup, docs/s | ratio, median (least to most) \
             | CPU a document, ratio | copied, MB/s |"
        );
        println!("| --- | ---: | ---: | ---: | ---: | ---: |");
        for durability in [Durability::Sync, Durability::None] {
            self.pairs(results, &database, &adverts, durability)?;
        }
        self.check(&database, &adverts)?;
        drop(adverts);
        Ok(database.close()?)
    }

    fn pairs(
        &self,
        results: &Results,
        database: &Database,
        adverts: &Collection,
        durability: Durability,
    ) -> Result<()> {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        // The first slices find the caches cold: they are not counted.
        self.slice(database, adverts, durability, false)?;
        for pair in 0..self.pairs {
            for turn in 0..2 {
                let with_backup = (pair + turn) % 2 == 1;
                let slice = self.slice(database, adverts, durability, with_backup)?;
                eprintln!("{durability}, pair {pair}, backup {with_backup}: {slice:?}");
                match with_backup {
                    true => beside.push(slice),
                    false => alone.push(slice),
                }
            }
        }
        let ratios = |of: fn(&Slice) -> f64| -> Vec<f64> {
            let pairs = alone.iter().zip(&beside);
            pairs
                .map(|(alone, beside)| of(alone) / of(beside))
                .collect()
        };
        let rate = |slices: &[Slice]| {
            let rates = slices.iter();
            median(
                rates
                    .map(|slice| self.slice as f64 / slice.wall_seconds)
                    .collect(),
            )
        };
        let (wall, cpu) = (ratios(|s| s.wall_seconds), ratios(|s| s.cpu_seconds));
        let copied = beside.iter();
        let copied = copied
            .map(|s| s.copied_bytes as f64 / s.wall_seconds / 1e6)
            .collect();
        let alone_name = format!("{durability}, alone");
        let name = format!("{durability}, with a backup");
        let alone_rate = [rate(&alone)];
        let cpu_each: Vec<_> = cpu.iter().map(|ratio| 1.0 / ratio).collect();
        results.add(
            &alone_name,
            "documents/s",
            Better::More,
            "quire",
            &alone_rate,
        );
        results.add(
            &name,
            "rate, of the rate alone",
            Better::More,
            "quire",
            &wall,
        );
        results.aim(&name, "rate, of the rate alone", Better::More, 0.9);
        results.add(
            &name,
            "CPU each, of that alone",
            Better::Less,
            "quire",
            &cpu_each,
        );
        let least = wall.iter().copied().fold(f64::INFINITY, f64::min);
        let most = wall.iter().copied().fold(0.0, f64::max);
        println!(
            "| {durability} | {:.0} | {:.0} | {:.3} ({least:.3} to {most:.3}) | {:.3} | {:.1} |",
            rate(&alone),
            rate(&beside),
            median(wall),
            1.0 / median(cpu),
            median(copied),
        );
        Ok(())
    }

    /// Writes a slice, with a backup beside it or not.
    fn slice(
        &self,
        database: &Database,
        adverts: &Collection,
        durability: Durability,
        with_backup: bool,
    ) -> Result<Slice> {
        static SALT: AtomicU64 = AtomicU64::new(1);
        let salt = SALT.fetch_add(1, Ordering::Relaxed);
        let batches = Batches(Mutex::new(self.batches(0..self.slice, salt)?));
        // What came before is on disk, and no flush of it falls into this slice.
        database.flush()?;
        std::process::Command::new("sync").status()?;
        let (stop, copied) = (AtomicBool::new(false), AtomicU64::new(0));
        let watch = Watch::start()?;
        let measured = std::thread::scope(|scope| {
            let backup =
                with_backup.then(|| scope.spawn(|| self.back_up(database, &stop, &copied)));
            let written = self.write(adverts, &batches, durability);
            let measured = watch.stop();
            stop.store(true, Ordering::Relaxed);
            if let Some(backup) = backup {
                backup.join().map_err(|_| "the backup panicked")??;
            }
            written.and(measured)
        });
        let (wall_seconds, cpu_seconds) = measured?;
        Ok(Slice {
            wall_seconds,
            cpu_seconds,
            copied_bytes: copied.load(Ordering::Relaxed),
        })
    }

    /// Makes whole backups, one after another, until told to stop.
    fn back_up(&self, database: &Database, stop: &AtomicBool, copied: &AtomicU64) -> Result<()> {
        let mut before = 0;
        while !stop.load(Ordering::Relaxed) {
            let to = self.dir.join("backup");
            let mut now = 0;
            let made = backup(database, &to, &self.options(), &mut |done, _| {
                now = done;
                copied.store(before + done, Ordering::Relaxed);
                match stop.load(Ordering::Relaxed) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            before += now;
            std::fs::remove_dir_all(&to)?;
            if let Err(error) = made
                && !stop.load(Ordering::Relaxed)
            {
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Batches of documents of these numbers, last first; another `salt` gives other documents
    /// under the same keys.
    fn batches(&self, numbers: std::ops::Range<u64>, salt: u64) -> Result<Vec<Vec<Write>>> {
        let firsts = numbers.clone().step_by(self.batch.max(1) as usize);
        let batches = firsts.map(|from| {
            let to = (from + self.batch).min(numbers.end);
            (from..to).map(|number| self.put(number, salt)).collect()
        });
        let mut batches = batches.collect::<Result<Vec<_>>>()?;
        batches.reverse();
        Ok(batches)
    }

    /// Writes batches, each acknowledged before its thread takes the next.
    fn write(&self, adverts: &Collection, batches: &Batches, durability: Durability) -> Result<()> {
        std::thread::scope(|scope| {
            let writer = || -> Result<()> {
                while let Some(batch) = batches.next() {
                    for result in adverts.batch().writes(batch).durability(durability).write() {
                        result?;
                    }
                }
                Ok(())
            };
            let writers: Vec<_> = (0..self.threads).map(|_| scope.spawn(writer)).collect();
            for writer in writers {
                writer.join().map_err(|_| "a writer panicked")??;
            }
            Ok(())
        })
    }

    fn put(&self, number: u64, salt: u64) -> Result<Write> {
        let number = (number + salt * self.slice) % self.count;
        let mut json = String::with_capacity(1200);
        adverts::write(number.wrapping_add(salt << 40), &mut json);
        let key = Key::parse(&adverts::key(number))?;
        Ok(Write::put(key, Document::from_json(json.as_bytes())?))
    }

    /// Restores a backup and compares all of it with the database, which nobody writes meanwhile.
    fn check(&self, database: &Database, adverts: &Collection) -> Result<()> {
        let (to, copy) = (self.dir.join("backup"), self.dir.join("copy"));
        let options = BackupOptions {
            rate_bytes: None,
            ..BackupOptions::default()
        };
        let report = backup(database, &to, &options, &mut |_, _| {
            ControlFlow::Continue(())
        })?;
        let restored = restore(&to, &copy)?;
        let copied = restored.collection("adverts")?;
        let mut documents = 0_u64;
        for (ours, theirs) in adverts.scan(..)?.zip(copied.scan(..)?) {
            if ours? != theirs? {
                return Err("the restored database differs".into());
            }
            documents += 1;
        }
        if documents != adverts.count()? || documents != copied.count()? {
            return Err("the restored database has another number of documents".into());
        }
        println!(
            "\nrestored and compared: {documents} documents, {} bytes",
            report.snapshot.bytes
        );
        drop(copied);
        Ok(restored.close()?)
    }
}

fn restore(from: &Path, to: &Path) -> Result<Database> {
    quiredb::operations::restore(
        OsEnv::new()?,
        from,
        None,
        &Volumes::single(to),
        &mut |_, _| (),
    )?;
    Ok(Database::open(to)?)
}
