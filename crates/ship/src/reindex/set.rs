//! Changes settings for a time, and puts them back.

use super::record::{Changed, Place, Record};
use super::session::Session;
use super::settings::{Flat, is_same};
use crate::error::Result;
use serde_json::Value;
use std::collections::BTreeMap;

/// Sets settings that exist at a place, after what they were is in the journal.
///
/// # Errors
/// If the cluster refuses it.
pub(crate) fn set(session: &mut Session<'_>, place: &Place, values: &Flat) -> Result<()> {
    let fresh = session.history().unchanged(place, values);
    if !fresh.is_empty() {
        let now = session.cluster.settings(place)?.unwrap_or_default();
        announce(session, place, fresh, &now)?;
    }
    if !values.is_empty() {
        session.cluster.put_settings(place, values)?;
    }
    session.check()
}

/// Puts into the journal that settings are about to change, and what they are put back to.
///
/// # Errors
/// Of the journal.
pub(crate) fn announce(
    session: &mut Session<'_>,
    place: &Place,
    values: Flat,
    former: &Flat,
) -> Result<()> {
    let settings: BTreeMap<String, Changed> = values
        .into_iter()
        .map(|(name, value)| {
            let former = former.get(&name).cloned().unwrap_or_default();
            (name, Changed { former, value })
        })
        .collect();
    if settings.is_empty() {
        return Ok(());
    }
    session.record(Record::Change {
        place: place.clone(),
        settings,
    })
}

/// Puts back the settings of a place for which `wanted` holds. One that has neither the value that
/// it was set to nor the former one was changed by somebody else: it is left, and said.
///
/// # Errors
/// If the cluster refuses it.
pub(crate) fn put_back(
    session: &mut Session<'_>,
    place: &Place,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<()> {
    let mut changed = session.history().changed(place);
    changed.retain(|name, _| wanted(name));
    if changed.is_empty() {
        return Ok(());
    }
    let (mut back, mut left) = (Flat::new(), Vec::new());
    // Of an index that is not there nothing is to be put back.
    if let Some(now) = session.cluster.settings(place)? {
        for (name, Changed { former, value }) in &changed {
            let now = now.get(name).unwrap_or(&Value::Null);
            // One that is as it was is written too: a change that a killed process sent may be on
            // its way, and the cluster makes changes in their order.
            match is_same(now, value) || is_same(now, former) {
                true => drop(back.insert(name.clone(), former.clone())),
                false => left.push(name.clone()),
            }
        }
    }
    session.check()?;
    if !back.is_empty() {
        session.cluster.put_settings(place, &back)?;
    }
    changed.retain(|name, _| !left.contains(name));
    session.record(Record::PutBack {
        place: place.clone(),
        settings: changed.into_keys().collect(),
        left,
    })
}

/// Puts back all settings that are changed.
///
/// # Errors
/// If the cluster refuses it.
pub(crate) fn put_back_all(session: &mut Session<'_>) -> Result<()> {
    for place in session.history().places() {
        put_back(session, &place, &|_| true)?;
    }
    Ok(())
}
