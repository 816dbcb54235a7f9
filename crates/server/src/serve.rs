//! The life of a server: opening its ports, accepting connections, and ending them.

mod certificates;
mod follower;
mod held_views;
mod http_connection;
mod http_port;
mod leader;
mod listeners;
mod pressure;
mod run;

pub use follower::serve_follower;
pub use leader::{router, serve};
pub use listeners::{Listeners, bind};
