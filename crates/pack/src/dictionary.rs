//! Dictionary: what many pieces have in common, so that zstd need not find it anew in each.
//!
//! Its bytes are in zstd's own format: a trained dictionary begins with its magic `37 A4 30 EC`,
//! anything else is raw content that frames refer back to.

use bytes::Bytes;
use std::fmt;
use zstd::zstd_safe::{DDict, train_from_buffer};

/// A dictionary, ready to be used.
pub struct Dictionary {
    bytes: Bytes,
    decoder: DDict<'static>,
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary")
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl Dictionary {
    /// `None` if zstd can't use these bytes.
    #[must_use]
    pub fn new(bytes: Bytes) -> Option<Dictionary> {
        let decoder = DDict::try_create(&bytes)?;
        Some(Dictionary { bytes, decoder })
    }

    /// Trains one of at most `bytes_max` on records that lie one after another in `samples`, and
    /// have these lengths. Of too few records, their last bytes are it. The same records make the
    /// same dictionary. `None` if there is nothing to learn.
    #[must_use]
    pub fn train(samples: &[u8], lengths: &[usize], bytes_max: usize) -> Option<Dictionary> {
        let mut trained = Vec::with_capacity(bytes_max);
        let bytes = match train_from_buffer(&mut trained, samples, lengths) {
            Ok(_) => Bytes::from(trained),
            Err(_) => {
                let start = samples.len().saturating_sub(bytes_max);
                Bytes::copy_from_slice(samples.get(start..)?)
            }
        };
        match bytes.is_empty() {
            true => None,
            false => Dictionary::new(bytes),
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn decoder(&self) -> &DDict<'static> {
        &self.decoder
    }
}
