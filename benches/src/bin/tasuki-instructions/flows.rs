//! The counts of one instance: bytes on their way out and in, hand-overs and calls. Program, inet
//! server and driver are counted apart.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::time::Duration;

use anyhow::{Result, bail};
use sockets::{CallBatch, Errno, RecvFlags, Request, SendFlags, Socket, Wait};

use crate::counting::{Kind, OPERATIONS, Party, count, row};
use crate::peer::Bytes;
use crate::world::{Instance, World, settle};
use crate::{connects, datagrams};

/// Bytes of most operations.
const LARGE: usize = 64 << 10;
pub(crate) const PLAIN: Kind = Kind { offload: false, strict: false, shared: false };
pub(crate) const OFFLOAD: Kind = Kind { offload: true, ..PLAIN };

/// How a program sends.
#[derive(Clone, Copy)]
enum Send {
    Copy(usize),
    Area(usize),
    File,
}

/// How a program receives.
#[derive(Clone, Copy)]
enum Take {
    Copy,
    Area,
}

/// Everything, row by row, as far as `only` names it.
pub(crate) fn all(only: &str) -> Result<()> {
    for (title, kind) in [
        ("off", PLAIN),
        ("off, strict", Kind { strict: true, ..PLAIN }),
        ("off, share_frames", Kind { shared: true, ..PLAIN }),
        ("on", OFFLOAD),
        ("on, share_frames", Kind { shared: true, ..OFFLOAD }),
    ] {
        let instance = Instance::new(kind, only)?;
        if !kind.shared {
            send(&instance, &format!("{title}: send 64 KiB by POSIX calls"), Send::Copy(LARGE))?;
        }
        if kind == PLAIN {
            send(&instance, &format!("{title}: send 1 KiB by POSIX calls"), Send::Copy(1024))?;
        }
        if kind == PLAIN || kind == OFFLOAD {
            send(&instance, &format!("{title}: send 64 KiB, native"), Send::Area(LARGE))?;
            send(&instance, &format!("{title}: send 64 KiB of a file"), Send::File)?;
        }
        receive(&instance, &format!("{title}: receive 64 KiB by POSIX calls"), Take::Copy)?;
        if !kind.strict {
            receive(&instance, &format!("{title}: receive 64 KiB, native"), Take::Area)?;
        }
        if kind == OFFLOAD {
            for size in [4 << 10, 64 << 10, 1 << 20, 4 << 20] {
                hand_over(&instance, size)?;
            }
            calls(&instance)?;
        }
        if kind == PLAIN {
            for size in [64, 1024] {
                datagrams::send(&instance, title, size)?;
            }
        }
        if kind == PLAIN || kind == OFFLOAD {
            connects::cycle(&instance, &format!("{title}: connect, request, close"))?;
        }
    }
    Ok(())
}

/// Runs an operation for each part in turn: first some to warm up, then the counted ones.
fn each_part(
    instance: &Instance,
    title: &str,
    mut operation: impl FnMut(&mut World, bool, Party) -> Result<()>,
) -> Result<()> {
    for part in [Party::Program, Party::Server, Party::Driver] {
        instance.alone(|world| {
            for number in 0..2 * OPERATIONS {
                operation(world, number >= OPERATIONS, part)?;
            }
            Ok(())
        })?;
        row(title, part, OPERATIONS);
    }
    Ok(())
}

fn send(instance: &Instance, title: &str, way: Send) -> Result<()> {
    if !instance.counts(title) {
        return Ok(());
    }
    let stream = instance.connect()?;
    let (socket, buffer) = (stream.as_socket(), vec![0xa5; LARGE]);
    let file = zeros()?;
    each_part(instance, title, |world, on, part| {
        count(on && part == Party::Program, || -> Result<()> {
            match way {
                Send::Copy(len) => {
                    let parts = [IoSlice::new(&buffer[..len])];
                    expect(len, socket.send(&parts, SendFlags::default(), None, Wait::No)?)
                }
                Send::Area(len) => {
                    let slices = [instance.client.alloc(len)?.freeze()];
                    socket.send_slices(&slices, SendFlags::default(), None, Wait::No)?;
                    Ok(())
                }
                Send::File => expect(LARGE, socket.send_file(&file, 0, LARGE, Wait::No)?),
            }
        })?;
        settle(world, on, part)
    })
}

/// A file in memory that is long enough.
fn zeros() -> Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = File::from(rustix::fs::memfd_create("zeros", flags)?);
    file.set_len(LARGE as u64)?;
    Ok(file)
}

fn expect(wanted: usize, done: usize) -> Result<()> {
    if wanted != done {
        bail!("{done} bytes instead of {wanted}");
    }
    Ok(())
}

fn receive(instance: &Instance, title: &str, way: Take) -> Result<()> {
    if !instance.counts(title) {
        return Ok(());
    }
    let stream = instance.connect()?;
    let (socket, mut buffer) = (stream.as_socket(), vec![0; LARGE]);
    each_part(instance, title, |world, on, part| {
        world.peer.send(world.now, Bytes::new(LARGE));
        let mut left = LARGE;
        // The window may be smaller than the bytes that the peer has to send.
        for _ in 0..100 {
            world.carry();
            settle(world, on, part)?;
            left -= count(on && part == Party::Program, || take(socket, way, &mut buffer))?;
            if left == 0 {
                return settle(world, on, part);
            }
            world.now += Duration::from_millis(1);
        }
        bail!("{left} bytes did not come")
    })
}

/// Takes all that is there.
fn take(socket: &Socket, way: Take, buffer: &mut [u8]) -> Result<usize> {
    let mut sum = 0;
    loop {
        let got = match way {
            Take::Copy => {
                let into = &mut [IoSliceMut::new(buffer)];
                socket.recv(into, RecvFlags::default(), Wait::No).map(|received| received.len)
            }
            Take::Area => socket.recv_area(Wait::No).map(|area| area.len()),
        };
        match got {
            Ok(0) => bail!("the peer has closed"),
            Ok(got) => sum += got,
            Err(Errno::AGAIN) => return Ok(sum),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Handing over an area that is there, and nothing else.
fn hand_over(instance: &Instance, size: usize) -> Result<()> {
    let title = format!("hand over an area of {} KiB", size >> 10);
    if !instance.counts(&title) {
        return Ok(());
    }
    let stream = instance.connect()?;
    let socket = stream.as_socket();
    instance.alone(|world| {
        for number in 0..2 * OPERATIONS {
            let slices = [instance.client.alloc(size)?.freeze()];
            count(number >= OPERATIONS, || {
                socket.send_slices(&slices, SendFlags::default(), None, Wait::No)
            })?;
            drop(slices);
            settle(world, false, Party::Program)?;
            // A delayed ACK.
            world.now += Duration::from_millis(50);
            settle(world, false, Party::Program)?;
            // The area before this one is free again.
            socket.slices_done()?;
            if socket.unsent_len() > 0 {
                bail!("areas of {size} bytes do not get away");
            }
        }
        Ok(())
    })?;
    row(&title, Party::Program, OPERATIONS);
    Ok(())
}

/// Null calls, 100 together.
fn calls(instance: &Instance) -> Result<()> {
    const TOGETHER: u32 = 100;
    let title = "null call, 100 together";
    if !instance.counts(title) {
        return Ok(());
    }
    let mut batch = CallBatch::with_threshold(&instance.client, 32)?;
    let (mut requests, mut tickets, mut done) = (Vec::new(), Vec::new(), Vec::new());
    for part in [Party::Program, Party::Server] {
        instance.alone(|world| {
            for number in 0..2 * OPERATIONS {
                let on = number >= OPERATIONS;
                count(on && part == Party::Program, || {
                    requests.extend((0..TOGETHER).map(|_| Request::null()));
                    batch.submit_all(&mut requests, &mut tickets)
                })?;
                tickets.clear();
                batch.flush();
                settle(world, on, part)?;
                count(on && part == Party::Program, || -> Result<()> {
                    batch.collect(TOGETHER, Wait::No, &mut done)?;
                    let failed = done.iter().find_map(|over| over.result.as_ref().err());
                    let result = failed.map_or(Ok(()), |errno| Err(*errno));
                    done.clear();
                    Ok(result?)
                })?;
            }
            Ok(())
        })?;
        row(title, part, OPERATIONS * TOGETHER);
    }
    Ok(())
}
