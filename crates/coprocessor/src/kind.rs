//! What code is for, and what a module of each kind exports.

/// What code is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Chooses rows.
    Filter,
    /// Makes rows of rows.
    Map,
    /// Folds the rows of each partition, then merges what came of them.
    Aggregate,
    /// Sees a write with the document before it, and may change the document or refuse the write.
    Trigger,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Filter, Kind::Map, Kind::Aggregate, Kind::Trigger];

    /// Its name: `filter`, `map`, `aggregate` or `trigger`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Filter => "filter",
            Kind::Map => "map",
            Kind::Aggregate => "aggregate",
            Kind::Trigger => "trigger",
        }
    }

    /// The kind of this name.
    pub fn of_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What a module of this kind exports.
    pub(crate) fn functions(self) -> &'static [&'static str] {
        match self {
            Kind::Filter => &["quire_1_filter"],
            Kind::Map => &["quire_1_map"],
            Kind::Aggregate => &[
                "quire_1_fold",
                "quire_1_partial",
                "quire_1_merge",
                "quire_1_finish",
            ],
            Kind::Trigger => &["quire_1_trigger"],
        }
    }
}
