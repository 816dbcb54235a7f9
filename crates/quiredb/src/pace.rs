//! Pace: reading no faster than a rate, so that those who write and read keep the disk.

use quire_env::Env;
use std::time::Duration;

/// Lets so many bytes pass in a second. Time that was not used is not made up for.
#[derive(Debug)]
pub(crate) struct Pace {
    bytes_per_second: Option<u64>,
    /// When the next bytes may pass.
    due: Duration,
}

impl Pace {
    /// No limit if `None`.
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Pace {
        Pace {
            bytes_per_second,
            due: Duration::ZERO,
        }
    }

    /// Waits until `bytes` may pass.
    pub(crate) fn wait(&mut self, env: &dyn Env, bytes: u64) {
        let Some(rate) = self.bytes_per_second else {
            return;
        };
        let now = env.monotonic();
        let early = self.due.saturating_sub(now);
        if !early.is_zero() {
            env.sleep(early);
        }
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.due = self.due.max(now).saturating_add(takes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_env::SimEnv;

    #[test]
    fn bytes_pass_at_the_rate_and_rest_is_not_made_up_for() {
        let env = SimEnv::new(1);
        let mut pace = Pace::new(Some(1_000_000));
        let begun = env.monotonic();
        (0..=20).for_each(|_| pace.wait(&*env, 50_000));
        let took = env.monotonic() - begun;
        assert!(took >= Duration::from_millis(990), "{took:?}");
        env.sleep(Duration::from_secs(10));
        let begun = env.monotonic();
        (0..=20).for_each(|_| pace.wait(&*env, 50_000));
        assert!(env.monotonic() - begun >= Duration::from_millis(990));
    }
}
