//! A broker of a test, in a folder of its own.

use crate::free_port::free_port;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Where Kafka has what logs in.
const LOGINS: &str = "org.apache.kafka.common.security";

/// A running broker; it ends with the value.
pub(crate) struct Broker {
    pub(crate) port: u16,
    /// Where the user `quire` logs in, with the password `secret`.
    pub(crate) login_port: u16,
    /// The same over TLS, for who trusts [`Broker::certificate`].
    pub(crate) tls_port: u16,
    home: PathBuf,
    directory: TempDir,
    child: Option<Child>,
}

impl Broker {
    /// Starts a broker; none, with a message, where Kafka is not installed.
    pub(crate) fn start() -> Option<Broker> {
        let home = std::env::var_os("KAFKA_HOME").map(PathBuf::from);
        let Some(home) = home.filter(|home| home.join("libs").is_dir()) else {
            println!("skipped: no Kafka; set KAFKA_HOME to its folder, which has a folder libs");
            return None;
        };
        let (port, controller) = (free_port(), free_port());
        let (login_port, tls_port) = (free_port(), free_port());
        let directory = TempDir::new().unwrap();
        let path = directory.path();
        let keys = path.join("keys.pem");
        let (certificate, key) = certified(path, "127.0.0.1");
        std::fs::write(&keys, key + &certificate).unwrap();
        let settings = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},LOGIN://127.0.0.1:{login_port},\
             TLS://127.0.0.1:{tls_port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port},\
             LOGIN://127.0.0.1:{login_port},TLS://127.0.0.1:{tls_port}\n\
             controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,\
             LOGIN:SASL_PLAINTEXT,TLS:SASL_SSL\n\
             listener.name.tls.sasl.enabled.mechanisms=PLAIN\n\
             listener.name.tls.plain.sasl.jaas.config={LOGINS}.plain.PlainLoginModule required \
             user_quire=\"secret\";\n\
             listener.name.tls.ssl.keystore.type=PEM\n\
             listener.name.tls.ssl.keystore.location={}\n\
             listener.name.login.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
             listener.name.login.plain.sasl.jaas.config={LOGINS}.plain.PlainLoginModule required \
             user_quire=\"secret\";\n\
             listener.name.login.scram-sha-256.sasl.jaas.config={LOGINS}.scram.ScramLoginModule \
             required;\n\
             listener.name.login.scram-sha-512.sasl.jaas.config={LOGINS}.scram.ScramLoginModule \
             required;\n\
             log.dirs={}\noffsets.topic.replication.factor=1\n\
             transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             log.cleaner.dedupe.buffer.size=16777216\n",
            keys.display(),
            path.join("log").display()
        );
        std::fs::write(path.join("server.properties"), settings).unwrap();
        let mut broker = Broker {
            port,
            login_port,
            tls_port,
            home,
            directory,
            child: None,
        };
        let settings = broker.settings();
        let mut format = broker.java("kafka.tools.StorageTool");
        format.args(["format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", &settings]);
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
            let user = format!("{mechanism}=[name=quire,password=secret]");
            format.args(["--add-scram", &user]);
        }
        let done = format.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        broker.run();
        Some(broker)
    }

    fn settings(&self) -> String {
        let path = self.path().join("server.properties");
        path.display().to_string()
    }

    /// What who calls over TLS has to trust.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.path().join("127.0.0.1.pem")
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A program of Kafka's own.
    pub(crate) fn java(&self, class: &str) -> Command {
        let mut java = Command::new("java");
        java.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg("-cp")
            .arg(self.home.join("libs/*"))
            .arg(class)
            .stdin(Stdio::null());
        java
    }

    /// Runs the broker, and waits until it listens.
    pub(crate) fn run(&mut self) {
        let log = File::create(self.path().join("output")).unwrap();
        let mut server = self.java("kafka.Kafka");
        server.arg(self.settings());
        server.stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(server.spawn().unwrap());
        for _ in 0..1200 {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let log = std::fs::read_to_string(self.path().join("output")).unwrap();
        panic!("Kafka does not listen: {log}");
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Changes a topic by Kafka's own command.
    pub(crate) fn topics(&self, arguments: &[&str]) {
        let mut command = self.java("org.apache.kafka.tools.TopicCommand");
        let address = format!("127.0.0.1:{}", self.port);
        command
            .args(["--bootstrap-server", &address])
            .args(arguments);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
}

/// Makes a certificate that signs itself, for an address, in the file `ADDRESS.pem` of a folder,
/// and a key for it. Gives both (PEM).
pub(crate) fn certified(folder: &Path, address: &str) -> (String, String) {
    let paths = [".pem", ".key"].map(|end| folder.join(format!("{address}{end}")));
    let mut make = Command::new("openssl");
    make.args(["req", "-x509", "-nodes", "-days", "2", "-newkey", "ec"])
        .args(["-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-subj", &format!("/CN={address}")])
        .args(["-addext", &format!("subjectAltName=IP:{address}")])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-out")
        .arg(&paths[0])
        .arg("-keyout")
        .arg(&paths[1]);
    let done = make.output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let [certificate, key] = paths.map(|path| std::fs::read_to_string(path).unwrap());
    (certificate, key)
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}
