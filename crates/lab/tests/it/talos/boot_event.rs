//! Test of boot events. A client that connects after the boot still gets them.

use talmox_talos_api::client::{Payload, Since};
use talmox_talos_api::proto::machine::sequence_event::Action;
use talmox_talos_api::proto::machine::{phase_event, task_event};

use super::test_bed::TestBed;

#[test]
fn boot_events_contain_sequences_phases_and_tasks() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        let mut events = client.events(&Since::TheBeginning, None).await.unwrap();
        let mut story = vec![];
        loop {
            let event = events.next().await.unwrap().unwrap();
            let line = match &event.payload {
                Payload::Sequence(detail) => format!("{} {:?}", detail.sequence, detail.action()),
                Payload::Phase(detail) if detail.action() == phase_event::Action::Start => {
                    format!(" {}", detail.phase)
                }
                Payload::Task(detail) if detail.action() == task_event::Action::Start => {
                    format!("  {}", detail.task)
                }
                _ => continue,
            };
            assert_eq!(event.actor.0, "", "boot events have no actor");
            let is_last = matches!(&event.payload, Payload::Sequence(detail)
                if detail.sequence == "boot" && detail.action() == Action::Stop);
            story.push(line);
            if is_last {
                break;
            }
        }
        let at = |line: &str| story.iter().position(|one| one == line).expect(line);
        let order = [
            "initialize Start",
            " earlyServices",
            "  startMachined",
            " config",
            "  loadConfig",
            "initialize Stop",
            "boot Start",
            " memorySizeCheck",
            " ephemeral",
            "  mountEphemeralPartition",
            " startEverything",
            "  startAllServices",
            "boot Stop",
        ];
        let places: Vec<usize> = order.map(at).to_vec();
        assert!(places.is_sorted(), "{story:#?}");
    });
    bed.lab.stop();
}
