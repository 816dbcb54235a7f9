//! The run: creates the new index, fills it, makes its copies, compares it.

use super::cluster::Health;
use super::follow::level;
use super::record::{Begin, Place, Record, Step};
use super::release::release;
use super::session::Session;
use super::set::{announce, put_back, put_back_all, set};
use super::settings::{AUTO_EXPAND, REPLICAS};
use super::verify::{self, Verification};
use crate::error::{Error, Result};
use crate::http::segment;
use crate::topic::Source;
use serde_json::{Value, json};
use std::time::Duration;

const GREEN_CHECK: Duration = Duration::from_secs(1);
const MERGE_CHECK: Duration = Duration::from_secs(1);

/// Goes on with a run, from the first part that is not complete. Whatever was put back meanwhile
/// is changed again.
///
/// # Errors
/// Of the source or the cluster.
pub(crate) fn run(session: &mut Session<'_>, source: &dyn Source) -> Result<Verification> {
    let begin = session.begun(Some(source))?;
    let place = Place::Index(begin.new.clone());
    if !session.history().is_done(Step::Created) {
        create(session, &begin)?;
    }
    if !session.history().is_done(Step::Merged) {
        set(session, &place, &begin.tuned)?;
        fill(session, source, &begin)?;
        merge(session, &begin.new)?;
        session.record(Record::Done { step: Step::Merged })?;
    }
    if !session.history().is_done(Step::Green) {
        set(session, &begin.scope, &begin.raised)?;
        let is_of_copies = |name: &str| name == REPLICAS || name == AUTO_EXPAND;
        put_back(session, &place, &is_of_copies)?;
        wait_for_copies(session, &begin)?;
        session.record(Record::Done { step: Step::Green })?;
    }
    put_back_all(session)?;
    let verification = verify::verify(session, source, &begin.new)?;
    if verification.differences_count == 0 && !session.history().is_done(Step::Verified) {
        session.record(Record::Done {
            step: Step::Verified,
        })?;
    }
    Ok(verification)
}

/// Creates the new index, unless it was created before.
///
/// # Errors
/// [`Error::Reindex`] if the cluster refuses it.
pub(crate) fn create(session: &mut Session<'_>, begin: &Begin) -> Result<()> {
    let place = &Place::Index(begin.new.clone());
    let may_be_ours = session.history().is_create_intended;
    if session.history().is_drop_intended {
        // A process that was killed may not have come to it.
        delete(session, &begin.new)?;
    }
    announce(session, place, begin.tuned.clone(), &begin.settings)?;
    session.record(Record::Create {
        index: begin.new.clone(),
    })?;
    let mut settings = begin.settings.clone();
    settings.extend(begin.tuned.clone());
    let body = json!({"settings": settings, "mappings": begin.mappings});
    let path = format!("/{}", segment(&begin.new));
    let answer = session.cluster.call("PUT", &path, Some(&body))?;
    let exists = answer.status == 400 && session.cluster.exists(&begin.new)?;
    match answer.status {
        200 => {}
        // A request that was sent before, and whose answer did not arrive.
        _ if exists && (may_be_ours || session.cluster.count(&begin.new)? == 0) => {}
        _ => {
            return Err(Error::Reindex(format!(
                "cannot create {}: {}. Mend the settings or the mappings; `quire reindex clean \
                 --drop` ends this run",
                begin.new,
                answer.excerpt()
            )));
        }
    }
    session.record(Record::Done {
        step: Step::Created,
    })
}

/// Ships all, until no primary shard began again meanwhile: one that did has lost what it had not
/// synced.
fn fill(session: &mut Session<'_>, source: &dyn Source, begin: &Begin) -> Result<()> {
    let index = &begin.new;
    if session.history().is_done(Step::Replayed) {
        return Ok(());
    }
    if session.history().terms.is_none() {
        begin_to_fill(session, source, index)?;
    }
    loop {
        level(session, source, index)?;
        flush(session, index)?;
        let terms = session.cluster.primary_terms(&session.server, index)?;
        if session.history().terms.as_ref() == Some(&terms) {
            return session.record(Record::Done {
                step: Step::Replayed,
            });
        }
        session.waits("a shard began again while it was filled, so it is filled once more");
        if !source.has_dense_positions() {
            // What was deleted since the rows were read is not told by a reader that begins anew.
            remove(session, index)?;
            create(session, begin)?;
        }
        begin_to_fill(session, source, index)?;
    }
}

fn begin_to_fill(session: &mut Session<'_>, source: &dyn Source, index: &str) -> Result<()> {
    session.check()?;
    // Before the record: a kill between them fills it once more.
    release(session, source, index)?;
    let terms = session.cluster.primary_terms(&session.server, index)?;
    session.record(Record::Fill {
        index: index.to_owned(),
        terms,
    })
}

/// Removes an index, after the journal says so.
///
/// # Errors
/// Of the cluster.
pub(crate) fn remove(session: &mut Session<'_>, index: &str) -> Result<()> {
    session.record(Record::Drop {
        index: index.to_owned(),
    })?;
    delete(session, index)
}

fn delete(session: &Session<'_>, index: &str) -> Result<()> {
    let path = format!("/{}", segment(index));
    let answer = session.cluster.call("DELETE", &path, None)?;
    if !matches!(answer.status, 200 | 404) {
        return Err(Error::Reindex(format!(
            "cannot remove {index}: {}",
            answer.excerpt()
        )));
    }
    session.check()
}

fn flush(session: &Session<'_>, index: &str) -> Result<()> {
    session.cluster.refresh(index)?;
    let path = format!("/{}/_flush", segment(index));
    session.cluster.done("POST", &path, None)?;
    session.check()
}

/// Merges. It may take longer than an answer is waited for; the cluster then goes on, and the
/// request is sent again when nothing is merged any more.
fn merge(session: &Session<'_>, index: &str) -> Result<()> {
    let segments = session.config.segments_max();
    if segments == 0 {
        return Ok(());
    }
    let index = segment(index);
    let query = match session.server.flavor {
        "quire" => String::new(),
        _ => format!("?max_num_segments={segments}"),
    };
    session.waits("the merge");
    loop {
        let path = format!("/{index}/_forcemerge{query}");
        let failure = match session.cluster.once("POST", &path) {
            Ok(answer) if answer.status == 200 => break,
            Ok(answer) => answer.excerpt(),
            Err(failure) => failure.reason().to_owned(),
        };
        session.waits(format!("the merge: {failure}"));
        loop {
            session.cluster.wait(MERGE_CHECK)?;
            let stats = session.cluster.get(&format!("/{index}/_stats"))?;
            let merges = stats.map(|stats| stats["_all"]["total"]["merges"]["current"].clone());
            if merges.and_then(|count| count.as_u64()).unwrap_or(0) == 0 {
                break;
            }
        }
    }
    // Merged segments are durable after that.
    let path = format!("/{index}/_flush");
    session.cluster.done("POST", &path, None)?;
    session.check()
}

/// Waits until all copies are there that the nodes have room for: one of a shard on each. Where the
/// cluster decides how many there are, it may also say that all are there.
fn wait_for_copies(session: &Session<'_>, begin: &Begin) -> Result<()> {
    if session.server.flavor == "quire" {
        return Ok(());
    }
    let number = |name: &str| {
        let value = begin.settings.get(name);
        let value = value.and_then(|value| value.as_str().and_then(|text| text.parse().ok()));
        value.unwrap_or(0_u64)
    };
    let shards = number(super::settings::SHARDS);
    let (replicas, expands) = match begin.settings.get(AUTO_EXPAND) {
        Some(Value::String(text)) if text != "false" => (most_copies(text), true),
        _ => (number(REPLICAS), false),
    };
    loop {
        let health: Health = session.cluster.health(Some(&begin.new))?;
        let copies = replicas.min(health.data_nodes.saturating_sub(1));
        let wanted = shards.saturating_mul(1 + copies);
        let is_there = health.active_primaries >= shards
            && (health.active >= wanted || expands && health.is_green)
            && health.initializing == 0
            && health.relocating == 0;
        if is_there {
            return Ok(());
        }
        session.waits(format!(
            "copies of shards: {} of {wanted} are there, {} on their way",
            health.active, health.initializing
        ));
        session.cluster.wait(GREEN_CHECK)?;
    }
}

/// The upper bound of `0-1` or `0-all`.
fn most_copies(expand: &str) -> u64 {
    let most = expand.rsplit('-').next();
    most.and_then(|most| most.parse().ok()).unwrap_or(u64::MAX)
}
