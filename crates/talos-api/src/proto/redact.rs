//! `Debug` of messages that may contain keys: it shows only their size.
//!
//! From Talos 1.13 on the answer to an apply, and even more to a dry run, contains the machine config with all its
//! keys.

use std::fmt::{Debug, Formatter, Result};

use super::common::Data;
use super::cosi::resource::Spec;
use super::machine::{
    ApplyConfiguration, ApplyConfigurationRequest, GenerateClientConfiguration, MetaWriteRequest,
};

/// Hidden content, shown as its number of bytes.
struct Hidden(usize);

impl Debug for Hidden {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "****** ({} bytes)", self.0)
    }
}

impl Debug for Data {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Data").field("bytes", &Hidden(self.bytes.len())).finish_non_exhaustive()
    }
}

impl Debug for Spec {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Spec")
            .field("yaml_spec", &Hidden(self.yaml_spec.len()))
            .finish_non_exhaustive()
    }
}

impl Debug for ApplyConfigurationRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("ApplyConfigurationRequest")
            .field("data", &Hidden(self.data.len()))
            .field("mode", &self.mode())
            .field("dry_run", &self.dry_run)
            .field("try_mode_timeout", &self.try_mode_timeout)
            .finish()
    }
}

impl Debug for ApplyConfiguration {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let warnings = self.warnings.iter().map(String::len).sum();
        f.debug_struct("ApplyConfiguration")
            .field("warnings", &Hidden(warnings))
            .field("mode", &self.mode())
            .field("mode_details", &Hidden(self.mode_details.len()))
            .finish_non_exhaustive()
    }
}

impl Debug for GenerateClientConfiguration {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("GenerateClientConfiguration")
            .field("key", &Hidden(self.key.len()))
            .field("talosconfig", &Hidden(self.talosconfig.len()))
            .finish_non_exhaustive()
    }
}

impl Debug for MetaWriteRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("MetaWriteRequest")
            .field("key", &self.key)
            .field("value", &Hidden(self.value.len()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::cosi::resource::Resource;
    use super::super::machine::ApplyConfigurationResponse;
    use super::*;

    #[test]
    fn keys_do_not_show() {
        let key = "-----BEGIN ED25519 PRIVATE KEY-----";
        let shown = [
            format!("{:?}", Data { bytes: key.into(), metadata: None }),
            format!(
                "{:?}",
                Resource {
                    spec: Some(Spec { yaml_spec: key.to_owned(), proto_spec: key.into() }),
                    metadata: None
                }
            ),
            format!("{:?}", ApplyConfigurationRequest { data: key.into(), ..Default::default() }),
            format!(
                "{:?}",
                ApplyConfigurationResponse {
                    messages: vec![ApplyConfiguration {
                        warnings: vec![key.to_owned()],
                        mode_details: key.to_owned(),
                        ..Default::default()
                    }]
                }
            ),
            format!(
                "{:?}",
                GenerateClientConfiguration {
                    key: key.into(),
                    talosconfig: key.into(),
                    ..Default::default()
                }
            ),
            format!("{:?}", MetaWriteRequest { key: 10, value: key.into() }),
        ];
        for text in shown {
            assert!(text.contains("******"), "{text}");
            // Neither as text nor as a list of numbers.
            assert!(!text.contains("PRIVATE") && !text.contains("45, 45"), "{text}");
        }
    }
}
