//! What a table is, as its definition says now.

use crate::options::{PostgresOptions, quoted, text};
use crate::session::{Session, field, is_true};
use crate::types::Types;
use crate::value::Kind;
use quire_ship::Fault;

/// The present definition.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) id: u32,
    /// All columns but those that are computed, which the stream does not have.
    pub(crate) columns: Vec<(String, Kind)>,
    /// The columns of the primary key, in its order.
    pub(crate) key: Vec<usize>,
    /// Whether it has partitions, whose rows are its own.
    pub(crate) is_partitioned: bool,
    pub(crate) types: Types,
}

impl Table {
    /// Reads the definition.
    ///
    /// # Errors
    /// If there is no such table, or it can't be followed: all reasons.
    pub(crate) async fn read(
        session: &mut Session,
        options: &PostgresOptions,
    ) -> Result<Table, Fault> {
        let name = format!("{}.{}", options.schema, options.table);
        let rows = session
            .query(&format!(
                "SELECT c.oid, c.relkind, c.relpersistence, c.relreplident, \
                 has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE') \
                 FROM pg_class c JOIN pg_namespace n \
                 ON n.oid = c.relnamespace WHERE n.nspname = {} AND c.relname = {}",
                text(&options.schema),
                text(&options.table)
            ))
            .await?;
        let Some(row) = rows.first() else {
            return Err(Fault::Stop(format!("there is no table {name}")));
        };
        let id: u32 = field(row, 0).parse().unwrap_or(0);
        let columns = session
            .query(&format!(
                "SELECT attname, atttypid FROM pg_attribute WHERE attrelid = {id} AND attnum > 0 \
                 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
            ))
            .await?;
        let key = session
            .query(&format!(
                "SELECT a.attname, i.indimmediate, i.indisreplident FROM pg_index i CROSS JOIN \
                 unnest(i.indkey) WITH ORDINALITY AS k (attnum, ord) JOIN pg_attribute a ON \
                 a.attrelid = i.indrelid AND a.attnum = k.attnum WHERE i.indrelid = {id} AND \
                 i.indisprimary AND k.ord <= i.indnkeyatts ORDER BY k.ord"
            ))
            .await?;
        let mut wrong = Vec::new();
        let quoted_table = options.quoted_table();
        if !["r", "p"].contains(&field(row, 1)) || field(row, 2) != "p" {
            wrong.push("only the rows of ordinary and partitioned tables are in the log".into());
        }
        if !is_true(row, 4) {
            let role = quoted(&options.user);
            wrong.push(format!(
                "GRANT USAGE ON SCHEMA {} TO {role}; GRANT SELECT ON {quoted_table} TO {role}",
                quoted(&options.schema)
            ));
        }
        let to_default = format!("ALTER TABLE {quoted_table} REPLICA IDENTITY DEFAULT");
        match (key.first(), field(row, 3)) {
            (None, _) => {
                wrong.push("it has no primary key, which would be the key of documents".into());
            }
            (Some(first), "d") if !is_true(first, 1) => wrong.push(format!(
                "its primary key is deferrable, so changes do not name their rows: ALTER TABLE \
                 {quoted_table} REPLICA IDENTITY FULL"
            )),
            (Some(_), "n") => wrong.push(format!("changes do not name their rows: {to_default}")),
            (Some(first), "i") if !is_true(first, 2) => wrong.push(format!(
                "changes name their rows by another index than the primary key: {to_default}"
            )),
            _ => {}
        }
        if !wrong.is_empty() {
            return Err(Fault::Stop(format!(
                "table {name} can't be followed: {}",
                wrong.join("; ")
            )));
        }
        let type_of = |row| field(row, 1).parse().unwrap_or(0);
        let mut types = Types::default();
        types.learn(session, columns.iter().map(type_of)).await?;
        let columns: Vec<(String, Kind)> = columns
            .iter()
            .map(|row| (field(row, 0).to_owned(), types.kind(type_of(row))))
            .collect();
        let place_of = |row| columns.iter().position(|(name, _)| name == field(row, 0));
        let key: Vec<usize> = key.iter().filter_map(place_of).collect();
        Ok(Table {
            id,
            key,
            columns,
            is_partitioned: field(row, 1) == "p",
            types,
        })
    }

    /// The names of the key's columns.
    pub(crate) fn key_names(&self) -> Vec<String> {
        let names = self.key.iter().map(|at| self.columns[*at].0.clone());
        names.collect()
    }

    /// The table in `FROM`: without those that inherit from it, whose changes are their own.
    pub(crate) fn from(&self, options: &PostgresOptions) -> String {
        let only = if self.is_partitioned { "" } else { "ONLY " };
        format!("{only}{}", options.quoted_table())
    }

    /// The names of all columns in SQL.
    pub(crate) fn quoted_columns(&self) -> Vec<String> {
        self.columns.iter().map(|(name, _)| quoted(name)).collect()
    }

    /// The names of the key's columns in SQL.
    pub(crate) fn quoted_key(&self) -> String {
        let names: Vec<String> = self.key_names().iter().map(|name| quoted(name)).collect();
        names.join(", ")
    }
}

/// The parts of a key in SQL, between parentheses. Their types are those of what they are compared
/// with.
pub(crate) fn key_in_sql(parts: &[String]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| text(part)).collect();
    format!("({})", parts.join(", "))
}
