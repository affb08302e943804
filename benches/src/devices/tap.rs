//! Ways to move frames over a TAP device.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::frames::{HEADER, Parcel, Places, Source};
use super::method::{Contender, DriverDevice, Method, sh, timed};
use super::uring::{Batch, Ring};
use crate::calls::server::pin;

/// All ways, for both kinds of frames.
pub(super) fn all(processors: [usize; 2]) -> Result<Vec<Contender>> {
    let mut all = Vec::new();
    for super_segment in [false, true] {
        let parcel = Parcel::new(super_segment);
        let mut add = |name: &str, queues, flags, how| -> Result<()> {
            let number = format!("tap{}{}", all.len(), if super_segment { "s" } else { "" });
            let tap = Tap::new(&number, &parcel, queues, flags, how)?;
            let source = Source::new(&number, &parcel)?;
            all.push(Contender::new("tap", name, &parcel, tap, source));
            Ok(())
        };
        add("writev(2), readv(2) one by one", 1, 0, TapMethod::Calls)?;
        add("two queues in turn, one thread", 2, 0, TapMethod::Calls)?;
        add("two queues, two threads, two processors", 2, 0, TapMethod::Threads(processors))?;
        add("IFF_NAPI", 1, libc::IFF_NAPI, TapMethod::Calls)?;
        add("IFF_NAPI, received by a kernel thread", 1, libc::IFF_NAPI, TapMethod::Thread)?;
        for (together, fixed, defer) in
            [(8, true, false), (64, true, false), (64, true, true), (64, false, true)]
        {
            let memory = if fixed { ", registered memory" } else { "" };
            let defer_too = if defer { ", DEFER_TASKRUN" } else { "" };
            let name = format!("io_uring, {together} together{memory}{defer_too}");
            add(&name, 1, 0, TapMethod::Ring(Batch { together, fixed, defer }))?;
        }
    }
    for (name, batch) in [("Tasuki's driver, one by one", 1), ("Tasuki's driver, 64 a batch", 64)] {
        let (parcel, interface) = (Parcel::new(false), format!("tap{}", all.len()));
        let queues = nic_driver::tap::open_queues(&interface, false)?;
        let device = nic_driver::tap::Tap::from_queues(queues, false)?;
        bring_up(&interface)?;
        let source = Source::new(&interface, &parcel)?;
        let way = DriverDevice::new(device, &parcel, batch);
        all.push(Contender::new("tap", name, &parcel, way, source));
    }
    Ok(all)
}

/// TapMethod frames are moved.
#[derive(Debug, Clone, Copy)]
enum TapMethod {
    /// A system call for each.
    Calls,
    /// The same, with `threaded` set.
    Thread,
    /// The same, by a thread for each queue, on these processors.
    Threads([usize; 2]),
    Ring(Batch),
}

struct Tap {
    queues: Vec<File>,
    parcel: Parcel,
    places: Places,
    /// With [`TapMethod::Threads`].
    processors: Option<[usize; 2]>,
    /// With [`TapMethod::Ring`].
    ring: Option<Ring>,
}

impl Tap {
    fn new(
        name: &str,
        parcel: &Parcel,
        queues: usize,
        flags: libc::c_int,
        how: TapMethod,
    ) -> Result<Self> {
        let vnet = if parcel.is_super() { libc::IFF_VNET_HDR } else { 0 };
        let many = if queues > 1 { libc::IFF_MULTI_QUEUE } else { 0 };
        let queues = (0..queues)
            .map(|_| open(name, flags | vnet | many).map(File::from))
            .collect::<io::Result<Vec<_>>>()
            .context("making a TAP device")?;
        bring_up(name)?;
        if matches!(how, TapMethod::Thread) {
            sh(&format!("echo 1 > /sys/class/net/{name}/threaded"))?;
        }
        let ring = match (how, &queues[..]) {
            (TapMethod::Ring(batch), [fd]) => {
                let fd = fd.try_clone()?.into();
                Some(Ring::new(&fd, parcel.bytes(parcel.is_super()), batch)?)
            }
            _ => None,
        };
        let processors = match how {
            TapMethod::Threads(processors) => Some(processors),
            _ => None,
        };
        let places = Places::new(parcel.frame_len());
        Ok(Self { queues, parcel: parcel.clone(), places, processors, ring })
    }

    /// By one thread on each queue; from the first beginning to the last end.
    fn by_two(
        &self,
        processors: [usize; 2],
        each: impl Fn(&File) -> io::Result<()> + Sync,
    ) -> io::Result<Duration> {
        let (start, each) = (Barrier::new(2), &each);
        let times = thread::scope(|scope| {
            let runs = [0, 1].map(|which| {
                let start = &start;
                scope.spawn(move || {
                    pin(processors[which]).map_err(io::Error::other)?;
                    start.wait();
                    let begun = Instant::now();
                    each(&self.queues[which]).map(|()| (begun, Instant::now()))
                })
            });
            runs.map(|run| run.join().expect("moving frames does not panic"))
        });
        let [a, b] = times;
        let (a, b) = (a?, b?);
        Ok(a.1.max(b.1) - a.0.min(b.0))
    }
}

/// Sets no queueing discipline: the default one for devices of many queues has 256 of them. The
/// length is that of the queue in which frames wait for the reader.
fn bring_up(name: &str) -> Result<()> {
    sh(&format!(
        "tc qdisc replace dev {name} root noqueue && ip link set {name} txqueuelen 16384 up"
    ))
}

/// A queue of a TAP device, which is made if it is the first.
fn open(name: &str, flags: libc::c_int) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let access = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/dev/net/tun", access, Mode::empty())?;
    // SAFETY: `ifreq` is plain old data: all zero bytes are a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | flags) as libc::c_short;
    // SAFETY: the request reads and writes one `ifreq`; `fd` is open.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    let offloads = libc::c_ulong::from(libc::TUN_F_CSUM | libc::TUN_F_TSO4);
    if flags & libc::IFF_VNET_HDR != 0 {
        // SAFETY: the request takes its argument as a number; `fd` is open.
        let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(fd)
}

/// One writev(2), in parts as a stack has them.
fn write_one(mut queue: &File, parcel: &Parcel) -> io::Result<()> {
    let bytes = parcel.bytes(true);
    let (header, frame) = bytes.split_at(HEADER);
    let (head, payload) = frame.split_at(54);
    let parts = [header, head, payload].map(IoSlice::new);
    queue.write_vectored(&parts[usize::from(!parcel.is_super())..]).map(drop)
}

/// One read(2), or a readv(2) where a header comes first.
fn read_one(mut queue: &File, header: bool, into: &mut [u8]) -> io::Result<()> {
    if !header {
        return queue.read(into).map(drop);
    }
    let mut before = [0; HEADER];
    queue.read_vectored(&mut [IoSliceMut::new(&mut before), IoSliceMut::new(into)]).map(drop)
}

impl Method for Tap {
    fn send(&mut self, count: usize) -> io::Result<Duration> {
        if let Some(ring) = &mut self.ring {
            return timed(|| ring.write(count));
        }
        let Self { queues, parcel, .. } = &*self;
        if let Some(processors) = self.processors {
            let half = count / 2;
            return self
                .by_two(processors, |queue| (0..half).try_for_each(|_| write_one(queue, parcel)));
        }
        timed(|| queues.iter().cycle().take(count).try_for_each(|queue| write_one(queue, parcel)))
    }

    fn receive(&mut self, count: usize) -> io::Result<Duration> {
        if let Some(ring) = &mut self.ring {
            return timed(|| ring.read(count));
        }
        let (header, len) = (self.parcel.is_super(), self.parcel.frame_len());
        if let Some(processors) = self.processors {
            return self.by_two(processors, |queue| {
                drain(queue, header, &mut Places::new(len), usize::MAX).map(drop)
            });
        }
        let Self { queues, places, .. } = self;
        if let [queue] = &queues[..] {
            return timed(|| (0..count).try_for_each(|_| read_one(queue, header, places.next())));
        }
        timed(|| {
            let mut left = count;
            while left > 0 {
                for queue in &*queues {
                    left -= drain(queue, header, places, left)?;
                }
            }
            Ok(())
        })
    }
}

/// Reads the frames that are there, at most `most`.
fn drain(queue: &File, header: bool, places: &mut Places, most: usize) -> io::Result<usize> {
    let mut count = 0;
    while count < most {
        match read_one(queue, header, places.next()) {
            Ok(()) => count += 1,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}
