use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use talmox_pve::api::qemu;
use talmox_pve::client::{Client, Limits, Settings, TaskDone};
use talmox_pve::error::{Lost, PveError};
use talmox_pve::id::{Upid, VmId};

use crate::server::{Reaction, Server, data, json};

/// UPID of a task on another node than the node in the request.
const UPID: &str = "UPID:pve2:0000ABCD:123456789:65F0C0DE:qmstart:300:talmox@pve!ci:";
/// Ten hours on a clock that is a thousand times as fast, which is about half a minute of real time.
const TIMEOUT: Duration = Duration::from_hours(10);

fn vm() -> qemu::Vm {
    qemu::Vm::new(&"pve1".parse().unwrap(), VmId::new(300).unwrap())
}

fn stopped(exit: &str) -> Reaction {
    data(&format!(r#"{{"status":"stopped","exitstatus":"{exit}"}}"#))
}

fn running() -> Reaction {
    data(r#"{"status":"running"}"#)
}

fn no_such_task() -> Reaction {
    let body = r#"{"data":null,"message":"Parameter verification failed.\n","errors":{"upid":"no such task"}}"#;
    json("400 Parameter verification failed.", body)
}

/// Server that starts a task, and then gives the answers to the status requests one after the other.
async fn with_task(answers: impl Fn(usize) -> Reaction + Send + Sync + 'static) -> Server {
    let asked = AtomicUsize::new(0);
    Server::start(move |request, _| {
        if request.line.ends_with("/status/start") {
            return data(&format!("{UPID:?}"));
        }
        if request.line.contains("/log?") {
            let number = |key: &str| -> u64 {
                let start = request.line.find(key).unwrap() + key.len();
                request.line[start..].split('&').next().unwrap().parse().unwrap()
            };
            let (start, limit) = (number("start="), number("limit="));
            let line = |n: u64| format!(r#"{{"n":{n},"t":"line {n}"}}"#);
            let lines: Vec<String> = (start + 1..=(start + limit).min(40)).map(line).collect();
            return json("200 OK", &format!(r#"{{"data":[{}],"total":40}}"#, lines.join(",")));
        }
        assert!(
            request.line.starts_with("GET /api2/json/nodes/pve2/tasks/UPID%3Apve2%3A"),
            "{}",
            request.line
        );
        answers(asked.fetch_add(1, Ordering::Relaxed))
    })
    .await
}

async fn run(server: &Server) -> Result<TaskDone, PveError> {
    server.client().run(&qemu::start(&vm()), TIMEOUT).await
}

#[tokio::test]
async fn a_task_is_followed_to_its_end() {
    let server = with_task(|nth| match nth {
        0 | 1 => no_such_task(),
        2 => running(),
        3 => Reaction::Cut,
        4 => json("596 Connection timed out", ""),
        5 => stopped("unexpected status"),
        _ => stopped("WARNINGS: 2"),
    })
    .await;
    let done = run(&server).await.unwrap();
    assert_eq!(done.warnings, 2);
    assert_eq!(done.upid.to_string(), UPID);
}

#[tokio::test]
async fn the_error_of_a_failed_task_contains_the_end_of_its_log() {
    let server = with_task(|nth| match nth {
        0 => running(),
        _ => stopped("VM is locked (clone)"),
    })
    .await;
    let error = run(&server).await.unwrap_err();
    assert!(error.is_locked(), "{error:?}");
    let PveError::TaskFailed(failure) = error else { panic!("{error:?}") };
    assert_eq!(failure.exit, "VM is locked (clone)");
    assert_eq!(failure.log_tail.len(), 25);
    assert_eq!(failure.log_tail[24], "line 40");
    assert_eq!(
        failure.to_string(),
        "POST /nodes/pve1/qemu/300/status/start failed on pve2: VM is locked (clone)"
    );
}

#[tokio::test]
async fn a_task_that_does_not_end_in_time_is_named() {
    let server = with_task(|_| running()).await;
    let upid: Upid = UPID.parse().unwrap();
    let error = server.client().wait(&upid, Duration::from_secs(20)).await.unwrap_err();
    let PveError::MaybeApplied { source: Lost::Unfinished { upid: named }, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(*named, upid);
}

#[tokio::test]
async fn a_task_that_stays_unknown_is_an_error() {
    let server = with_task(|_| no_such_task()).await;
    let error = run(&server).await.unwrap_err();
    assert!(
        matches!(&error, PveError::MaybeApplied { source: Lost::Unwatched { .. }, .. }),
        "{error:?}"
    );
    // The error is returned well before the timeout.
    assert!(server.lines().len() < 30);
}

#[tokio::test]
async fn a_task_whose_status_is_forbidden_is_maybe_applied() {
    let server = with_task(|_| json("403 Permission check failed", "")).await;
    let error = run(&server).await.unwrap_err();
    let PveError::MaybeApplied { source: Lost::Unwatched { source, .. }, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(source.is_permission());
    assert_eq!(server.lines().len(), 2);
}

#[tokio::test]
async fn a_task_without_an_exit_status_fails_after_a_while() {
    let server = with_task(|_| stopped("unexpected status")).await;
    let error = run(&server).await.unwrap_err();
    assert!(matches!(&error, PveError::TaskFailed(_)), "{error:?}");
}

#[tokio::test]
async fn the_number_of_tasks_per_host_is_limited() {
    let most = Arc::new(AtomicUsize::new(0));
    let seen_most = Arc::clone(&most);
    let now = AtomicUsize::new(0);
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |request, _| {
        if request.line.ends_with("/status/start") {
            let running = now.fetch_add(1, Ordering::SeqCst) + 1;
            seen_most.fetch_max(running, Ordering::SeqCst);
            return data(&format!("{UPID:?}"));
        }
        if asked.fetch_add(1, Ordering::SeqCst) % 3 < 2 {
            return running();
        }
        now.fetch_sub(1, Ordering::SeqCst);
        stopped("OK")
    })
    .await;
    let limits = Limits { per_host: 2, ..Limits::default() };
    let client = Client::new(Settings { limits, ..server.settings() }).unwrap();
    let request = qemu::start(&vm());
    let one = || client.run(&request, TIMEOUT);
    let done = tokio::join!(one(), one(), one(), one(), one());
    for done in <[_; 5]>::from(done) {
        done.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

/// The task does not end before its log was read twice. The log grows by one line each time.
#[tokio::test]
async fn a_log_is_read_while_its_task_runs() {
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |request, _| {
        if !request.line.contains("/log?") {
            return if asked.load(Ordering::SeqCst) < 2 { running() } else { stopped("OK") };
        }
        let nth = asked.fetch_add(1, Ordering::SeqCst);
        if nth == 0 {
            assert!(request.line.contains("/log?start=0&"), "{}", request.line);
            return data(r#"[{"n":1,"t":"one"},{"n":2,"t":"tw"}]"#);
        }
        if nth == 1 {
            return Reaction::Cut;
        }
        assert!(request.line.contains("/log?start=1&"), "{}", request.line);
        data(r#"[{"n":2,"t":"two"},{"n":3,"t":"three"}]"#)
    })
    .await;
    let (client, upid) = (server.client(), UPID.parse::<Upid>().unwrap());
    let mut collected = vec![];
    let mut hear = |line: &str| collected.push(line.to_owned());
    let mut log = client.log(&upid);
    tokio::select! {
        done = client.wait(&upid, TIMEOUT) => assert_eq!(done.unwrap().warnings, 0),
        never = log.follow(&mut hear) => match never {},
    }
    log.look(&mut hear).await;
    // An incomplete line is reported again when it has grown. Lines of lost answers are reported with the next answer.
    assert_eq!(collected[..2], ["one", "tw"]);
    assert!(collected.ends_with(&["two".to_owned(), "three".to_owned()]), "{collected:?}");
}

/// Two tasks use all permits of their host and never end.
#[tokio::test]
async fn a_task_that_does_not_end_releases_its_permits_after_a_while() {
    let server = Server::start(|request, _| {
        let vmid =
            ["301", "302", "303"].into_iter().find(|vmid| request.line.contains(vmid)).unwrap();
        if request.line.ends_with("/status/start") {
            return data(&format!("{:?}", UPID.replace(":300:", &format!(":{vmid}:"))));
        }
        if vmid == "303" { stopped("OK") } else { running() }
    })
    .await;
    let limits = Limits { per_host: 2, ..Limits::default() };
    let client = Client::new(Settings { limits, ..server.settings() }).unwrap();
    let start =
        |vmid| qemu::start(&qemu::Vm::new(&"pve1".parse().unwrap(), VmId::new(vmid).unwrap()));
    let requests = [301, 302, 303].map(start);
    tokio::select! {
        biased;
        _ = client.run(&requests[0], TIMEOUT) => panic!("it does not end"),
        _ = client.run(&requests[1], TIMEOUT) => panic!("it does not end"),
        done = client.run(&requests[2], TIMEOUT) => assert_eq!(done.unwrap().warnings, 0),
    }
}
