//! `ip_range`.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::Bound;

use quiredb::query::{Cast, Facet, FacetKind, Filter, Path, Value, field};
use serde_json::{Map, Value as Json};

use super::body::Body;
use super::kind::{Kind, Range, Ranges};
use super::ranges::{key_of, members};
use crate::http::failure::Outcome;
use crate::search::filter::text;

/// `{"field": FIELD, "ranges": [{"from": ADDRESS, "to": ADDRESS}, {"mask": BLOCK}]}`.
pub(super) fn ip_range(body: &Json) -> Outcome<(Kind, Facet)> {
    let body = Body::of("ip_range", body, &["field", "ranges", "keyed", "missing"])?;
    let path = body.field()?;
    let missing = match body.get("missing") {
        None => None,
        Some(value) => Some(address(&body, "missing", value)?),
    };
    let mut ranges = Vec::new();
    for members in members(&body, &["from", "to", "mask", "key"])? {
        ranges.push(range(&body, members)?);
    }
    ranges.sort_by_key(|range| (range.from, range.to.is_none(), range.to));
    let filters = ranges.iter().map(|range| {
        let within = within(&path, range);
        match missing.is_some_and(|missing| has(range, missing)) {
            true => within.or(!field(path.as_str()).exists()),
            false => within,
        }
    });
    let filters = FacetKind::Filters(filters.collect());
    let keyed = body.flag("keyed")?;
    Ok((Kind::IpRange(Ranges { ranges, keyed }), filters.into()))
}

fn range(body: &Body<'_>, members: &Map<String, Json>) -> Outcome<Range<Ipv6Addr>> {
    let key = key_of(members)?;
    let member = |name: &str| members.get(name).filter(|value| !value.is_null());
    if let Some(mask) = member("mask") {
        if member("from").is_some() || member("to").is_some() {
            return Err(body.refused("a range has either [mask], or [from] and [to]"));
        }
        let mask = text(Some(mask), "[mask] of a range must be a string")?;
        let refused = || body.refused(&format!("[mask] [{mask}] is no block such as 10.0.0.0/8"));
        let (from, to) = block(mask).ok_or_else(refused)?;
        return Ok(Range {
            key: key.unwrap_or_else(|| mask.to_owned()),
            from,
            to,
        });
    }
    let end = |name| member(name).map(|value| address(body, name, value));
    let (from, to) = (end("from").transpose()?, end("to").transpose()?);
    let shown = |end: Option<Ipv6Addr>| end.map_or_else(|| "*".into(), Cast::show_address);
    let key = key.unwrap_or_else(|| format!("{}-{}", shown(from), shown(to)));
    Ok(Range { key, from, to })
}

/// An address; one of IPv4 is that of IPv6 which stands for it.
fn address(body: &Body<'_>, name: &str, value: &Json) -> Outcome<Ipv6Addr> {
    let address = value.as_str().and_then(|text| text.parse::<IpAddr>().ok());
    match address {
        Some(IpAddr::V4(address)) => Ok(address.to_ipv6_mapped()),
        Some(IpAddr::V6(address)) => Ok(address),
        None => Err(body.refused(&format!("[{name}] [{value}] is no IP address"))),
    }
}

/// The first address of a block, `ADDRESS/BITS`, and the one after its last; none where all
/// addresses begin or end.
fn block(mask: &str) -> Option<(Option<Ipv6Addr>, Option<Ipv6Addr>)> {
    let (first, last) = Cast::address_block(mask).filter(|_| mask.contains('/'))?;
    let from = Some(first).filter(|first| !first.is_unspecified());
    let after = last.to_bits().checked_add(1);
    Some((from, after.map(Ipv6Addr::from_bits)))
}

fn has(range: &Range<Ipv6Addr>, address: Ipv6Addr) -> bool {
    range.from.is_none_or(|from| from <= address) && range.to.is_none_or(|to| address < to)
}

/// The documents with an address in a range.
fn within(path: &Path, range: &Range<Ipv6Addr>) -> Filter {
    let value = |address: Ipv6Addr| Value::from(Cast::show_address(address));
    let from = range
        .from
        .map(value)
        .map_or(Bound::Unbounded, Bound::Included);
    let to = range
        .to
        .map(value)
        .map_or(Bound::Unbounded, Bound::Excluded);
    Filter::Cast(Cast::Address, path.clone(), from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_ends_before_the_next_one() {
        let cases = [
            ("10.0.0.0/25", Some("10.0.0.0"), Some("10.0.0.128")),
            ("10.0.0.77/25", Some("10.0.0.0"), Some("10.0.0.128")),
            ("10.0.0.7/32", Some("10.0.0.7"), Some("10.0.0.8")),
            ("0.0.0.0/0", Some("0.0.0.0"), Some("::1:0:0:0")),
            ("2001:db8::/32", Some("2001:db8::"), Some("2001:db9::")),
            ("ffff::/16", Some("ffff::"), None),
            ("::/0", None, None),
        ];
        for (mask, from, to) in cases {
            let (first, after) = block(mask).unwrap();
            assert_eq!(first.map(Cast::show_address).as_deref(), from, "{mask}");
            assert_eq!(after.map(Cast::show_address).as_deref(), to, "{mask}");
        }
        for refused in [
            "10.0.0.0",
            "10.0.0.0/33",
            "::/129",
            "a/8",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "/",
        ] {
            assert!(block(refused).is_none(), "{refused}");
        }
    }
}
