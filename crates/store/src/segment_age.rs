//! How old the log's newest segment is, and when a job has to look at it.

use quire_model::Position;
use std::time::Duration;

/// When the newest segment is sealed.
#[derive(Debug)]
pub(crate) struct Sealing {
    pub(crate) age: Option<Duration>,
    /// The base of the newest segment, and when its first record was written.
    newest: Option<(Position, Duration)>,
    /// A job will look.
    scheduled: bool,
}

impl Sealing {
    pub(crate) fn new(age: Option<Duration>) -> Sealing {
        Sealing {
            age,
            newest: None,
            scheduled: false,
        }
    }

    /// For the newest segment too, once more is written to it.
    pub(crate) fn set_age(&mut self, age: Option<Duration>) {
        self.age = age;
        // A job that is on its way may come too late.
        self.scheduled = false;
    }

    /// Takes note of a record in the segment that begins with `base`. How long from now a job is to
    /// look; `None` if one will, or need not.
    pub(crate) fn note(&mut self, base: Position, now: Duration) -> Option<Duration> {
        let age = self.age?;
        if self.newest.is_none_or(|(newest, _)| newest != base) {
            self.newest = Some((base, now));
        }
        let is_scheduled = std::mem::replace(&mut self.scheduled, true);
        (!is_scheduled).then_some(age)
    }

    /// What a job finds: the segment to be sealed, or how long from now it is to look again.
    pub(crate) fn look(&mut self, now: Duration) -> Option<Result<Position, Duration>> {
        self.scheduled = false;
        let (age, (base, began)) = (self.age?, self.newest?);
        let left = (began + age).saturating_sub(now);
        if left.is_zero() {
            self.newest = None;
            return Some(Ok(base));
        }
        self.scheduled = true;
        Some(Err(left))
    }
}
