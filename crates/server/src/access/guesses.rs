//! Wrong tokens, by address: who sends many is not admitted with a new one for a moment.
//!
//! A wrong token is answered after a pause. While an address waits for [`GUESSES_MAX`] answers, its
//! further tokens are refused unseen, whether or not they are right. So an address can't try tokens
//! faster by trying many at once, on many connections or streams.
//!
//! Tokens that were admitted from the address before are admitted all the same: one who guesses
//! does not lock out those who share the address, behind a proxy for example.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::limits::Client;

/// Wrong tokens of an address that may wait for their answer at once.
pub(crate) const GUESSES_MAX: usize = 16;

/// Pairs of an address and a token that are remembered. Past it all are forgotten, and count again
/// once they are admitted again.
const KNOWN_MAX: usize = 16_384;

/// The wrong tokens that wait for their answer, and the right ones of each address. A clone is
/// another handle to the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guesses(Arc<Mutex<Addresses>>);

#[derive(Debug, Default)]
struct Addresses {
    /// Wrong tokens that wait.
    waiting: HashMap<Client, usize>,
    /// Addresses, and names of tokens that were admitted from them.
    known: HashSet<(Client, String)>,
}

/// A wrong token that waits for its answer, until this is dropped.
#[derive(Debug)]
pub(crate) struct Guess {
    all: Guesses,
    by: Option<Client>,
}

impl Guesses {
    /// Whether a token of this address is refused for those that wait; `admitted` is its name, if
    /// it is right. One that is called in process has no address, and is trusted.
    pub(crate) fn are_too_many(&self, address: Option<IpAddr>, admitted: Option<&str>) -> bool {
        let Some(address) = address else { return false };
        let by = Client::of("", Some(address));
        let all = &mut *self.0.lock();
        let is_full = all
            .waiting
            .get(&by)
            .is_some_and(|count| *count >= GUESSES_MAX);
        let Some(name) = admitted else { return is_full };
        let pair = (by, name.to_owned());
        if all.known.contains(&pair) {
            return false;
        }
        if !is_full {
            if all.known.len() >= KNOWN_MAX {
                all.known.clear();
            }
            all.known.insert(pair);
        }
        is_full
    }

    /// Counts a wrong token until it is answered.
    pub(crate) fn begin(&self, address: Option<IpAddr>) -> Guess {
        let by = address.map(|address| Client::of("", Some(address)));
        if let Some(by) = &by {
            *self.0.lock().waiting.entry(by.clone()).or_default() += 1;
        }
        let all = self.clone();
        Guess { all, by }
    }
}

impl Drop for Guess {
    fn drop(&mut self) {
        let Some(by) = &self.by else { return };
        let waiting = &mut self.all.0.lock().waiting;
        if let Some(count) = waiting.get_mut(by) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(by);
            }
        }
    }
}
