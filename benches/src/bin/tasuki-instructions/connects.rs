//! Short connections: connect, a request in two writes, its answer, close. The calls wait as a
//! program's do. While the program sleeps, the servers work, as on one processor.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use sockets::{Client, Family, RecvFlags, SendFlags, SocketKind, Wait};

use crate::counting::{OPERATIONS, Party, count, row};
use crate::peer::ANSWER;
use crate::world::{Instance, PORT, World, settle};

/// Lengths of the request's two writes.
const WRITES: [usize; 2] = [16, 64];
/// IPPROTO_TCP and its TCP_NODELAY.
const NO_DELAY: (i32, i32) = (6, 1);

/// Counts the program's part of a cycle. The servers run in another thread, and callgrind does not
/// count that the same each time.
pub(crate) fn cycle(instance: &Instance, title: &str) -> Result<()> {
    if !instance.counts(title) {
        return Ok(());
    }
    // This thread gets its slot here, since no thread gives one while the world stands still.
    drop(instance.connect()?);
    instance.alone(|world| {
        world.peer.request = Some(WRITES.iter().sum());
        let to = SocketAddr::from((world.peer.address, PORT));
        let over = AtomicBool::new(false);
        let done = thread::scope(|scope| {
            let served = scope.spawn(|| serve(world, &over));
            let done = (0..2 * OPERATIONS)
                .try_for_each(|number| count(number >= OPERATIONS, || one(&instance.client, to)));
            over.store(true, Ordering::SeqCst);
            served.join().expect("moving frames in memory does not fail").and(done)
        });
        world.peer.request = None;
        done
    })?;
    row(title, Party::Program, OPERATIONS);
    Ok(())
}

/// One connection, by the calls that the preloaded library makes for a program's.
fn one(client: &Arc<Client>, to: SocketAddr) -> Result<()> {
    let socket = client.socket(Family::V4, SocketKind::Stream)?;
    socket.connect(to, Wait::Forever)?;
    let (level, name) = NO_DELAY;
    socket.set_int(level, name, 1)?;
    for len in WRITES {
        let bytes = [0xa5; 64];
        socket.send(&[IoSlice::new(&bytes[..len])], SendFlags::default(), None, Wait::Forever)?;
    }
    let (mut answer, mut left) = ([0; ANSWER], ANSWER);
    while left > 0 {
        let into = &mut [IoSliceMut::new(&mut answer[..left])];
        left -= socket.recv(into, RecvFlags::default(), Wait::Forever)?.len;
    }
    socket.close_soon();
    Ok(())
}

/// Works whenever the program sleeps, until it is `over`.
fn serve(world: &mut World, over: &AtomicBool) -> Result<()> {
    while !over.load(Ordering::SeqCst) {
        if !world.is_awaited() {
            thread::yield_now();
            continue;
        }
        settle(world, false, Party::Program)?;
        // If it still sleeps, it is for a timer.
        world.now += Duration::from_millis(u64::from(world.is_awaited()));
    }
    Ok(())
}
