//! Which transactions a snapshot sees.

/// A snapshot, as `pg_current_snapshot()` has it: `XMIN:XMAX:XIP,XIP`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Visible {
    xmin: u64,
    /// The first transaction that was not begun.
    xmax: u64,
    /// Those between that were not over.
    in_progress: Vec<u64>,
}

impl Visible {
    pub(crate) fn parse(text: &str) -> Option<Visible> {
        let mut parts = text.split(':');
        let (xmin, xmax) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let list = parts.next()?.split(',').filter(|part| !part.is_empty());
        let in_progress: Option<Vec<u64>> = list.map(|xid| xid.parse().ok()).collect();
        Some(Visible {
            xmin,
            xmax,
            in_progress: in_progress?,
        })
    }

    /// Whether it sees a committed transaction, of whose number the stream has the lower half. The
    /// number is within 2^31 of the snapshot's, as all are that a server knows.
    pub(crate) fn sees(&self, xid: u32) -> bool {
        let behind = (self.xmax as u32).wrapping_sub(xid) as i32;
        let full = self.xmax.wrapping_add_signed(-i64::from(behind));
        full < self.xmin || (full < self.xmax && !self.in_progress.contains(&full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_sees_what_was_over_when_it_was_taken_across_the_wrap_of_numbers() {
        let visible = Visible::parse("100:110:103,105").unwrap();
        for (xid, is_seen) in [(99, true), (100, true), (103, false), (104, true)] {
            assert_eq!(visible.sees(xid), is_seen, "{xid}");
        }
        assert!(!visible.sees(105) && !visible.sees(110) && !visible.sees(111));
        // 2^32 + 2, where three transactions before it have the highest numbers of the lower half.
        let visible = Visible::parse("4294967297:4294967298:").unwrap();
        assert!(visible.sees(u32::MAX) && visible.sees(1));
        assert!(!visible.sees(2) && !visible.sees(3));
        assert_eq!(Visible::parse("1:2"), None);
        assert_eq!(Visible::parse("1:2:x"), None);
    }
}
