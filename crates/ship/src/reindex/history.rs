//! What a journal amounts to: what is under way, what is changed and must be put back.

use super::record::{Begin, Changed, Place, Record, Step};
use super::settings::Flat;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The state after all records of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// The run that is under way, or complete and not over.
    pub(crate) begin: Option<Begin>,
    /// Settings that are changed, and were not put back.
    changed: BTreeMap<Place, BTreeMap<String, Changed>>,
    done: BTreeSet<Step>,
    /// The new index may be there: it was about to be created.
    pub(crate) is_create_intended: bool,
    /// The new index was about to be removed, and was not created since.
    pub(crate) is_drop_intended: bool,
    /// The terms of the new index's primary shards when it began to be filled.
    pub(crate) terms: Option<Value>,
    /// What the last comparison found: documents, differences.
    pub(crate) compared: Option<(u64, u64)>,
    /// The index that the alias was last moved to, and whether that is complete.
    pub(crate) moved: Option<(String, bool)>,
}

impl History {
    /// Takes a record.
    pub(crate) fn apply(&mut self, record: &Record) {
        match record {
            Record::Begin(begin) => {
                let changed = std::mem::take(&mut self.changed);
                *self = History {
                    begin: Some((**begin).clone()),
                    changed,
                    ..History::default()
                };
            }
            Record::Change { place, settings } => {
                let changed = self.changed.entry(place.clone()).or_default();
                for (name, setting) in settings {
                    // The first former value is the one to put back.
                    let kept = changed
                        .entry(name.clone())
                        .or_insert_with(|| setting.clone());
                    kept.value = setting.value.clone();
                }
            }
            Record::PutBack {
                place,
                settings,
                left,
            } => {
                if let Some(changed) = self.changed.get_mut(place) {
                    changed.retain(|name, _| !settings.contains(name) && !left.contains(name));
                    if changed.is_empty() {
                        self.changed.remove(place);
                    }
                }
            }
            Record::Create { .. } => self.is_create_intended = true,
            Record::Fill { terms, .. } => self.terms = Some(terms.clone()),
            Record::Done { step } => {
                self.done.insert(*step);
                self.is_drop_intended &= *step != Step::Created;
            }
            Record::Drop { index } if self.is_new(index) => {
                // All that was done was done with it.
                self.done.clear();
                (self.terms, self.is_drop_intended) = (None, true);
            }
            Record::Compared {
                documents,
                differences,
            } => self.compared = Some((*documents, *differences)),
            Record::Alias { to, .. } => self.moved = Some((to.clone(), false)),
            Record::Moved { to, .. } => self.moved = Some((to.clone(), true)),
            Record::Level { .. } | Record::Drop { .. } | Record::Release { .. } => {}
            Record::End => {
                let changed = std::mem::take(&mut self.changed);
                *self = History {
                    changed,
                    ..History::default()
                };
            }
        }
    }

    fn is_new(&self, index: &str) -> bool {
        self.begin.as_ref().is_some_and(|begin| begin.new == index)
    }

    /// Whether a part of the run is complete.
    pub(crate) fn is_done(&self, step: Step) -> bool {
        self.done.contains(&step)
    }

    /// Where settings are changed.
    pub(crate) fn places(&self) -> Vec<Place> {
        self.changed.keys().cloned().collect()
    }

    /// The changed settings of a place.
    pub(crate) fn changed(&self, place: &Place) -> BTreeMap<String, Changed> {
        self.changed.get(place).cloned().unwrap_or_default()
    }

    /// Those of `values` that are not changed yet.
    pub(crate) fn unchanged(&self, place: &Place, values: &Flat) -> Flat {
        let changed = self.changed(place);
        let fresh = values.iter().filter(|(name, value)| {
            let is_so = |changed: &Changed| changed.value == **value;
            !changed.get(*name).is_some_and(is_so)
        });
        fresh
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_former_value_is_put_back_however_often_a_setting_is_changed() {
        let place = Place::Transient;
        let change = |former: &str, value: &str| Record::Change {
            place: place.clone(),
            settings: BTreeMap::from([(
                "a".to_owned(),
                Changed {
                    former: json!(former),
                    value: json!(value),
                },
            )]),
        };
        let mut history = History::default();
        history.apply(&change("1", "5"));
        history.apply(&change("5", "9"));
        let changed = &history.changed(&place)["a"];
        assert_eq!(
            (&changed.former, &changed.value),
            (&json!("1"), &json!("9"))
        );
        // Not even the end of a run forgets what is to be put back.
        history.apply(&Record::End);
        assert_eq!(history.places(), std::slice::from_ref(&place));
        history.apply(&Record::PutBack {
            place: place.clone(),
            settings: vec!["a".to_owned()],
            left: vec![],
        });
        assert_eq!(history, History::default());
    }
}
