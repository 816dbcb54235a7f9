//! How large bulks are and how many are sent at once: found by measuring, while shipping.
//!
//! A hill climb over a grid of bulk sizes and concurrencies. Each setting is measured for a window.
//! A neighbour that is clearly faster becomes the setting, and the climb goes on in its direction;
//! else the next direction is tried. When no neighbour is better, it measures again only now and
//! then, so that it follows a cluster that changes. A rejection halves the concurrency at once, and
//! what was taken back is tried again soon, or later if the sink rejects again and again.
//!
//! Pure: it is given samples, and does no I/O.

use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The sizes of bulks, in bytes, and how many at once.
const BULK_BYTES: [usize; 7] = [
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
    16 << 20,
];
const CONCURRENCY: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// The most bytes under way: they are held in memory, as changes and as the bodies of requests.
const UNDER_WAY_BYTES: usize = 64 << 20;

/// Where the climb begins: 1 MiB, two at once.
const START: Point = Point { size: 2, width: 1 };

/// A window is at least this long, and has this many bulks for each that is sent at once.
const WINDOW: Duration = Duration::from_millis(1500);
const BULKS: usize = 3;

/// What a neighbour must gain to be better: noise is less.
const GAIN: f64 = 1.04;

/// Windows between two climbs at the top.
const REST: u32 = 20;

/// Windows between a rejection and the next climb: the least, and the most. A pause of a cluster
/// for garbage collection or a merge rejects too, and is over after seconds.
const CAUTION: (u32, u32) = (2, 64);

/// Steps to the neighbours: larger bulks, more at once, smaller bulks, fewer at once.
const DIRECTIONS: [(isize, isize); 4] = [(1, 0), (0, 1), (-1, 0), (0, -1)];
const MORE_AT_ONCE: usize = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    size: usize,
    width: usize,
}

/// A setting, and what was measured with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Setting {
    /// Bytes of a bulk.
    pub bulk_bytes: usize,
    /// Bulks at once.
    pub concurrency: usize,
    /// Bytes a second when it was measured last; 0 if it was not.
    pub bytes_per_second: f64,
}

/// Finds the setting.
#[derive(Debug)]
pub(crate) struct Tuner {
    fixed: (Option<usize>, Option<usize>),
    concurrency_max: usize,
    /// The best so far, and its rate.
    best: Point,
    best_rate: f64,
    /// What is measured now.
    now: Point,
    direction: usize,
    failed: usize,
    rest: u32,
    /// How many windows the next rejection takes from climbing; doubled by each, until a climb
    /// ends without one.
    caution: u32,
    curve: BTreeMap<Point, f64>,
    window: Window,
}

#[derive(Debug, Default)]
struct Window {
    bytes: u64,
    bulks: usize,
    starved: bool,
    begun: Option<Duration>,
}

impl Tuner {
    /// A climb, with what is fixed by hand left as it is.
    pub(crate) fn new(
        bulk_bytes: Option<usize>,
        concurrency: Option<usize>,
        concurrency_max: usize,
    ) -> Tuner {
        assert!(concurrency_max > 0, "a sink takes one bulk at least");
        let mut tuner = Tuner {
            fixed: (bulk_bytes, concurrency),
            concurrency_max,
            best: START,
            best_rate: 0.0,
            now: START,
            direction: 0,
            failed: 0,
            rest: 0,
            caution: CAUTION.0,
            curve: BTreeMap::new(),
            window: Window::default(),
        };
        if tuner.width(START) > concurrency_max {
            tuner.now.width = 0;
            tuner.best = tuner.now;
        }
        tuner
    }

    /// What to send with now.
    pub(crate) fn setting(&self) -> Setting {
        self.as_setting(self.now)
    }

    /// The best setting so far.
    pub(crate) fn best(&self) -> Setting {
        self.as_setting(self.best)
    }

    /// All that was measured.
    pub(crate) fn curve(&self) -> Vec<Setting> {
        self.curve
            .keys()
            .map(|point| self.as_setting(*point))
            .collect()
    }

    /// Reports that there was nothing to send: the window measures the source.
    pub(crate) fn starved(&mut self) {
        self.window.starved = true;
    }

    /// Reports that the sink rejected for lack of room.
    pub(crate) fn rejected(&mut self) {
        let half = self.width(self.now) / 2;
        let is_at_most_half = |width: &&usize| **width <= half.max(1);
        let count = CONCURRENCY.iter().take_while(is_at_most_half).count();
        self.now.width = count.saturating_sub(1);
        // Rejections of bulks that were under way together are one.
        let is_first = self.best_rate > 0.0;
        (self.best, self.best_rate) = (self.now, 0.0);
        (self.direction, self.failed) = (MORE_AT_ONCE, 0);
        self.window = Window::default();
        if is_first {
            self.rest = self.caution;
            self.caution = (2 * self.caution).min(CAUTION.1);
        }
    }

    /// Reports a bulk that was settled, at a time.
    pub(crate) fn settled(&mut self, bytes: usize, at: Duration) {
        let begun = *self.window.begun.get_or_insert(at);
        self.window.bytes += bytes as u64;
        self.window.bulks += 1;
        let took = at.saturating_sub(begun);
        if took < WINDOW || self.window.bulks <= BULKS * self.width(self.now) {
            return;
        }
        let window = std::mem::take(&mut self.window);
        if !window.starved {
            self.measured(window.bytes as f64 / took.as_secs_f64());
        }
    }

    /// Takes the rate of a whole window, and moves.
    fn measured(&mut self, rate: f64) {
        self.curve.insert(self.now, rate);
        if self.now == self.best {
            self.best_rate = rate;
        } else if rate > self.best_rate * GAIN {
            (self.best, self.best_rate, self.failed) = (self.now, rate, 0);
        } else {
            self.now = self.best;
            self.failed += 1;
            self.direction = (self.direction + 1) % DIRECTIONS.len();
            // The best one is measured again before the next neighbour: rates drift.
            return;
        }
        if self.rest > 0 {
            self.rest -= 1;
        } else if self.failed >= DIRECTIONS.len() {
            (self.rest, self.failed) = (REST, 0);
            self.caution = CAUTION.0;
        } else {
            self.step();
        }
    }

    /// Moves to the next neighbour that there is.
    fn step(&mut self) {
        for _ in DIRECTIONS {
            if let Some(next) = self.neighbour(DIRECTIONS[self.direction]) {
                self.now = next;
                return;
            }
            self.failed += 1;
            self.direction = (self.direction + 1) % DIRECTIONS.len();
        }
    }

    fn neighbour(&self, (size, width): (isize, isize)) -> Option<Point> {
        let next = Point {
            size: self.best.size.checked_add_signed(size)?,
            width: self.best.width.checked_add_signed(width)?,
        };
        let is_fixed =
            (size != 0 && self.fixed.0.is_some()) || (width != 0 && self.fixed.1.is_some());
        let exists = next.size < BULK_BYTES.len() && next.width < CONCURRENCY.len();
        if is_fixed || !exists {
            return None;
        }
        let under_way = BULK_BYTES[next.size] * self.width(next);
        let fits = CONCURRENCY[next.width] <= self.concurrency_max && under_way <= UNDER_WAY_BYTES;
        fits.then_some(next)
    }

    /// How many at once.
    fn width(&self, point: Point) -> usize {
        let width = self.fixed.1.unwrap_or(CONCURRENCY[point.width]);
        width.min(self.concurrency_max)
    }

    fn as_setting(&self, point: Point) -> Setting {
        Setting {
            bulk_bytes: self.fixed.0.unwrap_or(BULK_BYTES[point.size]),
            concurrency: self.width(point),
            bytes_per_second: self.curve.get(&point).copied().unwrap_or(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets a tuner work on a sink that has this rate at a setting, for a number of windows.
    fn run(tuner: &mut Tuner, windows: usize, rate: impl Fn(Setting) -> f64) {
        let mut at = tuner.window.begun.unwrap_or_default();
        run_bulks(tuner, &mut at, windows * 64, rate);
    }

    /// The same, for a number of bulks.
    fn run_bulks(
        tuner: &mut Tuner,
        at: &mut Duration,
        bulks: usize,
        rate: impl Fn(Setting) -> f64,
    ) {
        for _ in 0..bulks {
            let setting = tuner.setting();
            *at += Duration::from_secs_f64(setting.bulk_bytes as f64 / rate(setting));
            tuner.settled(setting.bulk_bytes, *at);
        }
    }

    /// A cluster that is best at one setting.
    fn hill(size: usize, width: usize) -> impl Fn(Setting) -> f64 {
        move |setting| {
            let away = |value: usize, best: usize| (value as f64 / best as f64).log2().abs();
            let steps = away(setting.bulk_bytes, size) + away(setting.concurrency, width);
            50e6 / (1.0 + 0.3 * steps)
        }
    }

    #[test]
    fn it_climbs_to_the_top_and_follows_it() {
        let mut tuner = Tuner::new(None, None, 16);
        for (size, width) in [(4 << 20, 8), (512 << 10, 2), (1 << 20, 16)] {
            run(&mut tuner, 300, hill(size, width));
            let best = tuner.best();
            assert_eq!((best.bulk_bytes, best.concurrency), (size, width));
        }
        assert!(tuner.curve().len() > 10);
    }

    #[test]
    fn a_rejection_halves_what_is_sent_at_once() {
        let mut tuner = Tuner::new(None, None, 16);
        run(&mut tuner, 300, hill(4 << 20, 12));
        assert_eq!(tuner.best().concurrency, 12);
        tuner.rejected();
        assert_eq!(tuner.setting().concurrency, 6);
        for _ in 0..9 {
            tuner.rejected();
        }
        assert_eq!(tuner.setting().concurrency, 1);
    }

    #[test]
    fn after_one_rejection_it_is_soon_as_fast_as_before() {
        let mut tuner = Tuner::new(None, None, 16);
        run(&mut tuner, 300, hill(4 << 20, 12));
        for _ in 0..4 {
            tuner.rejected();
        }
        assert_eq!(tuner.setting().concurrency, 1);
        let (mut at, begun) = (Duration::from_secs(10_000), Duration::from_secs(10_000));
        while tuner.best().concurrency < 8 {
            run_bulks(&mut tuner, &mut at, 1, hill(4 << 20, 12));
            let took = at.saturating_sub(begun);
            assert!(took < 12 * WINDOW, "{:?}", tuner.best());
        }
    }

    #[test]
    fn a_sink_that_rejects_the_same_each_time_is_tried_ever_more_rarely() {
        let mut tuner = Tuner::new(None, None, 16);
        let (mut rejections, mut at) = (0, Duration::ZERO);
        for _ in 0..40_000 {
            if tuner.setting().concurrency > 4 {
                tuner.rejected();
                rejections += 1;
            }
            run_bulks(&mut tuner, &mut at, 1, hill(1 << 20, 12));
        }
        let windows = (at.as_secs_f64() / WINDOW.as_secs_f64()) as u32;
        assert!(
            (3..windows / 32).contains(&rejections),
            "{rejections} in {windows}"
        );
    }

    #[test]
    fn what_is_fixed_stays_and_a_starved_window_says_nothing() {
        let mut tuner = Tuner::new(Some(77_000), Some(5), 16);
        run(&mut tuner, 50, hill(4 << 20, 12));
        let setting = tuner.setting();
        assert_eq!((setting.bulk_bytes, setting.concurrency), (77_000, 5));
        let mut one = Tuner::new(None, None, 1);
        run(&mut one, 50, hill(4 << 20, 12));
        assert_eq!(one.best().concurrency, 1);
        let mut starved = Tuner::new(None, None, 16);
        for second in 0..100 {
            starved.starved();
            starved.settled(1 << 20, Duration::from_secs(second));
        }
        assert!(starved.curve().is_empty());
    }
}
