//! Building one frozen file of many rows of short fields, as a table has them, from lines of JSON.
//!
//! Reports the CPU time and the bytes, and how both grow: with the rows, and with them alone.

use crate::Result;
use crate::adverts::Random;
use crate::measure::{Watch, thread_cpu_nanos};
use quire_frozen::{Access, FieldSpec, FrozenBuilder, FrozenFile, FrozenOptions, OpenOptions};
use quire_query::Shard;
use quiredb::query::{Options, field, find};
use quiredb::{Document, Env, OsEnv};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;

/// Rows whose fields are those of all.
const SAMPLES: usize = 1000;
/// Documents that are shown for a figure.
const SHOWN: u32 = 20_000;

/// What to build.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Documents, one a line; `-` for those of standard input
    input: PathBuf,
    /// The file to write
    out: PathBuf,
    /// Build with this many of the documents, one file after another
    #[arg(long, value_delimiter = ',')]
    rows: Vec<usize>,
    /// Without the documents themselves
    #[arg(long)]
    no_documents: bool,
    /// Memory for building, in MiB
    #[arg(long, default_value_t = 256)]
    memory_mib: usize,
}

impl Plan {
    pub(crate) fn run(&self) -> Result<()> {
        let all = vec![usize::MAX];
        let sizes = if self.rows.is_empty() {
            &all
        } else {
            &self.rows
        };
        for rows in sizes {
            self.build(*rows)?;
        }
        Ok(())
    }

    /// The first `rows` documents.
    fn documents(&self, rows: usize) -> Result<impl Iterator<Item = Result<Document>>> {
        let input: Box<dyn Read> = match self.input.as_os_str() == "-" {
            true => Box::new(std::io::stdin()),
            false => Box::new(File::open(&self.input)?),
        };
        let mut lines = BufReader::with_capacity(1 << 20, input);
        let mut line = Vec::new();
        let next = move || {
            line.clear();
            match lines.read_until(b'\n', &mut line) {
                Ok(0) => None,
                Ok(_) => Some(Document::from_json(&line).map_err(Into::into)),
                Err(error) => Some(Err(error.into())),
            }
        };
        Ok(std::iter::from_fn(next).take(rows))
    }

    fn build(&self, rows: usize) -> Result<()> {
        let mut documents = self.documents(rows)?;
        let samples: Vec<_> = documents.by_ref().take(SAMPLES).collect::<Result<_>>()?;
        let mut paths = BTreeSet::new();
        for document in &samples {
            quiredb::query::Path::each_in(document.root(), &mut |path| {
                paths.insert(path.to_owned());
            });
        }
        let specs: Vec<_> = paths.iter().map(|path| FieldSpec::full(path)).collect();
        let env: Arc<dyn Env> = OsEnv::new()?;
        let options = FrozenOptions {
            documents: !self.no_documents,
            memory_bytes: self.memory_mib << 20,
            ..FrozenOptions::default()
        };
        let watch = Watch::start()?;
        let mut builder = FrozenBuilder::create(env, &self.out, &specs, options)?;
        for document in samples.into_iter().map(Ok).chain(documents) {
            builder.add(&document?, b"")?;
        }
        let (added, added_cpu) = watch.stop()?;
        let count = builder.count();
        let bytes = builder.finish()?;
        let (wall, cpu) = watch.stop()?;
        println!(
            "{count} rows of {} fields: {cpu:.1} CPU s ({added_cpu:.1} to add them), {wall:.1} s \
             ({added:.1}), {:.2} CPU µs a row, {:.1} MB",
            specs.len(),
            cpu * 1e6 / f64::from(count.max(1)),
            bytes as f64 / 1e6,
        );
        self.first_queries()
    }

    /// What the first query takes when the file was just opened, and the second.
    fn first_queries(&self) -> Result<()> {
        let env = OsEnv::new()?;
        let filter = field("lo_quantity").lt(25);
        let filter = filter.and(field("lo_discount").between(1, 3));
        let filter = filter.and(field("lo_orderdate").between(19_930_101, 19_941_231));
        let query = find(filter).with_count().limit(0).prepare()?;
        for access in [Access::Read, Access::Map] {
            let options = OpenOptions {
                access,
                verify: false,
            };
            let file = FrozenFile::open(&*env, &self.out, options)?;
            let mut micros = Vec::new();
            for _ in 0..3 {
                let before = thread_cpu_nanos();
                query.answer(&[&file], &Options::default())?;
                micros.push((thread_cpu_nanos() - before) / 1000);
            }
            println!("{access:?}: the first queries take {micros:?} CPU µs");
            self.hits(&file, access)?;
        }
        Ok(())
    }

    /// What showing the first document takes, and then each of many.
    fn hits(&self, file: &FrozenFile, access: Access) -> Result<()> {
        let mut random = Random::new(7);
        let mut micros = Vec::new();
        for count in [1, SHOWN] {
            let before = thread_cpu_nanos();
            for _ in 0..count {
                let docid = random.below(file.documents().into()) as u32;
                std::hint::black_box(file.document(docid)?);
            }
            micros.push((thread_cpu_nanos() - before) as f64 / 1e3 / count as f64);
        }
        println!("{access:?}: to show a document takes {micros:.2?} CPU µs, first and then");
        Ok(())
    }
}
