//! The seam to `ship`.

use crate::fault::OrFault;
use crate::options::MysqlOptions;
use crate::relation;
use crate::table::{Table, read_all};
use crate::topic::TableTopic;
use crate::value::Kind;
use mysql_async::prelude::Queryable;
use quire_env::Env;
use quire_ship::{Error, Result, Source, Topic};
use serde_json::Value;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A table of a MariaDB server: all rows, then each change.
#[derive(Debug)]
pub struct MysqlSource {
    env: Arc<dyn Env>,
    options: MysqlOptions,
}

impl MysqlSource {
    /// The table that the options name. Does not call the server yet.
    pub fn new(env: Arc<dyn Env>, options: MysqlOptions) -> MysqlSource {
        MysqlSource { env, options }
    }

    fn count_where(&self, condition: impl Fn(&Table) -> Result<String>) -> Result<u64> {
        runtime()?.block_on(async {
            let mut conn = self.options.connect().await?;
            let table = Table::read(&mut conn, &self.options.tables[0]).await?;
            let (name, condition) = (self.options.tables[0].quoted(), condition(&table)?);
            let query = format!("SELECT COUNT(*) FROM {name} WHERE {condition}");
            let count: Option<u64> = conn.query_first(query).await.or_fault()?;
            Ok(count.unwrap_or(0))
        })
    }
}

impl Source for MysqlSource {
    fn identity(&self) -> String {
        format!("{}/{}", self.options, self.options.tables[0])
    }

    fn grows(&self) -> bool {
        true
    }

    fn count(&self) -> Result<Option<u64>> {
        self.count_where(|_| Ok("TRUE".to_owned())).map(Some)
    }

    fn has(&self, key: &str) -> Result<Option<bool>> {
        let found = self.count_where(|table| match table.key.as_slice() {
            [at] if table.columns[*at].1 != Kind::Binary => {
                let (name, _) = &table.columns[*at];
                let key = crate::options::text(key);
                Ok(format!("{} = {key}", crate::options::quoted(name)))
            }
            _ => Ok("FALSE".to_owned()),
        })?;
        // Of a key of several columns nothing is known.
        Ok((found > 0).then_some(true))
    }

    fn describe(&self) -> Result<Vec<String>> {
        runtime()?.block_on(async {
            let mut conn = self.options.connect().await?;
            let tables = read_all(&mut conn, &self.options).await?;
            Ok(relation::describe(&self.options, &tables))
        })
    }

    fn has_dense_positions(&self) -> bool {
        false
    }

    fn open(&self, place: Option<&Value>) -> Result<Box<dyn Topic>> {
        let topic = TableTopic::open(&self.env, &self.options, place, runtime()?)?;
        Ok(Box::new(topic))
    }
}

/// What drives the connections of one reader, on its own thread.
fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(Error::Thread)
}
