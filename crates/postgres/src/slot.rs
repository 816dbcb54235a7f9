//! Replication slots: what the server keeps for a reader.

use crate::options::text;
use crate::place::{Place, parse_lsn, show_lsn};
use crate::replication::Idle;
use crate::session::{Session, field};
use quire_ship::Fault;

/// How a slot is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It is there until it is dropped.
    Lasting,
    /// It ends with its connection.
    Passing,
}

/// Checks that the slot has what comes after the place. Returns where a slot begins that no place
/// was stored of, if there is one; else 0.
///
/// # Errors
/// [`Fault::Lost`] if the server no longer has it.
pub(crate) async fn check(session: &mut Session, place: &Place) -> Result<u64, Fault> {
    let name = place.slot_name();
    let rows = session
        .query(&format!(
            "SELECT confirmed_flush_lsn, wal_status FROM pg_replication_slots WHERE slot_name = {}",
            text(&name)
        ))
        .await?;
    let Some(row) = rows.first() else {
        return match place.lsn {
            0 => Ok(0),
            _ => Err(Fault::Lost(format!("there is no slot {name} any more"))),
        };
    };
    if field(row, 1) == "lost" {
        return Err(Fault::Lost(format!(
            "the server removed what slot {name} needs (max_slot_wal_keep_size)"
        )));
    }
    match parse_lsn(field(row, 0)) {
        None => Err(Fault::Away(format!("slot {name} is being made"))),
        Some(begin) if place.lsn == 0 => Ok(begin),
        Some(confirmed) if confirmed > place.lsn => Err(Fault::Lost(format!(
            "slot {name} was advanced to {}, and the position is {}",
            show_lsn(confirmed),
            show_lsn(place.lsn)
        ))),
        Some(_) => Ok(place.lsn),
    }
}

/// Makes a slot; returns where it begins. Waits until the transactions that have begun are over.
pub(crate) async fn make(idle: &mut Idle, name: &str, life: Life) -> Result<u64, Fault> {
    let life = match life {
        Life::Lasting => "",
        Life::Passing => " TEMPORARY",
    };
    let command =
        format!("CREATE_REPLICATION_SLOT {name}{life} LOGICAL pgoutput NOEXPORT_SNAPSHOT");
    let rows = idle.command(&command).await?;
    let point = rows.first().and_then(|row| parse_lsn(field(row, 1)));
    point.ok_or_else(|| Fault::Stop(format!("the server does not say where slot {name} begins")))
}

/// Copies a slot, unless the copy is there: the server keeps for it what it keeps for the other. A
/// slot that is in use can be copied. Returns where the copy begins; none if there is nothing to
/// copy.
///
/// # Errors
/// Of the server.
pub(crate) async fn copy(
    session: &mut Session,
    from: &str,
    to: &str,
) -> Result<Option<u64>, Fault> {
    if let Some(begin) = begin_of(session, to).await? {
        return Ok(Some(begin));
    }
    // A copy that was lost is in the way.
    release(session, to).await?;
    if begin_of(session, from).await?.is_none() {
        return Ok(None);
    }
    let (from, copy) = (text(from), text(to));
    let query = format!("SELECT pg_copy_logical_replication_slot({from}, {copy})");
    session.query(&query).await?;
    begin_of(session, to).await
}

/// Where a slot begins that the server still has what it needs of.
async fn begin_of(session: &mut Session, name: &str) -> Result<Option<u64>, Fault> {
    let query = format!(
        "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = {} \
         AND coalesce(wal_status, '') <> 'lost'",
        text(name)
    );
    let begin = session.value(&query).await?;
    Ok(begin.and_then(|begin| parse_lsn(&begin)))
}

/// Drops a slot, if it is there.
///
/// # Errors
/// [`Fault::Away`] if a connection still has it.
pub(crate) async fn release(session: &mut Session, name: &str) -> Result<(), Fault> {
    let query = format!(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = {}",
        text(name)
    );
    session.query(&query).await.map(drop)
}
