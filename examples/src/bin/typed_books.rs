//! Documents as values of your own types, conditions, an atomic batch, and a query.
//!
//! `cargo run -p quire-examples --bin typed_books -- /tmp/typed`

use quiredb::query::{field, find};
use quiredb::{
    CollectionSettings, Database, Durability, ErrorKind, Key, Result, from_document, to_document,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Serialize, Deserialize)]
struct Book {
    #[serde(rename = "_id")]
    id: String,
    title: String,
    year: u16,
    copies: u32,
}

fn book(id: &str, title: &str, year: u16) -> Book {
    Book {
        id: id.into(),
        title: title.into(),
        year,
        copies: 2,
    }
}

fn main() -> Result<()> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "typed".to_string());
    let database = Database::builder(&path)
        .memory(64 << 20)
        .scrub_every(Duration::from_secs(24 * 3600))
        .open()?;
    // An atomic batch is for one partition, so this collection has one.
    let one_partition = || CollectionSettings {
        partitions: 1,
        ..CollectionSettings::default()
    };
    let books = database.collection_or_create("books", one_partition)?;

    // A value goes in and comes out by serde; the field `_id` is its key.
    books.put_as(&book("emma", "Emma", 1815))?;
    books.put_as(&book("dracula", "Dracula", 1897))?;

    // A write with options: acknowledged at once and synced within 100 ms, if the key is free.
    let later = Durability::Async(Duration::from_millis(100));
    let again = books.write().durability(later).if_absent();
    match again.put_as(&book("emma", "Emma, again", 2000)) {
        Err(error) if error.kind() == ErrorKind::Conflict => println!("refused: {error}"),
        written => drop(written?),
    }

    // Both writes are done, or none of them, whatever happens meanwhile. Each is refused if
    // another thread changed its document since it was read.
    let mut batch = books.batch();
    for id in ["emma", "dracula"] {
        let key = Key::parse(id)?;
        let Some(found) = books.get(&key)? else {
            continue;
        };
        let mut book: Book = from_document(&found.document)?;
        book.copies -= 1;
        let write = quiredb::Write::put(key, to_document(&book)?);
        batch.push(write.if_version(found.version));
    }
    println!("{} books borrowed", batch.write_atomic()?.len());

    // A query gives documents; they are read as values too.
    let early = find(field("year").lt(1850)).order_by(field("year").ascending());
    for found in books.query(early)?.documents {
        let book: Book = from_document(&found.document)?;
        println!("{} ({}): {} left", book.title, book.year, book.copies);
    }
    database.close()
}
