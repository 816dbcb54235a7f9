//! Small text files with a checksum: a line that says what they are, then one JSON object. Readable
//! by people.
//!
//! # Layout
//! ```text
//! <name> <version> <CRC-32C of the second line, 8 hex digits>\n
//! <one JSON object>
//! ```

use quire_seeded::{Bug, seeded};

/// The bytes of a file of this kind and version that holds `json`.
pub fn seal(name: &str, version: u32, json: &str) -> Vec<u8> {
    let crc = crc32c::crc32c(json.as_bytes());
    format!("{name} {version} {crc:08x}\n{json}").into_bytes()
}

/// The JSON in a file of this kind and version, once its checksum is found right.
///
/// # Errors
/// What is wrong with it, in words; `what` is what people call it.
pub fn unseal<'a>(
    name: &str,
    version: u32,
    what: &str,
    bytes: &'a [u8],
) -> Result<&'a str, String> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| format!("the {what} is damaged: not UTF-8"))?;
    let (header, json) = text
        .split_once('\n')
        .ok_or_else(|| format!("the {what} is damaged: cut short"))?;
    let rest = header
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix(' '))
        .ok_or_else(|| format!("this is not a {what} of Quire"))?;
    let (found, crc) = rest
        .split_once(' ')
        .ok_or_else(|| format!("the {what} is damaged: no checksum"))?;
    if found != version.to_string() {
        return Err(format!(
            "{what} version {found}; this program knows version {version}"
        ));
    }
    if crc != format!("{:08x}", crc32c::crc32c(json.as_bytes()))
        && !seeded(Bug::ManifestChecksumUnchecked)
    {
        return Err(format!(
            "the {what} is damaged: its checksum does not match"
        ));
    }
    Ok(json)
}
