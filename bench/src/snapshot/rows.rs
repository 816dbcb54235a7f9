//! Codecs of payloads: bytes in the file against the CPU time of reading one, of generated text and
//! of real documents.
//!
//! Payloads are read in random order from a file that is mapped and in the system's cache, and each
//! is compared with what was written before it is timed.

use super::cars::Car;
use crate::Result;
use crate::adverts::Random;
use crate::measure::{Watch, in_directory, thread_cpu_nanos};
use quire_frozen::{Access, Codec, FrozenBuilder, FrozenFile, FrozenOptions, OpenOptions};
use quire_query::Shard;
use quiredb::{Env, OsEnv};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::Arc;

/// Payloads that are read for a figure.
const READS: u64 = 200_000;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Files whose lines are payloads; without any, the payloads of generated adverts
    inputs: Vec<PathBuf>,
    /// The most payloads
    #[arg(long, default_value_t = 100_000)]
    count: u64,
    /// Where the frozen file is kept meanwhile: a directory that is made and removed
    #[arg(long, default_value = "target/bench-rows")]
    dir: PathBuf,
}

impl Plan {
    pub(crate) fn run(&self) -> Result<()> {
        in_directory(&self.dir, || {
            if self.inputs.is_empty() {
                let mut car = Car::default();
                let payloads = (0..self.count).map(|id| {
                    car.make(id, 0);
                    car.payload.clone().into_bytes()
                });
                self.measure("adverts", &payloads.collect::<Vec<_>>())?;
            }
            for input in &self.inputs {
                let lines = BufReader::new(File::open(input)?).split(b'\n');
                let lines = lines.take(self.count as usize);
                let name = input.file_name().unwrap_or_default().to_string_lossy();
                self.measure(&name, &lines.collect::<std::io::Result<Vec<_>>>()?)?;
            }
            Ok(())
        })
    }

    fn measure(&self, name: &str, payloads: &[Vec<u8>]) -> Result<()> {
        let raw: usize = payloads.iter().map(Vec::len).sum();
        println!(
            "\n{name}: {} payloads of {} bytes\n",
            payloads.len(),
            raw / payloads.len().max(1)
        );
        println!("| codec | block | bytes / raw | built, CPU µs each | read, CPU µs each |");
        println!("| --- | ---: | ---: | ---: | ---: |");
        let zstd = |level, dictionary_bytes| Codec::Zstd {
            level,
            dictionary_bytes,
        };
        for (codec, blocks) in [
            (Codec::None, &[512][..]),
            (Codec::Lz4, &[512, 1024, 2048, 4096]),
            (zstd(3, 4096), &[512, 1024, 2048, 4096]),
            (zstd(3, 65_536), &[512, 4096]),
            (zstd(3, 0), &[4096, 16_384]),
        ] {
            for block_bytes in blocks {
                self.measure_codec(codec, *block_bytes, payloads, raw)?;
            }
        }
        Ok(())
    }

    fn measure_codec(
        &self,
        codec: Codec,
        block_bytes: usize,
        payloads: &[Vec<u8>],
        raw: usize,
    ) -> Result<()> {
        let env: Arc<dyn Env> = OsEnv::new()?;
        let path = self.dir.join("rows.quire");
        let options = FrozenOptions {
            codec,
            block_bytes: Some(block_bytes),
            ..FrozenOptions::default()
        };
        let watch = Watch::start()?;
        let mut builder = FrozenBuilder::create(Arc::clone(&env), &path, &[], options)?;
        for payload in payloads {
            builder.end(payload)?;
        }
        let bytes = builder.finish()?;
        let (_, built) = watch.stop()?;
        let options = OpenOptions {
            access: Access::Map,
            verify: true,
        };
        let file = FrozenFile::open(&*env, &path, options)?;
        for (docid, payload) in (0..).zip(payloads) {
            let mut same = false;
            file.payload(docid, &mut |row| same = row == payload)?;
            if !same && !payload.is_empty() {
                return Err(format!("payload {docid} is another one").into());
            }
        }
        let (mut random, mut sum) = (Random::new(7), 0);
        let before = thread_cpu_nanos();
        for _ in 0..READS {
            let docid = random.below(payloads.len() as u64) as u32;
            file.payload(docid, &mut |row| sum += row.len())?;
        }
        let nanos = (thread_cpu_nanos() - before) as f64 / READS as f64;
        std::hint::black_box(sum);
        println!(
            "| {codec:?} | {block_bytes} | {:.3} | {:.2} | {:.2} |",
            bytes as f64 / raw as f64,
            built * 1e6 / payloads.len() as f64,
            nanos / 1e3,
        );
        Ok(())
    }
}
