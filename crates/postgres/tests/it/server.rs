//! A PostgreSQL server of a test, in a folder of its own.

use crate::free_port::free_port;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "wal_level=logical",
    "max_replication_slots=20",
    "max_wal_senders=20",
    "shared_buffers=32MB",
    // Kills are of processes: what was written is there.
    "fsync=off",
];

/// A running server; it ends with the value.
pub(crate) struct Postgres {
    pub(crate) port: u16,
    directory: TempDir,
    programs: PathBuf,
    child: Option<Child>,
    settings: Vec<String>,
}

/// Runs SQL on a server, also while it is killed and run again.
pub(crate) struct Client {
    program: PathBuf,
    directory: PathBuf,
    port: u16,
}

impl Postgres {
    /// Starts a server with the database `app` and the role `repl`; none, with a message, where
    /// PostgreSQL is not installed.
    pub(crate) fn start() -> Option<Postgres> {
        let Some(programs) = programs() else {
            println!("skipped: no PostgreSQL; on Debian: sudo apt-get install postgresql");
            return None;
        };
        let directory = TempDir::new().unwrap();
        if is_root() {
            let mut give = Command::new("chown");
            let done = give.arg("postgres").arg(directory.path()).status();
            assert!(done.unwrap().success(), "the user postgres is there");
        }
        let mut server = Postgres {
            port: free_port(),
            directory,
            programs,
            child: None,
            settings: Vec::new(),
        };
        let mut install = server.command("initdb");
        install
            .args([
                "--username=postgres",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ])
            .args(["--auth-local=trust", "--auth-host=scram-sha-256", "-D"])
            .arg(server.data());
        let done = install.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        server.run();
        let client = server.client();
        client.sql_in(
            "postgres",
            "CREATE ROLE repl LOGIN REPLICATION PASSWORD 'secret'",
        );
        client.sql_in("postgres", "CREATE DATABASE app");
        client.sql_in(
            "app",
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO repl",
        );
        Some(server)
    }

    /// A setting of the next [`run`](Postgres::run).
    pub(crate) fn set(&mut self, setting: &str) {
        self.settings.push(setting.to_owned());
    }

    /// The server's folder of data.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// A program of the server, which refuses to be run by root.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("setpriv");
                let user = ["--reuid=postgres", "--regid=postgres", "--clear-groups"];
                command.args(user).arg(program);
                command
            }
            false => Command::new(program),
        };
        command.current_dir(self.directory.path());
        command
    }

    /// Runs the server, and waits until it answers.
    pub(crate) fn run(&mut self) {
        let client = self.client();
        for _ in 0..600 {
            // It does not start before all processes of one that was killed are gone.
            let is_running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
            if !self.child.as_mut().is_some_and(is_running) {
                self.child = Some(self.spawn());
            }
            if client.run("postgres", "SELECT 1").status.success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("PostgreSQL does not answer: {}", self.log());
    }

    fn spawn(&self) -> Child {
        let path = self.directory.path();
        let log = std::fs::File::create(path.join("log")).unwrap();
        let mut server = self.command("postgres");
        server
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(path)
            .arg("-p")
            .arg(self.port.to_string());
        let own = self.settings.iter().map(String::as_str);
        for setting in SETTINGS.iter().copied().chain(own) {
            server.args(["-c", setting]);
        }
        server.stdout(Stdio::null()).stderr(log).spawn().unwrap()
    }

    /// What it reported since it was run.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Kills it, and runs it again; then gives others time to find it.
    pub(crate) fn kill_and_run(&mut self) {
        self.kill();
        self.run();
        std::thread::sleep(Duration::from_millis(500));
    }

    pub(crate) fn client(&self) -> Client {
        Client {
            program: self.programs.join("psql"),
            directory: self.directory.path().to_owned(),
            port: self.port,
        }
    }

    /// Runs SQL in `app`, and gives the rows, tabs between their values.
    pub(crate) fn sql(&self, sql: &str) -> String {
        self.client().sql_in("app", sql)
    }
}

impl Drop for Postgres {
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

    /// Changes, deletes, adds and renames rows of the table `t` until it is to stop.
    pub(crate) fn change_rows(&self, stop: &AtomicBool, pause: Duration) {
        let mut turn = 0;
        while !stop.load(Ordering::Relaxed) {
            turn += 1;
            // Errors while the server is down are the next turn's.
            self.run(
                "app",
                &format!(
                    "BEGIN; UPDATE t SET v = v + 1 WHERE id % 97 = {turn} % 97; \
                     DELETE FROM t WHERE id % 1009 = {turn}; COMMIT; \
                     INSERT INTO t VALUES (20000 + {turn}, {turn}, 'new') ON CONFLICT DO NOTHING; \
                     UPDATE t SET id = id + 30000 WHERE id = {turn} * 3"
                ),
            );
            std::thread::sleep(pause);
        }
    }

    /// Runs SQL, whatever becomes of it.
    pub(crate) fn run(&self, database: &str, sql: &str) -> Output {
        let mut client = Command::new(&self.program)
            .args(["--no-psqlrc", "--no-align", "--tuples-only", "--quiet"])
            .args(["--field-separator=\t", "--set=ON_ERROR_STOP=1"])
            .args(["--username=postgres", "--port", &self.port.to_string()])
            .arg("--host")
            .arg(&self.directory)
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

/// The folder of the server's programs: the newest of Debian's, or where the path has them.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let folders = versions.flatten().map(|version| version.path().join("bin"));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_whole = |folder: &PathBuf| {
        let has = |program| Path::is_file(&folder.join(program));
        has("postgres") && has("initdb") && has("psql")
    };
    let newest = folders.filter(is_whole).max();
    newest.or_else(|| std::env::split_paths(&paths).find(is_whole))
}

fn is_root() -> bool {
    let done = Command::new("id").arg("-u").output().unwrap();
    done.stdout == b"0\n"
}
