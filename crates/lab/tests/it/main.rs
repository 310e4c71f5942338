//! The lab over real sockets.

mod http;
mod support;
