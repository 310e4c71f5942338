//! Images: fetched by the host, or by us and passed on; looked at before they are trusted.

use talmox_plan::plan::{DeleteImage, FetchImage, FetchWay};
use talmox_plan::url::shown_url;
use talmox_pve::PveError;
use talmox_pve::api::storage::{self, Content, Download};
use talmox_pve::api::task::{self, Filter, TaskState};
use talmox_pve::client::FileSource;
use talmox_pve::id::Upid;

use super::super::{Done, StepContext, StepError};
use super::cidata::{find, send};
use super::download_log::{DownloadLog, Progress};
use super::image_check::{ImageVerdict, Wanted};
use super::{error, published_checksum};
use crate::patience::FETCHES;

/// What Proxmox says of a file with another checksum.
const MISMATCH: &str = "checksum mismatch";

/// Puts an image onto a storage.
pub(in crate::step) async fn fetch_image(
    step: &FetchImage,
    context: &StepContext,
) -> Result<Done, StepError> {
    let wanted = Wanted::of(step, context).await?;
    let published = published_checksum::find(step, &wanted, context).await?;
    let step = &FetchImage { checksum: published, ..step.clone() };
    let mut verdict = wanted.judge(step, context).await?;
    if matches!(verdict, ImageVerdict::Missing) && follow_earlier(step, &wanted, context).await? {
        verdict = wanted.judge(step, context).await?;
    } else if matches!(verdict, ImageVerdict::Good) {
        verdict = compare_checksum(step, &wanted, context).await?;
    }
    match verdict {
        ImageVerdict::Good => return Ok(Done::Already),
        ImageVerdict::Missing => {}
        ImageVerdict::Bad(why) => {
            context.note(format!("{} on {} is no good: {why}", step.volume, step.host));
            // Where it may not be deleted, passing the image on overwrites it.
            remove(step, context).await?;
        }
    }
    fetch(step, &wanted, context).await?;
    match wanted.judge(step, context).await? {
        ImageVerdict::Good => Ok(Done::Acted),
        ImageVerdict::Missing => {
            Err(StepError::retry(format!("{} is not there after all", step.volume)))
        }
        ImageVerdict::Bad(why) => {
            let text = format!("{} on {} came out wrong: {why}", step.volume, step.host);
            let hint = format!("see whether {} gives a sound image", shown_url(&step.url));
            let is_worth_it = context.attempt < FETCHES;
            let error = if is_worth_it { StepError::retry(text) } else { StepError::failed(text) };
            Err(error.hint(hint))
        }
    }
}

/// Compares a file that is there with the checksum of the image. Proxmox does so on a request to download the image again: it
/// downloads nothing where both are the same. Where that is not allowed, length and header must do: to pass the image on again
/// would overwrite a file that another run may be reading.
async fn compare_checksum(
    step: &FetchImage,
    wanted: &Wanted,
    context: &StepContext,
) -> Result<ImageVerdict, StepError> {
    if step.checksum.is_none() || !step.ways.contains(&FetchWay::Download) {
        return Ok(ImageVerdict::Good);
    }
    match download(step, wanted, context).await? {
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

/// A download of an earlier run goes on without it, and shows no file until it is done. Says whether
/// there was one.
async fn follow_earlier(
    step: &FetchImage,
    wanted: &Wanted,
    context: &StepContext,
) -> Result<bool, StepError> {
    let filter = Filter { kind: Some("download".to_owned()), ..Filter::default() };
    let doing = format!("look for downloads on {}", step.host);
    let tasks = context.ask(&task::list(&step.host, &filter), &doing).await?;
    let name = step.volume.file_name();
    let running =
        tasks.into_iter().find(|task| task.state == TaskState::Running && task.upid.id() == name);
    let Some(running) = running else { return Ok(false) };
    let upid = &running.upid;
    let end = Box::pin(async { Ok(context.end_of_earlier(upid, &doing).await) });
    tell_bytes(upid, wanted, context, end).await??;
    Ok(true)
}

/// Waits for the end of a download, and meanwhile tells how far it is.
async fn tell_bytes<T, E>(
    upid: &Upid,
    wanted: &Wanted,
    context: &StepContext,
    end: impl Future<Output = Result<Result<T, E>, StepError>>,
) -> Result<Result<T, E>, StepError> {
    let mut read = DownloadLog::new(wanted.length);
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
    // What is quick ends between two looks.
    if ended.is_ok() {
        context.see(log.look(&mut hear)).await?;
    }
    Ok(ended)
}

/// Tries the ways in their order: a host may be without a way to the Internet, or we without the
/// right to send it there.
async fn fetch(step: &FetchImage, wanted: &Wanted, context: &StepContext) -> Result<(), StepError> {
    let mut failure = None;
    for way in &step.ways {
        let tried = match way {
            FetchWay::Download => download(step, wanted, context).await?,
            FetchWay::Stream => Ok(stream(step, wanted, context).await?),
        };
        match tried {
            Ok(()) => return Ok(()),
            Err(error) => {
                context.note(format!("{} cannot fetch {}: {error}", step.host, step.volume));
                failure = Some(error);
            }
        }
    }
    let doing = format!("fetch {} to {}", step.volume, step.host);
    Err(match failure {
        Some(error) => error::of(&doing, error),
        None => StepError::failed(format!("{doing}: there is no way to do it")),
    })
}

/// Lets the host fetch it. The inner error is one that another way may not have.
async fn download(
    step: &FetchImage,
    wanted: &Wanted,
    context: &StepContext,
) -> Result<Result<(), PveError>, StepError> {
    let doing = format!("download {} on {}", step.volume, step.host);
    let name = step.volume.file_name().parse();
    let order = Download {
        url: step.url.clone(),
        content: Content::Import,
        name: name.map_err(|error| StepError::failed(&doing).caused_by(error))?,
        checksum: step.checksum.clone(),
        compression: None,
        verify_certificates: true,
    };
    let request = storage::download(&step.host, step.volume.storage(), &order);
    let ended = match context.start_task(&request).await? {
        Ok(running) => {
            let upid = running.upid.clone();
            let end = Box::pin(context.end_of(running));
            tell_bytes(&upid, wanted, context, end).await?
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

/// Fetches it ourselves and passes it on, piece by piece.
async fn stream(
    step: &FetchImage,
    wanted: &Wanted,
    context: &StepContext,
) -> Result<(), StepError> {
    let doing = format!("pass {} on to {}", step.volume, step.host);
    let file = Box::pin(async {
        let opened = context.wait(context.run.web.open(&step.url)).await?;
        let file = opened.map_err(|error| StepError::web(&doing, error))?;
        let Some(length) = file.length.or(wanted.length) else {
            // Proxmox takes nothing whose length is not known before.
            return Err(StepError::failed(format!(
                "{doing}: {} does not say its length",
                shown_url(&step.url)
            )));
        };
        Ok(FileSource::new(file, length).with_progress(context.progress(Some(length))))
    });
    send((&step.host, &step.volume), file, step.checksum.clone(), &doing, context).await
}

/// Deletes a file that is no good, where that is allowed.
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

/// Deletes an image that nobody needs.
pub(in crate::step) async fn delete_image(
    step: &DeleteImage,
    context: &StepContext,
) -> Result<Done, StepError> {
    let DeleteImage { host, volume, .. } = step;
    if find(host, volume, context).await?.is_none() {
        return Ok(Done::Already);
    }
    let doing = format!("delete {volume} on {host}");
    context.run_task(&storage::delete(host, volume), &doing).await?;
    match find(host, volume, context).await? {
        None => Ok(Done::Acted),
        Some(_) => Err(StepError::retry(format!("{doing}: Proxmox says it did, and it is there"))),
    }
}
