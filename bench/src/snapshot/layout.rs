//! [`Layout`]: which adverts are in which file.
//!
//! An engine that is fast where each file has one region need not be fast where the ranges of all
//! files overlap. So the same adverts and the same questions are measured in several layouts.

use crate::adverts::mix;

/// How adverts are split into files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Layout {
    /// A file for each region.
    Region,
    /// A region lies in one file, by its hash; a file has four regions on average.
    Hash,
    /// Files of equal size, by the time of the advert; every region is in every file.
    Date,
    /// One file.
    One,
    /// 16 files, by the hash of the region.
    Sixteen,
    /// By region, in files of very different sizes: the largest has more than a tenth of all.
    Skewed,
}

impl Layout {
    pub(super) const ALL: [Layout; 6] = [
        Layout::Region,
        Layout::Hash,
        Layout::Date,
        Layout::One,
        Layout::Sixteen,
        Layout::Skewed,
    ];

    /// The name of an option.
    pub(super) fn name(self) -> &'static str {
        match self {
            Layout::Region => "region",
            Layout::Hash => "hash",
            Layout::Date => "date",
            Layout::One => "one",
            Layout::Sixteen => "sixteen",
            Layout::Skewed => "skewed",
        }
    }

    /// How many regions there are, for `files` files.
    pub(super) fn regions(self, files: u64) -> u64 {
        match self {
            Layout::Hash => 4 * files,
            _ => files,
        }
    }

    /// The numbers of the adverts of each file, of `count`; files without adverts are left out.
    pub(super) fn files(self, count: u64, files: u64) -> Vec<Vec<u64>> {
        let regions = self.regions(files);
        let region = |id| region_of(id, regions, count);
        let parts = match self {
            Layout::One => 1,
            Layout::Sixteen => 16,
            _ => files,
        };
        let mut all = vec![Vec::new(); parts as usize];
        match self {
            Layout::Date => {
                let mut ids: Vec<u64> = (0..count).collect();
                ids.sort_unstable_by_key(|id| added(*id));
                for (place, id) in (0..).zip(ids) {
                    all[(place * parts / count) as usize].push(id);
                }
            }
            _ => {
                for id in 0..count {
                    let file = match self {
                        Layout::One | Layout::Date => 0,
                        Layout::Region => region(id),
                        Layout::Hash | Layout::Sixteen => mix(region(id)) % parts,
                        Layout::Skewed => {
                            let part = region(id) as f64 / regions as f64;
                            ((part.powi(4) * files as f64) as u64).min(files - 1)
                        }
                    };
                    all[file as usize].push(id);
                }
            }
        }
        all.retain(|ids| !ids.is_empty());
        all
    }
}

/// The region of an advert: regions are of equal size, in the order of the adverts.
pub(super) fn region_of(id: u64, regions: u64, count: u64) -> u64 {
    ((id + 1) * regions - 1) / count
}

/// When an advert was added: each has a time of its own.
pub(super) fn added(id: u64) -> u64 {
    1_700_000_000_000 + (id.wrapping_mul(7_919) % 1_000_003) * 1_000_003 + id % 1000
}
