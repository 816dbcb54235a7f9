//! The answer to a bulk request.

use super::action::Op;
use super::item::Done;
use crate::http::answer::write_string;
use crate::http::fields::Fields;
use bytes::Bytes;
use quiredb::{Document, ValueRef};
use std::sync::Arc;

/// The answer as it grows.
pub(super) struct Report {
    pub(super) filter: Arc<Fields>,
    /// The items' answers with commas between.
    text: Vec<u8>,
    pub(super) items: u64,
    pub(super) failed: u64,
    /// Operations of which a write that was done shows nothing: all of them have the same members.
    hidden: Vec<Op>,
}

impl Report {
    pub(super) fn new(filter: Fields) -> Report {
        Report::new_part(Arc::new(filter))
    }

    pub(super) fn new_part(filter: Arc<Fields>) -> Report {
        Report {
            filter,
            text: Vec::new(),
            items: 0,
            failed: 0,
            hidden: Vec::new(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.text.capacity()
    }

    pub(super) fn add(&mut self, done: &Done) {
        self.items += 1;
        self.failed += u64::from(done.outcome.is_err());
        let is_plain = done.outcome.is_ok() && done.shown.is_none();
        if is_plain && self.hidden.contains(&done.op) {
            return;
        }
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
            self.hidden.extend(is_plain.then_some(done.op));
        }
    }

    pub(super) fn append(&mut self, part: Report) {
        if !self.text.is_empty() && !part.text.is_empty() {
            self.text.push(b',');
        }
        self.text.extend_from_slice(&part.text);
        self.items += part.items;
        self.failed += part.failed;
    }

    /// The pieces of the answer.
    pub(super) fn finish(self, took_millis: u128) -> Vec<Bytes> {
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
        shown,
    } = done;
    out.extend_from_slice(format!("{{\"{}\":{{", op.name()).as_bytes());
    match outcome {
        Ok(ack) => {
            ack.write(index, id.as_deref().unwrap_or_default(), out);
            if let Some(shown) = shown {
                out.extend_from_slice(b",\"get\":{");
                ack.write_place(out);
                out.extend_from_slice(b",\"found\":true,\"_source\":");
                out.extend_from_slice(shown);
                out.push(b'}');
            }
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
