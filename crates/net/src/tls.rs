//! TLS configuration: one crypto provider, TLS 1.2 and 1.3, and the time of a [`Clock`] where a lab needs it.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ConfigBuilder, ServerConfig, WantsVerifier};
use talmox_clock::Clock;

/// Client configuration that has no verifier of server certificates yet.
pub type ClientBuilder = ConfigBuilder<ClientConfig, WantsVerifier>;

/// Server configuration that has no verifier of client certificates yet.
pub type ServerBuilder = ConfigBuilder<ServerConfig, WantsVerifier>;

/// Crypto provider of every TLS connection.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Client that verifies certificates with real time.
pub fn client() -> Result<ClientBuilder, rustls::Error> {
    ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()
}

/// Client that verifies certificates with the time of `clock`. In a lab with faster time, certificates also expire
/// faster.
pub fn client_with_clock(clock: Clock) -> Result<ClientBuilder, rustls::Error> {
    ClientConfig::builder_with_details(provider(), Arc::new(ClockTime::new(clock)))
        .with_safe_default_protocol_versions()
}

/// Server that verifies certificates with real time.
pub fn server() -> Result<ServerBuilder, rustls::Error> {
    ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()
}

/// Time of a clock, in the form that rustls needs.
#[derive(Clone, Copy, Debug)]
pub struct ClockTime {
    clock: Clock,
    /// Difference to the time of the clock, in seconds.
    skew: i64,
}

impl ClockTime {
    pub fn new(clock: Clock) -> Self {
        Self::skewed(clock, 0)
    }

    /// Time of a machine whose clock is off by `skew` seconds.
    pub fn skewed(clock: Clock, skew: i64) -> Self {
        Self { clock, skew }
    }
}

impl TimeProvider for ClockTime {
    fn current_time(&self) -> Option<UnixTime> {
        let now = self.clock.unix().saturating_add_signed(self.skew);
        Some(UnixTime::since_unix_epoch(Duration::from_secs(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skewed_clock_is_off_by_the_skew() {
        let clock = Clock::real();
        let at = |skew| ClockTime::skewed(clock, skew).current_time().map(|time| time.as_secs());
        let (past, now) = (at(-1000).unwrap(), at(0).unwrap());
        assert!((999..=1001).contains(&(now - past)), "{now} - {past}");
        assert_eq!(at(i64::MIN), Some(0));
    }

    #[test]
    fn clients_and_servers_can_be_set_up() {
        assert!(client().is_ok() && server().is_ok());
        assert!(client_with_clock(Clock::real()).is_ok());
    }
}
