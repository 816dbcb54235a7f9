//! [`PointKind`]: by which of its two names a point in time was opened, which its id says.

/// By which name a point in time was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PointKind {
    /// `_search/point_in_time`, as OpenSearch has it.
    OpenSearch,
    /// `_pit`, as Elasticsearch has it: documents that are equal in all orders come in the order
    /// `_shard_doc`, which the next page begins in.
    Elasticsearch,
}

impl PointKind {
    fn prefix(self) -> &'static str {
        match self {
            PointKind::OpenSearch => "point-",
            PointKind::Elasticsearch => "pit-",
        }
    }

    /// The id of a point in time of this kind.
    pub(super) fn id(self, unique: &str) -> String {
        format!("{}{unique}", self.prefix())
    }

    /// The kind of the point in time with this id.
    pub(super) fn of(id: &str) -> PointKind {
        match id.starts_with(PointKind::Elasticsearch.prefix()) {
            true => PointKind::Elasticsearch,
            false => PointKind::OpenSearch,
        }
    }
}
