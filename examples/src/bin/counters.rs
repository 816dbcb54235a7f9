//! Counters that many threads increase at once without a lock. Each write names the version that it
//! was computed from, and is tried again if another write came before it.
//!
//! `cargo run -p quire-examples --bin counters -- /tmp/counters`

use quiredb::{Collection, Database, Document, ErrorKind, Key, Position, Result, ValueRef};

const THREADS: usize = 4;
const TIMES: usize = 25;

fn main() -> Result<()> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "counters".to_string());
    let database = Database::open(&path)?;
    let pages = database.collection_or_create("pages", Default::default)?;
    let key = Key::parse("/index.html")?;

    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let raise = || (0..TIMES).try_for_each(|_| add_one(&pages, &key));
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(raise)).collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .collect()
    });
    results.into_iter().collect::<Result<()>>()?;

    println!("{} views", views(&pages, &key)?.1);
    database.close()
}

/// The write that does not lose an update: read, change, write if nobody wrote in between.
fn add_one(pages: &Collection, key: &Key) -> Result<()> {
    loop {
        let (version, views) = views(pages, key)?;
        let document = Document::from_json(format!(r#"{{"views":{}}}"#, views + 1).as_bytes())?;
        let write = match version {
            Some(version) => pages.write().if_version(version),
            None => pages.write().if_absent(),
        };
        match write.put_at(key, &document) {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            done => return done.map(|_| ()),
        }
    }
}

fn views(pages: &Collection, key: &Key) -> Result<(Option<Position>, i64)> {
    Ok(match pages.get(key)? {
        Some(found) => {
            let views = match found.document.get("views") {
                Some(ValueRef::Int(views)) => views,
                _ => 0,
            };
            (Some(found.version), views)
        }
        None => (None, 0),
    })
}
