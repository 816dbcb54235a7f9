//! What the file of a pipe says of the source.

use crate::tls::{Tls, roots};
use quire_env::Env;
use quire_ship::{Error, OnLostPosition, Result, SourceConfig};
use std::time::Duration;

const PORT: u16 = 5432;
const FILE_BYTES_MAX: u64 = 1 << 20;
const TIMEOUT_S: u64 = 60;

/// The most bytes of a name in PostgreSQL.
const NAME_BYTES_MAX: usize = 63;

/// How values are written, whatever the server's settings are; and rows that a policy hides from
/// the user are an error.
const SETTINGS: &str = "-c datestyle=ISO,YMD -c intervalstyle=postgres -c timezone=UTC \
                        -c extra_float_digits=3 -c bytea_output=hex -c row_security=off \
                        -c standard_conforming_strings=on -c search_path=pg_catalog";

/// Which table, of which server, and as whom.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    pub(crate) host: String,
    pub(crate) port: u16,
    database: String,
    pub(crate) schema: String,
    pub(crate) table: String,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) tls: Tls,
    pub(crate) publication: String,
    pub(crate) on_lost_position: OnLostPosition,
    pub(crate) timeout: Duration,
}

impl PostgresOptions {
    /// Reads the options, and the file with the password.
    ///
    /// # Errors
    /// If something is missing or wrong: a sentence that says what.
    pub fn new(env: &dyn Env, config: &SourceConfig) -> Result<PostgresOptions> {
        let wrong = |why: &str| Error::Config(format!("[source]: {why}"));
        let url = config.url.as_deref().unwrap_or_default();
        let place = ["postgres://", "postgresql://"]
            .iter()
            .find_map(|scheme| url.strip_prefix(scheme))
            .and_then(|rest| rest.split_once('/'));
        let (address, database) = place.unwrap_or_default();
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()),
            None => (address, Some(PORT)),
        };
        let is_name = |name: &str| !name.is_empty() && !name.contains(['/', '@', '?']);
        let (true, true, Some(port)) = (is_name(host), is_name(database), port) else {
            return Err(wrong("url must be postgres://HOST:PORT/DATABASE"));
        };
        let table = config.table.as_deref().unwrap_or_default();
        let (schema, table) = table
            .split_once('.')
            .ok_or_else(|| wrong("table must be SCHEMA.TABLE"))?;
        let user = config.user.clone();
        let user = user.ok_or_else(|| wrong("type postgres needs user"))?;
        let password = config.password_file.as_deref();
        let password = password.map(|path| env.read(path, FILE_BYTES_MAX));
        let password = password.transpose()?.unwrap_or_default();
        let ca = match &config.ca {
            Some(path) => {
                let pem = env.read(path, FILE_BYTES_MAX)?;
                let why = |why: String| wrong(&format!("{}: {why}", path.display()));
                Some(roots(&pem).map_err(why)?)
            }
            None => None,
        };
        let tls = match (config.sslmode.as_deref(), ca) {
            (None | Some("verify-full"), Some(ca)) => Tls::VerifyFull(ca),
            (Some("verify-ca"), Some(ca)) => Tls::VerifyCa(ca),
            (None | Some("prefer"), None) => Tls::Prefer,
            (Some("disable"), None) => Tls::Disable,
            (Some("require"), None) => Tls::Require,
            (Some("verify-full" | "verify-ca"), None) => {
                return Err(wrong("sslmode verifies the server: name its ca"));
            }
            (Some("prefer" | "disable" | "require"), Some(_)) => {
                return Err(wrong("with ca the sslmode is verify-full or verify-ca"));
            }
            (Some(_), _) => {
                return Err(wrong(
                    "sslmode must be disable, prefer, require, verify-ca or verify-full",
                ));
            }
        };
        let publication = match &config.publication {
            Some(name) if !name.is_empty() && name.len() <= NAME_BYTES_MAX => name.clone(),
            Some(_) => return Err(wrong("publication must be a name of 1 to 63 bytes")),
            None => cut(format!("quire_{schema}_{table}")),
        };
        Ok(PostgresOptions {
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            database: database.to_owned(),
            schema: schema.to_owned(),
            table: table.to_owned(),
            user,
            password: String::from_utf8_lossy(&password).trim_end().to_owned(),
            tls,
            publication,
            on_lost_position: config.on_lost_position()?,
            timeout: Duration::from_secs(config.timeout_s.unwrap_or(TIMEOUT_S)),
        })
    }

    /// What the server is told when a connection begins.
    pub(crate) fn parameters(&self) -> Vec<(&str, &str)> {
        vec![
            ("user", &self.user),
            ("database", &self.database),
            ("client_encoding", "UTF8"),
            ("application_name", "quire"),
            ("options", SETTINGS),
        ]
    }

    /// A name for a slot that no other reader has.
    pub(crate) fn slot(&self, random: u64) -> String {
        let table: String = self.table.to_lowercase();
        let table: String = table
            .chars()
            .map(|char| {
                if char.is_ascii_alphanumeric() {
                    char
                } else {
                    '_'
                }
            })
            .take(24)
            .collect();
        format!("quire_{table}_{random:016x}")
    }

    /// The table's name in SQL.
    pub(crate) fn quoted_table(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.table))
    }
}

/// The address of the server and the database.
impl std::fmt::Display for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "postgres://{}:{}/{}",
            self.host, self.port, self.database
        )
    }
}

fn cut(mut name: String) -> String {
    while name.len() > NAME_BYTES_MAX {
        name.pop();
    }
    name
}

/// A name in SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Text in SQL.
pub(crate) fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
