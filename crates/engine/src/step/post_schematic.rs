//! Posts a schematic to the Image Factory.

use talmox_plan::plan::PostSchematic;

use super::{Done, RunStep, StepCode, StepContext, StepError};
use crate::factory;

/// The condition that the step waits for.
const FACTORY: &str = "the Image Factory to answer";

impl RunStep for PostSchematic {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let Self { factory, id, yaml, .. } = self;
        let web = &context.run.web;
        let doing = format!("register the schematic {id} with {factory}");
        let known = context.asks(FACTORY, factory::has_schematic(web, factory, id)).await?;
        if known.map_err(|error| StepError::web(&doing, error))? {
            return Ok(Done::Already);
        }
        context.waits_for(FACTORY);
        let answered = context
            .act(async {
                let posted = factory::post_schematic(web, factory, yaml).await;
                posted.map_err(|error| StepError::web(&doing, error))
            })
            .await?;
        if answered == *id {
            return Ok(Done::Acted);
        }
        // The names of images and installers contain this id, so they would not be found under another id.
        let text = format!("{factory} has the schematic under the id {answered}, not {id}");
        Err(StepError::failed(StepCode::SchematicMismatch, text)
            .hint("set `image.schematic` in the inventory to the factory's id"))
    }
}
