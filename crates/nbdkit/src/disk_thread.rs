//! The thread that has the disk, and the requests to it.
//!
//! A request is a function that the thread calls with the disk. It runs beside all others. The
//! number of requests is bounded by nbdkit's threads, since each waits for its answer.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use storage::Disk;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use user::exit::Failure;
use user::on_instance;

use crate::failure::PluginError;
use crate::nbdkit;
use crate::unit::Unit;

/// Between two looks whether an answer is still waited for.
const LOOK: Duration = Duration::from_secs(1);
/// How long the logout may take.
const LAST: Duration = Duration::from_secs(5);

/// A request, which has the channel for its answer.
type Work = Box<dyn FnOnce(Disk) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// What the thread is told.
enum DiskMessage {
    Work(Work),
    End,
}

/// The thread.
#[derive(Debug)]
pub(crate) struct DiskThread {
    handle: DiskHandle,
    thread: JoinHandle<()>,
}

impl DiskThread {
    /// Starts it. Returns when the unit is open.
    ///
    /// # Errors
    /// The unit's or the instance's.
    pub(crate) fn start(unit: Unit) -> Result<Self, Failure> {
        let (sender, requests) = unbounded_channel();
        let (opened, is_open) = sync_channel(1);
        let begin = move || run(unit, requests, &opened);
        let failed = |error: &dyn std::fmt::Display| Failure::system("open the unit", error);
        let thread = thread::Builder::new().name("tasuki-disk".to_owned()).spawn(begin);
        let thread = thread.map_err(|error| failed(&error))?;
        is_open.recv().unwrap_or_else(|_| Err(failed(&"its thread has failed")))?;
        Ok(Self { handle: DiskHandle(sender), thread })
    }

    /// For requests.
    pub(crate) fn handle(&self) -> DiskHandle {
        self.handle.clone()
    }

    /// Ends the session and the thread. Requests that are under way fail.
    pub(crate) fn end(self) {
        // If it has ended, it has said why.
        let _ = self.handle.0.send(DiskMessage::End);
        let _ = self.thread.join();
    }
}

/// Makes requests.
#[derive(Debug, Clone)]
pub(crate) struct DiskHandle(UnboundedSender<DiskMessage>);

impl DiskHandle {
    /// Has `work` done with the disk, and waits for its result as long as nbdkit's client does.
    ///
    /// # Errors
    /// The work's; ESHUTDOWN if nothing waits any more or the disk's thread has ended. What was
    /// begun may still be done in the first case.
    pub(crate) fn ask<T, F>(
        &self,
        work: impl FnOnce(Disk) -> F + Send + 'static,
    ) -> Result<T, PluginError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, PluginError>> + 'static,
    {
        let (answer, answered) = sync_channel(1);
        let work: Work = Box::new(move |disk| {
            let done = work(disk);
            // It has room for the one answer, and may not be waited for.
            Box::pin(async move { drop(answer.send(done.await)) })
        });
        let ended = || PluginError::new(libc::ESHUTDOWN, "the instance or the disk has ended");
        self.0.send(DiskMessage::Work(work)).map_err(|_| ended())?;
        loop {
            match answered.recv_timeout(LOOK) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
                Err(RecvTimeoutError::Timeout) if nbdkit::is_over() => {
                    let sentence = "the client has gone, or nbdkit ends: the target has not \
                                    answered, and what was asked for may still be done";
                    return Err(PluginError::new(libc::ESHUTDOWN, sentence));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// The thread's work. `opened` is told once whether there is a disk.
fn run(
    unit: Unit,
    mut requests: UnboundedReceiver<DiskMessage>,
    opened: &SyncSender<Result<(), Failure>>,
) {
    let is_open = Cell::new(false);
    let net = unit.net().cloned();
    let served = on_instance(net.as_ref(), async {
        let disk = unit.open().await?;
        // The passphrase is not needed any more.
        drop(unit);
        is_open.set(true);
        let _ = opened.send(Ok(()));
        serve(&disk, &mut requests).await;
        let _ = timeout(LAST, disk.close()).await;
        Ok(())
    });
    let Err(failure) = served.and_then(|served| served) else { return };
    if is_open.get() {
        nbdkit::error(&format!("{failure}: nbdkit ends"));
        nbdkit::shut_down();
    } else {
        let _ = opened.send(Err(failure));
    }
}

/// Does what is asked for, side by side, until the end is asked for.
async fn serve(disk: &Disk, requests: &mut UnboundedReceiver<DiskMessage>) {
    while let Some(DiskMessage::Work(work)) = requests.recv().await {
        tokio::task::spawn_local(work(disk.clone()));
    }
}
