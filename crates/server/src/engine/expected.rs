//! What is expected of a request by what was seen of others of its shape.

use std::sync::atomic::{AtomicU32, Ordering};

use super::shape::Shape;

/// Shapes that are told apart.
const SHAPES: usize = 4096;

/// Whether something holds of requests, such as that they are short: it is expected after it has
/// held for a number of them in a row. Each wrong expectation doubles that number, so that a shape
/// of which it seldom holds is soon not trusted.
pub(super) struct Expected {
    /// What is known of the shapes that have each place.
    known: Box<[AtomicU32]>,
    /// The numbers in a row that are needed: at first, and at the most.
    needed: [u16; 2],
}

/// What is known of the requests of a shape.
#[derive(Clone, Copy)]
struct Known {
    /// How many in a row it held of.
    row: u16,
    /// How many are needed; 0 if there was none.
    needed: u16,
}

impl Known {
    fn unpacked(bits: u32) -> Known {
        let [a, b, c, d] = bits.to_le_bytes();
        Known {
            row: u16::from_le_bytes([a, b]),
            needed: u16::from_le_bytes([c, d]),
        }
    }

    fn packed(self) -> u32 {
        let [a, b] = self.row.to_le_bytes();
        let [c, d] = self.needed.to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    fn is_expected(self) -> bool {
        self.needed > 0 && self.row >= self.needed
    }

    /// After one more request. `least` and `most` are needed.
    fn with(self, holds: bool, [least, most]: [u16; 2]) -> Known {
        let (row, needed) = (self.row, self.needed.max(least));
        match holds {
            // Many more than were needed: fewer are.
            true if row >= needed.saturating_mul(8) => Known {
                row: needed,
                needed: (needed / 2).max(least),
            },
            true => Known {
                row: row.saturating_add(1),
                needed,
            },
            false => Known {
                row: 0,
                needed: match self.is_expected() {
                    true => needed.saturating_mul(2).min(most),
                    false => needed,
                },
            },
        }
    }
}

impl Expected {
    /// Nothing is known. At first `least` in a row are needed, and never more than `most`.
    pub(super) fn new(least: u16, most: u16) -> Expected {
        Expected {
            known: (0..SHAPES).map(|_| AtomicU32::default()).collect(),
            needed: [least, most],
        }
    }

    fn known(&self, shape: Shape) -> &AtomicU32 {
        &self.known[shape.place(SHAPES)]
    }

    /// Whether this is the first request of its shape. Others that come before it is noted are not.
    pub(super) fn is_first(&self, shape: Shape) -> bool {
        let [needed, _] = self.needed;
        let begun = Known { row: 0, needed }.packed();
        let known = self.known(shape);
        let first = known.compare_exchange(0, begun, Ordering::Relaxed, Ordering::Relaxed);
        first.is_ok()
    }

    /// Whether it is expected of the next request of this shape.
    pub(super) fn of(&self, shape: Shape) -> bool {
        Known::unpacked(self.known(shape).load(Ordering::Relaxed)).is_expected()
    }

    /// Notes whether it held of a request of this shape.
    pub(super) fn note(&self, shape: Shape, holds: bool) {
        let known = self.known(shape);
        // Of two requests that end at once one may not count.
        let before = Known::unpacked(known.load(Ordering::Relaxed));
        let now = before.with(holds, self.needed);
        known.store(now.packed(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it is expected after requests of which it held or not.
    fn after(expected: &Expected, noted: &[(usize, bool)]) -> bool {
        let shape = Shape::of("count", "things");
        for (count, holds) in noted {
            for _ in 0..*count {
                expected.note(shape, *holds);
            }
        }
        expected.of(shape)
    }

    #[test]
    fn it_is_expected_after_it_held_of_enough_in_a_row() {
        type Case = (&'static [(usize, bool)], bool);
        let cases: [Case; 11] = [
            (&[], false),
            (&[(7, true)], false),
            (&[(8, true)], true),
            (&[(1_000_000, true)], true),
            (&[(7, true), (1, false), (7, true)], false),
            (&[(7, true), (1, false), (8, true)], true),
            // The expectation was wrong: more are needed.
            (&[(8, true), (1, false), (15, true)], false),
            (&[(8, true), (1, false), (16, true)], true),
            (&[(8, true), (9, false), (16, true)], true),
            // After many of which it held fewer are.
            (
                &[(8, true), (1, false), (200, true), (1, false), (15, true)],
                false,
            ),
            (
                &[(8, true), (1, false), (200, true), (1, false), (16, true)],
                true,
            ),
        ];
        for (noted, expected) in cases {
            assert_eq!(after(&Expected::new(8, 4096), noted), expected, "{noted:?}");
        }
        let seldom = Expected::new(1, 64);
        for _ in 0..30 {
            assert!(after(&seldom, &[(64, true)]));
            assert!(!after(&seldom, &[(1, false)]));
        }
    }

    #[test]
    fn of_requests_at_once_one_is_the_first_of_its_shape() {
        let (expected, shape) = (Expected::new(1, 64), Shape::of("count", "things"));
        assert!(expected.is_first(shape));
        assert!(!expected.is_first(shape) && !expected.of(shape));
        expected.note(shape, true);
        assert!(!expected.is_first(shape) && expected.of(shape));
    }
}
