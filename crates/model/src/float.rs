//! Numbers: from JSON text to value, and floats that keep their text.
//!
//! # Invariants
//! 1. The text a number was written with comes back byte for byte, whatever library renders floats
//!    today.
//! 2. Each text has one form: an integer where it is one (`-0` is not: only a float can be minus
//!    zero), else a decimal where that holds it, else the text itself.
//!
//! A decimal keeps `1.10` as 110 and 2 digits after the point: smaller than an f64 and its text,
//! and the f64 is one exact division away (Clinger 1990: digits up to 2^53 and a power of ten up to
//! 22 are both exact, so their quotient is rounded once).

use std::fmt;

/// Digits after the point that a decimal holds at most: 10^22 is the largest power of ten that is
/// an exact f64.
pub(crate) const SCALE_MAX: u8 = 22;

/// Powers of ten, all exact.
const TENS: [f64; SCALE_MAX as usize + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Room for any decimal: a sign, a point, and at most 23 digits.
const DECIMAL_TEXT_BYTES_MAX: usize = 1 + 1 + SCALE_MAX as usize + 1;

/// A JSON number that is not an integer (or is `-0`), with the text it was written with. Its
/// [`Display`] is that text.
///
/// Two are equal if their texts are: `1.0` is not `1.00`. Compare [`value`](Float::value)s for
/// numbers.
///
/// [`Display`]: fmt::Display
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Float<'a>(pub(crate) Repr<'a>);

/// How a float is held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repr<'a> {
    /// `digits` / 10^`scale`, written plainly with `scale` digits after the point; `scale` is 1 to
    /// [`SCALE_MAX`].
    Decimal {
        negative: bool,
        digits: u64,
        scale: u8,
    },
    /// Anything else, as written.
    Text(&'a str),
}

/// A JSON number, told apart by its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number<'a> {
    Int(i64),
    /// Above `i64::MAX` only.
    UInt(u64),
    Float(Float<'a>),
}

/// Why a text is no number that a document can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberError {
    Malformed,
    IntegerOutOfRange,
    FloatOutOfRange,
}

impl<'a> Number<'a> {
    /// Reads the whole of `text` as a JSON number.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Number<'a>, NumberError> {
        let (negative, unsigned) = match text.split_first() {
            Some((b'-', rest)) => (true, rest),
            _ => (false, text),
        };
        let (digits, rest) = take_digits(Some(0), unsigned);
        let whole_bytes = unsigned.len() - rest.len();
        if whole_bytes == 0 || (whole_bytes > 1 && unsigned.first() == Some(&b'0')) {
            return Err(NumberError::Malformed);
        }
        if rest.is_empty() {
            return integer(negative, digits, text);
        }
        let (digits, scale, rest) = match rest.split_first() {
            Some((b'.', fraction)) => {
                let (digits, rest) = take_digits(digits, fraction);
                (digits, fraction.len() - rest.len(), rest)
            }
            _ => (digits, 0, rest),
        };
        let pointless = scale == 0 && unsigned.get(whole_bytes) == Some(&b'.');
        if pointless || !(rest.is_empty() || is_exponent(rest)) {
            return Err(NumberError::Malformed);
        }
        if let (Some(digits), Ok(scale @ 1..=SCALE_MAX), true) =
            (digits, u8::try_from(scale), rest.is_empty())
        {
            return Ok(Number::Float(Float(Repr::Decimal {
                negative,
                digits,
                scale,
            })));
        }
        let text = std::str::from_utf8(text).map_err(|_| NumberError::Malformed)?;
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Number::Float(Float(Repr::Text(text)))),
            Ok(_) => Err(NumberError::FloatOutOfRange),
            Err(_) => Err(NumberError::Malformed),
        }
    }
}

fn integer(negative: bool, digits: Option<u64>, text: &[u8]) -> Result<Number<'_>, NumberError> {
    let digits = digits.ok_or(NumberError::IntegerOutOfRange)?;
    if !negative {
        return Ok(i64::try_from(digits).map_or(Number::UInt(digits), Number::Int));
    }
    if digits == 0 {
        let text = std::str::from_utf8(text).map_err(|_| NumberError::Malformed)?;
        return Ok(Number::Float(Float(Repr::Text(text))));
    }
    let value = 0_i64
        .checked_sub_unsigned(digits)
        .ok_or(NumberError::IntegerOutOfRange)?;
    Ok(Number::Int(value))
}

/// Goes on from `value` with the digits that `text` starts with: the sum (none once it left u64)
/// and what follows.
fn take_digits(mut value: Option<u64>, text: &[u8]) -> (Option<u64>, &[u8]) {
    let mut rest = text;
    while let Some((&byte @ b'0'..=b'9', tail)) = rest.split_first() {
        let digit = u64::from(byte - b'0');
        value = value.and_then(|value| value.checked_mul(10)?.checked_add(digit));
        rest = tail;
    }
    (value, rest)
}

/// Whether the whole of `text` is an exponent: `e` or `E`, a sign or none, digits.
fn is_exponent(text: &[u8]) -> bool {
    let digits = match text {
        [b'e' | b'E', b'+' | b'-', digits @ ..] | [b'e' | b'E', digits @ ..] => digits,
        _ => return false,
    };
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

impl<'a> Float<'a> {
    /// The nearest f64, never infinite nor NaN.
    #[must_use]
    pub fn value(self) -> f64 {
        const DIGITS_EXACT_MAX: u64 = 1 << 53;
        match self.0 {
            Repr::Decimal {
                negative,
                digits,
                scale,
            } if digits <= DIGITS_EXACT_MAX => {
                let power = TENS.get(usize::from(scale)).copied().unwrap_or(1.0);
                let magnitude = digits as f64 / power;
                if negative { -magnitude } else { magnitude }
            }
            Repr::Decimal { .. } => self.with_text(parse_f64),
            Repr::Text(text) => parse_f64(text.as_bytes()),
        }
    }

    /// Appends the number as it was written.
    pub fn write_text(self, out: &mut Vec<u8>) {
        self.with_text(|text| out.extend_from_slice(text));
    }

    fn with_text<R>(self, use_text: impl FnOnce(&[u8]) -> R) -> R {
        let (negative, digits, scale) = match self.0 {
            Repr::Text(text) => return use_text(text.as_bytes()),
            Repr::Decimal {
                negative,
                digits,
                scale,
            } => (negative, digits, usize::from(scale)),
        };
        // Written from the last digit to the first: up to the point at least one digit more than
        // the scale.
        let mut buffer = [0; DECIMAL_TEXT_BYTES_MAX];
        let mut start = buffer.len();
        let mut put = |byte: u8| {
            if let Some(before) = start.checked_sub(1)
                && let Some(place) = buffer.get_mut(before)
            {
                *place = byte;
                start = before;
            }
        };
        let (mut rest, mut written) = (digits, 0);
        while rest > 0 || written <= scale {
            if written == scale {
                put(b'.');
            }
            put(b'0' + (rest % 10) as u8);
            rest /= 10;
            written += 1;
        }
        if negative {
            put(b'-');
        }
        use_text(buffer.get(start..).unwrap_or_default())
    }
}

fn parse_f64(text: &[u8]) -> f64 {
    // Held texts were checked when the document was: no other value can come out.
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.0)
}

impl fmt::Display for Float<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.write_str(&String::from_utf8_lossy(text)))
    }
}

impl fmt::Debug for Float<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Float<'_>> for f64 {
    fn from(float: Float<'_>) -> f64 {
        float.value()
    }
}

impl PartialEq<f64> for Float<'_> {
    fn eq(&self, other: &f64) -> bool {
        self.value() == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn float(text: &str) -> Float<'_> {
        match Number::parse(text.as_bytes()) {
            Ok(Number::Float(float)) => float,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn integers_are_told_apart_by_range() {
        let parse = |text: &'static str| Number::parse(text.as_bytes());
        assert_eq!(parse("0"), Ok(Number::Int(0)));
        assert_eq!(parse("-9223372036854775808"), Ok(Number::Int(i64::MIN)));
        assert_eq!(parse("9223372036854775807"), Ok(Number::Int(i64::MAX)));
        assert_eq!(parse("9223372036854775808"), Ok(Number::UInt(1 << 63)));
        assert_eq!(parse("18446744073709551615"), Ok(Number::UInt(u64::MAX)));
        assert_eq!(
            parse("18446744073709551616"),
            Err(NumberError::IntegerOutOfRange)
        );
        assert_eq!(
            parse("-9223372036854775809"),
            Err(NumberError::IntegerOutOfRange)
        );
    }

    #[test]
    fn overflowing_floats_are_refused_and_underflowing_ones_kept() {
        assert_eq!(Number::parse(b"1e400"), Err(NumberError::FloatOutOfRange));
        assert_eq!(
            Number::parse(b"-1.5e99999999999999999999"),
            Err(NumberError::FloatOutOfRange)
        );
        assert_eq!(float("1e-400").value(), 0.0);
        assert_eq!(
            float("0e99999999999999999999").to_string(),
            "0e99999999999999999999"
        );
    }

    #[test]
    fn minus_zero_keeps_its_sign_and_text() {
        for text in ["-0", "-0.0", "-0e0"] {
            assert!(float(text).value().is_sign_negative());
            assert_eq!(float(text).to_string(), text);
        }
    }

    #[test]
    fn malformed_numbers_are_refused() {
        for text in [
            "", "-", "01", "-01", "00", "1.", ".5", "1.e5", "1e", "1e+", "+1", "1.5x", "0x1",
            "1_0", "NaN", "1 ",
        ] {
            assert_eq!(
                Number::parse(text.as_bytes()),
                Err(NumberError::Malformed),
                "{text:?}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn floats_keep_text_and_value(
            text in concat!(
                r"-?(0|[1-9][0-9]{0,24})",
                r"(\.[0-9]{1,26}|\.[0-9]{1,4}|[eE][+-]?[0-9]{1,2}|\.[0-9]{1,9}[eE][+-]?[0-9]{1,2})",
            ),
        ) {
            let float = float(&text);
            prop_assert_eq!(float.to_string(), text.clone());
            prop_assert_eq!(
                float.value().to_bits(),
                text.parse::<f64>().unwrap().to_bits()
            );
        }
    }
}
