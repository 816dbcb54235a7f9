//! Lists of low halves, ascending: filtered, intersected and merged.

/// A low half, little-endian.
pub(crate) type Low = [u8; 2];

#[inline]
pub(super) fn low(low: Low) -> u16 {
    u16::from_le_bytes(low)
}

/// Lists differ in length by this factor if each entry of the shorter is searched in the longer.
pub(super) const SKEW: usize = 16;

/// Whether searching each entry of one list in another is faster than merging them.
pub(super) fn is_far_shorter(short: &[Low], long: &[Low]) -> bool {
    long.len() / SKEW > short.len()
}

pub(super) fn filtered(lows: &[Low], keep: impl Fn(u16) -> bool) -> Vec<Low> {
    lows.iter().copied().filter(|one| keep(low(*one))).collect()
}

/// Leaves those for which `keep` returns true.
pub(super) fn retain_low(lows: &mut Vec<Low>, mut keep: impl FnMut(u16) -> bool) {
    let mut kept = 0;
    for at in 0..lows.len() {
        let one = lows[at];
        // Without a branch: which are kept is not to be predicted.
        lows[kept] = one;
        kept += usize::from(keep(low(one)));
    }
    lows.truncate(kept);
}

/// Calls `each` with what two lists both have. Lists of similar length are merged; otherwise each
/// entry of the shorter one is searched in the rest of the longer.
pub(super) fn for_each_in_both(a: &[Low], b: &[Low], mut each: impl FnMut(Low)) {
    let (short, mut long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if is_far_shorter(short, long) {
        for one in short {
            let wanted = low(*one);
            let at = long.partition_point(|other| low(*other) < wanted);
            long = long.get(at..).unwrap_or_default();
            if long.first() == Some(one) {
                each(*one);
            }
        }
        return;
    }
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (short.get(i), long.get(j)) {
        let (x_low, y_low) = (low(*x), low(*y));
        if x_low == y_low {
            each(*x);
        }
        // Without branches: the processor can't predict which side advances.
        i += usize::from(x_low <= y_low);
        j += usize::from(y_low <= x_low);
    }
}

pub(super) fn merged(a: &[Low], b: &[Low]) -> Vec<Low> {
    let mut all = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let (x_low, y_low) = (low(*x), low(*y));
        all.push(if x_low <= y_low { *x } else { *y });
        i += usize::from(x_low <= y_low);
        j += usize::from(y_low <= x_low);
    }
    all.extend_from_slice(a.get(i..).unwrap_or_default());
    all.extend_from_slice(b.get(j..).unwrap_or_default());
    all
}

/// The entries of `a` that are not in `b`, by one pass over both.
pub(super) fn without(a: &[Low], b: &[Low]) -> Vec<Low> {
    let mut left = Vec::with_capacity(a.len());
    let mut less = b;
    for one in a {
        let wanted = low(*one);
        while less.first().is_some_and(|first| low(*first) < wanted) {
            less = less.get(1..).unwrap_or_default();
        }
        if less.first() != Some(one) {
            left.push(*one);
        }
    }
    left
}

/// Removes the entries of a short list. Each is searched; what lies between two is moved at once.
pub(super) fn remove_few(lows: &mut Vec<Low>, less: &[Low]) {
    // Entries before `kept` stay, those from `read` on were not looked at.
    let (mut kept, mut read) = (0, 0);
    for one in less {
        let wanted = low(*one);
        let rest = lows.get(read..).unwrap_or_default();
        let at = read + rest.partition_point(|other| low(*other) < wanted);
        if lows.get(at) == Some(one) {
            lows.copy_within(read..at, kept);
            kept += at - read;
            read = at + 1;
        }
    }
    lows.copy_within(read.., kept);
    lows.truncate(kept + lows.len() - read);
}

/// Inserts the entries of a short list, the last first. What lies between two is moved at once.
pub(super) fn insert_few(lows: &mut Vec<Low>, more: &[Low]) {
    // Entries before `read` were not looked at, those from `kept` on are in place.
    let mut read = lows.len();
    lows.resize(read + more.len(), [0; 2]);
    let mut kept = lows.len();
    for one in more.iter().rev() {
        let wanted = low(*one);
        let rest = lows.get(..read).unwrap_or_default();
        let at = rest.partition_point(|other| low(*other) <= wanted);
        let is_new = at == 0 || lows.get(at - 1) != Some(one);
        lows.copy_within(at..read, kept - (read - at));
        kept -= read - at;
        read = at;
        if is_new && let Some(slot) = lows.get_mut(kept - 1) {
            *slot = *one;
            kept -= 1;
        }
    }
    // As many places are free as entries were there before.
    lows.copy_within(kept.., read);
    lows.truncate(lows.len() - (kept - read));
}
