//! Places on the earth, as OpenSearch's `geo_point` takes them.

use quire_model::ValueRef;

/// Why a value is no place. A number is a part of one, as in `[13.4, 52.5]`.
pub(super) fn refuses(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Int(_) | ValueRef::UInt(_) | ValueRef::Float(_) => None,
        ValueRef::String(text) => {
            let is_point = of_text(text).is_some_and(|(lat, lon)| is_place(lat, lon));
            (!is_point).then(|| format!("[{text}] is no place: write it as [lat,lon]"))
        }
        ValueRef::Object(object) => {
            // Only whether it is a place is looked at, not its last digits.
            let number = |name: &str| match object.get(name)? {
                ValueRef::String(text) => text.parse().ok(),
                ValueRef::Int(number) => Some(number as f64),
                ValueRef::UInt(number) => Some(number as f64),
                ValueRef::Float(number) => Some(number.value()),
                _ => None,
            };
            let is_place = match (number("lat"), number("lon")) {
                (Some(lat), Some(lon)) => is_place(lat, lon),
                // As GeoJSON: `{"type": "Point", "coordinates": [13.4, 52.5]}`.
                _ => object.get("coordinates").is_some() && object.get("type").is_some(),
            };
            (!is_place).then(|| "field must have [lat] from -90 to 90 and [lon]".to_owned())
        }
        _ => Some("geo_point expected".to_owned()),
    }
}

/// Latitude and longitude of `lat,lon` or `POINT (lon lat)`, in degrees.
fn of_text(text: &str) -> Option<(f64, f64)> {
    if let Some((lat, lon)) = text.split_once(',') {
        // A third number is a height.
        let lon = lon.split(',').next().unwrap_or(lon);
        return Some((lat.trim().parse().ok()?, lon.trim().parse().ok()?));
    }
    let upper = text.trim().to_ascii_uppercase();
    let inner = upper.strip_prefix("POINT")?.trim();
    let mut numbers = inner
        .strip_prefix('(')?
        .strip_suffix(')')?
        .split_whitespace();
    let lon = numbers.next()?.parse().ok()?;
    Some((numbers.next()?.parse().ok()?, lon))
}

fn is_place(lat: f64, lon: f64) -> bool {
    (-90.0..=90.0).contains(&lat) && (-180.0..=180.0).contains(&lon)
}
