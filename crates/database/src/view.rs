//! Consistent reads over all partitions of a collection, plain, wide or frozen.

use crate::collection_state::{CollectionState, get_many};
use crate::frozen::{FrozenCollection, FrozenState};
use crate::frozen_view::FrozenView;
use crate::layout::partition_of;
use crate::scan::Scan;
use crate::usage::Usage;
use crate::{Error, Result};
use quire_collection::{Found, PartitionView};
use quire_env::Env;
use quire_model::{Key, Position};
use quire_query::{Constant, Prepared};
use quire_search::IndexedView;
use quire_wide::WideView;
use smallvec::SmallVec;
use std::ops::RangeBounds;
use std::sync::Arc;

/// A consistent read: each partition as of one position. It pins memory and files while it is held.
#[derive(Debug, Clone)]
pub struct View {
    kind: Kind,
    /// The field in which queries see the name of the collection, if they do.
    name_field: Option<Arc<str>>,
}

#[derive(Debug, Clone)]
enum Kind {
    Plain {
        collection: Arc<CollectionState>,
        partitions: Vec<PartitionView>,
    },
    Wide(WideViews),
    Frozen {
        collection: Arc<FrozenState>,
        files: FrozenView,
    },
}

/// The partitions of a wide collection.
#[derive(Debug, Clone)]
pub(crate) struct WideViews {
    pub(crate) name: String,
    pub(crate) key_field: String,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) usage: Arc<Usage>,
    /// At least one.
    pub(crate) partitions: Vec<WideView>,
}

/// A query of up to this number of partitions allocates no list of them.
pub(crate) const PARTS: usize = 4;

/// A partition of a view.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PartView<'v> {
    Plain(&'v PartitionView),
    /// Also the collection's key field.
    Wide(&'v WideView, &'v str),
    /// A file is a partition: this one of the files.
    Frozen(&'v FrozenView, usize),
}

impl<'v> PartView<'v> {
    /// The view as search indexes see it; none of a frozen partition.
    pub(crate) fn indexed(self) -> Option<&'v dyn IndexedView> {
        match self {
            PartView::Plain(view) => Some(view),
            PartView::Wide(view, _) => Some(view),
            PartView::Frozen(..) => None,
        }
    }
}

/// A partition, and the field that a query sees beside those of its documents.
pub(crate) type QueriedPart<'v> = (PartView<'v>, Option<&'v Constant>);

/// Views, and the field that a query sees beside those of the documents of each; no fields at all
/// if it sees none.
pub(crate) type NamedViews<'v> = (&'v [View], &'v [Option<Constant>]);

impl FrozenCollection {
    /// A view of the files as of the last refresh, which keeps them open.
    pub fn view(&self) -> View {
        View::of(Kind::Frozen {
            collection: Arc::clone(self.state()),
            files: self.files(),
        })
    }
}

impl View {
    fn of(kind: Kind) -> View {
        View {
            kind,
            name_field: None,
        }
    }

    pub(crate) fn new(collection: Arc<CollectionState>, partitions: Vec<PartitionView>) -> View {
        assert!(!partitions.is_empty(), "a collection has a partition");
        View::of(Kind::Plain {
            collection,
            partitions,
        })
    }

    pub(crate) fn of_wide(views: WideViews) -> View {
        assert!(!views.partitions.is_empty(), "a collection has a partition");
        View::of(Kind::Wide(views))
    }

    /// The view, of which queries see the name of the collection in a field of each document: a
    /// name without dots, which no document has itself.
    ///
    /// ```
    /// use quiredb::query::{Options, field, find};
    /// use quiredb::{Database, Document, View};
    /// # let dir = tempfile::tempdir()?;
    /// # let database = Database::open(dir.path())?;
    /// let mut views = Vec::new();
    /// for name in ["cars", "vans"] {
    ///     let collection = database.create_collection(name, Default::default())?;
    ///     collection.put(&Document::from_json(br#"{"_id":"a"}"#)?)?;
    ///     views.push(collection.view()?.with_name_in("in"));
    /// }
    /// let vans = find(field("in").eq("vans")).with_count().prepare()?;
    /// let answer = View::query_all(&views, &vans, &Options::default())?;
    /// assert_eq!(answer.count, Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_name_in(self, field: &str) -> View {
        View {
            name_field: Some(field.into()),
            ..self
        }
    }

    /// The name of the collection as a field of each document, if a query is about that.
    pub(crate) fn name_in(&self, query: &Prepared) -> Result<Option<Constant>> {
        let field = self.name_field.as_deref();
        let field = field.filter(|field| query.is_about(field));
        let name = field.map(|field| Constant::new(field, self.collection_name()));
        Ok(name.transpose()?)
    }

    /// As [`name_in`](View::name_in), of each of some views; none at all if the query is about no
    /// name.
    pub(crate) fn names_in(views: &[View], query: &Prepared) -> Result<Vec<Option<Constant>>> {
        let fields = views.iter().filter_map(|view| view.name_field.as_deref());
        match fields.clone().any(|field| query.is_about(field)) {
            true => views.iter().map(|view| view.name_in(query)).collect(),
            false => Ok(Vec::new()),
        }
    }

    /// The files of a frozen collection; none of another.
    pub fn frozen(&self) -> Option<&FrozenView> {
        match &self.kind {
            Kind::Frozen { files, .. } => Some(files),
            Kind::Plain { .. } | Kind::Wide(_) => None,
        }
    }

    /// Whether it is of a [frozen collection](crate::FrozenCollection).
    pub fn is_frozen(&self) -> bool {
        self.frozen().is_some()
    }

    /// Whether it is of a plain collection, which can be [scanned](View::scan) by key.
    pub fn is_plain(&self) -> bool {
        matches!(self.kind, Kind::Plain { .. })
    }

    /// Whether it is of a wide collection.
    pub fn is_wide(&self) -> bool {
        matches!(self.kind, Kind::Wide(_))
    }

    /// The partitions, in the order of their numbers.
    pub(crate) fn parts(&self) -> SmallVec<[PartView<'_>; PARTS]> {
        match &self.kind {
            Kind::Plain { partitions, .. } => partitions.iter().map(PartView::Plain).collect(),
            Kind::Wide(wide) => {
                let part = |view| PartView::Wide(view, &wide.key_field);
                wide.partitions.iter().map(part).collect()
            }
            Kind::Frozen { files, .. } => {
                let part = |number| PartView::Frozen(files, number);
                (0..files.file_count()).map(part).collect()
            }
        }
    }

    /// The partitions of several views, in the order in which hits number them.
    pub(crate) fn parts_of(views: &[View]) -> Vec<PartView<'_>> {
        views.iter().flat_map(View::parts).collect()
    }

    /// As [`parts_of`](View::parts_of), each with the field that a query sees beside those of its
    /// documents, if there is one: `names` are those of the views.
    pub(crate) fn parts_for<'v>(
        views: &'v [View],
        names: &'v [Option<Constant>],
    ) -> SmallVec<[QueriedPart<'v>; PARTS]> {
        let parts = |(at, view): (usize, &'v View)| {
            let name = names.get(at).and_then(Option::as_ref);
            let parts = view.parts().into_iter();
            parts.map(move |part| (part, name))
        };
        views.iter().enumerate().flat_map(parts).collect()
    }

    /// The partitions of a plain collection.
    ///
    /// # Errors
    /// `Invalid` of a wide one, and of a frozen one.
    pub(crate) fn partitions(&self) -> Result<&[PartitionView]> {
        match &self.kind {
            Kind::Plain { partitions, .. } => Ok(partitions),
            Kind::Wide(wide) => Err(Error::IsWide {
                name: wide.name.clone(),
            }),
            Kind::Frozen { collection, .. } => Err(Error::IsFrozen {
                name: collection.name.clone(),
            }),
        }
    }

    /// Bytes of memtables that views alone hold still, because they were flushed. Once memtables
    /// hold all they may, writers wait until views that hold much are dropped.
    pub fn held_memtable_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Plain { partitions, .. } => partitions
                .iter()
                .map(PartitionView::held_memtable_bytes)
                .sum(),
            Kind::Wide(wide) => {
                let partitions = wide.partitions.iter();
                partitions.map(WideView::held_memtable_bytes).sum()
            }
            Kind::Frozen { .. } => 0,
        }
    }

    pub(crate) fn env(&self) -> &Arc<dyn Env> {
        match &self.kind {
            Kind::Plain { collection, .. } => &collection.env,
            Kind::Wide(wide) => &wide.env,
            Kind::Frozen { collection, .. } => &collection.env,
        }
    }

    /// The name of the collection.
    pub fn collection_name(&self) -> &str {
        match &self.kind {
            Kind::Plain { collection, .. } => &collection.name,
            Kind::Wide(wide) => &wide.name,
            Kind::Frozen { collection, .. } => &collection.name,
        }
    }

    /// What was done with the collection since it was opened, as those that serve it count.
    pub fn usage(&self) -> &Usage {
        match &self.kind {
            Kind::Plain { collection, .. } => &collection.usage,
            Kind::Wide(wide) => &wide.usage,
            Kind::Frozen { collection, .. } => &collection.usage,
        }
    }

    /// How many partitions the collection has.
    pub fn partition_count(&self) -> u32 {
        self.parts().len() as u32
    }

    /// The last position that it sees in each partition; 0 in frozen files.
    pub fn positions(&self) -> Vec<Position> {
        let parts = self.parts().into_iter();
        let position = |part| match part {
            PartView::Plain(view) => PartitionView::position(view),
            PartView::Wide(view, _) => view.position(),
            PartView::Frozen(..) => Position(0),
        };
        parts.map(position).collect()
    }

    /// How many documents there are.
    pub fn count(&self) -> u64 {
        match &self.kind {
            Kind::Plain { partitions, .. } => partitions.iter().map(PartitionView::count).sum(),
            Kind::Wide(wide) => wide.partitions.iter().map(WideView::count).sum(),
            Kind::Frozen { files, .. } => files.count(),
        }
    }

    /// The document under `key`; if several frozen files have one, that of the last file.
    ///
    /// # Errors
    /// `Corrupt` if the bytes on disk are damaged.
    pub fn get(&self, key: &Key) -> Result<Option<Found>> {
        match &self.kind {
            Kind::Plain { partitions, .. } => {
                let number = partition_of(key, partitions.len() as u32) as usize;
                Ok(partitions[number].get(key)?)
            }
            Kind::Wide(wide) => {
                let number = partition_of(key, wide.partitions.len() as u32) as usize;
                let found = wide.partitions[number].get(key, &wide.key_field, None)?;
                Ok(found.map(crate::wide_found::found_of))
            }
            Kind::Frozen { files, .. } => files.get(key),
        }
    }

    /// The documents under many keys, in the order of the keys; each partition of a plain
    /// collection is read once.
    ///
    /// # Errors
    /// `Corrupt` if the bytes on disk are damaged.
    pub fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Found>>> {
        match &self.kind {
            Kind::Plain { partitions, .. } => {
                let get = |partition: usize, keys: &[&Key]| partitions[partition].get_many(keys);
                get_many(partitions.len(), keys, || None, get)
            }
            _ => keys.iter().map(|key| self.get(key)).collect(),
        }
    }

    /// The documents in a range of keys, in key order.
    ///
    /// # Errors
    /// `Corrupt` if the bytes on disk are damaged; `Invalid` of a wide and of a frozen collection,
    /// which are read in another order.
    pub fn scan(&self, range: impl RangeBounds<Key>) -> Result<Scan> {
        let bounds = (range.start_bound(), range.end_bound());
        let partitions = self.partitions()?.iter();
        let scans = partitions.map(|one| one.scan(bounds.0, bounds.1));
        let scans = scans.collect::<quire_collection::Result<Vec<_>>>()?;
        Ok(Scan::new(scans))
    }

    /// The view of one partition: those of all partitions are all documents, each once.
    ///
    /// # Errors
    /// `Invalid` of a wide and of a frozen collection.
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn partition(&self, number: u32) -> Result<View> {
        match &self.kind {
            Kind::Plain {
                collection,
                partitions,
            } => Ok(View {
                kind: Kind::Plain {
                    collection: Arc::clone(collection),
                    partitions: vec![partitions[number as usize].clone()],
                },
                name_field: self.name_field.clone(),
            }),
            Kind::Wide(_) | Kind::Frozen { .. } => self.partitions().map(|_| self.clone()),
        }
    }
}
