//! The steps of a plan: look, done already?, act, look again.
//!
//! Every step can be run twice and be killed anywhere in it. It makes no choices: what it needs is
//! in its action. An error says whether running the step again, from its first look, is worth it.

mod context;
mod deadline;
mod done;
mod error;
mod pve;
mod schematic;
mod tag_policy;
mod talos;
mod unfinished;
mod vm_cache;

use talmox_plan::plan::Action;

pub use context::{Context, Cut, CutHook, Moment, StepContext};
pub use deadline::StepDeadline;
pub use done::Done;
pub use error::{ErrorKind, StepError};
pub(crate) use unfinished::UnfinishedSteps;
pub(crate) use vm_cache::VmCache;

/// Runs a step once.
pub async fn run(action: &Action, context: &StepContext) -> Result<Done, StepError> {
    match action {
        Action::PostSchematic(step) => schematic::post(step, context).await,
        Action::FetchImage(step) => pve::fetch_image(step, context).await,
        Action::DeleteImage(step) => pve::delete_image(step, context).await,
        Action::CreateMapping(step) => pve::create_mapping(step, context).await,
        Action::UploadCidata(step) => pve::upload_cidata(step, context).await,
        Action::ScrubCidata(step) => pve::scrub_cidata(step, context).await,
        Action::DetachCidata(step) => pve::detach_cidata(step, context).await,
        Action::CreateVm(step) => pve::create(step, context).await,
        Action::CloneVm(step) => pve::clone(step, context).await,
        Action::ResizeDisk(step) => pve::resize(step, context).await,
        Action::FinishVm(step) => pve::finish(step, context).await,
        Action::StartVm(step) => pve::start(step, context).await,
        Action::StopVm(step) => pve::stop(step, context).await,
        Action::DestroyVm(step) => pve::destroy(step, context).await,
        Action::MakeTemplate(step) => pve::make_template(step, context).await,
        Action::AwaitUbuntu(step) => talos::await_ubuntu(step, context).await,
        Action::ApplyConfig(step) => talos::apply_config(step, context).await,
        Action::BootstrapEtcd(step) => talos::bootstrap_etcd(step, context).await,
        Action::AwaitMember(step) => talos::await_member(step, context).await,
        Action::AwaitVip(step) => talos::await_vip(step, context).await,
        Action::AwaitHealth(step) => talos::await_health(step, context).await,
        Action::WriteClientFiles(step) => talos::write_client_files(step, context).await,
        Action::ApplyAddon(step) => talos::apply_addon(step, context).await,
    }
}
