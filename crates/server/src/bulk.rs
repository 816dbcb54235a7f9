//! `_bulk`: many writes in one body of lines, an action and, but for deletes, a source each.
//!
//! The body is never held whole: lines are taken as they come and applied in batches of
//! [`BATCH_BYTES`]. So when a body turns out to be malformed, or is cut, or grows past a limit, the
//! batches before stay applied, and the answer says how many items those were. A body smaller than
//! a batch is applied whole or not at all, as far as its lines are concerned; items succeed or fail
//! on their own.
//!
//! The answer is held until the body has ended, as its status is not known before and most clients
//! read nothing before; its bytes count against the bound on buffers.

mod action;
mod batch;
mod state;

use std::sync::Arc;

use bytes::Bytes;
use quiredb::{Document, ValueRef};

use crate::documents::conditions::check_write;
use crate::engine::Engine;
use crate::http::answer::{Answer, write_string};
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::Fields;
use crate::http::lines::{Line, Lines};
use action::{Action, Op};
use batch::{Done, Item, Source};

pub(crate) use action::Id;
pub(crate) use state::BulkState;

/// Bytes of items that are applied together.
const BATCH_BYTES: usize = 2 << 20;

/// Room that a bulk request waits for at its start: a batch, and its documents parsed.
const HELD_BYTES_LEAST: usize = 2 * BATCH_BYTES;

/// What an item takes beside its lines.
const ITEM_BYTES: usize = 256;

/// `POST|PUT /_bulk`, `POST|PUT /{collection}/_bulk`
pub(crate) async fn bulk(call: Call<BulkState>) -> Outcome<Answer> {
    check_write(&call.params, None)?;
    let begun = call.state.engine.now();
    let default_index = call.path_param("collection").map(Arc::from);
    let BulkState {
        buffers,
        memory_timeout,
        ..
    } = &call.state;
    let held = buffers.hold(HELD_BYTES_LEAST, *memory_timeout).await?;
    let mut bulk = Bulk {
        default_index,
        lines: Lines::new(call.body, held, HELD_BYTES_LEAST),
        items: Vec::new(),
        items_bytes: 0,
        in_doubt: 0,
        report: Report::new(call.format.filter),
        state: call.state,
    };
    if let Err(failure) = bulk.run().await {
        let mut applied = match bulk.report.items {
            0 => "; nothing of this request was applied".to_owned(),
            items => format!("; the first {items} items of this request were applied"),
        };
        if bulk.in_doubt > 0 {
            applied.push_str(&format!(", the next {} may be", bulk.in_doubt));
        }
        return Err(failure.because(&applied));
    }
    let took = bulk.state.engine.now().saturating_sub(begun);
    let held = bulk.lines.into_held(bulk.report.bytes())?;
    Ok(Answer::parts(
        bulk.report.finish(took.as_millis()),
        Some(held),
    ))
}

/// A bulk request as it is read and applied.
struct Bulk {
    state: BulkState,
    default_index: Option<Arc<str>>,
    lines: Lines,
    /// Read, not yet applied.
    items: Vec<Item>,
    items_bytes: usize,
    /// Items handed to the engine whose outcome is not known.
    in_doubt: usize,
    report: Report,
}

impl Bulk {
    async fn run(&mut self) -> Outcome<()> {
        while let Some(line) = self.lines.next().await? {
            let number = self.lines.number();
            let Line::Text(line) = line else {
                let what = "Malformed action/metadata line";
                return Err(Failure::illegal_argument(format!(
                    "{what} [{number}]: longer than a document can be"
                )));
            };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let item = self.item(Action::parse(&line, number)?, number).await?;
            self.items_bytes += line.len() + ITEM_BYTES;
            if let Source::Text(text) = &item.source {
                self.items_bytes += text.len();
            }
            self.items.push(item);
            self.lines
                .hold_beside(self.items_bytes + self.report.bytes())?;
            if self.items_bytes >= BATCH_BYTES {
                self.apply().await?;
            }
        }
        self.apply().await?;
        if self.report.items == 0 {
            return Err(Failure::parse("request body is required"));
        }
        Ok(())
    }

    /// The item that begins with `action`, its source read.
    async fn item(&mut self, action: Action, number: u64) -> Outcome<Item> {
        let Action {
            op,
            index,
            id,
            version,
            retries,
        } = action;
        let index = match (index, &self.default_index) {
            (Some(index), Some(default)) if index == **default => Arc::clone(default),
            (Some(index), _) => Arc::from(index),
            (None, Some(default)) => Arc::clone(default),
            (None, None) => {
                return Err(
                    Failure::validation("index is missing").because(&format!(" line [{number}]"))
                );
            }
        };
        let source = match op {
            Op::Delete => Source::None,
            _ => match self.lines.next().await? {
                Some(Line::Text(text)) => Source::Text(text),
                Some(Line::TooLong(bytes)) => Source::TooLong(bytes),
                None => {
                    let op = op.name();
                    return Err(Failure::illegal_argument(format!(
                        "Malformed action/metadata line [{number}]: no source line follows this [{op}] action"
                    )));
                }
            },
        };
        Ok(Item {
            op,
            index,
            id,
            version,
            retries,
            source,
        })
    }

    /// Applies what has been read.
    async fn apply(&mut self) -> Outcome<()> {
        if self.items.is_empty() {
            return Ok(());
        }
        let items = std::mem::take(&mut self.items);
        self.items_bytes = 0;
        self.in_doubt = items.len();
        let filter = Arc::clone(&self.report.filter);
        let work = move |engine: &Engine| {
            let mut part = Report::new_part(filter);
            for done in batch::apply(engine, items) {
                part.add(&done);
            }
            part
        };
        let part = self.state.engine.write(work).await?;
        self.in_doubt = 0;
        self.state.requests.bulk_items(part.items, part.failed);
        self.report.append(part);
        self.lines.hold_beside(self.report.bytes())
    }
}

/// The answer as it grows.
struct Report {
    filter: Arc<Fields>,
    /// The items' answers with commas between.
    text: Vec<u8>,
    items: u64,
    failed: u64,
}

impl Report {
    fn new(filter: Fields) -> Report {
        Report::new_part(Arc::new(filter))
    }

    fn new_part(filter: Arc<Fields>) -> Report {
        Report {
            filter,
            text: Vec::new(),
            items: 0,
            failed: 0,
        }
    }

    fn bytes(&self) -> usize {
        self.text.capacity()
    }

    fn add(&mut self, done: &Done) {
        self.items += 1;
        self.failed += u64::from(done.outcome.is_err());
        let before = self.text.len();
        if before > 0 {
            self.text.push(b',');
        }
        if self.filter.is_all() {
            return write_item(done, &mut self.text);
        }
        let mut item = Vec::new();
        write_item(done, &mut item);
        // What was just written is an object in JSON.
        let shown = Document::from_json(&item).is_ok_and(|item| {
            self.filter
                .write(ValueRef::Object(item.root()), "items", &mut self.text)
        });
        if !shown {
            self.text.truncate(before);
        }
    }

    fn append(&mut self, part: Report) {
        if !self.text.is_empty() && !part.text.is_empty() {
            self.text.push(b',');
        }
        self.text.extend_from_slice(&part.text);
        self.items += part.items;
        self.failed += part.failed;
    }

    /// The pieces of the answer.
    fn finish(self, took_millis: u128) -> Vec<Bytes> {
        let mut members = Vec::new();
        if self.filter.shows("took") {
            members.push(format!("\"took\":{took_millis}"));
        }
        if self.filter.shows("errors") {
            members.push(format!("\"errors\":{}", self.failed > 0));
        }
        if !self.filter.is_all() && self.text.is_empty() {
            return vec![format!("{{{}}}", members.join(",")).into()];
        }
        members.push("\"items\":[".to_owned());
        vec![
            format!("{{{}", members.join(",")).into(),
            self.text.into(),
            Bytes::from_static(b"]}"),
        ]
    }
}

/// Appends an item's answer, an object.
fn write_item(done: &Done, out: &mut Vec<u8>) {
    let Done {
        op,
        index,
        id,
        outcome,
    } = done;
    out.extend_from_slice(format!("{{\"{}\":{{", op.name()).as_bytes());
    match outcome {
        Ok(ack) => {
            ack.write(index, id.as_deref().unwrap_or_default(), out);
            out.extend_from_slice(format!(",\"status\":{}}}}}", ack.status().as_u16()).as_bytes());
        }
        Err(failure) => {
            out.extend_from_slice(b"\"_index\":");
            write_string(index, out);
            out.extend_from_slice(b",\"_id\":");
            match id {
                Some(id) => write_string(id, out),
                None => out.extend_from_slice(b"null"),
            }
            let rest = format!(
                ",\"status\":{},\"error\":{}}}}}",
                failure.status.as_u16(),
                failure.cause()
            );
            out.extend_from_slice(rest.as_bytes());
        }
    }
}
