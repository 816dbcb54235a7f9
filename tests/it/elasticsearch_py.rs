//! Real clients, unchanged: elasticsearch-py 7 and 8 against `quire serve --compat elasticsearch`.

use crate::python::{Client, check};
use crate::quire::Server;

const CLIENT_7: Client = Client {
    package: "elasticsearch==7.17.12",
    module: "elasticsearch",
};

const CLIENT_8: Client = Client {
    package: "elasticsearch==8.15.1",
    module: "elasticsearch",
};

fn works(client: &Client, major: &str) {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--compat", "elasticsearch"];
    let server = Server::start(&dir.path().join("database"), &options);
    let port = server.address.port().to_string();
    check(client, "elasticsearch_py.py", &[&port, major]);
    server.stop();
}

#[test]
fn elasticsearch_py_7_works_without_a_shim() {
    works(&CLIENT_7, "7");
}

#[test]
fn elasticsearch_py_8_works_without_a_shim() {
    works(&CLIENT_8, "8");
}

#[test]
fn without_compat_a_write_of_elasticsearch_py_8_is_refused_before_it_is_applied() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("database"), &[]);
    let port = server.address.port().to_string();
    check(&CLIENT_8, "elasticsearch_refused.py", &[&port]);
    let (status, indices) = server.request("GET", "/_cat/indices?format=json", "");
    assert_eq!((status, indices), (200, serde_json::json!([])));
    server.stop();
}
