//! What one client has taken: two clocks that run ahead of time, and three counts.
//!
//! A clock is set forward by what each request costs, and stands still at the present. A client
//! whose clock is more than [`BURST`] ahead has taken more than its rate.
//!
//! Source: the "generic cell rate algorithm", ITU-T I.371.

use std::time::Duration;

use super::rule::Limit;

/// What may be taken at once after a rest, as time at the rate.
const BURST: Duration = Duration::from_secs(1);

/// How long one who has too much running is to wait: it is not known when one of these ends.
pub(super) const RUNNING_WAIT: Duration = Duration::from_secs(1);

/// What one client has taken.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    requests_due: Duration,
    bytes_due: Duration,
    pub(super) running: u64,
    pub(super) searches: u64,
    pub(super) connections: u64,
}

impl Account {
    /// How long the client is to wait before its next request, and for which limit; none if it may
    /// begin now.
    pub(super) fn wait(&self, limit: &Limit, now: Duration) -> Option<(Duration, &'static str)> {
        let ahead = |due: Duration| due.saturating_sub(now + BURST);
        let requests = ahead(self.requests_due);
        let bytes = ahead(self.bytes_due);
        if limit.running.is_some_and(|most| self.running >= most) {
            return Some((RUNNING_WAIT, "requests at once"));
        }
        match (requests.max(bytes), requests >= bytes) {
            (Duration::ZERO, _) => None,
            (wait, true) => Some((wait, "requests a second")),
            (wait, false) => Some((wait, "bytes a second")),
        }
    }

    /// Counts what was taken.
    pub(super) fn take(&mut self, limit: &Limit, requests: u64, bytes: u64, now: Duration) {
        let forward = |due: Duration, count: u64, rate: Option<u64>| match rate {
            Some(rate) => due.max(now).saturating_add(time_of(count, rate)),
            None => due,
        };
        self.requests_due = forward(self.requests_due, requests, limit.requests);
        self.bytes_due = forward(self.bytes_due, bytes, limit.bytes);
    }

    /// Whether it is as a new one.
    pub(super) fn is_settled(&self, now: Duration) -> bool {
        let is_past = self.requests_due <= now && self.bytes_due <= now;
        is_past && self.running == 0 && self.searches == 0 && self.connections == 0
    }
}

/// How long `count` takes at `rate` a second.
fn time_of(count: u64, rate: u64) -> Duration {
    let nanos = u128::from(count) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit {
        requests: Some(10),
        bytes: Some(1000),
        running: Some(2),
        searches: None,
        connections: None,
    };

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Requests that begin between two moments, if one is tried each millisecond.
    fn begun(account: &mut Account, from: u64, to: u64) -> u64 {
        let mut count = 0;
        for now in from..to {
            if account.wait(&LIMIT, millis(now)).is_none() {
                account.take(&LIMIT, 1, 0, millis(now));
                count += 1;
            }
        }
        count
    }

    #[test]
    fn requests_pass_at_the_rate_after_a_burst() {
        let mut account = Account::default();
        assert!((20..=21).contains(&begun(&mut account, 5000, 6000)));
        assert!((9..=11).contains(&begun(&mut account, 6000, 7000)));
        account.take(&LIMIT, 1, 0, millis(7000));
        let (wait, what) = account.wait(&LIMIT, millis(7000)).unwrap();
        assert!(
            wait <= millis(200) && what == "requests a second",
            "{wait:?}"
        );
        assert!(!account.is_settled(millis(7000)));
        assert!(account.is_settled(millis(8300)));
    }

    #[test]
    fn what_exceeds_the_rate_is_waited_for_afterwards() {
        let mut account = Account::default();
        assert_eq!(account.wait(&LIMIT, millis(0)), None);
        account.take(&LIMIT, 1, 5000, millis(0));
        let wait = account.wait(&LIMIT, millis(1000));
        assert_eq!(wait, Some((millis(3000), "bytes a second")));
        assert_eq!(account.wait(&LIMIT, millis(4000)), None);
    }

    #[test]
    fn no_more_run_at_once_than_the_limit() {
        let account = Account {
            running: 2,
            ..Account::default()
        };
        assert!(account.wait(&LIMIT, millis(0)).is_some());
        assert_eq!(account.wait(&Limit::default(), millis(0)), None);
        let mut account = Account::default();
        account.take(&Limit::default(), 1000, u64::MAX, millis(0));
        assert!(account.is_settled(millis(0)));
    }
}
