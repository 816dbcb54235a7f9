//! Frozen partitions, damaged on the disk.

use quire_env::{Env, SimEnv};
use quire_frozen::{FieldSpec, FrozenBuilder, FrozenFile, FrozenOptions, OpenOptions};
use quiredb::Document;
use std::path::Path;
use std::sync::Arc;

const PATH: &str = "/p.quire";

/// Opens a partition after reading and checking all of it.
fn open(env: &SimEnv) -> quire_frozen::Result<FrozenFile> {
    let options = OpenOptions {
        verify: true,
        ..OpenOptions::default()
    };
    FrozenFile::open(env, Path::new(PATH), options)
}

#[test]
pub(crate) fn a_changed_bit_in_any_byte_of_a_frozen_partition_is_found() {
    let env = SimEnv::new(1);
    let machine: Arc<dyn Env> = Arc::<SimEnv>::clone(&env);
    let fields = [FieldSpec::full("n"), FieldSpec::filterable("text")];
    let mut builder =
        FrozenBuilder::create(machine, Path::new(PATH), &fields, FrozenOptions::default()).unwrap();
    for n in 0..20 {
        let json = format!(r#"{{"n":{},"text":"value {n}"}}"#, n % 3);
        let document = Document::from_json(json.as_bytes()).unwrap();
        builder.add(&document, b"a payload").unwrap();
    }
    let bytes = builder.finish().unwrap();
    assert_eq!(open(&env).unwrap().documents(), 20);
    for byte in 0..bytes {
        let bit = byte * 8 + byte % 8;
        env.flip_bit(Path::new(PATH), bit).unwrap();
        assert!(open(&env).is_err(), "bit {bit} may change");
        env.flip_bit(Path::new(PATH), bit).unwrap();
    }
}
