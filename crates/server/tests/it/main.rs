//! The server from outside: requests in, answers out.

#[cfg(test)]
mod access;
#[cfg(test)]
mod admin;
#[cfg(test)]
mod aggregations;
#[cfg(test)]
mod aliases;
#[cfg(test)]
mod audit;
mod backup;
#[cfg(test)]
mod bulk;
#[cfg(test)]
mod changes;
#[cfg(test)]
mod collections;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod frozen;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod memcached;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod mget;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod partitions;
#[cfg(test)]
mod patterns;
#[cfg(test)]
mod reindex;
#[cfg(test)]
mod rest;
#[cfg(test)]
mod search;
#[cfg(test)]
mod site;
#[cfg(test)]
mod slow;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod typed;
#[cfg(test)]
mod update;
#[cfg(test)]
mod wide;
mod wide_fields;
mod wide_index;
