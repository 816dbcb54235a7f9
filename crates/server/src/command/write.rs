//! `POST /{collection}/_quire/write`: writes as lines, applied as they arrive, in batches; the
//! answer has a line for each, in their order.
//!
//! A body is never in memory whole. If it is cut or malformed, the batches before stay applied;
//! the command sends the whole again, which changes nothing but versions.

use std::time::Duration;

use bytes::Bytes;
use quiredb::{Durability, ErrorKind, Write};

use super::write_line::{WriteAnswer, WriteLine};
use crate::bulk::BulkState;
use crate::collections::api_settings::Use;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::buffers::{LARGE_BYTES, written_bytes};
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::lines::{Line, Lines};

/// Bytes of lines that are applied together.
const BATCH_BYTES: usize = 2 << 20;

/// Memory that a request waits for at its start: a batch, and its documents parsed.
const HELD_BYTES_LEAST: usize = 2 * BATCH_BYTES;

/// Memory of a write beside its line, estimated.
const WRITE_BYTES: usize = 256;

/// `POST /{collection}/_quire/write`
pub(crate) async fn write(call: Call<BulkState>) -> Outcome<Answer> {
    let durability = call.params.text("durability").map(|text| {
        let parsed: Result<Durability, _> = text.parse();
        parsed.map_err(|error| Failure::illegal_argument(format!("[durability]: {error}")))
    });
    let name = call.collection();
    let timeout: Duration = call.state.memory_timeout;
    let buffers = &call.state.buffers;
    let held = buffers.hold_to_write(HELD_BYTES_LEAST, timeout).await?;
    let mut writing = Writing {
        name,
        durability: durability.transpose()?,
        engine: call.state.engine,
        lines: Lines::new(call.body, buffers, held, HELD_BYTES_LEAST),
        batch: Vec::new(),
        batch_bytes: 0,
        answer: Vec::new(),
    };
    writing.run().await?;
    let held = writing.lines.into_held(writing.answer.capacity())?;
    Ok(Answer::lines(writing.answer, held))
}

struct Writing {
    name: String,
    durability: Option<Durability>,
    engine: Engine,
    lines: Lines,
    /// Lines that were read, and are not applied yet.
    batch: Vec<Bytes>,
    batch_bytes: usize,
    answer: Vec<u8>,
}

impl Writing {
    async fn run(&mut self) -> Outcome<()> {
        while let Some(line) = self.lines.next().await? {
            let Line::Text(line) = line else {
                return Err(Failure::too_large(format!(
                    "line {} is longer than a document can be",
                    self.lines.number()
                )));
            };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let bytes = match line.len() as u64 > LARGE_BYTES {
                true => written_bytes(&line),
                false => line.len(),
            };
            if bytes > BATCH_BYTES {
                // It may need all the memory that there is.
                self.apply().await?;
            }
            self.batch_bytes += bytes + WRITE_BYTES;
            self.batch.push(line);
            self.lines
                .hold_beside(self.batch_bytes + self.answer.capacity())?;
            if self.batch_bytes >= BATCH_BYTES {
                self.apply().await?;
            }
        }
        self.apply().await
    }

    /// Applies what has been read.
    async fn apply(&mut self) -> Outcome<()> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let (name, durability) = (self.name.clone(), self.durability);
        let work = move |engine: &Engine| apply(engine, &name, durability, batch);
        let outcomes = self.engine.write(work).await??;
        for outcome in &outcomes {
            // Writing to memory doesn't fail.
            let _ = serde_json::to_writer(&mut self.answer, outcome);
            self.answer.push(b'\n');
        }
        self.lines.hold_beside(self.answer.capacity())
    }
}

/// Applies lines in their order, and gives the outcome of each.
fn apply(
    engine: &Engine,
    name: &str,
    durability: Option<Durability>,
    lines: Vec<Bytes>,
) -> Outcome<Vec<WriteAnswer>> {
    let collection = engine.collection(name)?;
    engine.check_use(collection.name(), Use::Write)?;
    let mut outcomes: Vec<Option<WriteAnswer>> = Vec::with_capacity(lines.len());
    let mut grouper = quire_pipeline::Grouper::new(&collection);
    for (index, line) in lines.into_iter().enumerate() {
        match write_of(&line) {
            Ok(write) => {
                grouper.push(write, index);
                outcomes.push(None);
            }
            Err(what) => {
                let kind = ErrorKind::Invalid;
                let refused = Err(quiredb::Error::Server { kind, what });
                outcomes.push(Some(WriteAnswer::of(&refused)));
            }
        }
    }
    for (index, outcome) in quire_pipeline::write_groups(&collection, grouper.finish(), durability)
    {
        if let Some(place) = outcomes.get_mut(index) {
            *place = Some(WriteAnswer::of(&outcome));
        }
    }
    let all: Option<Vec<_>> = outcomes.into_iter().collect();
    all.ok_or_else(|| Failure::internal("a write has no outcome"))
}

fn write_of(line: &[u8]) -> Result<Write, String> {
    let line: WriteLine<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    line.to_write()
}
