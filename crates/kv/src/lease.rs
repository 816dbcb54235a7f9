//! Leases: what views and iterators hold, counted by age, and taken back from those that keep it
//! for too long.
//!
//! A lease holds memtables and files. Each is listed from when it is made until it is dropped, so
//! that the age of the oldest is known. With a limit of age a job in the background empties those
//! that are past it: their memtables and files are released, and using one is an error from then
//! on. One that is in use right then is emptied by its user, so that the job waits for nobody.

use crate::{Error, Result};
use parking_lot::Mutex;
use quire_env::{Env, JobClass};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// All leases of an opening.
pub(crate) struct Leases {
    env: Arc<dyn Env>,
    age_max: Option<Duration>,
    listed: Mutex<Listed>,
}

#[derive(Default)]
struct Listed {
    next: u64,
    /// By number, which is by age: when each was made, by the monotonic clock.
    leases: BTreeMap<u64, (Duration, Weak<dyn Expire>)>,
    /// Whether a job is due that looks for old ones.
    scheduled: bool,
}

trait Expire: Send + Sync {
    fn expire(&self);
}

/// A value on lease.
pub(crate) struct Lease<T> {
    value: Mutex<Option<T>>,
    /// Set before the value is taken back: a thread that uses it then takes it back afterwards.
    expired: AtomicBool,
    leases: Arc<Leases>,
    number: u64,
}

impl Leases {
    pub(crate) fn new(env: Arc<dyn Env>, age_max: Option<Duration>) -> Arc<Leases> {
        Arc::new(Leases {
            env,
            age_max,
            listed: Mutex::default(),
        })
    }

    /// Leases a value.
    pub(crate) fn lease<T: Send + 'static>(self: &Arc<Self>, value: T) -> Arc<Lease<T>> {
        let now = self.env.monotonic();
        let mut listed = self.listed.lock();
        let number = listed.next;
        listed.next += 1;
        let lease = Arc::new(Lease {
            value: Mutex::new(Some(value)),
            expired: AtomicBool::new(false),
            leases: Arc::clone(self),
            number,
        });
        let weak: Weak<dyn Expire> = Arc::downgrade(&lease) as Weak<dyn Expire>;
        listed.leases.insert(number, (now, weak));
        self.schedule(&mut listed, now);
        lease
    }

    /// How many there are, and the age of the oldest.
    pub(crate) fn ages(&self) -> (u64, Option<Duration>) {
        let now = self.env.monotonic();
        let listed = self.listed.lock();
        let oldest = listed.leases.values().next();
        let age = oldest.map(|(made, _)| now.saturating_sub(*made));
        (listed.leases.len() as u64, age)
    }

    /// Sees to it that a job looks when the oldest comes of age.
    fn schedule(self: &Arc<Self>, listed: &mut Listed, now: Duration) {
        let (Some(age_max), false) = (self.age_max, listed.scheduled) else {
            return;
        };
        let Some((made, _)) = listed.leases.values().next() else {
            return;
        };
        listed.scheduled = true;
        let after = (*made + age_max).saturating_sub(now);
        let me = Arc::downgrade(self);
        let job = move || {
            if let Some(leases) = me.upgrade() {
                leases.expire(age_max);
            }
        };
        self.env.schedule(JobClass::Flush, after, Box::new(job));
    }

    fn expire(self: &Arc<Self>, age_max: Duration) {
        let now = self.env.monotonic();
        let mut old = Vec::new();
        {
            let mut listed = self.listed.lock();
            listed.scheduled = false;
            while let Some(oldest) = listed.leases.first_entry()
                && now.saturating_sub(oldest.get().0) >= age_max
            {
                old.extend(oldest.remove().1.upgrade());
            }
            self.schedule(&mut listed, now);
        }
        // Without the lock: dropping what they held may remove files, and dropping them takes the
        // lock.
        for lease in old {
            lease.expire();
        }
    }
}

impl<T> Lease<T> {
    /// Does something with the value.
    ///
    /// # Errors
    /// [`Error::Expired`] if it was taken back; what `with` returned.
    pub(crate) fn with<R>(&self, with: impl FnOnce(&mut T) -> R) -> Result<R> {
        let done = self.value.lock().as_mut().map(with);
        if self.is_expired() {
            self.empty();
        }
        done.ok_or_else(|| self.expired())
    }

    /// Whether it was taken back, or will be once nobody uses it.
    #[inline]
    pub(crate) fn is_expired(&self) -> bool {
        self.expired.load(Ordering::SeqCst)
    }

    /// What is said of one that was taken back.
    pub(crate) fn expired(&self) -> Error {
        Error::Expired {
            age_max: self.leases.age_max.unwrap_or_default(),
        }
    }

    /// Takes the value back, unless it is in use.
    fn empty(&self) {
        let value = self.value.try_lock().and_then(|mut value| value.take());
        drop(value);
    }

    /// Those of the same opening.
    pub(crate) fn leases(&self) -> &Arc<Leases> {
        &self.leases
    }
}

impl<T: Send> Expire for Lease<T> {
    fn expire(&self) {
        // In this order: either this finds it unused, or its user finds it expired.
        self.expired.store(true, Ordering::SeqCst);
        self.empty();
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        self.leases.listed.lock().leases.remove(&self.number);
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases")
            .field("age_max", &self.age_max)
            .field("count", &self.ages().0)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Lease<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
