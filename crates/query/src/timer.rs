//! [`Timer`]: how long a step took.

use crate::Clock;
use std::fmt;
use std::time::Duration;

/// Tells time if there is a clock.
#[derive(Clone, Copy)]
pub(crate) struct Timer<'a>(pub(crate) Option<Clock<'a>>);

impl Timer<'_> {
    pub(crate) fn now(self) -> Duration {
        self.0.map_or(Duration::ZERO, |clock| clock())
    }

    pub(crate) fn since(self, start: Duration) -> Duration {
        self.now().saturating_sub(start)
    }
}

impl fmt::Debug for Timer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timer").field(&self.0.is_some()).finish()
    }
}
