//! First steps: open a database, write a few documents, read them back.
//!
//! `cargo run -p quire-examples --bin first_steps -- /tmp/library`

use quiredb::{Database, Document, Key, Result};

fn main() -> Result<()> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "library".to_string());
    let database = Database::builder(&path).memory(64 << 20).open()?;
    let books = database.collection_or_create("books", Default::default)?;

    // Documents are JSON objects. They come back as they went in: every field, their order, numbers
    // as written. The key of each is its field `_id`.
    let shelf = [
        r#"{"_id":"moby-dick","title":"Moby-Dick; or, The Whale","year":1851,"price":12.50}"#,
        r#"{"_id":"emma","title":"Emma","year":1815,"price":8.00}"#,
        r#"{"_id":"dracula","title":"Dracula","year":1897,"price":9.99}"#,
    ];
    let mut batch = books.batch();
    for json in shelf {
        batch.put(&Document::from_json(json.as_bytes())?)?;
    }
    for result in batch.write() {
        println!("acknowledged, version {}", result?.version);
    }

    // One field is changed by a merge patch; the others stay.
    books.patch(
        &Key::parse("emma")?,
        &Document::from_json(br#"{"price":7.50}"#)?,
    )?;

    for found in books.scan(..)? {
        println!("{}", found?.document.to_json());
    }
    println!("{} books", books.count()?);
    database.close()
}
