//! Datagrams on their way out, and the return of their memory when they have left. The driver
//! notifies the inet server, and the inet server notifies the program.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, bail};
use sockets::{SendFlags, Socket, UdpSocket, Wait};

use crate::counting::{OPERATIONS, Party, count, row};
use crate::world::{Instance, PORT, World};

/// Datagrams of one operation.
const TOGETHER: u32 = 32;

/// Counts datagrams of `size` bytes by part, and their completions. A completion is an iteration of
/// the inet server that does nothing else, and the program's next look.
pub(crate) fn send(instance: &Instance, title: &str, size: usize) -> Result<()> {
    let sent = format!("{title}: send a datagram of {size} B, of {TOGETHER} together");
    let completed = format!("{title}: its completion, {size} B");
    if !instance.counts(&sent) && !instance.counts(&completed) {
        return Ok(());
    }
    let socket = UdpSocket::bind_via(&instance.client, (Ipv4Addr::UNSPECIFIED, 0))?;
    let to = SocketAddr::from((instance.alone(|world| Ok(world.peer.address))?, PORT));
    // The first one waits until it is known that they leave.
    socket.send_to(&vec![0xa5; size], to)?;
    let (socket, bytes) = (socket.as_socket(), vec![0xa5; size]);
    for part in [Party::Program, Party::Server, Party::Driver] {
        operations(instance, |world, on| {
            let on_it = on && part == Party::Program;
            count(on_it, || (0..TOGETHER).try_for_each(|_| one(socket, &bytes, to)))?;
            leave(world, |of| on && part == of, false)?;
            look(socket, false)
        })?;
        row(&sent, part, OPERATIONS * TOGETHER);
    }
    for part in [Party::Program, Party::Server] {
        operations(instance, |world, on| {
            (0..TOGETHER).try_for_each(|_| one(socket, &bytes, to))?;
            leave(world, |_| false, on && part == Party::Server)?;
            look(socket, on && part == Party::Program)
        })?;
        row(&completed, part, OPERATIONS * TOGETHER);
    }
    Ok(())
}

/// First some to warm up, then those that are counted.
fn operations(
    instance: &Instance,
    mut operation: impl FnMut(&mut World, bool) -> Result<()>,
) -> Result<()> {
    instance.alone(|world| {
        for number in 0..2 * OPERATIONS {
            let before = world.peer.datagrams_came;
            operation(world, number >= OPERATIONS)?;
            let came = world.peer.datagrams_came - before;
            if came != TOGETHER {
                bail!("{came} datagrams came instead of {TOGETHER}");
            }
        }
        Ok(())
    })
}

fn one(socket: &Socket, bytes: &[u8], to: SocketAddr) -> Result<()> {
    socket.send(&[IoSlice::new(bytes)], SendFlags::default(), Some(to), Wait::No)?;
    Ok(())
}

/// Moves the sent datagrams to the peer, and notifies the inet server.
fn leave(world: &mut World, counts: impl Fn(Party) -> bool, completion: bool) -> Result<()> {
    count(counts(Party::Server), || world.server.iterate(world.now));
    count(counts(Party::Driver), || world.driver.step())?;
    count(completion, || world.server.iterate(world.now));
    world.rest()?;
    world.now += Duration::from_micros(20);
    Ok(())
}

/// The program sees that all has left, as at its next send.
fn look(socket: &Socket, on: bool) -> Result<()> {
    count(on, || socket.slices_done())?;
    if socket.unsent_len() > 0 {
        bail!("datagrams do not get away");
    }
    Ok(())
}
