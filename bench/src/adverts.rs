//! Generated job adverts: compact JSON of about 1 KB, the same for the same number on every
//! machine.
//!
//! Keys look like those of a job board: 16 hex digits in no order. The text is made of common words
//! drawn with a bias to the start of the list, so that it compresses about as real adverts do.

use std::fmt::Write;

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same for ever.
pub(crate) struct Random(u64);

impl Random {
    /// One of many rows of numbers.
    pub(crate) fn new(seed: u64) -> Random {
        Random(mix(seed))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// One of `0..count`.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    /// One of `0..count`, small numbers more often than large ones.
    fn biased(&mut self, count: usize) -> usize {
        let uniform = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        ((uniform * uniform * count as f64) as usize).min(count - 1)
    }

    /// One of a list, the first more often than the last.
    pub(crate) fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.biased(list.len())]
    }
}

/// The finaliser of SplitMix64: numbers that look random.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The key of advert `number`. A bijection: no two numbers share one.
pub(crate) fn key(number: u64) -> String {
    format!("{:016x}", mix(number.wrapping_add(1)))
}

/// Appends advert `number` as one line, without the line's end. Writing to a string can't fail.
pub(crate) fn write(number: u64, out: &mut String) {
    let mut random = Random(mix(number ^ 0x5155_4952_4500_0000));
    let (title, city) = (random.pick(TITLES), random.pick(CITIES));
    let pay = 24_000 + 500 * random.below(120);
    let day = 1 + random.below(28);
    let month = 1 + random.below(12);
    let _ = write!(
        out,
        "{{\"_id\":\"{key}\",\"title\":\"{level} {title}\",\"company\":\"{company} {suffix}\",\
         \"location\":{{\"city\":\"{city}\",\"postcode\":\"{area}{sector} {unit}XY\",\
         \"lat\":{lat}.{lat_digits:06},\"lon\":-{lon}.{lon_digits:06}}},\
         \"salary\":{{\"min\":{pay},\"max\":{max},\"currency\":\"GBP\",\"period\":\"year\"}},\
         \"contract\":\"{contract}\",\"remote\":{remote},\
         \"posted\":\"2026-{month:02}-{day:02}T{hour:02}:{minute:02}:00Z\",\"views\":{views},\
         \"score\":{score}.{score_digits:03},\"expires\":null,\"skills\":[",
        key = key(number),
        level = random.pick(LEVELS),
        company = random.pick(COMPANIES),
        suffix = random.pick(&["Ltd", "Group", "plc", "Partners", "LLP"]),
        area = random.pick(&["LS", "M", "EC", "SW", "B", "EH", "BS", "NE"]),
        sector = 1 + random.below(20),
        unit = random.below(10),
        lat = 50 + random.below(8),
        lat_digits = random.below(1_000_000),
        lon = random.below(6),
        lon_digits = random.below(1_000_000),
        max = pay + 500 * random.below(40),
        contract = random.pick(&[
            "permanent",
            "contract",
            "part-time",
            "temporary",
            "apprenticeship"
        ]),
        remote = random.below(3) == 0,
        hour = random.below(24),
        minute = random.below(60),
        views = random.below(20_000),
        score = random.below(10),
        score_digits = random.below(1000),
    );
    for place in 0..3 + random.below(5) {
        let comma = if place > 0 { "," } else { "" };
        let _ = write!(out, r#"{comma}"{}""#, random.pick(SKILLS));
    }
    out.push_str(r#"],"description":""#);
    let end = out.len() + 420 + random.below(360) as usize;
    while out.len() < end {
        out.push_str(random.pick(WORDS));
        out.push_str(match random.below(12) {
            0 => ". ",
            1 => ", ",
            _ => " ",
        });
    }
    let _ = write!(
        out,
        r#"","url":"https://jobs.example.com/advert/{}"}}"#,
        key(number)
    );
}

const LEVELS: &[&str] = &[
    "Senior",
    "Junior",
    "Lead",
    "Graduate",
    "Principal",
    "Assistant",
    "Trainee",
    "Head",
];

#[rustfmt::skip]
const TITLES: &[&str] = &[
    "Software Engineer", "Care Worker", "Sales Executive", "Warehouse Operative", "Staff Nurse",
    "Delivery Driver", "Project Manager", "Chef de Partie", "Accounts Assistant",
    "Teaching Assistant", "Data Analyst", "Electrician", "Customer Adviser", "Quantity Surveyor",
    "Marketing Executive", "Mechanical Fitter", "Receptionist", "Recruiter", "Solicitor",
    "Site Manager", "Business Analyst", "Cleaner", "Payroll Officer", "Support Technician",
];

#[rustfmt::skip]
const CITIES: &[&str] = &[
    "London", "Manchester", "Birmingham", "Leeds", "Glasgow", "Bristol", "Edinburgh", "Liverpool",
    "Sheffield", "Cardiff", "Nottingham", "Newcastle", "Belfast", "Leicester", "Brighton",
    "Reading", "Milton Keynes", "Aberdeen", "Norwich", "Exeter", "York", "Swansea", "Oxford",
    "Cambridge", "Plymouth", "Derby",
];

#[rustfmt::skip]
const COMPANIES: &[&str] = &[
    "Northern Light", "Albion", "Kestrel", "Harbour", "Pennine", "Thistle", "Meridian", "Oakfield",
    "Bluebell", "Summit", "Riverside", "Castlegate", "Fairway", "Ironbridge", "Larkspur",
    "Moorland", "Silverline", "Westgate", "Ashdown", "Beacon", "Copperfield", "Dunmore", "Elmwood",
    "Foxglove", "Greyfriars", "Highfield",
];

#[rustfmt::skip]
const SKILLS: &[&str] = &[
    "communication", "teamwork", "excel", "driving licence", "customer service", "sql", "python",
    "planning", "first aid", "forklift", "negotiation", "rust", "budgeting", "health and safety",
    "sage", "autocad", "java", "reporting", "scheduling", "welding", "linux", "payroll", "coaching",
    "copywriting", "kubernetes", "nvq level 3",
];

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "the", "and", "to", "of", "a", "you", "in", "for", "with", "will", "we", "our", "be", "work",
    "team", "is", "as", "are", "on", "have", "experience", "your", "role", "or", "an", "this",
    "company", "within", "from", "skills", "all", "that", "by", "working", "support", "at", "time",
    "who", "business", "opportunity", "working", "people", "care", "great", "services", "service",
    "training", "job", "new", "looking", "please", "apply", "provide", "high", "clients", "based",
    "across", "development", "good", "ensure", "able", "full", "well", "environment", "benefits",
    "successful", "management", "pay", "hours", "can", "candidate", "knowledge", "join",
    "customers", "strong", "career", "required", "ideal", "quality", "position", "week", "project",
    "include", "manage", "sales", "office", "salary", "days", "growing", "excellent",
    "understanding", "holiday", "per", "part", "contact", "years", "health", "safety", "develop",
    "not", "ability", "help", "local", "pension", "responsible", "essential", "right", "including",
    "projects", "flexible", "industry", "leading", "free", "scheme", "best", "make", "needs",
    "offer", "level", "site", "professional", "engineering", "internal", "standards", "home",
    "systems", "relevant", "technical", "driving", "maintain", "deliver", "staff", "existing",
    "key", "duties", "previous", "competitive", "plus", "qualification", "relationships",
    "discount", "progression", "reporting", "weekend", "shift", "permanent", "immediate", "start",
    "parking", "bonus", "annual", "leave", "equipment", "maintenance", "processes", "schedules",
    "attention", "detail", "organised", "motivated", "reliable", "friendly", "confident",
    "proactive", "established", "reputation", "family", "community", "residents", "patients",
    "pupils", "vehicles", "machinery", "stock", "orders", "invoices", "queries",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adverts_are_compact_json_of_about_a_kilobyte_and_never_change() {
        let mut bytes = 0;
        for number in 0..1000 {
            let mut text = String::new();
            write(number, &mut text);
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["_id"], key(number));
            bytes += text.len();
        }
        assert!((950..1150).contains(&(bytes / 1000)), "{bytes}");
        let mut text = String::new();
        write(7, &mut text);
        assert_eq!(
            xxhash_rust::xxh3::xxh3_64(text.as_bytes()),
            12_376_690_931_774_116_462,
            "the documents that figures were measured on"
        );
    }
}
