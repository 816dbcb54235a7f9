//! Files of an independent writer, pyarrow, loaded by `quire load` into a directory and a server.

use crate::python::{Client, check};
use crate::quire::{Server, binary};

const WRITER: Client = Client {
    package: "pyarrow==26.0.1",
    module: "pyarrow",
};

#[test]
fn parquet_files_are_loaded_with_all_their_types() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("database"), &[]);
    let url = format!("http://{}", server.address);
    check(&WRITER, "parquet.py", &[binary().to_str().unwrap(), &url]);
    server.stop();
}
