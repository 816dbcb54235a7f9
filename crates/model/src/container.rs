//! [`Container`]: an array or object of an encoded document, opened in place.

use crate::layout::{SCAN_FIELDS_MAX, Width, bucket, buckets, split_entry, tag};
use crate::limits::DEPTH_MAX;

/// An array or object, opened: where its tables are.
#[derive(Clone, Copy)]
pub(crate) struct Container<'a> {
    /// The whole value, from its tag.
    pub(crate) bytes: &'a [u8],
    pub(crate) width: Width,
    /// Its nesting, 1 for the document itself.
    depth: u8,
    pub(crate) count: usize,
    /// Where the table of ends starts: every item lies before.
    pub(crate) ends_at: usize,
    /// Where the index starts, if there is one.
    index_at: usize,
}

impl<'a> Container<'a> {
    /// `{}`.
    pub(crate) const EMPTY: Container<'static> = Container {
        bytes: &[tag::OBJECT, 0],
        width: Width::One,
        depth: 1,
        count: 0,
        ends_at: 1,
        index_at: 1,
    };

    /// Opens an array nested `depth` deep; none if that is too deep.
    pub(crate) fn array(bytes: &'a [u8], depth: u8) -> Option<Self> {
        Self::open(bytes, tag::ARRAY, depth)
    }

    /// Opens an object nested `depth` deep; none if that is too deep.
    pub(crate) fn object(bytes: &'a [u8], depth: u8) -> Option<Self> {
        Self::open(bytes, tag::OBJECT, depth)
    }

    fn open(bytes: &'a [u8], tag: u8, depth: u8) -> Option<Self> {
        if usize::from(depth) > DEPTH_MAX {
            return None;
        }
        let width = match bytes.first()?.checked_sub(tag)? {
            0 => Width::One,
            1 => Width::Two,
            2 => Width::Four,
            _ => return None,
        };
        let count_at = bytes.len().checked_sub(width.bytes())?;
        let count = width.read(bytes, count_at, 0)?;
        let index_bytes = if tag == tag::OBJECT && count > SCAN_FIELDS_MAX {
            let slots = buckets(count).checked_add(count)?;
            slots.checked_mul(Width::of(count).bytes())?
        } else {
            0
        };
        let index_at = count_at.checked_sub(index_bytes)?;
        let ends_at = index_at.checked_sub(count.checked_mul(width.bytes())?)?;
        (ends_at >= 1).then_some(Self {
            bytes,
            width,
            depth,
            count,
            ends_at,
            index_at,
        })
    }

    /// How deep what it holds is nested.
    pub(crate) fn depth_inside(&self) -> u8 {
        self.depth.saturating_add(1)
    }

    /// Where item `index` ends, from the tag.
    pub(crate) fn end(&self, index: usize) -> Option<usize> {
        self.width.read(self.bytes, self.ends_at, index)
    }

    /// Where item `index` starts, from the tag.
    pub(crate) fn start(&self, index: usize) -> Option<usize> {
        match index.checked_sub(1) {
            None => Some(1),
            Some(before) => self.end(before),
        }
    }

    /// Item `index`: a value of an array, an entry of an object.
    pub(crate) fn item(&self, index: usize) -> Option<&'a [u8]> {
        if index >= self.count {
            return None;
        }
        self.bytes.get(self.start(index)?..self.end(index)?)
    }

    /// The items in order, up to the first that does not start where the one before ends.
    pub(crate) fn items(&self) -> Items<'a> {
        Items {
            container: *self,
            index: 0,
            start: 1,
        }
    }

    /// The entries of an object in order, names and values: see [`items`](Self::items).
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.items().map_while(split_entry)
    }

    /// Entry `index` of an object: name and value.
    pub(crate) fn entry(&self, index: usize) -> Option<(&'a [u8], &'a [u8])> {
        split_entry(self.item(index)?)
    }

    /// Where bucket `bucket` of the index ends in the list.
    pub(crate) fn bucket_end(&self, bucket: usize) -> Option<usize> {
        Width::of(self.count).read(self.bytes, self.index_at, bucket)
    }

    /// The entry number at `place` in the index's list.
    pub(crate) fn listed(&self, place: usize) -> Option<usize> {
        Width::of(self.count).read(
            self.bytes,
            self.index_at,
            buckets(self.count).checked_add(place)?,
        )
    }

    /// The value of the field `name`.
    pub(crate) fn find(&self, name: &[u8]) -> Option<&'a [u8]> {
        if self.count <= SCAN_FIELDS_MAX {
            let mut entries = (0..self.count).filter_map(|index| self.entry(index));
            return entries
                .find(|(other, _)| *other == name)
                .map(|(_, value)| value);
        }
        let bucket = bucket(name, buckets(self.count));
        let mut high = self.bucket_end(bucket)?;
        let mut low = match bucket.checked_sub(1) {
            None => 0,
            Some(before) => self.bucket_end(before)?,
        };
        while low < high {
            let middle = low.midpoint(high);
            let (other, value) = self.entry(self.listed(middle)?)?;
            match other.cmp(name) {
                std::cmp::Ordering::Equal => return Some(value),
                std::cmp::Ordering::Less => low = middle.checked_add(1)?,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

/// The items of an array or object: see [`Container::items`].
#[derive(Clone)]
pub(crate) struct Items<'a> {
    pub(crate) container: Container<'a>,
    index: usize,
    start: usize,
}

impl Items<'_> {
    /// How many are left.
    pub(crate) fn left(&self) -> usize {
        self.container.count.saturating_sub(self.index)
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.index >= self.container.count {
            return None;
        }
        let end = self.container.end(self.index)?;
        let item = self.container.bytes.get(self.start..end)?;
        (self.index, self.start) = (self.index + 1, end);
        Some(item)
    }
}
