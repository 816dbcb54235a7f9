//! The accounts of all clients, by address and by token.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use quiredb::Env;

use super::account::{Account, RUNNING_WAIT};
use super::client::network;
use super::rule::Limit;
use crate::access::grant::Grant;

/// Accounts of each kind. Clients beyond share one.
const ACCOUNTS_MAX: usize = 1 << 16;

/// Accounts that are kept before those that are settled are looked for, and how often.
const ACCOUNTS_KEPT: usize = 1 << 10;
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// The limits of a server, and what its clients have taken.
pub(crate) struct Limits {
    clock: Arc<dyn Env>,
    addresses: Book<IpAddr>,
    tokens: Book<String>,
    refused: AtomicU64,
}

/// One kind of accounts.
struct Book<K> {
    /// Of each client that has none of its own.
    limit: Option<Limit>,
    accounts: Mutex<Accounts<K>>,
}

struct Accounts<K> {
    /// None stands for all clients that have no account of their own.
    by_client: HashMap<Option<K>, Account>,
    /// When settled accounts were forgotten last.
    forgotten: Duration,
}

/// A request under way, or a client of memcached, which pays for what it takes.
pub(crate) struct Share {
    limits: Arc<Limits>,
    address: Option<IpAddr>,
    /// The account of its token, if that has a limit.
    token: Option<(Option<String>, Limit)>,
    /// Whether it counts among the requests that run at once.
    is_request: bool,
}

/// A search that counts as running until this is dropped; by default for nobody.
#[derive(Default)]
pub(crate) struct Searching(Option<Arc<Share>>);

/// A connection that counts as open until this is dropped.
pub(crate) struct Connected {
    limits: Arc<Limits>,
    address: Option<IpAddr>,
}

/// A request over a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("too many {what} of this {whose}; nothing was done, send it again after {wait:?}")]
pub(crate) struct Over {
    what: &'static str,
    whose: &'static str,
    /// When to come again.
    pub(crate) wait: Duration,
}

impl<K: Hash + Eq + Clone> Book<K> {
    fn new(limit: Option<Limit>) -> Book<K> {
        let accounts = Accounts {
            by_client: HashMap::new(),
            forgotten: Duration::ZERO,
        };
        Book {
            limit,
            accounts: Mutex::new(accounts),
        }
    }

    /// Does something with the account of a client that begins something, if there is a limit.
    /// Returns whose account it is.
    fn open<T>(
        &self,
        limit: Option<&Limit>,
        client: Option<K>,
        now: Duration,
        act: impl FnOnce(&Limit, &mut Account) -> T,
    ) -> Option<(Option<K>, T)> {
        let limit = limit?;
        let accounts = &mut *self.accounts.lock();
        let by_client = &mut accounts.by_client;
        if by_client.len() >= ACCOUNTS_KEPT && now >= accounts.forgotten + FORGET_EVERY {
            by_client.retain(|_, account| !account.is_settled(now));
            accounts.forgotten = now;
        }
        let is_known = by_client.len() < ACCOUNTS_MAX || by_client.contains_key(&client);
        let client = client.filter(|_| is_known);
        let account = by_client.entry(client.clone()).or_default();
        Some((client, act(limit, account)))
    }

    /// Does something with the account of a client that has begun something, if there is a limit.
    fn with(
        &self,
        limit: Option<&Limit>,
        client: &Option<K>,
        act: impl FnOnce(&Limit, &mut Account),
    ) {
        if let Some(limit) = limit {
            let accounts = &mut *self.accounts.lock();
            act(limit, accounts.by_client.entry(client.clone()).or_default());
        }
    }
}

impl Limits {
    /// The limits of each address and of each token; none: anything is allowed.
    pub(crate) fn new(clock: Arc<dyn Env>, address: Option<Limit>, token: Option<Limit>) -> Limits {
        Limits {
            clock,
            addresses: Book::new(address),
            tokens: Book::new(token),
            refused: AtomicU64::new(0),
        }
    }

    /// Requests and connections refused since the server began.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A client connects.
    ///
    /// # Errors
    /// If too many connections of its address are open.
    pub(crate) fn connect(self: &Arc<Self>, address: Option<IpAddr>) -> Result<Connected, Over> {
        let address = address.map(network);
        let now = self.clock.monotonic();
        let limit = self.addresses.limit.as_ref();
        let opened = self.addresses.open(limit, address, now, |limit, account| {
            let has_room = limit
                .connections
                .is_none_or(|most| account.connections < most);
            account.connections += u64::from(has_room);
            has_room
        });
        let (address, has_room) = opened.unwrap_or((None, true));
        match has_room {
            false => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(Over {
                    what: "connections",
                    whose: "address",
                    wait: Duration::ZERO,
                })
            }
            true => Ok(Connected {
                limits: Arc::clone(self),
                address,
            }),
        }
    }

    /// What a client takes is counted from now on, for its address alone.
    ///
    /// # Errors
    /// If the address is over a limit.
    pub(crate) fn begin(self: &Arc<Self>, address: Option<IpAddr>) -> Result<Share, Over> {
        let book = &self.addresses;
        let address = self.admit(book, book.limit.as_ref(), address.map(network), "address")?;
        Ok(Share {
            limits: Arc::clone(self),
            address,
            token: None,
            is_request: true,
        })
    }

    /// What a client takes is counted from now on, without a request that begins.
    pub(crate) fn attend(self: &Arc<Self>, address: Option<IpAddr>) -> Share {
        Share {
            limits: Arc::clone(self),
            address: address.map(network),
            token: None,
            is_request: false,
        }
    }

    /// Counts a request that begins, unless it is over a limit.
    fn admit<K: Hash + Eq + Clone>(
        &self,
        book: &Book<K>,
        limit: Option<&Limit>,
        client: Option<K>,
        whose: &'static str,
    ) -> Result<Option<K>, Over> {
        let now = self.clock.monotonic();
        let opened = book.open(limit, client, now, |limit, account| {
            let wait = account.wait(limit, now);
            if wait.is_none() {
                account.take(limit, 1, 0, now);
                account.running += 1;
            }
            wait
        });
        match opened.unwrap_or((None, None)) {
            (client, None) => Ok(client),
            (_, Some((wait, what))) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(Over { what, whose, wait })
            }
        }
    }
}

impl Share {
    /// The client was admitted with a token: what it takes is counted for that, too.
    ///
    /// # Errors
    /// If the token is over a limit.
    pub(crate) fn admitted(&mut self, grant: &Grant) -> Result<(), Over> {
        assert!(self.token.is_none(), "a request has one token");
        let tokens = &self.limits.tokens;
        if let Some(limit) = grant.limit.or(tokens.limit) {
            let name = Some(grant.name.clone());
            let token = self.limits.admit(tokens, Some(&limit), name, "token")?;
            self.token = Some((token, limit));
        }
        Ok(())
    }

    /// What the client takes is counted for this token, too, whether or not it is over a limit.
    pub(crate) fn has_token(&mut self, grant: &Grant) {
        let limit = grant.limit.or(self.limits.tokens.limit);
        self.token = limit.map(|limit| (Some(grant.name.clone()), limit));
    }

    /// Whether anything is counted.
    pub(crate) fn is_limited(&self) -> bool {
        self.limits.addresses.limit.is_some() || self.token.is_some()
    }

    /// Does something with the accounts of the client.
    fn with(&self, mut act: impl FnMut(&Limit, &mut Account)) {
        let addresses = &self.limits.addresses;
        addresses.with(addresses.limit.as_ref(), &self.address, &mut act);
        if let Some((token, limit)) = &self.token {
            self.limits.tokens.with(Some(limit), token, &mut act);
        }
    }

    /// Counts a search of the request.
    ///
    /// # Errors
    /// If too many of the client's searches run or wait.
    pub(crate) fn begin_search(self: &Arc<Self>) -> Result<Searching, Over> {
        let has_no_address = self.limits.addresses.limit.is_none();
        let mut whose = ["address", "token"]
            .into_iter()
            .skip(usize::from(has_no_address));
        let mut over = None;
        self.with(|limit, account| {
            let is_over = limit.searches.is_some_and(|most| account.searches >= most);
            // Counted for both, since both are released.
            account.searches += 1;
            let whose = whose.next().filter(|_| is_over);
            over = over.or(whose);
        });
        let searching = Searching(Some(Arc::clone(self)));
        match over {
            None => Ok(searching),
            Some(whose) => {
                self.limits.refused.fetch_add(1, Ordering::Relaxed);
                Err(Over {
                    what: "searches at once",
                    whose,
                    wait: RUNNING_WAIT,
                })
            }
        }
    }

    /// Counts bytes that were received or sent.
    pub(crate) fn passed(&self, bytes: u64) {
        let now = self.limits.clock.monotonic();
        self.with(|limit, account| account.take(limit, 0, bytes, now));
    }

    /// How long the client is to rest now, if it can't be refused; `requests` have passed.
    pub(crate) fn rest(&self, requests: u64) -> Duration {
        let now = self.limits.clock.monotonic();
        let mut rest = Duration::ZERO;
        self.with(|limit, account| {
            account.take(limit, requests, 0, now);
            let any = Limit {
                running: None,
                ..*limit
            };
            rest = rest.max(
                account
                    .wait(&any, now)
                    .map_or(Duration::ZERO, |(wait, _)| wait),
            );
        });
        rest
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if !self.is_request {
            return;
        }
        self.with(|_, account| account.running = account.running.saturating_sub(1));
    }
}

impl Drop for Searching {
    fn drop(&mut self) {
        if let Some(share) = &self.0 {
            share.with(|_, account| account.searches = account.searches.saturating_sub(1));
        }
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        let addresses = &self.limits.addresses;
        addresses.with(addresses.limit.as_ref(), &self.address, |_, account| {
            account.connections = account.connections.saturating_sub(1);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_env::SimEnv;

    fn limits(address: Limit) -> Arc<Limits> {
        Arc::new(Limits::new(SimEnv::new(1), Some(address), None))
    }

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn each_address_has_its_own_account_and_a_network_of_ipv6_one() {
        let limits = limits(Limit {
            running: Some(1),
            connections: Some(1),
            ..Limit::default()
        });
        let one = limits.begin(ip("10.0.0.1")).unwrap_or_else(|_| panic!());
        assert!(limits.begin(ip("::ffff:10.0.0.1")).is_err());
        assert!(limits.begin(ip("10.0.0.2")).is_ok());
        drop(one);
        assert!(limits.begin(ip("10.0.0.1")).is_ok());
        let _open = limits.connect(ip("2001:db8::1"));
        assert!(limits.connect(ip("2001:db8::2")).is_err());
        assert!(limits.connect(ip("2001:db8:0:1::2")).is_ok());
        assert_eq!(limits.refused(), 2);
    }

    #[test]
    fn a_client_that_is_not_refused_rests_until_it_keeps_to_its_rate() {
        let limits = limits(Limit {
            requests: Some(10),
            ..Limit::default()
        });
        let share = limits.begin(ip("10.0.0.1")).unwrap_or_else(|_| panic!());
        assert_eq!(share.rest(9), Duration::ZERO);
        let rest = share.rest(10).as_millis();
        assert!((900..=1000).contains(&rest), "{rest} ms");
    }

    #[test]
    fn searches_are_counted_until_they_end_for_the_address_and_the_token() {
        let limit = Limit {
            searches: Some(1),
            ..Limit::default()
        };
        let limits = limits(limit);
        let share = |address| Arc::new(limits.begin(ip(address)).unwrap_or_else(|_| panic!()));
        let (one, same, other) = (share("10.0.0.1"), share("10.0.0.1"), share("10.0.0.2"));
        let searching = one.begin_search().unwrap_or_else(|_| panic!());
        for _ in 0..2 {
            let over = same.begin_search().err().map(|over| over.to_string());
            assert!(over.is_some_and(|over| over.contains("searches at once of this address")));
        }
        assert!(other.begin_search().is_ok());
        drop(searching);
        assert!(same.begin_search().is_ok());

        let mut of_token = limits.begin(ip("10.0.0.3")).unwrap_or_else(|_| panic!());
        let grant = Grant {
            name: "t".to_owned(),
            limit: Some(limit),
            ..Grant::everything()
        };
        assert!(of_token.admitted(&grant).is_ok());
        let mut elsewhere = limits.begin(ip("10.0.0.4")).unwrap_or_else(|_| panic!());
        assert!(elsewhere.admitted(&grant).is_ok());
        let _searching = Arc::new(of_token)
            .begin_search()
            .unwrap_or_else(|_| panic!());
        let over = Arc::new(elsewhere)
            .begin_search()
            .err()
            .unwrap()
            .to_string();
        assert!(over.contains("searches at once of this token"), "{over}");
    }

    #[test]
    fn accounts_beyond_the_bound_are_shared_and_settled_ones_forgotten() {
        let limits = limits(Limit {
            connections: Some(2),
            ..Limit::default()
        });
        let address = |n: u32| Some(IpAddr::from(n.to_be_bytes()));
        let most = u32::try_from(ACCOUNTS_MAX).unwrap();
        let open: Vec<_> = (0..most + 2).map(|n| limits.connect(address(n))).collect();
        assert!(open.iter().all(Result::is_ok));
        assert!(limits.connect(address(most + 9)).is_err());
        assert!(limits.addresses.accounts.lock().by_client.len() <= ACCOUNTS_MAX + 1);
        drop(open);
        assert!(limits.connect(address(most + 9)).is_ok());
    }
}
