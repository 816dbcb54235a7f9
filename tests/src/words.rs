//! Text that looks and compresses like prose, the same for the same number.

const WORDS: [&str; 64] = [
    "the",
    "of",
    "and",
    "to",
    "a",
    "in",
    "is",
    "with",
    "for",
    "on",
    "that",
    "as",
    "by",
    "an",
    "be",
    "we",
    "from",
    "are",
    "this",
    "which",
    "at",
    "team",
    "data",
    "work",
    "systems",
    "experience",
    "engineer",
    "develop",
    "customers",
    "design",
    "product",
    "software",
    "support",
    "project",
    "business",
    "management",
    "services",
    "company",
    "knowledge",
    "quality",
    "analysis",
    "research",
    "technical",
    "development",
    "strong",
    "skills",
    "environment",
    "international",
    "solutions",
    "responsible",
    "performance",
    "opportunity",
    "communication",
    "requirements",
    "collaborate",
    "production",
    "infrastructure",
    "Zürich",
    "Berlin",
    "Amsterdam",
    "remote",
    "hybrid",
    "full-time",
    "permanent",
];

/// Text of `words` words.
pub fn text(seed: u64, words: usize) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
    let mut text = String::with_capacity(words * 8);
    for at in 0..words {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if at > 0 {
            text.push(' ');
        }
        // The smaller of two draws: some words are frequent, as in prose.
        let word = ((state >> 20) % 64).min((state >> 40) % 64);
        text.push_str(WORDS[word as usize]);
    }
    text
}
