//! Whether a server's changes can be followed: its settings, and the table's publication.

use crate::fault::state;
use crate::options::{PostgresOptions, quoted, text};
use crate::place::parse_lsn;
use crate::session::{Session, field, is_true};
use crate::table::Table;
use quire_ship::Fault;

/// PostgreSQL 14, as the server numbers it, and 15, which has filters in publications.
const VERSION_MIN: u32 = 140_000;
const VERSION_WITH_FILTERS: u32 = 150_000;

/// What a server is.
pub(crate) struct Server {
    /// The number of the cluster, which its copies share.
    pub(crate) system: String,
    version: u32,
}

/// Checks the server.
///
/// # Errors
/// If its changes can't be followed: all that must be set.
pub(crate) async fn check(session: &mut Session) -> Result<Server, Fault> {
    let rows = session
        .query(
            "SELECT current_setting('server_version_num'), current_setting('server_version'), \
             current_setting('wal_level'), pg_is_in_recovery(), system_identifier \
             FROM pg_control_system()",
        )
        .await?;
    let row = rows.first().cloned().unwrap_or_default();
    let version = field(&row, 0).parse().unwrap_or(0);
    if version < VERSION_MIN {
        return Err(Fault::Stop(format!(
            "it is PostgreSQL {}, and this reads PostgreSQL from 14 on",
            field(&row, 1)
        )));
    }
    if is_true(&row, 3) {
        return Err(Fault::Stop("it is a standby; name its primary".to_owned()));
    }
    if field(&row, 2) != "logical" {
        return Err(Fault::Stop(format!(
            "the server needs: ALTER SYSTEM SET wal_level = 'logical', and a restart (it is {})",
            field(&row, 2)
        )));
    }
    Ok(Server {
        system: field(&row, 4).to_owned(),
        version,
    })
}

impl Server {
    /// Checks the publication; returns the statement that makes it if there is none.
    ///
    /// # Errors
    /// If it leaves out changes or rows of the table: the statement that mends it.
    pub(crate) async fn missing_publication(
        &self,
        session: &mut Session,
        options: &PostgresOptions,
        table: &Table,
    ) -> Result<Option<String>, Fault> {
        let name = &options.publication;
        let (publication, quoted_table) = (quoted(name), options.quoted_table());
        let rows = session
            .query(&format!(
                "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication \
                 WHERE pubname = {}",
                text(name)
            ))
            .await?;
        let Some(row) = rows.first() else {
            return Ok(Some(format!(
                "CREATE PUBLICATION {publication} FOR TABLE {} WITH (publish_via_partition_root = \
                 true)",
                table.from(options)
            )));
        };
        if !is_true(row, 0) {
            return Err(Fault::Stop(format!(
                "publication {name} leaves out some changes: ALTER PUBLICATION {publication} SET \
                 (publish = 'insert, update, delete, truncate')"
            )));
        }
        let filters = match self.version >= VERSION_WITH_FILTERS {
            true => "rowfilter IS NOT NULL, cardinality(attnames)",
            false => "FALSE, NULL",
        };
        let rows = session
            .query(&format!(
                "SELECT {filters} FROM pg_publication_tables WHERE pubname = {} AND schemaname = \
                 {} AND tablename = {}",
                text(name),
                text(&options.schema),
                text(&options.table)
            ))
            .await?;
        let Some(row) = rows.first() else {
            let how = match table.is_partitioned {
                true => "SET (publish_via_partition_root = true)".to_owned(),
                false => format!("ADD TABLE {}", table.from(options)),
            };
            return Err(Fault::Stop(format!(
                "publication {name} does not have the table: ALTER PUBLICATION {publication} {how}"
            )));
        };
        let columns = field(row, 1).parse().unwrap_or(table.columns.len());
        if is_true(row, 0) || columns < table.columns.len() {
            return Err(Fault::Stop(format!(
                "publication {name} leaves out rows or columns of the table: ALTER PUBLICATION \
                 {publication} SET TABLE {quoted_table}"
            )));
        }
        Ok(None)
    }
}

/// Whether the user may make the publication.
///
/// # Errors
/// If not: the statement that must be run.
pub(crate) async fn may_publish(
    session: &mut Session,
    table: &Table,
    statement: &str,
) -> Result<(), Fault> {
    let may = session
        .value(&format!(
            "SELECT pg_has_role(relowner, 'USAGE') AND has_database_privilege(current_database(), \
             'CREATE') FROM pg_class WHERE oid = {}",
            table.id
        ))
        .await?;
    match may.as_deref() {
        Some("t") => Ok(()),
        _ => Err(unpublished(statement)),
    }
}

/// Makes the publication.
pub(crate) async fn publish(session: &mut Session, statement: &str) -> Result<(), Fault> {
    match session.query(statement).await {
        Ok(_) => Ok(()),
        // Another sink of the same pipe was faster.
        Err(Fault::Stop(why)) if ["42710", "23505"].contains(&state(&why)) => Ok(()),
        Err(Fault::Stop(why)) if state(&why) == "42501" => Err(unpublished(statement)),
        Err(fault) => Err(fault),
    }
}

fn unpublished(statement: &str) -> Fault {
    Fault::Stop(format!(
        "there is no publication of the table, and this user may not make it. Its owner must run: \
         {statement}"
    ))
}

/// Where the log ends that readers can have, and the table's number if it is there.
pub(crate) async fn end(
    session: &mut Session,
    options: &PostgresOptions,
) -> Result<(u64, Option<u32>), Fault> {
    let rows = session
        .query(&format!(
            "SELECT pg_current_wal_flush_lsn(), (SELECT c.oid FROM pg_class c JOIN pg_namespace n \
             ON n.oid = c.relnamespace WHERE n.nspname = {} AND c.relname = {})",
            text(&options.schema),
            text(&options.table)
        ))
        .await?;
    let row = rows.first().cloned().unwrap_or_default();
    let end = parse_lsn(field(&row, 0));
    let end =
        end.ok_or_else(|| Fault::Stop("the server does not say where its log ends".into()))?;
    Ok((end, field(&row, 1).parse().ok()))
}
