//! The phases, for an engine in this program: as `bench/peers/kv/phases.h` has them for the others.
//!
//! Every answer is checked: a value is compared with the one that was written, a missing key must
//! be missing, and a scan must give every row, in order. Every write is timed, from the end of the
//! one before; of reads one in 16.

use super::engine::{Engine, Reader, Sizes};
use super::histogram::Histogram;
use super::machine::{Used, reset_peak_memory};
use super::report::Measured;
use super::stream::{Key, Order, Value, checksum_of, checksum_of_stream, key, pick, value};
use crate::Result;
use crate::cache::sync_files;
use crate::measure::{disk_bytes, memory_bytes};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

/// One read in this many is timed.
const SAMPLE: u64 = 16;
/// Writes in a transaction, where an engine has no cheaper way to write.
const TRANSACTION_PUTS: u64 = 1000;
/// Reads after a cold open.
const COLD_READS: u64 = 1000;
/// A process that wrote nothing and used next to no CPU for so long has settled.
const QUIET_SECONDS: f64 = 0.5;
/// What picks the keys of the mixed phase.
const MIXED: u64 = 1 << 32;

/// One engine's measurement, by this process.
pub(super) struct Phases<'a> {
    pub(super) name: &'a str,
    pub(super) dir: &'a Path,
    pub(super) count: u64,
    /// At most `count`.
    pub(super) reads: u64,
    pub(super) sizes: Option<Sizes>,
}

impl Phases<'_> {
    /// All phases but the cold ones.
    pub(super) fn run<E: Engine>(&self) -> Result<()> {
        let Phases { count, reads, .. } = *self;
        let stream = checksum_of_stream(count);
        self.line("stream", 0, Used::so_far()?, &Histogram::new(), stream)?;
        let engine = E::open(self.dir, self.sizes)?;
        self.phase("write", count, |times| write(&engine, count, times))?;
        self.settle(&engine)?;
        self.phase("read", reads, |times| {
            read(&engine, times, Order::new(count, 1), 0..reads)
        })?;
        self.phase("missing", count / 10, |times| {
            missing(&engine, count, times)
        })?;
        self.phase("read, 2 threads", reads, |times| {
            read_by_two(&engine, times, Order::new(count, 2), reads)
        })?;
        self.scan(&engine)?;
        self.phase("mixed", reads / 2, |times| {
            mixed(&engine, times, count, reads / 2)
        })?;
        engine.settle()?;
        engine.close()
    }

    /// Of files that are not in memory: the caller has seen to that.
    pub(super) fn open<E: Engine>(&self) -> Result<()> {
        let mut engine = None;
        self.phase("cold open", 1, |times| {
            let begun = Instant::now();
            let opened = engine.insert(E::open(self.dir, self.sizes)?);
            expect(&mut *opened.reader()?, &key(0), None)?;
            times.add(nanos(begun.elapsed()));
            Ok(())
        })?;
        let engine = engine.ok_or("not opened")?;
        self.phase("cold reads", COLD_READS, |times| {
            let mut reader = engine.reader()?;
            for at in 0..COLD_READS {
                let key = key(pick(self.count, at));
                timed(times, || expect(&mut *reader, &key, None))?;
            }
            Ok(())
        })?;
        engine.close()
    }

    /// Until the process is quiet; the time that this takes to see is not counted.
    fn settle<E: Engine>(&self, engine: &E) -> Result<()> {
        reset_peak_memory()?;
        let before = Used::so_far()?;
        engine.settle()?;
        sync_files(self.dir)?;
        let mut last = Used::so_far()?;
        let mut quiet = last;
        while last.wall_seconds < quiet.wall_seconds + QUIET_SECONDS {
            std::thread::sleep(Duration::from_millis(50));
            last = Used::so_far()?;
            if last.written_bytes != quiet.written_bytes
                || last.cpu_seconds > quiet.cpu_seconds + 0.005
            {
                quiet = last;
            }
        }
        sync_files(self.dir)?;
        quiet.wall_seconds += Used::so_far()?.wall_seconds - last.wall_seconds;
        let measured = self.measured("settle", self.count, before, quiet, &Histogram::new(), 0)?;
        measured.print()
    }

    fn scan<E: Engine>(&self, engine: &E) -> Result<()> {
        reset_peak_memory()?;
        let before = Used::so_far()?;
        let (mut rows, mut sum, mut last) = (0, 0_u64, Key::default());
        engine.scan(&mut |key, value| {
            let key: &Key = key.try_into().map_err(|_| "a key of another size")?;
            let value: &Value = value.try_into().map_err(|_| "a value of another size")?;
            if rows > 0 && *key <= last {
                return Err("rows out of order".into());
            }
            last = *key;
            sum = sum.wrapping_add(checksum_of(key, value));
            rows += 1;
            Ok(())
        })?;
        if rows != self.count {
            return Err(format!("a scan gave {rows} rows").into());
        }
        self.line("scan", self.count, before, &Histogram::new(), sum)
    }

    fn phase(
        &self,
        phase: &str,
        operations: u64,
        work: impl FnOnce(&mut Histogram) -> Result<()>,
    ) -> Result<()> {
        let mut times = Histogram::new();
        reset_peak_memory()?;
        let before = Used::so_far()?;
        work(&mut times)?;
        self.line(phase, operations, before, &times, 0)
    }

    fn line(
        &self,
        phase: &str,
        operations: u64,
        before: Used,
        times: &Histogram,
        checksum: u64,
    ) -> Result<()> {
        let now = Used::so_far()?;
        let measured = self.measured(phase, operations, before, now, times, checksum)?;
        measured.print()
    }

    fn measured(
        &self,
        phase: &str,
        operations: u64,
        before: Used,
        after: Used,
        times: &Histogram,
        checksum: u64,
    ) -> Result<Measured> {
        Ok(Measured {
            engine: self.name.to_owned(),
            phase: phase.to_owned(),
            operations,
            wall_seconds: after.wall_seconds - before.wall_seconds,
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            p50_micros: times.micros(0.5),
            p99_micros: times.micros(0.99),
            p999_micros: times.micros(0.999),
            max_micros: times.max_micros(),
            written_bytes: after.written_bytes - before.written_bytes,
            cancelled_bytes: after.cancelled_bytes - before.cancelled_bytes,
            read_bytes: after.read_bytes - before.read_bytes,
            disk_bytes: disk_bytes(self.dir)?,
            peak_memory_bytes: memory_bytes("VmHWM")?,
            checksum,
            ..Measured::default()
        })
    }
}

fn write<E: Engine>(engine: &E, count: u64, times: &mut Histogram) -> Result<()> {
    let mut before = Instant::now();
    for from in (0..count).step_by(TRANSACTION_PUTS as usize) {
        engine.write(&mut |writer| {
            for number in from..(from + TRANSACTION_PUTS).min(count) {
                let key = key(number);
                writer.put(&key, &value(&key, 0))?;
                lap(times, &mut before);
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn read<E: Engine>(
    engine: &E,
    times: &mut Histogram,
    order: Order,
    range: Range<u64>,
) -> Result<()> {
    let mut reader = engine.reader()?;
    for at in range {
        let key = key(order.at(at));
        sampled(times, at, || expect(&mut *reader, &key, Some(0)))?;
    }
    Ok(())
}

fn read_by_two<E: Engine>(
    engine: &E,
    times: &mut Histogram,
    order: Order,
    reads: u64,
) -> Result<()> {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut times = Histogram::new();
            read(engine, &mut times, order, 0..reads / 2).map(|()| times)
        });
        let mine = read(engine, times, order, reads / 2..reads);
        let theirs = other.join().map_err(|_| "a thread panicked")??;
        times.append(&theirs);
        mine
    })
}

fn missing<E: Engine>(engine: &E, count: u64, times: &mut Histogram) -> Result<()> {
    let mut reader = engine.reader()?;
    for at in 0..count / 10 {
        let key = key(count + at);
        let found = sampled(times, at, || reader.get(&key, &mut |_| ()))?;
        if found {
            return Err("a key is there that was never written".into());
        }
    }
    Ok(())
}

fn mixed<E: Engine>(engine: &E, times: &mut Histogram, count: u64, operations: u64) -> Result<()> {
    let mut overwritten = vec![0_u64; (count / 64 + 1) as usize];
    let mut before = Instant::now();
    for from in (0..operations).step_by(2 * TRANSACTION_PUTS as usize) {
        engine.write(&mut |writer| {
            for at in from..(from + 2 * TRANSACTION_PUTS).min(operations) {
                let number = pick(count, MIXED + at);
                let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
                let key = key(number);
                let word = overwritten.get_mut(word).ok_or("no such key")?;
                if at % 2 == 0 {
                    writer.put(&key, &value(&key, 1))?;
                    *word |= bit;
                } else {
                    expect(writer, &key, Some(u64::from(*word & bit != 0)))?;
                }
                lap(times, &mut before);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Fails unless the value under `key` is the one of `version`; of any, where none is given.
fn expect<R: Reader + ?Sized>(reader: &mut R, key: &Key, version: Option<u64>) -> Result<()> {
    let mut right = false;
    let found = reader.get(key, &mut |found| {
        right = match version {
            Some(version) => found == value(key, version),
            None => found == value(key, 0) || found == value(key, 1),
        };
    })?;
    match (found, right) {
        (true, true) => Ok(()),
        (true, false) => Err("a value is not what was written".into()),
        (false, _) => Err("a key is not there".into()),
    }
}

/// Counts the time since the operation before.
fn lap(times: &mut Histogram, before: &mut Instant) {
    let now = Instant::now();
    times.add(nanos(now - *before));
    *before = now;
}

fn sampled<T>(times: &mut Histogram, at: u64, operation: impl FnOnce() -> Result<T>) -> Result<T> {
    match at.is_multiple_of(SAMPLE) {
        true => timed(times, operation),
        false => operation(),
    }
}

fn timed<T>(times: &mut Histogram, operation: impl FnOnce() -> Result<T>) -> Result<T> {
    let begun = Instant::now();
    let done = operation();
    times.add(nanos(begun.elapsed()));
    done
}

fn nanos(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}
