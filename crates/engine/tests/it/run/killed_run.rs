//! Runs that are killed and repeated.

use talmox_engine::step::{Context, Cut, Moment};
use talmox_pve::api::cluster;

use super::rig::{ADMIN, Rig, TALMOX, bring_up, once, own};

/// Each step is killed before its change, killed after its change, or fails. In all cases a second run creates the same VM as
/// an undisturbed run, and only one VM.
#[tokio::test]
async fn a_run_killed_anywhere_is_finished_by_the_next_one() {
    let own = own("cp-1", 300);
    let reference = Rig::start("9.2");
    reference.run(&bring_up(&own)).await.assert_done();
    let expected = stable_options(&reference, &own.vm).await;
    for act in ["create", "resize", "finish", "start"] {
        for (moment, what) in [
            (Moment::BeforeAct, Cut::Crash),
            (Moment::AfterAct, Cut::Crash),
            (Moment::BeforeAct, Cut::Fail),
            (Moment::AfterAct, Cut::Fail),
        ] {
            let at = format!("cp-1/{act}");
            let rig = Rig::start("9.2");
            let cut = Context { cut: Some(once(&at, moment, what)), ..rig.context(TALMOX) };
            let first = rig.run_with(&bring_up(&own), &cut).await;
            assert!(!first.outcome.is_done(), "{at} {moment:?} {what:?}");
            let second = rig.run(&bring_up(&own)).await;
            assert!(second.outcome.is_done(), "{at} {moment:?} {what:?}: {:?}", second.results());
            assert_eq!(stable_options(&rig, &own.vm).await, expected, "{at} {moment:?} {what:?}");
            let guests = rig.client(ADMIN).send(&cluster::resources()).await.unwrap().guests;
            assert_eq!(guests.len(), 4, "{guests:?}");
        }
    }
}

/// The config of a VM, without the options that differ between labs.
async fn stable_options(rig: &Rig, vm: &talmox_pve::api::qemu::Vm) -> Vec<(String, String)> {
    let config = rig.config(vm).await;
    let is_same = |(key, _): &(&str, &str)| !["digest", "meta", "vmgenid"].contains(key);
    config.iter().filter(is_same).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}
