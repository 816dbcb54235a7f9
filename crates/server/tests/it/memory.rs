//! Memory of requests: what can never have its memory is refused before it takes any.

use quire_server::ServerOptions;
use quiredb::Database;

use crate::site::Site;

/// A document of one array of this many numbers, whose encoding is three times its text.
fn numbers(count: usize) -> String {
    format!("{{\"n\":[1{}]}}", ",1".repeat(count - 1))
}

#[tokio::test]
async fn a_document_whose_encoding_can_never_have_its_memory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::builder(dir.path().join("db"));
    let database = database.memory(16 << 20).open().unwrap();
    let site = Site::over(database, ServerOptions::default());
    site.collection("c");
    // 8 MiB of text, 24 MiB encoded: with what is made of them more than there is.
    let large = numbers(4 << 20);
    let update = format!("{{\"doc_as_upsert\":true,\"doc\":{large}}}");
    let bulk = format!("{{\"index\":{{\"_id\":\"1\"}}}}\n{large}\n");
    for (line, body) in [
        ("PUT /c/_doc/1", large),
        ("POST /c/_update/1", update),
        ("POST /c/_bulk", bulk),
    ] {
        let reason = site
            .call(line, body)
            .await
            .refused(413, "circuit_breaking_exception");
        assert!(reason.contains("--memory"), "{line}: {reason}");
    }
    assert_eq!(site.stored("c", "1"), None);
    let small = numbers(2 << 20);
    site.call("PUT /c/_doc/1", small.clone()).await.done(201);
    assert_eq!(site.stored("c", "1"), Some(small));
    let stats = site.database.stats().unwrap();
    assert!(stats.work_peak_bytes <= stats.work_bytes_max, "{stats:?}");
}
