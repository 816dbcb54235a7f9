//! Decimals and half floats as text.

use std::fmt::Write;

/// Nine digits are taken from a number at once.
const DIGITS: u64 = 1_000_000_000;

/// Appends a decimal: a big-endian integer in two's complement, with `scale` digits behind the
/// point.
pub(crate) fn write_decimal(bytes: &[u8], scale: usize, out: &mut String) {
    let is_negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let mut magnitude = bytes.to_vec();
    if is_negative {
        negate(&mut magnitude);
    }
    let mut groups = Vec::new();
    while magnitude.iter().any(|byte| *byte != 0) {
        groups.push(divide(&mut magnitude, DIGITS));
    }
    let mut digits = String::new();
    for group in groups.iter().rev() {
        // Writing to a string does not fail.
        let _ = write!(digits, "{group:09}");
    }
    let digits = digits.trim_start_matches('0');
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    if is_negative {
        out.push('-');
    }
    out.push_str(whole);
    if scale > 0 {
        out.push('.');
        out.push_str(fraction);
    }
}

/// Two's complement, in place.
fn negate(bytes: &mut [u8]) {
    let mut carry = true;
    for byte in bytes.iter_mut().rev() {
        (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
    }
}

/// Divides a big-endian number in place; returns what is left over.
fn divide(bytes: &mut [u8], by: u64) -> u64 {
    let mut rest = 0;
    for byte in bytes {
        let value = rest << 8 | u64::from(*byte);
        // Below 256, as the rest is below the divisor.
        *byte = (value / by) as u8;
        rest = value % by;
    }
    rest
}

/// A float of 16 bits: a sign, 5 bits of exponent, 10 of fraction.
pub(crate) fn half(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    match exponent {
        0 => sign * fraction * 2f32.powi(-24),
        0x1f if fraction == 0.0 => sign * f32::INFINITY,
        0x1f => f32::NAN,
        _ => sign * (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_all_their_digits() {
        for (number, scale, text) in [
            (0i128, 0, "0"),
            (0, 2, "0.00"),
            (-1, 2, "-0.01"),
            (1_999, 2, "19.99"),
            (-123_456_789_012_345_678, 9, "-123456789.012345678"),
            (1_000_000_000, 0, "1000000000"),
            (i128::MIN, 10, "-17014118346046923173168730371.5884105728"),
            (i128::MAX, 0, "170141183460469231731687303715884105727"),
        ] {
            let mut out = String::new();
            write_decimal(&number.to_be_bytes(), scale, &mut out);
            assert_eq!(out, text);
        }
        let mut out = String::new();
        write_decimal(&[0xff], 1, &mut out);
        write_decimal(&[], 0, &mut out);
        assert_eq!(out, "-0.10");
    }

    #[test]
    fn half_floats_are_those_of_ieee_754() {
        for (bits, float) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x7bff, 65_504.0),
            (0x0001, 5.960_464_5e-8),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(half(bits), float, "{bits:x}");
        }
        assert!(half(0x7e00).is_nan());
    }
}
