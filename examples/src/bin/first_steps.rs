//! First steps: open a database, write a few documents, read them back.
//!
//! `cargo run -p quire-examples --bin first_steps -- /tmp/library`

use quiredb::{Database, Document, Key, Result, Write};

fn main() -> Result<()> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "library".to_string());
    let database = Database::open(&path)?;
    let books = database.collection_or_create("books", Default::default)?;

    // Documents are JSON objects. They come back as they were put: every field, in its order, with
    // numbers as written.
    let shelf = [
        r#"{"_id":"moby-dick","title":"Moby-Dick; or, The Whale","year":1851,"price":12.50}"#,
        r#"{"_id":"emma","title":"Emma","year":1815,"price":8.00}"#,
        r#"{"_id":"dracula","title":"Dracula","year":1897,"price":9.99}"#,
    ];
    let mut batch = Vec::new();
    for json in shelf {
        let document = Document::from_json(json.as_bytes())?;
        batch.push(Write::put(books.key_of(&document)?, document));
    }
    for result in books.write_batch(batch, None) {
        println!("acknowledged, version {}", result?.version);
    }

    // A merge patch changes one field; the others stay.
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
