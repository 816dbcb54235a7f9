//! The seam to `ship`.

use crate::fault::state;
use crate::options::{PostgresOptions, text};
use crate::place::Place;
use crate::session::Session;
use crate::slot;
use crate::table::Table;
use crate::topic::TableTopic;
use quire_env::Env;
use quire_ship::{Error, Fault, Result, Source, Topic};
use serde_json::Value;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A table of a PostgreSQL server: all rows, then each change.
#[derive(Debug)]
pub struct PostgresSource {
    env: Arc<dyn Env>,
    options: PostgresOptions,
}

impl PostgresSource {
    /// The table that the options name. Does not call the server yet.
    pub fn new(env: Arc<dyn Env>, options: PostgresOptions) -> PostgresSource {
        PostgresSource { env, options }
    }

    fn count_where(&self, condition: impl Fn(&Table) -> String) -> Result<u64> {
        let counted = runtime()?.block_on(async {
            let mut session = Session::connect(&self.options).await?;
            let table = Table::read(&mut session, &self.options).await?;
            let (from, condition) = (table.from(&self.options), condition(&table));
            session.be_patient();
            let query = format!("SELECT count(*) FROM {from} WHERE {condition}");
            session.value(&query).await
        });
        match counted {
            Ok(count) => Ok(count.and_then(|count| count.parse().ok()).unwrap_or(0)),
            // A text that is no value of the key's type is no key.
            Err(Fault::Stop(why)) if state(&why).starts_with("22") => Ok(0),
            Err(fault) => Err(fault.into()),
        }
    }
}

impl Source for PostgresSource {
    fn identity(&self) -> String {
        let PostgresOptions { schema, table, .. } = &self.options;
        format!("{}/{schema}.{table}", self.options)
    }

    fn grows(&self) -> bool {
        true
    }

    fn count(&self) -> Result<Option<u64>> {
        self.count_where(|_| "TRUE".to_owned()).map(Some)
    }

    fn has(&self, key: &str) -> Result<Option<bool>> {
        let found = self.count_where(|table| match table.key.as_slice() {
            [_] => format!("{} = {}", table.quoted_key(), text(key)),
            _ => "FALSE".to_owned(),
        })?;
        // Of a key of several columns, or one that is written otherwise in SQL, nothing is known.
        Ok((found > 0).then_some(true))
    }

    fn has_dense_positions(&self) -> bool {
        false
    }

    fn release(&self, place: &Value, used: Option<&Value>) -> Result<()> {
        let slot = Place::read(place)?.slot_name();
        if used
            .map(Place::read)
            .transpose()?
            .is_some_and(|used| used.slot_name() == slot)
        {
            return Ok(());
        }
        let released = runtime()?.block_on(async {
            let mut session = Session::connect(&self.options).await?;
            slot::release(&mut session, &slot).await
        });
        Ok(released?)
    }

    fn fork(&self, place: &Value) -> Result<Option<Value>> {
        let place = Place::read(place)?;
        let name = place.slot_name();
        let mut forked = place.forked();
        let begin = runtime()?.block_on(async {
            let mut session = Session::connect(&self.options).await?;
            slot::copy(&mut session, &name, &forked.slot).await
        })?;
        // The reader of the slot may have moved it on since its place was stored: what it moved it
        // past was stored by then.
        forked.lsn = begin.map_or(0, |begin| begin.max(place.lsn));
        Ok(begin.and(serde_json::to_value(&forked).ok()))
    }

    fn open(&self, place: Option<&Value>) -> Result<Box<dyn Topic>> {
        let topic = TableTopic::open(&self.env, &self.options, place, runtime()?)?;
        Ok(Box::new(topic))
    }
}

/// What drives the connections of one reader. It has a thread of its own: the server's questions
/// are answered while a slow sink has the reader wait.
fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("quire-postgres")
        .enable_all()
        .build();
    runtime.map_err(Error::Thread)
}
