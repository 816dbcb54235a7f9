//! [`Tier`]: the medium that new tables of a tree go to, which may change while it is open.

use quire_env::Medium;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const NONE: u8 = 0;
const SSD: u8 = 1;
const HDD: u8 = 2;

/// The medium of a tree's new tables; that of the first volume if none. Clones are one setting.
#[derive(Clone, Default)]
pub struct Tier(Arc<AtomicU8>);

impl Tier {
    /// The medium now.
    pub fn get(&self) -> Option<Medium> {
        match self.0.load(Ordering::Relaxed) {
            SSD => Some(Medium::Ssd),
            HDD => Some(Medium::Hdd),
            _ => None,
        }
    }

    /// Takes effect with the next table.
    pub fn set(&self, medium: Option<Medium>) {
        let code = match medium {
            None => NONE,
            Some(Medium::Ssd) => SSD,
            Some(Medium::Hdd) => HDD,
        };
        self.0.store(code, Ordering::Relaxed);
    }
}

impl From<Option<Medium>> for Tier {
    fn from(medium: Option<Medium>) -> Tier {
        let tier = Tier::default();
        tier.set(medium);
        tier
    }
}

impl fmt::Debug for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
