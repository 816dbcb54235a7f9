//! Follows a collection: every change from the beginning, then each new one as it is acknowledged.
//! A cache, a search index or another store can follow a collection in this way, and continue from
//! where it stopped.
//!
//! `cargo run -p quire-examples --bin follow_changes -- /tmp/prices`

use quiredb::{Collection, Database, Document, Key, Position, Result};
use std::collections::BTreeMap;
use std::time::Duration;

fn main() -> Result<()> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "prices".to_string());
    let database = Database::open(&path)?;
    let prices = database.collection_or_create("prices", Default::default)?;

    // The copy that follows, and the position that it has applied in each partition.
    let mut copy = BTreeMap::new();
    let mut seen = vec![Position(0); prices.settings().partitions as usize];

    set_price(&prices, "apple", "1.20")?;
    set_price(&prices, "pear", "2.10")?;
    follow(&prices, &mut seen, &mut copy)?;

    set_price(&prices, "apple", "1.30")?;
    prices.delete(&Key::parse("pear")?)?;
    if prices.wait_for_change(&seen, Duration::from_secs(5)) {
        follow(&prices, &mut seen, &mut copy)?;
    }
    println!("in step: {copy:?}");
    database.close()
}

/// Applies new changes to the copy, and records their positions.
fn follow(
    prices: &Collection,
    seen: &mut Vec<Position>,
    copy: &mut BTreeMap<String, String>,
) -> Result<()> {
    let mut tail = prices.tail_after(seen)?;
    for change in &mut tail {
        let change = change?;
        println!(
            "partition {} position {}: {}",
            change.partition, change.version, change.key
        );
        match change.document {
            Some(document) => copy.insert(change.key.to_string(), document.to_json()),
            None => copy.remove(&change.key.to_string()),
        };
    }
    *seen = tail.seen();
    Ok(())
}

fn set_price(prices: &Collection, name: &str, price: &str) -> Result<()> {
    let document =
        Document::from_json(format!(r#"{{"_id":"{name}","price":{price}}}"#).as_bytes())?;
    prices.put(&document).map(|_| ())
}
