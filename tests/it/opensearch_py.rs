//! A real client, unchanged: opensearch-py against `quire serve`.

use crate::python::{Client, check};
use crate::quire::Server;

const CLIENT: Client = Client {
    package: "opensearch-py==3.2.0",
    module: "opensearchpy",
};

#[test]
fn opensearch_py_works_without_a_shim() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("database"), &[]);
    let port = server.address.port().to_string();
    check(&CLIENT, "opensearch_py.py", &[&port]);
    server.stop();
}
