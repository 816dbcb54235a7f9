//! Which pages to have in memory: a pure function of what was measured.

/// A page with at least this many recent requests is judged by its answers.
const REQUESTS_KNOWN: f32 = 32.0;
/// A page of which fewer answers are "no" is not worth the look at it: searching the block costs
/// less.
const NO_PART_MIN: f32 = 1.0 / 256.0;
/// A page in memory is evicted for one that is worth more by this factor: what is measured varies,
/// and a load costs a read.
const LEAD: f32 = 1.25;

/// A page, and what was measured of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    /// Which it is: the number of its filter, and of the page in that.
    pub(crate) name: (usize, u32),
    /// Bytes it takes in memory.
    pub(crate) bytes: u64,
    /// Whether it is in memory.
    pub(crate) resident: bool,
    /// Whether it could not be read.
    pub(crate) failed: bool,
    /// Requests of late.
    pub(crate) requests: f32,
    /// Those to which the answer was, or would have been, "no".
    pub(crate) noes: f32,
}

impl Candidate {
    /// What having it in memory saves: searches, of late.
    pub(crate) fn usefulness(&self) -> f32 {
        self.noes
    }

    /// Whether it was found to be worth nothing.
    pub(crate) fn is_useless(&self) -> bool {
        self.requests >= REQUESTS_KNOWN && self.noes < self.requests * NO_PART_MIN
    }

    fn worth(&self) -> f32 {
        match self.resident {
            true => self.usefulness() * LEAD / self.bytes as f32,
            false => self.usefulness() / self.bytes as f32,
        }
    }
}

/// Which of `pages` to have in memory, in `budget` bytes: all, if that is room enough; or all that
/// may be worth something; else the most useful, for each byte, first. Of pages equal in that,
/// those in memory stay, and then the first come first.
pub(crate) fn choose(pages: &[Candidate], budget: u64) -> Vec<bool> {
    let bytes = |wanted: &dyn Fn(&Candidate) -> bool| -> u64 {
        let wanted = pages.iter().filter(|page| wanted(page));
        wanted.map(|page| page.bytes).sum()
    };
    let readable = |page: &Candidate| !page.failed;
    let wanted = |page: &Candidate| !page.failed && !page.is_useless();
    if bytes(&readable) <= budget {
        return pages.iter().map(readable).collect();
    }
    if bytes(&wanted) <= budget {
        return pages.iter().map(wanted).collect();
    }
    let mut chosen = vec![false; pages.len()];
    let proven = |page: &Candidate| wanted(page) && (page.usefulness() > 0.0 || page.resident);
    let mut order: Vec<_> = pages
        .iter()
        .enumerate()
        .filter(|(_, page)| proven(page))
        .collect();
    order.sort_by(|(_, a), (_, b)| {
        b.worth()
            .total_cmp(&a.worth())
            .then(b.resident.cmp(&a.resident))
    });
    let mut left = budget;
    for (index, page) in order {
        if let (Some(rest), Some(chosen)) = (left.checked_sub(page.bytes), chosen.get_mut(index)) {
            left = rest;
            *chosen = true;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_useful_pages_are_chosen() {
        // Bytes, resident, requests, noes; and whether it is chosen, of 100 bytes.
        type Case = (u64, bool, f32, f32, bool);
        let cases: &[(&str, &[Case])] = &[
            (
                "all fit, queried or not",
                &[(50, false, 0., 0., true), (50, true, 9., 9., true)],
            ),
            (
                "what never says no stays where there is room for all",
                &[(50, true, 99., 0., true), (50, false, 31., 0., true)],
            ),
            (
                "and goes where there is not",
                &[(60, true, 99., 0., false), (60, false, 31., 0., true)],
            ),
            (
                "by usefulness, not by requests",
                &[(60, false, 99., 5., false), (60, false, 20., 10., true)],
            ),
            (
                "not before it was queried",
                &[(60, false, 0., 0., false), (60, false, 0., 0., false)],
            ),
            (
                "what is here stays while little better",
                &[(60, false, 50., 11., false), (60, true, 50., 10., true)],
            ),
            (
                "and goes when much better",
                &[(60, false, 50., 13., true), (60, true, 50., 10., false)],
            ),
            (
                "what is here and unproven stays where room is left",
                &[
                    (60, false, 50., 13., true),
                    (40, true, 0., 0., true),
                    (40, false, 0., 0., false),
                ],
            ),
            (
                "for each byte",
                &[
                    (100, false, 50., 13., false),
                    (50, false, 50., 10., true),
                    (50, false, 50., 9., true),
                ],
            ),
            (
                "none is larger than the budget",
                &[(101, true, 50., 50., false)],
            ),
        ];
        for (what, pages) in cases {
            let candidate = |&(bytes, resident, requests, noes, _): &Case| Candidate {
                name: (0, 0),
                bytes,
                resident,
                failed: false,
                requests,
                noes,
            };
            let candidates: Vec<_> = pages.iter().map(candidate).collect();
            let expected: Vec<_> = pages.iter().map(|page| page.4).collect();
            assert_eq!(choose(&candidates, 100), expected, "{what}");
        }
    }

    #[test]
    fn a_page_that_could_not_be_read_is_not_tried_again() {
        let page = Candidate {
            name: (0, 0),
            bytes: 10,
            resident: false,
            failed: true,
            requests: 9.0,
            noes: 9.0,
        };
        assert_eq!(choose(&[page], 100), [false]);
        assert_eq!(
            choose(
                &[Candidate {
                    failed: false,
                    ..page
                }],
                100
            ),
            [true]
        );
    }
}
