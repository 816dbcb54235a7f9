#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| quire_fuzz::run("frozen", input));
