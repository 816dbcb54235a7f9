//! Wrong tokens, by address: who sends many is not admitted with another one for a moment.
//!
//! A wrong token is answered after a pause. While an address waits for that many answers, its
//! further tokens are refused unseen, whether or not they are right. So an address can't try tokens
//! faster by trying many at once, on many connections or streams.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::limits::Client;

/// Wrong tokens of an address that may wait for their answer at once.
pub(crate) const GUESSES_MAX: usize = 16;

/// The wrong tokens that wait for their answer. A clone is another handle to the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guesses(Arc<Mutex<HashMap<Client, usize>>>);

/// A wrong token that waits for its answer, until this is dropped.
#[derive(Debug)]
pub(crate) struct Guess {
    all: Guesses,
    by: Option<Client>,
}

impl Guesses {
    /// Whether further tokens of this address are refused. One that is called in process has none,
    /// and is trusted.
    pub(crate) fn are_too_many(&self, address: Option<IpAddr>) -> bool {
        let Some(address) = address else { return false };
        let count = self.0.lock().get(&Client::of("", Some(address))).copied();
        count.is_some_and(|count| count >= GUESSES_MAX)
    }

    /// Counts a wrong token until it is answered.
    pub(crate) fn begin(&self, address: Option<IpAddr>) -> Guess {
        let by = address.map(|address| Client::of("", Some(address)));
        if let Some(by) = &by {
            *self.0.lock().entry(by.clone()).or_default() += 1;
        }
        let all = self.clone();
        Guess { all, by }
    }
}

impl Drop for Guess {
    fn drop(&mut self) {
        let Some(by) = &self.by else { return };
        let mut all = self.all.0.lock();
        if let Some(count) = all.get_mut(by) {
            *count -= 1;
            if *count == 0 {
                all.remove(by);
            }
        }
    }
}
