//! What a node tells of its boot, to those who come later.

use talmox_talos_api::client::{Payload, Since};
use talmox_talos_api::proto::machine::sequence_event::Action;
use talmox_talos_api::proto::machine::{phase_event, task_event};

use super::world::World;

#[test]
fn a_boot_tells_its_sequences_phases_and_tasks() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.lab.wait(async {
        let client = world.bootstrap(11).await;
        let mut events = client.events(&Since::TheBeginning, None).await.unwrap();
        let mut story = vec![];
        loop {
            let event = events.next().await.unwrap().unwrap();
            let line = match &event.payload {
                Payload::Sequence(told) => format!("{} {:?}", told.sequence, told.action()),
                Payload::Phase(told) if told.action() == phase_event::Action::Start => {
                    format!(" {}", told.phase)
                }
                Payload::Task(told) if told.action() == task_event::Action::Start => {
                    format!("  {}", told.task)
                }
                _ => continue,
            };
            assert_eq!(event.actor.0, "", "nobody asked for it");
            let is_last = matches!(&event.payload, Payload::Sequence(told)
                if told.sequence == "boot" && told.action() == Action::Stop);
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
    world.lab.stop();
}
