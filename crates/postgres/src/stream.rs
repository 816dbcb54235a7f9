//! The stream of changes from a place on, as changes of one table.

use crate::fault::state;
use crate::layout::{Layout, RowChange};
use crate::options::{PostgresOptions, quoted};
use crate::pgoutput::{Message, Relation, decode};
use crate::place::{Place, show_lsn};
use crate::replication::{Event, Idle, Replication};
use crate::slot::{self, Life};
use quire_ship::Fault;

/// Microseconds from 1970 to 2000, where PostgreSQL's times begin.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// What a message was.
#[derive(Debug)]
pub(crate) enum Step {
    Nothing,
    /// The table's columns from here on.
    Defined(Relation),
    Rows(Vec<RowChange>),
    /// The end of a transaction.
    Ended(Transaction),
    /// All is given that was committed before [`Stream::at`].
    Heard,
}

/// A transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transaction {
    pub(crate) xid: u32,
    pub(crate) commit_lsn: u64,
    pub(crate) time_micros: i64,
    /// Whether it changed the table.
    pub(crate) has_rows: bool,
}

/// A reader of the stream.
pub(crate) struct Stream {
    replication: Replication,
    name: String,
    table: u32,
    layout: Option<Layout>,
    /// All that was committed before it was given, but for the open transaction.
    pub(crate) at: u64,
    /// The transaction that is read.
    pub(crate) open: Option<Transaction>,
}

impl Stream {
    /// Begins the stream after a place, and makes the slot if there is none yet. `stored` is the
    /// last place that need not be given again.
    pub(crate) async fn open(
        options: &PostgresOptions,
        place: &mut Place,
        stored: u64,
        life: Life,
    ) -> Result<Stream, Fault> {
        let name = place.slot_name();
        let opening = async {
            let mut idle = Idle::connect(options).await.map_err(|fault| match fault {
                Fault::Stop(why) if state(&why) == "42501" => Fault::Stop(format!(
                    "{why}: ALTER ROLE {} REPLICATION",
                    quoted(&options.user)
                )),
                fault => fault,
            })?;
            if place.lsn == 0 {
                place.lsn = slot::make(&mut idle, &name, life).await?;
            }
            idle.begin(options, &name, place.lsn, stored).await
        };
        // It takes long if the slot is made while others write.
        let Ok(replication) = tokio::time::timeout(options.timeout, opening).await else {
            return Err(Fault::Away(format!(
                "{options} does not begin the stream; a slot waits until the transactions are \
                 over that have begun"
            )));
        };
        Ok(Stream {
            replication: replication?,
            name: format!("{}.{}", options.schema, options.table),
            table: place.table,
            layout: None,
            at: place.lsn,
            open: None,
        })
    }

    /// Tells the server that it need not keep what is before.
    pub(crate) fn confirm(&self, lsn: u64) {
        self.replication.confirm(lsn);
    }

    /// The table has these columns from here on.
    pub(crate) fn define(&mut self, layout: Layout) {
        self.layout = Some(layout);
    }

    /// Reads a message. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Result<Step, Fault> {
        match self.replication.next().await? {
            Event::Data(data) => {
                let message = decode(&data).map_err(|why| self.stop(&why))?;
                self.take(message)
            }
            Event::At(at) if self.open.is_none() => {
                self.at = self.at.max(at);
                Ok(Step::Heard)
            }
            Event::At(_) => Ok(Step::Nothing),
        }
    }

    fn take(&mut self, message: Message<'_>) -> Result<Step, Fault> {
        let relation = match &message {
            Message::Begin {
                commit_lsn,
                micros,
                xid,
            } => {
                self.open = Some(Transaction {
                    xid: *xid,
                    commit_lsn: *commit_lsn,
                    time_micros: micros.saturating_add(EPOCH_MICROS),
                    has_rows: false,
                });
                return Ok(Step::Nothing);
            }
            Message::Commit { end_lsn } => {
                self.at = self.at.max(*end_lsn);
                return Ok(self.open.take().map_or(Step::Nothing, Step::Ended));
            }
            Message::Relation(relation) => relation.id,
            Message::Insert { relation, .. }
            | Message::Update { relation, .. }
            | Message::Delete { relation, .. } => *relation,
            Message::Truncate { relations } if relations.contains(&self.table) => {
                return Err(self.stop(
                    "the table was truncated, which removes rows without a change of each. Empty \
                     the sinks, remove their positions and run again, or build the indexes anew \
                     (`quire reindex`)",
                ));
            }
            Message::Truncate { .. } | Message::Other => return Ok(Step::Nothing),
        };
        if relation != self.table {
            return Ok(Step::Nothing);
        }
        if let Message::Relation(relation) = message {
            let name = format!("{}.{}", relation.schema, relation.table);
            return match name == self.name {
                true => Ok(Step::Defined(relation)),
                false => Err(self.stop(&format!(
                    "the table was renamed to {name}; name it so in [source], empty the sinks, \
                     remove their positions and run again"
                ))),
            };
        }
        let Some(layout) = &self.layout else {
            return Err(self.stop("a change came before the columns of its table"));
        };
        let changes = layout.changes(&message).map_err(|why| self.stop(&why))?;
        if let Some(open) = &mut self.open {
            open.has_rows = true;
        }
        Ok(Step::Rows(changes))
    }

    pub(crate) fn stop(&self, why: &str) -> Fault {
        let at = self.open.map_or(self.at, |open| open.commit_lsn);
        Fault::Stop(format!("{} at {}: {why}", self.name, show_lsn(at)))
    }
}
