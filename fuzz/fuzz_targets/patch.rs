//! Fuzz target: patching a config must not panic, whatever its bytes are. The first byte splits the rest into a config
//! and a patch. The patch is applied twice, and the result is validated and encoded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use talmox_talos_config::patch::{self, Patch};
use talmox_talos_config::validate::{self, Mode};
use talmox_talos_config::{Config, Release};

fuzz_target!(|data: &[u8]| {
    let Some((split, bytes)) = data.split_first() else { return };
    let (config, patch) = bytes.split_at(bytes.len() * usize::from(*split) / 255);
    let (Ok(config), Ok(patch)) = (str::from_utf8(config), str::from_utf8(patch)) else { return };
    for release in [Release::V1_12, Release::V1_13] {
        let Ok(patch) = Patch::parse(patch, release) else { continue };
        if let Ok(patched) = patch::apply(config, &[patch.clone(), patch], release) {
            validate::validate(&patched, Mode::Metal, release);
            if let Ok(config) = Config::parse(&patched, release) {
                config.encode();
            }
        }
    }
});
