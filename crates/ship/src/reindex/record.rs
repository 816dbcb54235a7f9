//! What the journal of a reindex says: each line an event, with its sentence for people.

use super::settings::Flat;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Where settings are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Of the cluster, until it is restarted whole.
    Transient,
    /// Of the cluster, for good.
    Persistent,
    /// Of an index.
    Index(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Transient => f.write_str("the cluster (transient)"),
            Place::Persistent => f.write_str("the cluster (persistent)"),
            Place::Index(name) => write!(f, "index {name}"),
        }
    }
}

/// A setting that is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Changed {
    /// What it is put back to; null is the default.
    pub(crate) former: Value,
    /// What it is for now.
    pub(crate) value: Value,
}

/// Parts of a run that are complete, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The new index is there.
    Created,
    /// It has all that the source had.
    Replayed,
    /// It is refreshed, flushed and merged.
    Merged,
    /// All its copies are there.
    Green,
    /// It was compared with the source.
    Verified,
}

impl Step {
    /// All, in their order.
    pub const ALL: [Step; 5] = [
        Step::Created,
        Step::Replayed,
        Step::Merged,
        Step::Green,
        Step::Verified,
    ];
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Created => "created",
            Step::Replayed => "replayed",
            Step::Merged => "merged",
            Step::Green => "green",
            Step::Verified => "verified",
        })
    }
}

/// All that was decided at the begin of a run. A run that was killed goes on with the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begin {
    /// What is read.
    pub(crate) source: String,
    /// The server's address.
    pub(crate) url: String,
    /// What readers use.
    pub(crate) alias: String,
    /// The index behind it.
    pub(crate) old: Option<String>,
    /// Whether the source is the old index itself, which clients write to by the alias.
    #[serde(default)]
    pub(crate) is_own: bool,
    /// The index that is built.
    pub(crate) new: String,
    /// Settings of the new index in the end.
    pub(crate) settings: Flat,
    /// Its mappings.
    pub(crate) mappings: Value,
    /// Settings that it has while it is filled.
    pub(crate) tuned: Flat,
    /// Where the cluster's settings are raised, and to what.
    pub(crate) scope: Place,
    pub(crate) raised: Flat,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Record {
    /// A run begins.
    Begin(Box<Begin>),
    /// Settings are about to change.
    Change {
        place: Place,
        settings: BTreeMap<String, Changed>,
    },
    /// Settings are what they were. `left` were changed by somebody else meanwhile, and are kept.
    PutBack {
        place: Place,
        settings: Vec<String>,
        left: Vec<String>,
    },
    /// The new index is about to be created.
    Create { index: String },
    /// The new index is about to be filled from the begin. `terms` says how often each of its
    /// primary shards began: one that begins again has lost what was not durable.
    Fill { index: String, terms: Value },
    /// A part of the run is complete.
    Done { step: Step },
    /// What the comparison with the source found.
    Compared { documents: u64, differences: u64 },
    /// An index is about to be brought level with the source.
    Level { index: String },
    /// The alias is about to move.
    Alias {
        alias: String,
        from: Option<String>,
        to: String,
    },
    /// It has moved, and what was committed meanwhile is in the index.
    Moved { alias: String, to: String },
    /// An index is about to be removed.
    Drop { index: String },
    /// What the source holds for a reader into an index is about to be given up.
    Release { index: String },
    /// The reindex is over: the next run begins another one.
    End,
}

impl Record {
    /// The sentence for people.
    pub(crate) fn says(&self) -> String {
        match self {
            Record::Begin(begin) => {
                let instead = match &begin.old {
                    Some(old) => format!("which is {old} now"),
                    None => "which stands for nothing yet".to_owned(),
                };
                format!(
                    "Begins to build {} from {} at {}, for the alias {}, {instead}.",
                    begin.new, begin.source, begin.url, begin.alias
                )
            }
            Record::Change { place, settings } => {
                let each = settings.iter().map(|(name, Changed { former, value })| {
                    format!("{name} from {} to {}", shown(former), shown(value))
                });
                let each: Vec<String> = each.collect();
                format!("Changes settings of {place}: {}.", each.join(", "))
            }
            Record::PutBack {
                place,
                settings,
                left,
            } => {
                let mut text = format!("Has put back settings of {place}: ");
                text.push_str(&settings.join(", "));
                text.push('.');
                if !left.is_empty() {
                    let left = left.join(", ");
                    text.push_str(&format!(
                        " Somebody else changed, and it left alone: {left}."
                    ));
                }
                text
            }
            Record::Create { index } => format!("Creates {index}."),
            Record::Fill { index, .. } => format!("Fills {index} from the begin of the source."),
            Record::Done { step } => format!("The new index is {step}."),
            Record::Compared {
                documents,
                differences,
            } => format!("Compared {documents} documents with the source: {differences} differ."),
            Record::Level { index } => format!("Brings {index} level with the source."),
            Record::Alias { alias, from, to } => match from {
                Some(from) => format!("Moves the alias {alias} from {from} to {to}."),
                None => format!("Adds the alias {alias} to {to}."),
            },
            Record::Moved { alias, to } => format!("The alias {alias} stands for {to}."),
            Record::Drop { index } => format!("Removes {index}."),
            Record::Release { index } => {
                format!("Gives up the position of {index}, and what the source holds for it.")
            }
            Record::End => "This reindex is over.".to_owned(),
        }
    }
}

/// A value of a setting for people.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "its default".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
