//! Two sets side by side, cluster by cluster, wherever each of them is.

use crate::cluster::Cluster;

/// Two sets side by side, cluster by cluster: what each has there.
pub(crate) fn side_by_side<A, B>(
    a: impl Iterator<Item = (u16, A)>,
    b: impl Iterator<Item = (u16, B)>,
) -> impl Iterator<Item = (u16, Option<A>, Option<B>)> {
    let (mut a, mut b, mut last) = (a.peekable(), b.peekable(), None);
    std::iter::from_fn(move || {
        let key = match (a.peek(), b.peek()) {
            (Some((x, _)), Some((y, _))) => *x.min(y),
            (Some((x, _)), None) => *x,
            (None, Some((y, _))) => *y,
            (None, None) => return None,
        };
        debug_assert!(last < Some(key), "clusters of both sets ascend");
        last = Some(key);
        let from_a = a.next_if(|(x, _)| *x == key);
        let from_b = b.next_if(|(y, _)| *y == key);
        Some((key, from_a.map(|(_, of)| of), from_b.map(|(_, of)| of)))
    })
}

/// How many docids two sets both have.
pub(crate) fn and_count<'a, 'b>(
    a: impl Iterator<Item = (u16, Cluster<'a>)>,
    b: impl Iterator<Item = (u16, Cluster<'b>)>,
) -> u64 {
    let counts = side_by_side(a, b).map(|(_, a, b)| a.zip(b).map_or(0, |(a, b)| a.and_count(b)));
    counts.map(u64::from).sum()
}
