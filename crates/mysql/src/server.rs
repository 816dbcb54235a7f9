//! Whether a server keeps a binlog that can be followed, and where that ends.

use crate::fault::OrFault;
use crate::options::text;
use crate::place::Offset;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use quire_ship::Fault;

/// Settings that a server must have, and how they are set.
const SETTINGS: [(&str, &str); 5] = [
    ("log_bin", "1"),
    ("binlog_format", "ROW"),
    ("binlog_row_image", "FULL"),
    ("binlog_row_metadata", "FULL"),
    ("log_bin_compress", "0"),
];

/// Checks the server; returns its id.
///
/// # Errors
/// If its binlog can't be followed: all that must be set.
pub(crate) async fn check(conn: &mut Conn) -> Result<u32, Fault> {
    let version: Option<String> = conn.query_first("SELECT VERSION()").await.or_fault()?;
    let version = version.unwrap_or_default();
    let mut numbers = version
        .split(['.', '-'])
        .map_while(|part| part.parse().ok());
    let number: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if !version.contains("MariaDB") || number < (10, 5) {
        return Err(Fault::Stop(format!(
            "it is {version}, and this reads MariaDB from 10.5 on"
        )));
    }
    let mut wrong = Vec::new();
    for (name, wanted) in SETTINGS {
        let found: Option<String> = conn
            .query_first(format!("SELECT @@GLOBAL.{name}"))
            .await
            .or_fault()?;
        let found = found.unwrap_or_default();
        if found != wanted {
            wrong.push(match name {
                "log_bin" => "log_bin (in the server's file, with a restart)".to_owned(),
                _ => format!("SET GLOBAL {name} = {wanted} (it is {found})"),
            });
        }
    }
    if !wrong.is_empty() {
        let wrong = wrong.join("; ");
        return Err(Fault::Stop(format!("the server needs: {wrong}")));
    }
    let id: Option<u32> = conn.query_first("SELECT @@server_id").await.or_fault()?;
    Ok(id.unwrap_or(0))
}

/// Where the binlog ends.
pub(crate) async fn end(conn: &mut Conn) -> Result<Offset, Fault> {
    let end: Option<(String, u64, String, String)> =
        conn.query_first("SHOW MASTER STATUS").await.or_fault()?;
    match end {
        Some((file, offset, ..)) => Ok(Offset { file, offset }),
        None => Err(Fault::Stop("the server has no binlog".to_owned())),
    }
}

/// The last transactions before an offset; none if the binlog has no such offset.
pub(crate) async fn gtid_at(conn: &mut Conn, at: &Offset) -> Result<Option<String>, Fault> {
    let file = text(&at.file);
    let query = format!("SELECT BINLOG_GTID_POS({file}, {})", at.offset);
    let gtid: Result<Option<Option<String>>, Fault> = conn.query_first(query).await.or_fault();
    match gtid {
        Ok(gtid) => Ok(gtid.flatten()),
        Err(fault @ Fault::Away(_)) => Err(fault),
        // Of a file that is not there.
        Err(_) => Ok(None),
    }
}

/// The last transactions before an offset.
pub(crate) async fn gtid(conn: &mut Conn, at: &Offset) -> Result<String, Fault> {
    let gtid = gtid_at(conn, at).await?;
    gtid.ok_or_else(|| {
        Fault::Away(format!(
            "the binlog has nothing at {}:{}",
            at.file, at.offset
        ))
    })
}
