//! The changes of a wide collection, for those who tail it.

use crate::wide::WideCollection;
use crate::{Error, Result, Tail};
use quire_model::Position;
use quire_wide::RowChange;

impl WideCollection {
    /// The changes of rows from position `from` on, in every partition, as far as they are visible
    /// now: each partition's in order, partitions interleaved by time. From position 1 on they are
    /// all that the logs have.
    ///
    /// ```
    /// use quiredb::wide::{ColumnType, RowAction, Schema};
    /// use quiredb::{CollectionSettings, Database, Document, Key, Position};
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path())?;
    /// let schema = Schema::new().with_column("title", ColumnType::String, "meta")?;
    /// let settings = CollectionSettings { log_retention_secs: 3600, ..Default::default() };
    /// let pages = database.create_wide_collection("pages", schema, settings)?;
    /// pages.put(&Key::parse("a")?, &Document::from_json(br#"{"title":"A"}"#)?)?;
    /// let mut tail = pages.tail(Position(1))?;
    /// let change = tail.next().expect("row a was written")?;
    /// assert!(matches!(change.action, RowAction::Put(cells) if cells[0].column == "title"));
    ///
    /// // Later, go on where it ended.
    /// assert!(pages.tail_after(&tail.seen())?.next().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Gone` if a log no longer holds that position; `Invalid` if the collection keeps none for
    /// those who tail it: see
    /// [`log_retention_secs`](crate::CollectionSettings::log_retention_secs).
    pub fn tail(&self, from: Position) -> Result<Tail<RowChange>> {
        let seen = Position(from.0.saturating_sub(1));
        self.tail_after(&vec![seen; self.positions().len()])
    }

    /// The changes after one position per partition, as [`Tail::seen`] gives them. Positions of a
    /// time when the collection had another number of partitions, before it was split or merged,
    /// may be given: each holds for all partitions that its own has become, and after a merge some
    /// changes may come once more.
    ///
    /// # Errors
    /// As of [`tail`](WideCollection::tail); `Invalid` if there is not one position per partition
    /// of now, or of before.
    pub fn tail_after(&self, seen: &[Position]) -> Result<Tail<RowChange>> {
        let (settings, schema) = (self.settings(), self.schema());
        if settings.log_retention().is_none() {
            return Err(Error::NotTailed {
                name: self.name().into(),
            });
        }
        let by = (&schema, settings.key_field.as_str());
        self.read(|layout| Tail::of_rows(layout.partitions(), &layout.spread(seen)?, by))
    }

    /// Positions as of [`tail_after`](WideCollection::tail_after) as one of each partition of now.
    ///
    /// # Errors
    /// `Invalid` as there.
    pub fn spread(&self, seen: &[Position]) -> Result<Vec<Position>> {
        self.layout().spread(seen)
    }
}
