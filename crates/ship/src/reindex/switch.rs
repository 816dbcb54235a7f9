//! Moves the alias to the new index, and back.

use super::follow::{level, seed};
use super::record::{Begin, Place, Record, Step};
use super::session::Session;
use super::set::{put_back_all, set};
use super::settings::{BLOCKS_WRITE, Flat};
use crate::error::{Error, Result};
use crate::topic::Source;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How long to wait before an alias that did not move is moved again.
const ALIAS_CHECK: Duration = Duration::from_secs(1);

/// How long a server may take, after it refuses writes, for those that it began before.
const WRITES_WAIT: Duration = Duration::from_millis(500);

/// Moves the alias to the new index, once that is level with the source. Without `even_unverified`
/// only after it was found equal to the source. Returns its name.
///
/// # Errors
/// If the new index is not complete; of the source or the cluster.
pub(crate) fn switch(
    session: &mut Session<'_>,
    source: &dyn Source,
    even_unverified: bool,
) -> Result<String> {
    let begin = session.begun(Some(source))?;
    let needed = if even_unverified {
        Step::Green
    } else {
        Step::Verified
    };
    if !session.history().is_done(needed) {
        return Err(Error::Reindex(format!(
            "{} is not {needed} yet: `quire reindex run` goes on; `quire reindex status` says how \
             far it is",
            begin.new
        )));
    }
    put_back_all(session)?;
    if begin.is_own && session.cluster.alias(&begin.alias)?.keys().eq([&begin.new]) {
        // What is shipped now might take the place of what clients wrote since it moved.
        return Ok(begin.new);
    }
    level(session, source, &begin.new)?;
    if begin.is_own {
        return switch_own(session, source, &begin).map(|()| begin.new);
    }
    session.cluster.refresh(&begin.new)?;
    if let Some(old) = &begin.old {
        // What a pipe ships from now on goes to the new index.
        seed(session, source, old)?;
    }
    move_to(session, source, begin.old.as_deref(), &begin.new)?;
    Ok(begin.new)
}

/// Switches from an index that is the source itself. A client that writes by the alias may write a
/// document to the new index at once when the alias moves; an earlier change of it that is shipped
/// after that would take its place, as its version is the higher one. So writes to the old index
/// are refused until the alias moved, and nothing is shipped after that.
fn switch_own(session: &mut Session<'_>, source: &dyn Source, begin: &Begin) -> Result<()> {
    let done = without_writes(session, source, begin);
    // Clients must not be refused for longer than needed, whatever went wrong.
    let put_back = put_back_all(session);
    done.and(put_back)
}

fn without_writes(session: &mut Session<'_>, source: &dyn Source, begin: &Begin) -> Result<()> {
    let (Some(old), new) = (&begin.old, &begin.new) else {
        return Ok(());
    };
    let refuse = Flat::from([(BLOCKS_WRITE.to_owned(), json!(true))]);
    set(session, &Place::Index(old.clone()), &refuse)?;
    loop {
        session.cluster.wait(WRITES_WAIT)?;
        if level(session, source, new)?.changes == 0 {
            break;
        }
    }
    session.cluster.refresh(new)?;
    move_alias(session, Some(old), new)?;
    session.record(Record::Moved {
        alias: begin.alias.clone(),
        to: new.clone(),
    })
}

/// Moves the alias back to the old index at once, then brings that level. Returns its name.
///
/// # Errors
/// If there is no old index; of the source or the cluster.
pub(crate) fn rollback(session: &mut Session<'_>, source: &dyn Source) -> Result<String> {
    let begin = session.begun(Some(source))?;
    let Some(old) = begin.old else {
        return Err(Error::Reindex(format!(
            "there was no index behind {} before {}",
            begin.alias, begin.new
        )));
    };
    if begin.is_own {
        return Err(Error::Reindex(format!(
            "{} was built from {old} itself, so what was written since the switch is not in {old}. \
             To get its settings back, end this reindex (`quire reindex clean`, with --drop), \
             give them in index_file, and run another one",
            begin.new
        )));
    }
    if session.history().moved.is_none() {
        return Err(Error::Reindex(format!(
            "nothing was switched: {} stands for {old}",
            begin.alias
        )));
    }
    if !session.cluster.exists(&old)? {
        return Err(Error::Reindex(format!("{old} is not there any more")));
    }
    move_to(session, source, Some(&begin.new), &old)?;
    Ok(old)
}

/// Moves the alias, then brings the index level: what a pipe shipped to the other one before the
/// alias moved was in the source by then.
fn move_to(
    session: &mut Session<'_>,
    source: &dyn Source,
    from: Option<&str>,
    to: &str,
) -> Result<()> {
    let begin = session.begun(Some(source))?;
    move_alias(session, from, to)?;
    level(session, source, to)?;
    session.cluster.refresh(to)?;
    session.record(Record::Moved {
        alias: begin.alias,
        to: to.to_owned(),
    })
}

/// Moves the alias, after the journal says so.
fn move_alias(session: &mut Session<'_>, from: Option<&str>, to: &str) -> Result<()> {
    let begin = session.begun(None)?;
    session.record(Record::Alias {
        alias: begin.alias.clone(),
        from: from.map(str::to_owned),
        to: to.to_owned(),
    })?;
    loop {
        // Also if the alias is there: a change that a killed process sent may be on its way, and
        // the cluster makes changes in their order.
        let behind = session.cluster.alias(&begin.alias)?;
        let actions = actions(&begin.alias, &behind, to);
        session.check()?;
        let body = json!({ "actions": actions });
        session.cluster.done("POST", "/_aliases", Some(&body))?;
        if session.cluster.alias(&begin.alias)?.keys().eq([to]) {
            return Ok(());
        }
        session.waits(format!("alias {} did not move to {to}", begin.alias));
        session.cluster.wait(ALIAS_CHECK)?;
    }
}

/// The changes that are made at one moment: the alias keeps its filter and its routing.
fn actions<'a>(
    alias: &str,
    behind: impl IntoIterator<Item = (&'a String, &'a Value)>,
    to: &str,
) -> Vec<Value> {
    let mut actions = Vec::new();
    let mut kept = Map::new();
    for (index, properties) in behind {
        kept = properties.as_object().cloned().unwrap_or_default();
        if index != to {
            actions.push(json!({"remove": {"index": index, "alias": alias}}));
        }
    }
    kept.insert("index".to_owned(), json!(to));
    kept.insert("alias".to_owned(), json!(alias));
    actions.push(json!({ "add": kept }));
    actions
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn an_alias_keeps_its_properties_when_it_moves() {
        let filter = json!({"filter": {"term": {"a": 1}}, "is_write_index": true});
        let behind = BTreeMap::from([("t-1".to_owned(), filter)]);
        let expected = json!([
            {"remove": {"index": "t-1", "alias": "t"}},
            {"add": {"filter": {"term": {"a": 1}}, "is_write_index": true, "index": "t-2",
                "alias": "t"}},
        ]);
        assert_eq!(json!(actions("t", &behind, "t-2")), expected);
        let first = json!([{"add": {"index": "t-1", "alias": "t"}}]);
        assert_eq!(json!(actions("t", &BTreeMap::new(), "t-1")), first);
    }
}
