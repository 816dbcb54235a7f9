//! Numbers as `u64` that sort as the numbers do.

const SIGN: u64 = 1 << 63;

/// The key of an integer.
#[must_use]
pub fn of_int(value: i64) -> u64 {
    value as u64 ^ SIGN
}

/// The integer of a key.
#[must_use]
pub fn to_int(key: u64) -> i64 {
    (key ^ SIGN) as i64
}

/// The key of a float. That of minus zero comes before that of zero.
#[must_use]
pub fn of_float(value: f64) -> u64 {
    let bits = value.to_bits();
    match bits & SIGN {
        0 => bits ^ SIGN,
        _ => !bits,
    }
}

/// The float of a key.
#[must_use]
pub fn to_float(key: u64) -> f64 {
    f64::from_bits(match key & SIGN {
        0 => !key,
        _ => key ^ SIGN,
    })
}
