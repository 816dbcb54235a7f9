//! Keys for documents that have none.
//!
//! A key is made of the load, the number of the input and the line where the document starts. So
//! keys sort by load, and in it by place; and a load that reads a line again, as one that resumes
//! does, makes the same key again and no second document.

use quiredb::{Env, Key};

/// Random bytes in the name of a load: loads that begin in the same microsecond are told apart.
const RANDOM_BYTES: usize = 5;

/// Makes the keys of one load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeKeys {
    /// The time of its begin and random bytes, in hexadecimal digits.
    load: String,
}

impl MadeKeys {
    /// Keys that no other load makes.
    #[must_use]
    pub fn new(env: &dyn Env) -> MadeKeys {
        let mut random = [0; RANDOM_BYTES];
        env.random(&mut random);
        let random = random.iter().map(|byte| format!("{byte:02x}"));
        let load = format!("{:014x}{}", env.now_micros(), random.collect::<String>());
        MadeKeys { load }
    }

    /// The keys of a load that had this [name](MadeKeys::load).
    #[must_use]
    pub fn of_load(load: &str) -> MadeKeys {
        MadeKeys {
            load: load.to_owned(),
        }
    }

    /// The name of the load, from which the same keys are made again.
    #[must_use]
    pub fn load(&self) -> &str {
        &self.load
    }

    /// The key of a document that starts at `line` of the input of this number.
    ///
    /// # Errors
    /// If the name of the load can't begin a key.
    pub(crate) fn key(&self, input: usize, line: u64) -> quiredb::Result<Key> {
        Ok(Key::parse(&format!("{}-{input:04}-{line:012}", self.load))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiredb::SimEnv;

    #[test]
    fn keys_sort_by_load_then_input_then_line_and_are_made_again() {
        let env = SimEnv::new(1);
        let first = MadeKeys::new(&*env);
        env.sleep(std::time::Duration::from_millis(1));
        let second = MadeKeys::new(&*env);
        let keys = [
            first.key(0, 1),
            first.key(0, 2),
            first.key(0, 10),
            first.key(1, 1),
            second.key(0, 1),
        ]
        .map(|key| key.unwrap().to_string());
        assert!(keys.is_sorted(), "{keys:?}");
        let again = MadeKeys::of_load(first.load());
        assert_eq!(again.key(1, 1).unwrap().to_string(), keys[3]);
        assert_ne!(MadeKeys::new(&*env), MadeKeys::new(&*env));
    }
}
