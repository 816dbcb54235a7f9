//! The description of the API: it is valid, and a client that is generated from it works.

use crate::python::{Client, check};
use crate::quire::Server;

const VALIDATOR: Client = Client {
    package: "openapi-spec-validator==0.9.0",
    module: "openapi_spec_validator",
};

const GENERATOR: Client = Client {
    package: "openapi-python-client==0.29.1",
    module: "openapi_python_client",
};

#[test]
fn the_description_of_the_api_is_valid_openapi() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("database"), &[]);
    let port = server.address.port().to_string();
    check(&VALIDATOR, "openapi_valid.py", &[&port]);
    server.stop();
}

#[test]
fn a_client_that_is_generated_from_the_description_works() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("database"), &[]);
    let port = server.address.port().to_string();
    let directory = dir.path().to_str().unwrap();
    check(&GENERATOR, "openapi_client.py", &[&port, directory]);
    server.stop();
}
