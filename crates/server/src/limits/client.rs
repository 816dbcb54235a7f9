//! Who a request comes from, where clients share something.

use std::net::{IpAddr, Ipv6Addr};

/// A client: a named token, or an address where callers have none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Client {
    /// All holders of the token of this name.
    Token(String),
    /// Callers without a named token at this address. None if the server is called in process.
    Address(Option<IpAddr>),
}

impl Client {
    /// The holder of a token, whose name is empty if it has none, at an address.
    pub(crate) fn of(token: &str, address: Option<IpAddr>) -> Client {
        match token {
            "" => Client::Address(address.map(network)),
            name => Client::Token(name.to_owned()),
        }
    }
}

/// Whose account an address has: one with IPv6 can choose any address of its network of 64 bits.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let bits = address.to_bits() >> 64 << 64;
            Ipv6Addr::from_bits(bits).into()
        }
    }
}
