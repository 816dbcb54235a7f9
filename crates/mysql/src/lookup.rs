//! Joined documents, read from the primary in one consistent snapshot.
//!
//! The server joins: each join is one query for all documents of a step, which gives the primary
//! key of the document's row beside each row of the joined table. So values are compared as the
//! server compares them, and a document is what a SQL join at the snapshot gives.

use crate::dirty::{Keys, Related};
use crate::fault::OrFault;
use crate::fields::{Fields, json};
use crate::options::{Join, MysqlOptions, quoted};
use crate::place::{Offset, Snapshot};
use crate::relation::order;
use crate::row;
use crate::snapshot::{Chunk, ChunkRows, Done, after, begin, parts};
use crate::table::Table;
use crate::value::{Kind, sql, write_json};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Value};
use quire_ship::{Fault, JoinKind};
use std::collections::{HashMap, HashSet};

/// The most documents of a step: longer lists of values are no longer found by index.
pub(crate) const DOCUMENTS_MAX: usize = 500;

/// The most keys that are found at once.
const KEYS_MAX: usize = 10_000;

/// Bytes of a step, about; if it is one document, it is too large.
const STEP_BYTES_MAX: usize = 32 << 20;

/// What is read.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// The next rows.
    Rows(Snapshot),
    /// Documents by key, and when the first of their changes was committed.
    Marked(Keys, i64),
}

/// A document that is being made.
struct Draft {
    key: String,
    parts: Vec<String>,
    text: String,
}

/// Why a step can't be read as it is.
enum Stop {
    Fault(Fault),
    /// It is larger than memory allows.
    TooMuch,
}

impl<E: Into<Fault>> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::Fault(error.into())
    }
}

/// Reads the documents that are wanted: all, or the first of them, as memory allows.
pub(crate) async fn chunk(
    conn: &mut Conn,
    options: &MysqlOptions,
    tables: &[Table],
    wanted: Wanted,
    size: &mut ChunkRows,
) -> Result<Chunk, Fault> {
    let mut lookup = Lookup {
        conn,
        options,
        tables,
        bytes: 0,
    };
    loop {
        let limit = size.get().min(DOCUMENTS_MAX);
        lookup.bytes = 0;
        match lookup.step(&wanted, limit).await {
            Ok(chunk) => {
                size.learn(chunk.documents.len(), lookup.bytes, DOCUMENTS_MAX);
                return Ok(chunk);
            }
            Err(Stop::Fault(fault)) => return Err(fault),
            Err(Stop::TooMuch) if size.shrink() => {}
            Err(Stop::TooMuch) => {
                return Err(Fault::Stop(format!(
                    "a document of {} has more than {} MiB of joined rows: join fewer columns, or \
                     a count",
                    options.tables[0],
                    STEP_BYTES_MAX >> 20
                )));
            }
        }
    }
}

struct Lookup<'a> {
    conn: &'a mut Conn,
    options: &'a MysqlOptions,
    tables: &'a [Table],
    /// What was read in this step.
    bytes: usize,
}

impl Lookup<'_> {
    async fn step(&mut self, wanted: &Wanted, limit: usize) -> Result<Chunk, Stop> {
        let at = begin(self.conn).await?;
        let (drafts, done, time_micros) = match wanted {
            Wanted::Rows(progress) => {
                let condition = match progress {
                    Snapshot::After(parts) => after(&key(&self.tables[0]), parts),
                    Snapshot::Begun | Snapshot::Done => "TRUE".to_owned(),
                };
                let drafts = self.base(&condition, true, limit).await?;
                let last = drafts.last().filter(|_| drafts.len() == limit);
                let progress =
                    last.map_or(Snapshot::Done, |last| Snapshot::After(last.parts.clone()));
                (drafts, Done::Rows(progress), None)
            }
            Wanted::Marked(keys, time) => {
                let keys = &keys[..keys.len().min(limit)];
                let parts: Vec<&[String]> = keys.iter().map(|(_, parts)| &**parts).collect();
                let condition = any_of(&key(&self.tables[0]), &parts);
                let drafts = self.base(&condition, false, limit).await?;
                (drafts, Done::Marked, Some(*time))
            }
        };
        let documents = self.join(drafts).await?;
        self.conn.query_drop("COMMIT").await.or_fault()?;
        let documents = documents.into_iter();
        let mut documents: Vec<(String, Option<Box<str>>)> = documents
            .map(|draft| (draft.key, Some(draft.text.into())))
            .collect();
        if let Wanted::Marked(keys, _) = wanted {
            let found: HashSet<&str> = documents.iter().map(|(key, _)| &**key).collect();
            let keys = keys.iter().take(limit).map(|(key, _)| key);
            let gone = keys.filter(|key| !found.contains(key.as_str()));
            let gone: Vec<_> = gone.map(|key| (key.clone(), None)).collect();
            documents.extend(gone);
        }
        Ok(Chunk {
            at,
            documents,
            time_micros,
            done,
        })
    }

    /// Rows of the documents' table, as documents without joined fields. With `is_next`, in the
    /// order of the key.
    async fn base(
        &mut self,
        condition: &str,
        is_next: bool,
        limit: usize,
    ) -> Result<Vec<Draft>, Stop> {
        let (table, name) = (&self.tables[0], self.options.tables[0].quoted());
        let columns = table.columns.iter();
        let columns: Vec<String> = columns
            .map(|(name, _)| format!("b.{}", quoted(name)))
            .collect();
        let (hint, order) = match is_next {
            true => (
                " FORCE INDEX (PRIMARY)",
                format!(" ORDER BY {}", key(&self.tables[0]).join(", ")),
            ),
            false => ("", String::new()),
        };
        let query = format!(
            "SELECT {} FROM {name} AS b{hint} WHERE {condition}{order} LIMIT {limit}",
            columns.join(", ")
        );
        let fields = Fields::of(&self.options.fields, &table.columns);
        let mut drafts = Vec::new();
        let bytes = &mut self.bytes;
        read(self.conn, query, |values| {
            let mut text = String::new();
            fields.write(&values, &mut text);
            // Joined fields come before the end.
            text.pop();
            *bytes += text.len();
            drafts.push(Draft {
                key: row::key(&table.columns, &table.key, &values),
                parts: parts(table, &values),
                text,
            });
            *bytes <= STEP_BYTES_MAX || drafts.len() == 1
        })
        .await?;
        Ok(drafts)
    }

    /// Adds the joined fields.
    async fn join(&mut self, mut drafts: Vec<Draft>) -> Result<Vec<Draft>, Stop> {
        for join in &self.options.joins {
            let found = match drafts.is_empty() {
                true => break,
                false => self.joined(join, &drafts).await?,
            };
            let name = json(&join.config.field);
            for (draft, found) in drafts.iter_mut().zip(found) {
                if draft.text.len() > 1 {
                    draft.text.push(',');
                }
                draft.text.push_str(&name);
                draft.text.push(':');
                match (join.config.kind, found.is_empty()) {
                    (JoinKind::Many, _) => draft.text.push_str(&format!("[{found}]")),
                    (JoinKind::One, true) => draft.text.push_str("null"),
                    (JoinKind::Count | JoinKind::Sum, true) => draft.text.push('0'),
                    (_, false) => draft.text.push_str(&found),
                }
            }
        }
        for draft in &mut drafts {
            draft.text.push('}');
        }
        Ok(drafts)
    }

    /// The joined rows of each document, with commas between them.
    async fn joined(&mut self, join: &Join, drafts: &[Draft]) -> Result<Vec<String>, Stop> {
        let (config, base) = (&join.config, &self.tables[0]);
        let (table, name) = (&self.tables[join.table], &self.options.tables[join.table]);
        let key = key(base);
        let shown: Vec<String> = match config.kind {
            JoinKind::One | JoinKind::Many => {
                let columns = table.columns.iter();
                columns
                    .map(|(name, _)| format!("j.{}", quoted(name)))
                    .collect()
            }
            JoinKind::Count => vec!["COUNT(*)".to_owned()],
            JoinKind::Sum => {
                let column = quoted(config.sum.as_deref().unwrap_or_default());
                vec![format!("SUM(j.{column})")]
            }
        };
        let on = config.on.iter();
        let on = on.map(|(own, other)| format!("j.{} = b.{}", quoted(other), quoted(own)));
        let end = match config.kind {
            JoinKind::One => String::new(),
            JoinKind::Many => {
                let order = order(config, table).into_iter();
                let order = order.map(|(name, descends)| {
                    let how = if descends { " DESC" } else { "" };
                    format!("j.{}{how}", quoted(&name))
                });
                format!(" ORDER BY {}", order.collect::<Vec<_>>().join(", "))
            }
            JoinKind::Count | JoinKind::Sum => format!(" GROUP BY {}", key.join(", ")),
        };
        let parts: Vec<&[String]> = drafts.iter().map(|draft| &*draft.parts).collect();
        let query = format!(
            "SELECT {}, {} FROM {} AS b STRAIGHT_JOIN {} AS j ON {} WHERE {}{end}",
            key.join(", "),
            shown.join(", "),
            self.options.tables[0].quoted(),
            name.quoted(),
            on.collect::<Vec<_>>().join(" AND "),
            any_of(&key, &parts)
        );
        let keys = drafts.iter().enumerate();
        let places: HashMap<&str, usize> = keys.map(|(at, draft)| (&*draft.key, at)).collect();
        let (key_columns, key_places) = key_columns(base);
        let fields = Fields::of(&config.fields(), &table.columns);
        let mut found = vec![String::new(); drafts.len()];
        let bytes = &mut self.bytes;
        read(self.conn, query, |values| {
            let key = row::key(&key_columns, &key_places, &values);
            let Some(text) = places.get(key.as_str()).and_then(|at| found.get_mut(*at)) else {
                return true;
            };
            let (before, shown) = (text.len(), &values[key_columns.len()..]);
            match (config.kind, shown) {
                (JoinKind::Count | JoinKind::Sum, [Value::NULL]) => {}
                (JoinKind::Count | JoinKind::Sum, [number]) => {
                    write_json(Kind::Number, number, text);
                }
                _ => {
                    if !text.is_empty() {
                        text.push(',');
                    }
                    fields.write(shown, text);
                }
            }
            *bytes += text.len() - before;
            *bytes <= STEP_BYTES_MAX
        })
        .await?;
        Ok(found)
    }
}

/// The columns of the primary key of the documents' table.
fn key(table: &Table) -> Vec<String> {
    let names = table.key.iter().map(|at| &table.columns[*at].0);
    names.map(|name| format!("b.{}", quoted(name))).collect()
}

/// The documents of marks, or of the first of them.
#[derive(Debug)]
pub(crate) struct Found {
    /// Where the binlog was.
    pub(crate) at: Offset,
    pub(crate) related: Related,
    pub(crate) keys: Keys,
    /// The last key, if there are more.
    pub(crate) rest: Option<Vec<String>>,
}

/// Finds the documents of marks.
pub(crate) async fn find(
    conn: &mut Conn,
    options: &MysqlOptions,
    table: &Table,
    mut related: Related,
) -> Result<Found, Fault> {
    let at = begin(conn).await?;
    let on = options.joins[related.join].config.on.keys();
    let on: Vec<String> = on.map(|name| format!("b.{}", quoted(name))).collect();
    let key = key(table);
    let (key_columns, key_places) = key_columns(table);
    loop {
        let values: Vec<&[String]> = related.values.iter().map(|values| &**values).collect();
        let mut condition = format!("({})", any_of(&on, &values));
        if let Some(known) = &related.after {
            condition = format!("{condition} AND ({})", after(&key, known));
        }
        let is_one = related.values.len() == 1;
        let order = match is_one {
            true => format!(" ORDER BY {}", key.join(", ")),
            false => String::new(),
        };
        let query = format!(
            "SELECT {} FROM {} AS b WHERE {condition}{order} LIMIT {KEYS_MAX}",
            key.join(", "),
            options.tables[0].quoted()
        );
        let rows: Vec<mysql_async::Row> = conn.exec(query, ()).await.or_fault()?;
        let is_all = rows.len() < KEYS_MAX;
        if !is_all && !is_one {
            related.values.truncate(related.values.len().div_ceil(2));
            continue;
        }
        conn.query_drop("COMMIT").await.or_fault()?;
        let keys = rows.into_iter().map(|row| {
            let values: Vec<Value> = row.unwrap();
            let parts = key_columns.iter().zip(&values);
            let parts = parts.map(|((_, kind), value)| sql(*kind, value).unwrap_or_default());
            let parts = parts.collect();
            (row::key(&key_columns, &key_places, &values), parts)
        });
        let keys: Keys = keys.collect();
        let last = keys.last().filter(|_| !is_all);
        let rest = last.map(|(_, parts)| parts.clone());
        return Ok(Found {
            at,
            related,
            keys,
            rest,
        });
    }
}

/// The columns of a row that is a primary key.
fn key_columns(table: &Table) -> (Vec<(String, Kind)>, Vec<usize>) {
    let columns = table.key.iter().map(|at| table.columns[*at].clone());
    (columns.collect(), (0..table.key.len()).collect())
}

/// Reads rows as long as they are wanted.
async fn read(
    conn: &mut Conn,
    query: String,
    mut take: impl FnMut(Vec<Value>) -> bool,
) -> Result<(), Stop> {
    let mut rows = conn.exec_iter(query, ()).await.or_fault()?;
    while let Some(row) = rows.next().await.or_fault()? {
        if !take(row.unwrap()) {
            return Err(Stop::TooMuch);
        }
    }
    Ok(())
}

/// The condition that columns have one of these values.
fn any_of(columns: &[String], values: &[&[String]]) -> String {
    if let [column] = columns {
        let values: Vec<&str> = values
            .iter()
            .flat_map(|values| values.iter())
            .map(|v| &**v)
            .collect();
        return format!("{column} IN ({})", values.join(", "));
    }
    let terms = values.iter().map(|values| {
        let equal = columns.iter().zip(*values);
        let equal: Vec<String> = equal
            .map(|(name, part)| format!("{name} = {part}"))
            .collect();
        format!("({})", equal.join(" AND "))
    });
    terms.collect::<Vec<_>>().join(" OR ")
}
