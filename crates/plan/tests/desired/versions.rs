//! Two crates list the Kubernetes versions that a Talos release supports. Both lists must be the same.

use talmox_model::RELEASES;
use talmox_talos_config::contract::Contract;

#[test]
fn the_inventory_and_the_contract_know_the_same_releases() {
    for release in RELEASES {
        let contract = Contract::new(1, u32::try_from(release.minor).unwrap());
        let support = contract.support().unwrap();
        let window = (u64::from(support.kubernetes_min), u64::from(support.kubernetes_max));
        assert_eq!(window, release.kubernetes, "{contract}");
        let default = release.default_kubernetes().to_string();
        assert_eq!(format!("v{}", support.kubernetes_default), default, "{contract}");
    }
    let newest = RELEASES[RELEASES.len() - 1].minor + 1;
    assert!(Contract::new(1, u32::try_from(newest).unwrap()).support().is_none());
}
