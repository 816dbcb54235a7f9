//! `_bulk`: many writes in one body of lines, an action and, but for deletes, a source each.
//!
//! The body is never in memory whole: lines are read as they arrive and applied in batches of
//! [`BATCH_BYTES`]. If a body turns out to be malformed, is cut, or exceeds a limit, the batches
//! before stay applied, and the answer says how many items those were. Each item succeeds or fails
//! on its own; if the lines of a body that fits one batch are malformed, none of it is applied.
//!
//! The answer is held until the body has ended: its status is not known before, and most clients
//! read nothing before. Its bytes count against the bound on buffers.

mod action;
mod item;
mod prepare;
mod report;
mod rounds;
mod rows;
mod state;

use std::sync::Arc;

use crate::access::named::check_own_item;
use crate::access::role::Action as AccessAction;
use crate::audit::AuditedGrant;
use crate::documents::ack::wants_refresh;
use crate::documents::conditions::check_write;
use crate::documents::source::Source as Shown;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::buffers::{LARGE_BYTES, written_bytes};
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::lines::{Line, Lines};
use action::{Action, Op};
use item::{Item, Source};
use report::Report;
use rounds::SHOWN_BYTES_MAX;

pub(crate) use action::Id;
pub(crate) use state::BulkState;

/// Bytes of items that are applied together.
const BATCH_BYTES: usize = 2 << 20;

/// Memory that a bulk request waits for at its start: a batch, and its documents parsed.
const HELD_BYTES_LEAST: usize = 2 * BATCH_BYTES;

/// Updates of a batch whose documents the answer shows.
const SHOWN_MAX: usize = 32;

/// Memory of an item beside its lines, estimated.
const ITEM_BYTES: usize = 256;

/// `POST|PUT /_bulk`, `POST|PUT /{collection}/_bulk`
pub(crate) async fn bulk(call: Call<BulkState>) -> Outcome<Answer> {
    check_write(&call.params)?;
    let begun = call.state.engine.now();
    let default_index = call.path_param("collection").map(Arc::from);
    let names = ["_source", "_source_includes", "_source_excludes"];
    let is_shown = names.iter().any(|name| call.params.text(name).is_some());
    let shows = is_shown.then(|| Shown::of(&call.params)).transpose()?;
    let shows = shows.map(Arc::new);
    let BulkState {
        buffers,
        memory_timeout,
        ..
    } = &call.state;
    let held = buffers.hold_to_write(HELD_BYTES_LEAST, *memory_timeout);
    let held = held.await?;
    let grant = Arc::clone(&call.grant);
    let mut bulk = Bulk {
        grant,
        default_index,
        lines: Lines::new(call.body, buffers, held, HELD_BYTES_LEAST),
        items: Vec::new(),
        items_bytes: 0,
        in_doubt: 0,
        report: Report::new(call.format.filter),
        wants_refresh: wants_refresh(&call.params),
        requires_alias: call.params.flag("require_alias")?.unwrap_or(false),
        shows,
        showing: 0,
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
    grant: Arc<AuditedGrant>,
    state: BulkState,
    default_index: Option<Arc<str>>,
    lines: Lines,
    /// Items that were read, and are not applied yet.
    items: Vec<Item>,
    items_bytes: usize,
    /// The count of items in the database whose outcome is not known.
    in_doubt: usize,
    report: Report,
    wants_refresh: bool,
    /// Of the items that do not say.
    requires_alias: bool,
    /// What the answer shows of the documents of updates that do not say.
    shows: Option<Arc<Shown>>,
    /// Updates among `items` whose documents the answer shows.
    showing: usize,
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
            let bytes = match &item.source {
                Source::Text(text) if text.len() as u64 > LARGE_BYTES => written_bytes(text),
                Source::Text(text) => text.len(),
                Source::None | Source::TooLong(_) => 0,
            };
            if bytes > BATCH_BYTES {
                // It may need all the memory that there is.
                self.apply().await?;
            }
            self.items_bytes += line.len() + ITEM_BYTES + bytes;
            self.showing += usize::from(item.op == Op::Update && item.shows.is_some());
            self.items.push(item);
            self.lines
                .hold_beside(self.items_bytes + self.report.bytes())?;
            if self.items_bytes >= BATCH_BYTES || self.showing >= SHOWN_MAX {
                self.apply().await?;
            }
        }
        self.apply().await?;
        if self.report.items == 0 {
            return Err(Failure::parse("request body is required"));
        }
        Ok(())
    }

    /// Reads the source of `action`, and makes an item of them.
    async fn item(&mut self, action: Action, number: u64) -> Outcome<Item> {
        let Action {
            op,
            index,
            id,
            condition,
            retries,
            requires_alias,
            shows,
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
                        "Malformed action/metadata line [{number}]: \
                         no source line follows this [{op}] action"
                    )));
                }
            },
        };
        let allowed = check_own_item(&self.grant, AccessAction::Write, &self.state.engine, &index);
        let condition = allowed.and(condition);
        Ok(Item {
            op,
            index,
            id,
            condition,
            retries,
            requires_alias: requires_alias.unwrap_or(self.requires_alias),
            source,
            shows: shows.map(Arc::new).or_else(|| self.shows.clone()),
        })
    }

    /// Applies what has been read.
    async fn apply(&mut self) -> Outcome<()> {
        if self.items.is_empty() {
            return Ok(());
        }
        let items = std::mem::take(&mut self.items);
        self.items_bytes = 0;
        if std::mem::take(&mut self.showing) > 0 {
            let bytes = self.report.bytes() + SHOWN_BYTES_MAX;
            self.lines.hold_beside(bytes)?;
        }
        self.in_doubt = items.len();
        let filter = Arc::clone(&self.report.filter);
        let wants_refresh = self.wants_refresh;
        let (buffers, by) = (self.state.buffers.clone(), Arc::clone(&self.grant));
        let work = move |engine: &Engine| {
            let mut part = Report::new_part(filter);
            for mut done in rounds::apply(engine, &by, &buffers, items) {
                done.outcome = done.outcome.map(|ack| ack.refreshed(wants_refresh));
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
