//! What the file of a pipe says of the source.

use crate::fault::OrFault;
use mysql_async::{Opts, OptsBuilder, SslOpts};
use quire_env::Env;
use quire_ship::{Error, Fault, FieldsConfig, JoinConfig, OnLostPosition, Result, SourceConfig};
use std::time::Duration;

const PORT: u16 = 3306;
const FILE_BYTES_MAX: u64 = 1 << 20;
const TIMEOUT_S: u64 = 60;

/// The name of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) database: String,
    pub(crate) name: String,
}

impl TableName {
    fn parse(text: &str) -> Option<TableName> {
        let (database, name) = text.split_once('.')?;
        Some(TableName {
            database: database.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The name in SQL.
    pub(crate) fn quoted(&self) -> String {
        format!("{}.{}", quoted(&self.database), quoted(&self.name))
    }
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.database, self.name)
    }
}

/// Rows of a table that are a field of the documents.
#[derive(Debug, Clone)]
pub(crate) struct Join {
    pub(crate) config: JoinConfig,
    /// The number of the table among those that are followed.
    pub(crate) table: usize,
}

/// Which tables, of which server, and as whom.
#[derive(Debug, Clone)]
pub struct MysqlOptions {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The tables that are followed; the first is that of the documents.
    pub(crate) tables: Vec<TableName>,
    pub(crate) fields: FieldsConfig,
    pub(crate) joins: Vec<Join>,
    pub(crate) on_lost_position: OnLostPosition,
    pub(crate) timeout: Duration,
    opts: Opts,
}

impl MysqlOptions {
    /// Reads the options, and the files that they name.
    ///
    /// # Errors
    /// If something is missing or wrong: a sentence that says what.
    pub fn new(env: &dyn Env, config: &SourceConfig) -> Result<MysqlOptions> {
        let wrong = |why: &str| Error::Config(format!("[source]: {why}"));
        let url = config.url.as_deref().unwrap_or_default();
        let address = url.strip_prefix("mysql://").unwrap_or_default();
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()),
            None => (address, Some(PORT)),
        };
        let (false, Some(port)) = (host.is_empty() || address.contains(['/', '@']), port) else {
            return Err(wrong("url must be mysql://HOST:PORT"));
        };
        let table = TableName::parse(config.table.as_deref().unwrap_or_default());
        let mut tables = vec![table.ok_or_else(|| wrong("table must be DATABASE.TABLE"))?];
        let mut joins = Vec::new();
        for config in &config.joins {
            let name = TableName::parse(&config.table).ok_or_else(|| {
                let field = &config.field;
                wrong(&format!("join {field:?}: table must be DATABASE.TABLE"))
            })?;
            let known = tables.iter().position(|table| *table == name);
            joins.push(Join {
                config: config.clone(),
                table: known.unwrap_or(tables.len()),
            });
            if known.is_none() {
                tables.push(name);
            }
        }
        let on_lost_position = config.on_lost_position()?;
        let read = |path| env.read(path, FILE_BYTES_MAX);
        let password = config.password_file.as_deref().map(read).transpose()?;
        let password = password.map(|bytes| String::from_utf8_lossy(&bytes).trim_end().to_owned());
        let ca = config.ca.as_deref().map(read).transpose()?;
        let tls = ca.map(|ca| {
            SslOpts::default()
                .with_root_certs(vec![ca.into()])
                .with_disable_built_in_roots(true)
        });
        let host = host.trim_matches(['[', ']']).to_owned();
        let opts = OptsBuilder::default()
            .ip_or_hostname(host.clone())
            .tcp_port(port)
            .user(config.user.clone())
            .pass(password)
            .ssl_opts(tls)
            .prefer_socket(false)
            .stmt_cache_size(0)
            .setup(vec![
                // Values of rows are compared with those of the binlog, which are in UTC.
                "SET NAMES utf8mb4, time_zone = '+00:00'",
                // With any other level a transaction has no consistent snapshot.
                "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            ]);
        Ok(MysqlOptions {
            host,
            port,
            tables,
            fields: config.document.clone().unwrap_or_default(),
            joins,
            on_lost_position,
            timeout: Duration::from_secs(config.timeout_s.unwrap_or(TIMEOUT_S)),
            opts: opts.into(),
        })
    }

    /// A connection.
    pub(crate) async fn connect(&self) -> Result<mysql_async::Conn, Fault> {
        let connect = mysql_async::Conn::new(self.opts.clone());
        self.within(async { connect.await.or_fault() }).await
    }

    /// What a step of the server gives, if that does not take too long. A step of joined documents
    /// has a query of each table.
    pub(crate) async fn within<T>(
        &self,
        step: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let queries = u32::try_from(1 + self.joins.len()).unwrap_or(u32::MAX);
        let timeout = self.timeout.saturating_mul(queries);
        match tokio::time::timeout(timeout, step).await {
            Ok(done) => done,
            Err(_) => Err(Fault::Away(format!("{self} does not answer"))),
        }
    }
}

/// The server's address.
impl std::fmt::Display for MysqlOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "mysql://{}:{}", self.host, self.port)
    }
}

/// A name in SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Text in SQL.
pub(crate) fn text(text: &str) -> String {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("_utf8mb4 x'{hex}'")
}
