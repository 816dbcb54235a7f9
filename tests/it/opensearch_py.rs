//! A real client, unchanged: opensearch-py against `quire serve`.

use crate::python::{OPENSEARCH, check};
use crate::quire::Server;

#[test]
fn opensearch_py_works_without_a_shim() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("database"), &[]);
    let port = server.address.port().to_string();
    check(&OPENSEARCH, "opensearch_py.py", &[&port]);
    server.stop();
}
