//! Rate limiter: keeps background reading and copying from taking the machine from requests.
//!
//! There are two bounds. One is a rate in bytes a second. The other, which is optional, is rest in
//! proportion to work: after each piece, a multiple of the time that the piece took. When disk or
//! processor are busy, a piece takes longer, and so does the rest after it.

use quire_env::Env;
use std::time::Duration;

/// Rest for each unit of work: a tenth of the time is work at most.
const REST: u32 = 9;

/// The longest sleep: what waits is stopped within it.
const NAP_MAX: Duration = Duration::from_millis(100);

/// Limits the bytes that pass in a second. Time that was not used is not made up for.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    bytes_per_second: Option<u64>,
    /// When the next bytes may pass.
    due: Duration,
    /// Rest for each unit of work.
    rest: u32,
    /// When work was taken up after the last rest.
    resumed: Option<Duration>,
}

impl RateLimiter {
    /// As fast as can be if `None`.
    pub(crate) fn new(bytes_per_second: Option<u64>) -> RateLimiter {
        RateLimiter {
            bytes_per_second,
            due: Duration::ZERO,
            rest: 0,
            resumed: None,
        }
    }

    /// As [`new`](RateLimiter::new), with rest in proportion to work if there is a limit.
    pub(crate) fn resting(bytes_per_second: Option<u64>) -> RateLimiter {
        RateLimiter {
            rest: REST,
            ..RateLimiter::new(bytes_per_second)
        }
    }

    /// Waits until `bytes` more may pass, or until `goes_on` returns false. It is called often.
    pub(crate) fn wait(&mut self, env: &dyn Env, bytes: u64, goes_on: &mut dyn FnMut() -> bool) {
        let Some(rate) = self.bytes_per_second else {
            return;
        };
        let now = env.monotonic();
        let worked = self
            .resumed
            .map_or(Duration::ZERO, |resumed| now.saturating_sub(resumed));
        let until = self.due.max(now.saturating_add(worked * self.rest));
        let mut left = until.saturating_sub(now);
        while !left.is_zero() && goes_on() {
            let nap = left.min(NAP_MAX);
            env.sleep(nap);
            left -= nap;
        }
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.due = self.due.max(now).saturating_add(takes);
        self.resumed = Some(env.monotonic());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_env::SimEnv;

    #[test]
    fn bytes_pass_at_the_rate_and_rest_is_not_made_up_for() {
        let env = SimEnv::new(1);
        let mut limiter = RateLimiter::new(Some(1_000_000));
        let begun = env.monotonic();
        (0..=20).for_each(|_| limiter.wait(&*env, 50_000, &mut || true));
        let took = env.monotonic() - begun;
        assert!(took >= Duration::from_millis(990), "{took:?}");
        env.sleep(Duration::from_secs(10));
        let begun = env.monotonic();
        (0..=20).for_each(|_| limiter.wait(&*env, 50_000, &mut || true));
        assert!(env.monotonic() - begun >= Duration::from_millis(990));
    }

    #[test]
    fn a_long_wait_ends_when_it_is_stopped() {
        let env = SimEnv::new(1);
        let mut limiter = RateLimiter::new(Some(1));
        let mut calls = 0;
        limiter.wait(&*env, 1_000_000, &mut || true);
        let begun = env.monotonic();
        limiter.wait(&*env, 1, &mut || {
            calls += 1;
            calls < 5
        });
        assert!(env.monotonic() - begun < Duration::from_secs(1));
    }

    #[test]
    fn a_slow_machine_is_left_alone_for_longer() {
        let env = SimEnv::new(1);
        let mut limiter = RateLimiter::resting(Some(1_000_000_000));
        limiter.wait(&*env, 1000, &mut || true);
        let begun = env.monotonic();
        for _ in 0..10 {
            env.sleep(Duration::from_millis(10)); // work
            limiter.wait(&*env, 1000, &mut || true);
        }
        let took = env.monotonic() - begun;
        assert!(took >= Duration::from_millis(990), "{took:?}");
    }
}
