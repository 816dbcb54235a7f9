//! A small web table: pages whose metadata lies on an SSD, and whose HTML moves to a hard disk when
//! it was not written for a week, with a family of anchors. A coprocessor picks what to crawl
//! again, and reads the metadata alone.
//!
//! `cargo run -p quire-examples --bin web_table -- /tmp/web`, or with a module of
//! `examples/coprocessors` as a second argument, instead of the closure here.

use quiredb::coprocessor::{Code, Kind, Produced, RunOptions};
use quiredb::wide::{
    Cell, Change, ColumnType, Group, GroupTiers, Operand, RowWrite, Schema, WideCollection,
};
use quiredb::{CollectionSettings, Database, Document, Env, Key, Medium, OsEnv, Result, ValueRef};
use std::env::args;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The age at which HTML becomes cold.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// The longest module that is read.
const MODULE_BYTES_MAX: u64 = 1 << 20;

/// A page as the crawler brought it.
struct Fetched<'a> {
    url: &'a str,
    title: &'a str,
    html: &'a str,
    /// Seconds since 1970.
    at: i64,
    /// After this many seconds it is due again.
    period: i64,
    links: &'a [&'a str],
}

const CRAWL: [Fetched<'static>; 3] = [
    Fetched {
        url: "http://news.example/",
        title: "News",
        html: "<html>today</html>",
        at: 1_000,
        period: 3_000,
        links: &["http://shop.example/", "http://wiki.example/"],
    },
    Fetched {
        url: "http://shop.example/",
        title: "Shop",
        html: "<html>lamps</html>",
        at: 2_000,
        period: 3_000,
        links: &["http://wiki.example/"],
    },
    Fetched {
        url: "http://wiki.example/",
        title: "Wiki",
        html: "<html>knowledge</html>",
        at: 9_000,
        period: 3_000,
        links: &[],
    },
];

fn main() -> Result<()> {
    let dir = PathBuf::from(args().nth(1).unwrap_or_else(|| "./web".into()));
    let database = Database::builder(dir.join("ssd"))
        .volume("cold", dir.join("hdd"), Medium::Hdd)
        .open()?;
    let schema = Schema::new()
        .with_column("title", ColumnType::String, "meta")?
        .with_column("fetched", ColumnType::Int, "meta")?
        .with_column("period", ColumnType::Int, "meta")?
        .with_column("crawls", ColumnType::Int, "meta")?
        .with_group(Group {
            tiers: Some(GroupTiers::after(WEEK)),
            ..Group::new("content")
        })?
        .with_column("html", ColumnType::Bytes, "content")?
        .with_family("anchors", ColumnType::String, "anchors")?;
    let pages = database.create_wide_collection("pages", schema, CollectionSettings::default())?;

    for page in &CRAWL {
        store(&pages, page)?;
    }

    // No byte of HTML is read to find out what is due.
    let options = RunOptions {
        columns: Some(vec!["fetched".into(), "period".into()]),
        argument: Some(Document::from_json(br#"{"now":5000}"#)?),
        ..RunOptions::of(Kind::Filter)
    };
    let recrawl = recrawl(&database, args().nth(2))?;
    for produced in pages.view()?.run_code(&recrawl, options)? {
        if let Produced::Row(page) = produced? {
            println!("crawl again: {}", page.key);
        }
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

/// What picks the pages that are due at 5,000: a module of a file, or a closure.
fn recrawl(database: &Database, module: Option<String>) -> Result<Code> {
    if let Some(path) = module {
        let wasm = OsEnv::new()?.read(Path::new(&path), MODULE_BYTES_MAX)?;
        database.add_coprocessor("recrawl", &wasm)?;
        return database.coprocessor("recrawl");
    }
    Ok(Code::filter("recrawl", |row| {
        let number = |field| match row.document.get(field) {
            Some(ValueRef::Int(number)) => number,
            _ => 0,
        };
        Ok(number("fetched") + number("period") <= 5_000)
    }))
}

/// Writes a page: one record changes cells in three groups, and the anchors of each page that it
/// links to grow by one member, whatever else those rows hold.
fn store(pages: &WideCollection, page: &Fetched<'_>) -> Result<()> {
    let write = RowWrite::upsert(Key::parse(page.url)?)
        .with(Change::set("title", Cell::String(page.title.into())))
        .with(Change::set("fetched", Cell::Int(page.at)))
        .with(Change::set("period", Cell::Int(page.period)))
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
