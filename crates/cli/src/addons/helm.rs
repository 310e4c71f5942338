//! Helm: downloading and rendering of charts.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use talmox_model::inventory::ChartOrigin;

use super::program::{self, NetworkUse};
use crate::command_code::CommandCode;
use crate::disk::PrivateFolder;
use crate::error::CommandError;

/// Variable with the path of Helm.
const VARIABLE: &str = "TALMOX_HELM";

const PULL_TIMEOUT: Duration = Duration::from_mins(3);
const TEMPLATE_TIMEOUT: Duration = Duration::from_mins(2);

/// Helm, with a private folder for its files.
#[derive(Debug)]
pub(super) struct Helm {
    program: PathBuf,
}

/// Settings of a rendering. The values may be secret, so there is no debug output.
pub(super) struct Template<'a> {
    pub(super) release: &'a str,
    /// Folder or .tgz file of the chart.
    pub(super) chart: &'a Path,
    pub(super) namespace: &'a str,
    pub(super) kubernetes: Option<&'a str>,
    /// API versions that the cluster has in addition to those of Kubernetes, such as `cilium.io/v2`.
    pub(super) api_versions: &'a [String],
    /// Texts of the values, the weakest first.
    pub(super) values: &'a [String],
}

impl Helm {
    /// Finds Helm.
    pub(super) fn find(doing: &str) -> Result<Self, CommandError> {
        let program = program::find("helm", Some(VARIABLE)).ok_or_else(|| {
            let message = format!("{doing}: helm is not on PATH, and its objects are not stored");
            CommandError::failed(CommandCode::AddonProgramMissing, message)
                .hint("install Helm 3 or 4, or run `talmox addons vendor` on a machine that has it")
        })?;
        Ok(Self { program })
    }

    /// Downloads a chart. Returns the bytes of its .tgz file.
    pub(super) fn pull(&self, origin: &ChartOrigin, doing: &str) -> Result<Vec<u8>, CommandError> {
        let workplace = program::workplace()?;
        let failed = |error| {
            let message = format!("{doing}: the downloaded chart cannot be read");
            CommandError::failed(CommandCode::AddonProgramFailed, message).because(error)
        };
        let folder = workplace.make_folder("charts").map_err(failed)?;
        let mut arguments: Vec<OsString> = vec!["pull".into()];
        match origin {
            ChartOrigin::Repository { url, name, version } => {
                arguments.push(format!("--repo={url}").into());
                arguments.push(format!("--version={version}").into());
                arguments.push("--".into());
                arguments.push(name.into());
            }
            ChartOrigin::Registry { address, version } => {
                arguments.push(format!("--version={version}").into());
                arguments.push("--".into());
                arguments.push(address.into());
            }
            ChartOrigin::Path(path) => {
                let message = format!("{doing}: {path} is a file and is not downloaded");
                return Err(CommandError::failed(CommandCode::AddonProgramFailed, message));
            }
        }
        let mut destination = OsString::from("--destination=");
        destination.push(&folder);
        arguments.insert(1, destination);
        let network = NetworkUse::Allowed;
        program::run(&self.program, &arguments, &workplace, network, PULL_TIMEOUT, doing)?;
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "tgz") {
                return fs::read(&path).map_err(failed);
            }
        }
        let message = format!("{doing}: helm downloaded no .tgz file");
        Err(CommandError::failed(CommandCode::AddonProgramFailed, message))
    }

    /// Renders a chart without a network and without a cluster.
    pub(super) fn template(
        &self,
        template: &Template<'_>,
        doing: &str,
    ) -> Result<String, CommandError> {
        let workplace = program::workplace()?;
        let arguments = arguments(template, &workplace)?;
        let network = NetworkUse::Blocked;
        program::run(&self.program, &arguments, &workplace, network, TEMPLATE_TIMEOUT, doing)
    }
}

fn arguments(
    template: &Template<'_>,
    workplace: &PrivateFolder,
) -> Result<Vec<OsString>, CommandError> {
    let mut all: Vec<OsString> = vec!["template".into()];
    all.push("--include-crds".into());
    all.push("--skip-tests".into());
    all.push(format!("--namespace={}", template.namespace).into());
    if let Some(version) = template.kubernetes {
        all.push(format!("--kube-version={version}").into());
    }
    for version in template.api_versions {
        all.push(format!("--api-versions={version}").into());
    }
    for (index, values) in template.values.iter().enumerate() {
        // Values may contain secrets, so they are in private files and not on the command line.
        let path = workplace.write(&format!("values-{index}.yaml"), values).map_err(|error| {
            let message = "cannot write the values of a chart to a private file";
            CommandError::failed(CommandCode::FileUnwritable, message).because(error)
        })?;
        let mut argument = OsString::from("--values=");
        argument.push(path);
        all.push(argument);
    }
    all.push("--".into());
    all.push(template.release.into());
    all.push(template.chart.into());
    Ok(all)
}
