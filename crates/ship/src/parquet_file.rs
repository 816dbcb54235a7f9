//! A file of lines of changes as a Parquet file.

use crate::change_line;
use crate::sink::Failure;
use quire_env::{AppendFile, Env, Error, ReadFile};
use quire_parquet::{ChangeRow, ChangesWriter};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// What is read of the lines at once, and written of the Parquet file.
const BUFFER_BYTES: usize = 1 << 20;

/// Makes `to` of the changes in `lines`, and syncs it.
///
/// # Errors
/// Of the files, which may work later; and final ones, if a line is no change.
pub(crate) fn make(env: &dyn Env, lines: &Path, to: &Path) -> Result<(), Failure> {
    let created = create(env, to).and_then(|created| Ok((Lines::open(env, lines)?, created)));
    let (from, created) = created.map_err(Failure::of_machine)?;
    let mut from = BufReader::with_capacity(BUFFER_BYTES, from);
    let made = convert(&mut from, created);
    let mut file = made.map_err(|error| match error.downcast::<Error>() {
        Ok(error) => Failure::of_machine(error),
        Err(error) => Failure::Final(format!("{}: {error}", lines.display())),
    })?;
    file.sync().map_err(Failure::of_machine)
}

/// Makes the file anew if a crash, or a full disk, left a part of it.
fn create(env: &dyn Env, path: &Path) -> quire_env::Result<Box<dyn AppendFile>> {
    if env.exists(path)? {
        env.remove(path)?;
    }
    env.create(path)
}

fn convert(lines: &mut impl BufRead, to: Box<dyn AppendFile>) -> io::Result<Box<dyn AppendFile>> {
    let to = io::BufWriter::with_capacity(BUFFER_BYTES, To(to));
    let mut writer = ChangesWriter::new(to)?;
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        let change = change_line::read(&line).map_err(io::Error::other)?;
        writer.push(ChangeRow {
            partition: change.partition,
            position: change.position,
            time_micros: change.time_micros,
            key: &change.key,
            document: change.document.as_deref(),
        })?;
        line.clear();
    }
    let to = writer.finish()?.into_inner();
    Ok(to.map_err(io::IntoInnerError::into_error)?.0)
}

/// A file from its beginning.
struct Lines {
    file: Arc<dyn ReadFile>,
    at: u64,
    left: u64,
}

impl Lines {
    fn open(env: &dyn Env, path: &Path) -> quire_env::Result<Lines> {
        let file = env.open_read(path)?;
        let left = file.len()?;
        Ok(Lines { file, at: 0, left })
    }
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.left.min(buffer.len() as u64);
        let buffer = &mut buffer[..usize::try_from(count).unwrap_or(0)];
        self.file
            .read_exact_at(self.at, buffer)
            .map_err(io::Error::other)?;
        self.at += count;
        self.left -= count;
        Ok(buffer.len())
    }
}

struct To(Box<dyn AppendFile>);

impl Write for To {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
