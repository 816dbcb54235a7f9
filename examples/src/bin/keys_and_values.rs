//! Page views counted under keys: batches, merges, ranges both ways, and a view that stays as it
//! is.
//!
//! `cargo run -p quire-examples --bin keys_and_values -- /tmp/pages`

use quiredb::kv::{Batch, Durability, Kv, KvOptions, MergeError, Merger, Result, WriteOptions};
use std::sync::Arc;
use std::time::Duration;

/// Adds numbers of eight bytes. With a merge the caller counts without reading first.
#[derive(Debug)]
struct Add;

fn number(bytes: &[u8]) -> std::result::Result<u64, MergeError> {
    let bytes = bytes
        .try_into()
        .map_err(|_| MergeError(format!("{} bytes are no number", bytes.len())))?;
    Ok(u64::from_be_bytes(bytes))
}

impl Merger for Add {
    fn name(&self) -> &str {
        "add"
    }

    fn apply(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operand: &[u8],
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), MergeError> {
        self.combine(key, base.unwrap_or(&[0; 8]), operand, out)
    }

    fn combine(
        &self,
        _key: &[u8],
        older: &[u8],
        newer: &[u8],
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), MergeError> {
        let sum = number(older)?.wrapping_add(number(newer)?);
        out.extend_from_slice(&sum.to_be_bytes());
        Ok(())
    }
}

fn main() -> Result<()> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "pages".to_string());
    let options = KvOptions {
        merger: Some(Arc::new(Add)),
        ..KvOptions::default()
    };
    let pages = Kv::open(&path, options)?;

    // The batch is atomic, and synced within 100 ms.
    let mut batch = Batch::new();
    for (page, views) in [("/about", 3_u64), ("/blog/1", 40), ("/blog/2", 2)] {
        batch.merge(page, views.to_be_bytes())?;
    }
    batch.put("day", "saturday")?;
    let soon = Durability::Async(Duration::from_millis(100));
    pages
        .with(WriteOptions::new().durability(soon))
        .write(&batch)?;

    let saturday = pages.view()?;
    pages.merge("/blog/2", 5_u64.to_be_bytes())?;
    pages.put("day", "sunday")?;
    pages.delete("/about")?;

    // The keys that begin with "/", last first.
    for pair in pages.prefix_rev("/")? {
        let (page, views) = pair?;
        let views = number(&views).unwrap_or_default();
        println!("{} {views}", String::from_utf8_lossy(&page));
    }
    for day in [pages.get("day")?, saturday.get("day")?]
        .into_iter()
        .flatten()
    {
        println!("{}", String::from_utf8_lossy(&day));
    }
    pages.close()
}
