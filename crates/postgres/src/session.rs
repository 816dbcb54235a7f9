//! A connection for queries.

use crate::options::PostgresOptions;
use crate::wire::{Row, Use, Wire};
use quire_ship::Fault;
use std::time::Duration;

/// What reading a whole table may take.
const WHOLE_TABLE: Duration = Duration::from_secs(3600);

/// A connection.
pub(crate) struct Session {
    wire: Wire,
    timeout: Duration,
    address: String,
}

impl Session {
    pub(crate) async fn connect(options: &PostgresOptions) -> Result<Session, Fault> {
        let connecting = Wire::connect(options, Use::Queries);
        match tokio::time::timeout(options.timeout, connecting).await {
            Ok(wire) => Ok(Session {
                wire: wire?,
                timeout: options.timeout,
                address: options.to_string(),
            }),
            Err(_) => Err(Fault::Away(format!("{options} does not answer"))),
        }
    }

    /// The rows of a query, or of several.
    pub(crate) async fn query(&mut self, sql: &str) -> Result<Vec<Row>, Fault> {
        match tokio::time::timeout(self.timeout, self.wire.query(sql)).await {
            Ok(rows) => rows,
            Err(_) => Err(Fault::Away(format!("{} does not answer", self.address))),
        }
    }

    /// The first rows of a query, as [`Wire::query_first`] says.
    pub(crate) async fn query_first(
        &mut self,
        sql: &str,
        bytes_max: usize,
    ) -> Result<(Vec<Row>, bool), Fault> {
        let rows = self.wire.query_first(sql, bytes_max);
        match tokio::time::timeout(self.timeout, rows).await {
            Ok(rows) => rows,
            Err(_) => Err(Fault::Away(format!("{} does not answer", self.address))),
        }
    }

    /// Waits for queries as long as reading a whole table may take.
    pub(crate) fn be_patient(&mut self) {
        self.timeout = self.timeout.max(WHOLE_TABLE);
    }

    /// The one value of a query; none if there is no row, or it is null.
    pub(crate) async fn value(&mut self, sql: &str) -> Result<Option<String>, Fault> {
        let rows = self.query(sql).await?;
        Ok(rows.into_iter().flatten().next().flatten())
    }
}

/// A value of a row; empty if it is null.
pub(crate) fn field(row: &Row, index: usize) -> &str {
    row.get(index)
        .and_then(Option::as_deref)
        .unwrap_or_default()
}

/// Whether a value of a row is true.
pub(crate) fn is_true(row: &Row, index: usize) -> bool {
    field(row, index) == "t"
}
