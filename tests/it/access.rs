//! Named tokens as operators use them: made, listed and revoked by commands while the server runs,
//! for HTTP, followers and commands that call the server.

use crate::follow::wait_until_level;
use crate::python::{OPENSEARCH, PYMEMCACHE, check};
use crate::quire::{Server, binary, ok, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl").arg("-sS").args(arguments).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

/// The status of a request with this token, as the password of any user.
fn status(server: &Server, token: &str, path: &str) -> String {
    let url = format!("http://{}{path}", server.address);
    let user = format!("someone:{token}");
    curl(&["-o", "/dev/null", "-w", "%{http_code}", "-u", &user, &url])
}

/// Makes a token in a file; returns the file with its secret.
fn token(tokens: &str, name: &str, more: &[&str]) -> (String, PathBuf) {
    let made = ok(&[&["token", "create", tokens, name], more].concat());
    let path = Path::new(tokens).with_file_name(name);
    std::fs::write(&path, &made).unwrap();
    (made.trim().to_owned(), path)
}

#[test]
fn tokens_are_made_and_revoked_while_the_server_runs() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = dir.path().join("tokens");
    let tokens = tokens.to_str().unwrap();
    let missing = run(&["serve", "db", "--create", "--tokens", tokens]);
    assert!(missing.stderr.contains("quire token create"), "{missing:?}");

    let (admin, admin_file) = token(tokens, "admin", &["--role", "all"]);
    let server = Server::start(&dir.path().join("db"), &["--tokens", tokens]);
    let url = format!("http://{}", server.address);
    let put = format!("{url}/logs-1/_doc/1");
    let header = format!("Authorization: Bearer {admin}");
    let body = ["-H", "Content-Type: application/json", "-d", "{\"n\":1}"];
    curl(&[&["-X", "PUT", "-H", &header, &put], &body[..]].concat());

    let reads = [
        "--role",
        "read",
        "--collections",
        "logs-*",
        "--expires",
        "30d",
    ];
    let (reader, _) = token(tokens, "reader", &reads);
    let begun = Instant::now();
    while status(&server, &reader, "/logs-1/_count") != "200" {
        assert!(begun.elapsed() < Duration::from_secs(60), "not seen");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(status(&server, &reader, "/_count"), "403");
    assert_eq!(status(&server, "", "/logs-1/_count"), "401");
    let limit = ["--role", "read", "--limit", "requests=5,bytes=1MiB"];
    token(tokens, "seldom", &limit);
    let list = ok(&["token", "list", tokens]);
    assert!(list.contains("admin: all on *") && list.contains("reader: read on logs-*"));
    for part in ["; at most ", "requests=5", "bytes=1048576"] {
        assert!(list.contains(part), "{list}");
    }

    // On the server, with the token of the administrator.
    let admin_file = admin_file.to_str().unwrap();
    let by = ["--token-file", admin_file];
    let create = ["token", "create", &url, "copier", "--role", "follow"];
    let copier = ok(&[&create[..], &by].concat());
    let copier_file = dir.path().join("copier");
    std::fs::write(&copier_file, copier).unwrap();
    let mut follow = Command::new(binary());
    follow
        .arg("follow")
        .arg(dir.path().join("copy"))
        .args(["--from", &url, "--listen", "127.0.0.1:0"])
        .arg("--from-token-file")
        .arg(&copier_file);
    let mut follower = Server::launch(follow);
    wait_until_level(&follower);
    assert_eq!(follower.request("GET", "/logs-1/_doc/1", "").0, 200);
    ok(&[&["token", "revoke", &url, "copier"], &by[..]].concat());
    let begun = Instant::now();
    // The leader refuses it for good, so that it ends.
    while follower.is_running() {
        assert!(begun.elapsed() < Duration::from_secs(60), "still follows");
        std::thread::sleep(Duration::from_millis(50));
    }

    ok(&[&["token", "revoke", &url, "reader"], &by[..]].concat());
    assert_eq!(status(&server, &reader, "/logs-1/_count"), "401");
    let listed = ok(&[&["token", "list", &url], &by[..]].concat());
    assert!(
        !listed.contains("reader") && listed.contains("admin"),
        "{listed}"
    );
    server.stop();
}

#[test]
fn clients_of_others_do_what_their_roles_say_and_it_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (tokens, audit) = (path("tokens"), path("audit.log"));
    let of_logs = ["--collections", "logs-*", "--role"];
    let (reader, _) = token(&tokens, "reader", &[&of_logs[..], &["read"]].concat());
    let (writer, _) = token(&tokens, "writer", &[&of_logs[..], &["write"]].concat());
    let options = ["--tokens", &tokens, "--audit", &audit];
    let server = Server::start_memcached(&dir.path().join("db"), &options);
    let port = server.address.port().to_string();
    check(&OPENSEARCH, "roles.py", &[&port, &reader, &writer]);
    let port = server.memcached().port().to_string();
    check(&PYMEMCACHE, "roles_memcached.py", &[&port, &writer]);
    server.stop();
    let audit = std::fs::read_to_string(&audit).unwrap();
    let count = |words: &[&str]| {
        let lines = audit.lines();
        let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
        lines.filter(has_all).count()
    };
    // A number alone may be in the time of another event.
    let noted: [(&[&str], usize); 6] = [
        (
            &["\"refused\"", "\"http\"", "\"reader\"", "\"status\":403"],
            2,
        ),
        (
            &["\"refused\"", "\"http\"", "\"writer\"", "\"status\":403"],
            1,
        ),
        (
            &["\"refused\"", "\"memcached\"", "\"writer\"", "\"cars\""],
            1,
        ),
        (&["\"authentication\"", "\"http\"", "\"status\":401"], 1),
        (
            &["\"authentication\"", "\"memcached\"", "\"status\":401"],
            2,
        ),
        (&["\"admin\"", "\"writer\"", "\"logs-1\""], 1),
    ];
    for (words, expected) in noted {
        assert_eq!(count(words), expected, "{words:?}: {audit}");
    }
    assert!(!audit.contains(&reader) && !audit.contains(&writer));
}

#[test]
fn backups_and_followers_need_the_role_for_it_and_a_follower_has_tokens_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (tokens, backups) = (path("tokens"), path("backups"));
    let [reader, writer, manager, follower] = ["read", "write", "manage", "follow"].map(|role| {
        token(&tokens, role, &["--role", role])
            .1
            .display()
            .to_string()
    });
    let options = ["--tokens", &tokens, "--backup-dir", &backups];
    let server = Server::start(&dir.path().join("db"), &options);
    let url = format!("http://{}", server.address);
    let backup = |by: &str| run(&["backup", &url, "one", "--token-file", by]);
    for by in [&reader, &writer, &follower] {
        let done = backup(by);
        assert!(
            done.code != Some(0) && done.stderr.contains("no permissions"),
            "{done:?}"
        );
    }
    assert_eq!(backup(&manager).code, Some(0));
    ok(&["restore", &path("backups/one"), &path("restored")]);

    let own = path("own");
    let (secret, _) = token(&own, "mine", &["--role", "read"]);
    let follow = |by: &str| {
        let mut follow = Command::new(binary());
        follow.arg("follow").arg(path("copy"));
        follow.args(["--from", &url, "--listen", "127.0.0.1:0", "--tokens", &own]);
        follow.args(["--from-token-file", by]);
        follow
    };
    for by in [&reader, &writer, &manager] {
        let output = follow(by).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        assert!(
            said.contains("403") || said.contains("no permissions"),
            "{said}"
        );
    }
    let copy = Server::launch(follow(&follower));
    let begun = Instant::now();
    while status(&copy, &secret, "/_count") != "200" {
        assert!(begun.elapsed() < Duration::from_secs(60), "does not follow");
        std::thread::sleep(Duration::from_millis(50));
    }
    for wrong in ["", std::fs::read_to_string(&manager).unwrap().trim()] {
        assert_eq!(status(&copy, wrong, "/_count"), "401");
    }
    copy.stop();
    server.stop();
}
