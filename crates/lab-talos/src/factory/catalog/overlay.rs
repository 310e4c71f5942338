//! Overlays for single-board computers. No VM of the lab uses an overlay.

use semver::Version;
use serde::Serialize;

/// Overlay in the form in which the Image Factory lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Overlay {
    pub(crate) name: &'static str,
    image: String,
    #[serde(rename = "ref")]
    reference: String,
    digest: String,
}

/// Overlay names and the images that contain them.
const OVERLAYS: [(&str, &str); 11] = [
    ("rpi_generic", "sbc-raspberrypi"),
    ("revpi_generic", "sbc-raspberrypi"),
    ("rock64", "sbc-rockchip"),
    ("rock4cplus", "sbc-rockchip"),
    ("rock4se", "sbc-rockchip"),
    ("rock5b", "sbc-rockchip"),
    ("rockpi4", "sbc-rockchip"),
    ("turingrk1", "sbc-rockchip"),
    ("bananapi_m64", "sbc-allwinner"),
    ("pine64", "sbc-allwinner"),
    ("jetson_nano", "sbc-jetson"),
];

pub(crate) fn overlays(talos: &Version) -> Vec<Overlay> {
    let overlay = |(name, image): (&'static str, &str)| {
        let reference = format!("ghcr.io/siderolabs/{image}:v0.{}.0", talos.minor - 7);
        let digest = super::digest(&reference);
        Overlay { name, image: format!("siderolabs/{image}"), reference, digest }
    };
    OVERLAYS.map(overlay).into()
}
