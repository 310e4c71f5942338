//! Waits of long operations in tasks, with progress lines in the task log.

use talmox_lab_environment::Work;

use crate::ApiError;
use crate::task::TaskHandle;

/// Number of progress lines per copy.
const STEPS: u64 = 10;

/// Waits in a task that cleans up after an interruption. The text of the interruption error is the one that Proxmox uses for
/// such tasks.
pub(crate) async fn wait(task: &TaskHandle, work: Work) -> Result<(), ApiError> {
    task.wait(work).await.map_err(|text| {
        ApiError::failed(if text == "received interrupt" {
            "interrupted by signal".to_owned()
        } else {
            text
        })
    })
}

/// Simulates the copy of an image of `size` bytes, of which `used` bytes contain data.
pub(crate) async fn copy(task: &TaskHandle, size: u64, used: u64) -> Result<(), ApiError> {
    transfer(task, size, used, |done, percent| {
        format!("transferred {done} of {} ({percent}.00%)", bytes(size))
    })
    .await
}

/// Simulates the mirror of a drive of a running VM.
pub(crate) async fn mirror(
    task: &TaskHandle,
    drive: &str,
    size: u64,
    used: u64,
) -> Result<(), ApiError> {
    task.log(format!("drive mirror is starting for drive-{drive}"));
    let began = task.site.now();
    let site = task.site.clone();
    transfer(task, size, used, |done, percent| {
        let seconds = site.now() - began;
        let size = bytes(size);
        format!("drive-{drive}: transferred {done} of {size} ({percent}.00%) in {seconds}s")
    })
    .await?;
    task.log("all 'mirror' jobs are ready");
    task.log(format!("drive-{drive}: Completing block job..."));
    task.log(format!("drive-{drive}: Completed successfully."));
    task.log(format!("drive-{drive}: mirror-job finished"));
    Ok(())
}

async fn transfer(
    task: &TaskHandle,
    size: u64,
    used: u64,
    line: impl Fn(String, u64) -> String,
) -> Result<(), ApiError> {
    task.log(line(bytes(0), 0));
    for step in 1..=STEPS {
        wait(task, Work::Transfer { bytes: used / STEPS }).await?;
        task.log(line(bytes(size / STEPS * step), step * 100 / STEPS));
    }
    Ok(())
}

/// Byte count with unit and one decimal.
pub(crate) fn bytes(value: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    let mut divisor = 1_u128;
    while u128::from(value) >= divisor * 1024 && unit + 1 < units.len() {
        divisor *= 1024;
        unit += 1;
    }
    let tenths = (u128::from(value) * 20 + divisor) / (divisor * 2);
    format!("{}.{} {}", tenths / 10, tenths % 10, units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_formatted_with_units() {
        assert_eq!(bytes(0), "0.0 B");
        assert_eq!(bytes(1023), "1023.0 B");
        assert_eq!(bytes(4 << 30), "4.0 GiB");
        assert_eq!(bytes((4 << 30) + (1 << 29)), "4.5 GiB");
        assert_eq!(bytes(1536), "1.5 KiB");
    }
}
