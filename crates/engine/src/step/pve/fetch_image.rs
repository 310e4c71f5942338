//! Fetches an image: the host downloads the image, or talmox streams it. The content of the image is checked before it is
//! used.

use talmox_plan::plan::{FetchImage, FetchWay};
use talmox_pve::PveError;
use talmox_pve::api::storage::{self, Content, Download};
use talmox_pve::api::task::{self, Filter, TaskState};
use talmox_pve::client::FileSource;
use talmox_pve::id::Upid;
use talmox_values::url::shown_url;

use super::super::{Done, RunStep, StepCode, StepContext, StepError};
use super::download_log::{DownloadLog, Progress};
use super::image_check::{ExpectedImage, ImageVerdict};
use super::storage_file::send;
use super::{error, published_checksum};
use crate::timeouts::MAX_DOWNLOADS;

/// Part of the message of Proxmox about a file with another checksum.
const MISMATCH: &str = "checksum mismatch";

impl RunStep for FetchImage {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let expected = ExpectedImage::of(self, context).await?;
        let published = published_checksum::find(self, &expected, context).await?;
        let step = &Self { checksum: published, ..self.clone() };
        let mut verdict = expected.judge(step, context).await?;
        if matches!(verdict, ImageVerdict::Missing)
            && follow_earlier(step, &expected, context).await?
        {
            verdict = expected.judge(step, context).await?;
        } else if matches!(verdict, ImageVerdict::Good) {
            verdict = compare_checksum(step, &expected, context).await?;
        }
        match verdict {
            ImageVerdict::Good => return Ok(Done::Already),
            ImageVerdict::Missing => {}
            ImageVerdict::Bad(why) => {
                context.note(format!("{} on {} is not usable: {why}", step.volume, step.host));
                // If the token may not delete the file, the stream overwrites it.
                remove(step, context).await?;
            }
        }
        fetch(step, &expected, context).await?;
        match expected.judge(step, context).await? {
            ImageVerdict::Good => Ok(Done::Acted),
            ImageVerdict::Missing => Err(StepError::retry(
                StepCode::ChangeNotVisible,
                format!("{} does not exist after its download", step.volume),
            )),
            ImageVerdict::Bad(why) => {
                let text =
                    format!("{} on {} is wrong after its download: {why}", step.volume, step.host);
                let hint = format!("check that {} is a valid image", shown_url(&step.url));
                let is_worth_it = context.attempt < MAX_DOWNLOADS;
                let kind = if is_worth_it { StepError::retry } else { StepError::failed };
                let error = kind(StepCode::ImageWrong, text);
                Err(error.hint(hint))
            }
        }
    }
}

/// Compares an existing file with the checksum of the image. Proxmox makes this comparison when it is requested to download
/// the image again, and downloads nothing if the checksums match. If the token may not download, length and header are
/// enough, because a stream would overwrite a file that another run may be reading.
async fn compare_checksum(
    step: &FetchImage,
    expected: &ExpectedImage,
    context: &StepContext,
) -> Result<ImageVerdict, StepError> {
    if step.checksum.is_none() || !step.ways.contains(&FetchWay::Download) {
        return Ok(ImageVerdict::Good);
    }
    match download(step, expected, context).await? {
        Ok(()) => Ok(ImageVerdict::Good),
        Err(error) if error.to_string().contains(MISMATCH) => {
            Ok(ImageVerdict::Bad(error.to_string()))
        }
        Err(error) => {
            let volume = &step.volume;
            context.note(format!("{volume} was not compared with its checksum: {error}"));
            Ok(ImageVerdict::Good)
        }
    }
}

/// Waits for the end of a download that an earlier run started, because Proxmox lists the file only after the download.
/// Returns whether there was such a download.
async fn follow_earlier(
    step: &FetchImage,
    expected: &ExpectedImage,
    context: &StepContext,
) -> Result<bool, StepError> {
    let filter = Filter { kind: Some("download".to_owned()), ..Filter::default() };
    let doing = format!("list the downloads on {}", step.host);
    let tasks = context.ask(&task::list(&step.host, &filter), &doing).await?;
    let name = step.volume.file_name();
    let running =
        tasks.into_iter().find(|task| task.state == TaskState::Running && task.upid.id() == name);
    let Some(running) = running else { return Ok(false) };
    let upid = &running.upid;
    let end = Box::pin(async { Ok(context.end_of_earlier(upid, &doing).await) });
    tell_bytes(upid, expected, context, end).await??;
    Ok(true)
}

/// Waits for the end of a download, and reports its progress.
async fn tell_bytes<T, E>(
    upid: &Upid,
    expected: &ExpectedImage,
    context: &StepContext,
    end: impl Future<Output = Result<Result<T, E>, StepError>>,
) -> Result<Result<T, E>, StepError> {
    let mut read = DownloadLog::new(expected.length);
    let mut tell = None;
    let mut hear = |line: &str| {
        if let Some(Progress { bytes, total }) = read.read(line) {
            tell.get_or_insert_with(|| context.progress(Some(total)))(bytes);
        }
    };
    let mut log = context.run.pve.log(upid);
    let ended = tokio::select! {
        biased;
        ended = end => ended?,
        never = log.follow(&mut hear) => match never {},
    };
    // A quick download ends before its log is read again.
    if ended.is_ok() {
        context.see(log.look(&mut hear)).await?;
    }
    Ok(ended)
}

/// Tries the ways of fetching in their order, because a host may have no access to the Internet, or the token no right to
/// upload.
async fn fetch(
    step: &FetchImage,
    expected: &ExpectedImage,
    context: &StepContext,
) -> Result<(), StepError> {
    let mut failure = None;
    for way in &step.ways {
        let tried = match way {
            FetchWay::Download => download(step, expected, context).await?,
            FetchWay::Stream => Ok(stream(step, expected, context).await?),
        };
        match tried {
            Ok(()) => return Ok(()),
            Err(error) => {
                context.note(format!("{} cannot download {}: {error}", step.host, step.volume));
                failure = Some(error);
            }
        }
    }
    let doing = format!("fetch {} to {}", step.volume, step.host);
    Err(match failure {
        Some(error) => error::of(&doing, error),
        None => StepError::failed(
            StepCode::DownloadFailed,
            format!("{doing}: the token may neither download nor upload it"),
        ),
    })
}

/// Lets the host download the image. The inner error is an error that may not occur with another way of fetching.
async fn download(
    step: &FetchImage,
    expected: &ExpectedImage,
    context: &StepContext,
) -> Result<Result<(), PveError>, StepError> {
    let doing = format!("download {} on {}", step.volume, step.host);
    let name = step.volume.file_name().parse();
    let order = Download {
        url: step.url.clone(),
        content: Content::Import,
        name: name.map_err(|error| StepError::failed(StepCode::Bug, &doing).caused_by(error))?,
        checksum: step.checksum.clone(),
        compression: None,
        verify_certificates: true,
    };
    let request = storage::download(&step.host, step.volume.storage(), &order);
    let ended = match context.start_task(&request).await? {
        Ok(running) => {
            let upid = running.upid.clone();
            let end = Box::pin(context.end_of(running));
            tell_bytes(&upid, expected, context, end).await?
        }
        Err(error) => Err(error),
    };
    match ended {
        Ok(_) => Ok(Ok(())),
        Err(error @ (PveError::Rejected(_) | PveError::TaskFailed(_))) if !error.is_retryable() => {
            Ok(Err(error))
        }
        Err(error) => Err(error::of(&doing, error)),
    }
}

/// Downloads the image to this machine and uploads it to the host at the same time, piece by piece.
async fn stream(
    step: &FetchImage,
    expected: &ExpectedImage,
    context: &StepContext,
) -> Result<(), StepError> {
    let doing = format!("upload {} to {}", step.volume, step.host);
    let file = Box::pin(async {
        let opened = context.wait(context.run.web.open(&step.url)).await?;
        let file = opened.map_err(|error| StepError::web(&doing, error))?;
        let Some(length) = file.length.or(expected.length) else {
            // Proxmox rejects uploads without a length.
            return Err(StepError::failed(
                StepCode::DownloadFailed,
                format!("{doing}: {} does not report its length", shown_url(&step.url)),
            ));
        };
        Ok(FileSource::new(file, length).with_progress(context.progress(Some(length))))
    });
    send((&step.host, &step.volume), file, step.checksum.clone(), &doing, context).await
}

/// Deletes a wrong file, if the token may do that.
async fn remove(step: &FetchImage, context: &StepContext) -> Result<(), StepError> {
    match context.try_task(&storage::delete(&step.host, &step.volume)).await? {
        Ok(_) => Ok(()),
        Err(error) if error.is_permission() && step.ways.contains(&FetchWay::Stream) => Ok(()),
        Err(error) => {
            let doing = format!("delete {} on {}", step.volume, step.host);
            Err(error::of(&doing, error))
        }
    }
}
