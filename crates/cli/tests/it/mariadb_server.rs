//! A MariaDB server of a test, in a folder of its own.

use crate::free_port::free_port;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const SETTINGS: &[&str] = &[
    "--no-defaults",
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--server-id=1",
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL",
    "--gtid-strict-mode=1",
    "--sync-binlog=1",
    "--innodb-buffer-pool-size=32M",
    "--innodb-log-file-size=32M",
    "--character-set-server=utf8mb4",
];

/// A running server; it ends with the value.
pub(super) struct MariaDb {
    pub(super) port: u16,
    directory: TempDir,
    child: Option<Child>,
}

/// Runs SQL on a server, also while it is killed and run again.
pub(super) struct Client {
    socket: PathBuf,
}

impl MariaDb {
    /// Starts a server with the database `app` and the user `repl`; none, with a message, where
    /// MariaDB is not installed.
    pub(super) fn start() -> Option<MariaDb> {
        let is_there = |program: &str| {
            let mut version = Command::new(program);
            version.arg("--version").stdout(Stdio::null());
            version.status().is_ok_and(|status| status.success())
        };
        if !is_there("mariadbd") || !is_there("mariadb") {
            println!("skipped: no MariaDB; on Debian: sudo apt-get install mariadb-server");
            return None;
        }
        let directory = TempDir::new().unwrap();
        let mut install = Command::new("mariadb-install-db");
        install
            // A server that starts removes what others have in its folder of temporary files.
            .env("TMPDIR", directory.path())
            .arg("--no-defaults")
            .arg(format!("--datadir={}", directory.path().display()))
            .arg(format!("--user={}", user()))
            .args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        let done = install.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let mut server = MariaDb {
            port: free_port(),
            directory,
            child: None,
        };
        server.run();
        server.client().sql_in(
            "mysql",
            "CREATE DATABASE app; CREATE USER repl@'%' IDENTIFIED BY 'secret'; \
             GRANT REPLICATION SLAVE, BINLOG MONITOR, SELECT ON *.* TO repl@'%'",
        );
        Some(server)
    }

    /// Runs the server, and waits until it answers.
    pub(super) fn run(&mut self) {
        let path = self.directory.path();
        let log = std::fs::File::create(path.join("log")).unwrap();
        let child = Command::new("mariadbd")
            .env("TMPDIR", path)
            .args(SETTINGS)
            .arg(format!("--datadir={}", path.display()))
            .arg(format!("--socket={}", socket(path).display()))
            .arg(format!("--port={}", self.port))
            .arg(format!("--user={}", user()))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.child = Some(child.unwrap());
        let client = self.client();
        for _ in 0..600 {
            if client.run("mysql", "SELECT 1").status.success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let log = std::fs::read_to_string(path.join("log")).unwrap();
        panic!("MariaDB does not answer: {log}");
    }

    /// Kills it at once.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Kills it, and runs it again; then gives others time to find it.
    pub(super) fn kill_and_run(&mut self) {
        self.kill();
        self.run();
        std::thread::sleep(Duration::from_millis(500));
    }

    pub(super) fn client(&self) -> Client {
        Client {
            socket: socket(self.directory.path()),
        }
    }

    /// Runs SQL in `app`, and gives the rows, tabs between their values.
    pub(super) fn sql(&self, sql: &str) -> String {
        self.client().sql_in("app", sql)
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Client {
    fn sql_in(&self, database: &str, sql: &str) -> String {
        let done = self.run(database, sql);
        assert!(done.status.success(), "{sql}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// Runs SQL in `app`, whatever becomes of it.
    pub(super) fn try_sql(&self, sql: &str) {
        self.run("app", sql);
    }

    /// Changes, deletes, adds and renames rows of the table `t` until it is to stop.
    pub(super) fn change_rows(&self, stop: &AtomicBool, pause: Duration) {
        let mut turn = 0;
        while !stop.load(Ordering::Relaxed) {
            turn += 1;
            // Errors while the server is down are the next turn's.
            self.try_sql(&format!(
                "UPDATE t SET v = v + 1 WHERE id % 97 = {turn} % 97; \
                 DELETE FROM t WHERE id % 1009 = {turn}; \
                 INSERT IGNORE INTO t VALUES (20000 + {turn}, {turn}, 'new'); \
                 UPDATE IGNORE t SET id = id + 30000 WHERE id = {turn} * 3"
            ));
            std::thread::sleep(pause);
        }
    }

    fn run(&self, database: &str, sql: &str) -> Output {
        let mut client = Command::new("mariadb")
            .args([
                "--no-defaults",
                "--batch",
                "--skip-column-names",
                "--user=root",
            ])
            .arg("--default-character-set=utf8mb4")
            .arg(format!("--socket={}", self.socket.display()))
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = client.stdin.take();
        // A client that has no server reads nothing.
        let _ = input.unwrap().write_all(sql.as_bytes());
        client.wait_with_output().unwrap()
    }
}

fn socket(directory: &Path) -> PathBuf {
    directory.join("socket")
}

/// The user who runs the test, whom the server must be told when it is root.
fn user() -> String {
    let done = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}
