//! Lists of low halves, ascending: filtered, intersected and merged.

/// A low half, little-endian.
pub(crate) type Low = [u8; 2];

#[inline]
pub(super) fn low(low: Low) -> u16 {
    u16::from_le_bytes(low)
}

pub(super) fn filtered(lows: &[Low], keep: impl Fn(u16) -> bool) -> Vec<Low> {
    lows.iter().copied().filter(|one| keep(low(*one))).collect()
}

/// Calls `each` with what two lists both have. Lists of similar length are merged; otherwise each
/// entry of the shorter one is searched in the rest of the longer.
pub(super) fn for_each_in_both(a: &[Low], b: &[Low], mut each: impl FnMut(Low)) {
    const SKEW: usize = 16;
    let (short, mut long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if long.len() / SKEW > short.len() {
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
