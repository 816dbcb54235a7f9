//! The file descriptors of the process: how many connections they allow.
//!
//! A connection takes one. The database needs some too, and a server that has none left can neither
//! accept a connection nor open a file.

use rustix::process::{Resource, getrlimit};

/// What connections leave to everything else: one descriptor in this many, and a bound of it.
const LEFT_PART: u64 = 4;
const LEFT_MAX: u64 = 4096;

/// The connections of each of `ports` ports, if `wanted` are: no more than there are descriptors
/// for.
pub(crate) fn connections_max(wanted: usize, ports: usize) -> usize {
    match getrlimit(Resource::Nofile).current {
        Some(descriptors) => allowed(wanted, ports, descriptors),
        None => wanted,
    }
}

fn allowed(wanted: usize, ports: usize, descriptors: u64) -> usize {
    let left = (descriptors / LEFT_PART).min(LEFT_MAX);
    let of_all = usize::try_from(descriptors - left).unwrap_or(usize::MAX);
    wanted.min(of_all / ports.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_to_the_database() {
        let cases = [
            (1024, 2, 1_048_576, 1024),
            (1024, 1, 1024, 768),
            (1024, 2, 1024, 384),
            (1024, 2, 256, 96),
            (100_000, 2, 20_000, 7_952),
            (7, 2, 0, 1),
        ];
        for (wanted, ports, descriptors, expected) in cases {
            assert_eq!(
                allowed(wanted, ports, descriptors),
                expected,
                "{descriptors}"
            );
        }
    }
}
