//! The calling side.

use std::hint::black_box;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use sockets::{
    CallBatch, Client, Completion, Errno, Family, Request, SendFlags, Socket, SocketKind, Ticket,
    Wait,
};

use crate::median::median;

/// SOL_SOCKET and SO_RCVBUF, by Linux's numbers.
const SOL_SOCKET: i32 = 1;
const SO_RCVBUF: i32 = 8;

/// The measured call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Call {
    /// Nothing.
    Null,
    /// SO_RCVBUF of a datagram socket.
    Getsockopt,
    /// 64 bytes to a datagram socket of the same program, over the stack's loopback interface.
    Send,
}

impl Call {
    pub(crate) const ALL: [Self; 3] = [Self::Null, Self::Getsockopt, Self::Send];

    /// Its column's head.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Getsockopt => "getsockopt",
            Self::Send => "send 64 B",
        }
    }
}

/// A batch and its caller's own lists, which are used again and again.
struct Package<'c> {
    batch: CallBatch<'c>,
    requests: Vec<Request>,
    tickets: Vec<Ticket>,
    completions: Vec<Completion>,
}

impl<'c> Package<'c> {
    fn new(client: &'c Client, threshold: u32) -> Result<Self, Errno> {
        let batch = CallBatch::with_threshold(client, threshold)?;
        let (requests, tickets, completions) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { batch, requests, tickets, completions })
    }
}

/// A client of the server under test.
pub(crate) struct Caller {
    client: Arc<Client>,
    threshold: u32,
    socket: Socket,
    /// The destination of the datagrams. No program receives them.
    _sink: Socket,
}

impl Caller {
    pub(crate) fn new(path: &Path, threshold: u32) -> Result<Self> {
        let client = Client::connect(path)?;
        let open = || client.socket(Family::V4, SocketKind::Datagram);
        let (socket, sink) = (open()?, open()?);
        sink.bind(([127, 0, 0, 1], 0).into())?;
        socket.connect(sink.local_addr()?, Wait::Forever)?;
        Ok(Self { client, threshold, socket, _sink: sink })
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Calls that leave together.
    pub(super) fn threshold(&self) -> u32 {
        self.threshold
    }

    /// Nanoseconds per call: packaged and one by one.
    pub(crate) fn compare(
        &self,
        call: Call,
        count: u32,
        rounds: usize,
        time: Duration,
    ) -> Result<(f64, f64)> {
        let (mut packaged, mut single) = (Vec::new(), Vec::new());
        let mut together = Package::new(&self.client, self.threshold)?;
        let mut alone = Package::new(&self.client, 1)?;
        for _ in 0..rounds {
            packaged.extend(times(time, || self.together(&mut together, call, count))?);
            single.extend(times(time, || self.together(&mut alone, call, 1))?);
        }
        let middle = |all| median(all).unwrap_or(f64::NAN);
        Ok((middle(packaged) / f64::from(count), middle(single)))
    }

    /// `count` calls on their way at once, until all have their results.
    fn together(&self, package: &mut Package<'_>, call: Call, count: u32) -> Result<(), Errno> {
        let Package { batch, requests, tickets, completions } = package;
        if call == Call::Send {
            for _ in 0..count {
                let bytes = &[IoSlice::new(&[7; 64])];
                self.socket.send(bytes, SendFlags::default(), None, Wait::Forever)?;
            }
            batch.submit(Request::flush(&self.socket))?;
            batch.wait_for(1, Wait::Forever)?;
            // A full queue of the stack's loopback has nothing to do with the mechanism.
            let _ = batch.fetch().map(|over| over.result);
            return Ok(());
        }
        requests.extend((0..count).map(|_| match call {
            Call::Null => Request::null(),
            _ => Request::option(&self.socket, SOL_SOCKET, SO_RCVBUF, 0),
        }));
        batch.submit_all(requests, tickets)?;
        tickets.clear();
        batch.collect(count, Wait::Forever, completions)?;
        let failed = black_box(&*completions).iter().find_map(|over| over.result.as_ref().err());
        let result = failed.map_or(Ok(()), |errno| Err(*errno));
        completions.clear();
        result
    }
}

/// Nanoseconds of getpid(2).
pub(crate) fn getpid(time: Duration) -> f64 {
    let many = || {
        for _ in 0..1000 {
            let _ = black_box(rustix::process::getpid());
        }
        Ok::<_, Errno>(())
    };
    per_call(1000, time, many).unwrap_or(f64::NAN)
}

/// Nanoseconds for each of the `count` calls of `round`.
pub(crate) fn per_call<E>(
    count: u32,
    time: Duration,
    round: impl FnMut() -> Result<(), E>,
) -> Result<f64, E> {
    Ok(median(times(time, round)?).unwrap_or(f64::NAN) / f64::from(count))
}

/// Nanoseconds of each `round`, repeated for `time`. So a disturbance of one round does not count
/// in the others.
fn times<E>(time: Duration, mut round: impl FnMut() -> Result<(), E>) -> Result<Vec<f64>, E> {
    // Once for nothing: caches, and pages that are touched for the first time.
    round()?;
    let begin = Instant::now();
    let (mut all, mut last) = (Vec::new(), begin);
    while last - begin < time {
        round()?;
        let now = Instant::now();
        all.push((now - last).as_secs_f64() * 1e9);
        last = now;
    }
    Ok(all)
}
