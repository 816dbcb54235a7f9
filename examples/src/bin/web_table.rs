//! A small web table: pages whose hot metadata, cold HTML and anchors lie in column groups of their
//! own. Picking what to crawl again reads the metadata alone.
//!
//! `cargo run -p quire-examples --bin web_table -- /tmp/web`

use quiredb::query::{field, find};
use quiredb::wide::{Cell, Change, ColumnType, Operand, RowWrite, Schema, WideCollection};
use quiredb::{CollectionSettings, Database, Key, Result};
use std::env::args;

/// A page as the crawler brought it.
struct Fetched<'a> {
    url: &'a str,
    title: &'a str,
    html: &'a str,
    /// Seconds since 1970.
    at: i64,
    links: &'a [&'a str],
}

const CRAWL: [Fetched<'static>; 3] = [
    Fetched {
        url: "http://news.example/",
        title: "News",
        html: "<html>today</html>",
        at: 1_000,
        links: &["http://shop.example/", "http://wiki.example/"],
    },
    Fetched {
        url: "http://shop.example/",
        title: "Shop",
        html: "<html>lamps</html>",
        at: 2_000,
        links: &["http://wiki.example/"],
    },
    Fetched {
        url: "http://wiki.example/",
        title: "Wiki",
        html: "<html>knowledge</html>",
        at: 9_000,
        links: &[],
    },
];

fn main() -> Result<()> {
    let database = Database::open(args().nth(1).unwrap_or_else(|| "./web".into()))?;
    let schema = Schema::new()
        .with_column("title", ColumnType::String, "meta")?
        .with_column("fetched", ColumnType::Int, "meta")?
        .with_column("crawls", ColumnType::Int, "meta")?
        .with_column("html", ColumnType::Bytes, "content")?
        .with_family("anchors", ColumnType::String, "anchors")?;
    let pages = database.create_wide_collection("pages", schema, CollectionSettings::default())?;

    for page in &CRAWL {
        store(&pages, page)?;
    }

    // What was fetched before 5,000 is due. No byte of HTML is read to find out.
    let due = find(field("fetched").lt(5_000)).order_by(field("fetched").ascending());
    for page in pages.query(due)?.documents {
        println!("crawl again: {}", page.key);
    }

    let wiki = Key::parse("http://wiki.example/")?;
    for anchor in pages.members(&wiki, "anchors", None, None)? {
        let (from, text) = anchor?;
        if let Cell::String(text) = text {
            println!("{wiki} is {text:?} to {from}");
        }
    }
    if let Some(Cell::Bytes(html)) = pages.cell(&wiki, "html", None)? {
        println!("{} bytes of HTML", html.len());
    }
    database.close()
}

/// Writes a page: one record changes cells in three groups, and the anchors of each page that it
/// links to grow by one member, whatever else those rows hold.
fn store(pages: &WideCollection, page: &Fetched<'_>) -> Result<()> {
    let write = RowWrite::upsert(Key::parse(page.url)?)
        .with(Change::set("title", Cell::String(page.title.into())))
        .with(Change::set("fetched", Cell::Int(page.at)))
        .with(Change::set("html", Cell::Bytes(page.html.into())))
        .with(Change::merge("crawls", Operand::Add(1)));
    pages.write(&write)?;
    for link in page.links {
        let text = Cell::String(format!("a link of {}", page.title));
        let anchor = Change::set("anchors", text).of_member(page.url);
        pages.write(&RowWrite::upsert(Key::parse(link)?).with(anchor))?;
    }
    Ok(())
}
