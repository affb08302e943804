//! What the other end of a `wire:` can do, which may belong to another user: it has the memory of
//! the link, and writes there what it likes.

use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use abi::control::{ClientReply, ClientRequest};
use anyhow::{Context as _, Result, bail};
use shm::{Access, Channel, Producer, Region, Ringer};

use super::host_kinds::packet;
use super::member::{ask, connect};
use super::program::{WorstArgs, begun};

/// The configuration of an instance with a wire to `path`.
pub(super) fn config(path: &str) -> String {
    format!(
        "[[interface]]\ndevice = \"wire:{path}\"\naddress = [\"{STACK}/24\"]\n\
         dad_transmits = 0\n"
    )
}

const STACK: Ipv4Addr = Ipv4Addr::new(10, 218, 3, 2);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 218, 3, 1);

// The memory of a wire, as the driver lays it out.
const RING: u32 = 512;
const STORE: usize = 1 << 20;
const RING_BYTES: usize = shm::ring_bytes(RING).next_multiple_of(64);
const RINGS_AT: usize = shm::PAGE;
const STORES_AT: usize = (RINGS_AT + 2 * RING_BYTES).next_multiple_of(shm::PAGE);
const LEN: usize = STORES_AT + 2 * STORE;
/// The ring and the store to the end that listens: the instance's.
const TO_STACK: usize = RINGS_AT + RING_BYTES;
const STORE_TO_STACK: usize = STORES_AT + STORE;
/// Each frame has its own part of the store.
const PART: usize = STORE / RING as usize;

const ETHERNET: usize = 14;

/// Sends frames without a pause, and rewrites them meanwhile.
pub(super) fn run(args: &WorstArgs) -> Result<()> {
    let path = args.wire.as_ref().context("the path of a wire")?;
    let stream = UnixStream::connect(path)?;
    let doorbell = stream.try_clone()?;
    let mut line = Channel::from_fd(stream.into());
    let greeting = line.recv()?.context("a greeting")?;
    let memory = greeting.fds.first().context("the memory of the link")?;
    let region = Region::map(memory.as_fd(), LEN, Access::ReadWrite)?;
    // The same version, MTU and offloads.
    line.send(&greeting.body, &[])?;

    let lens = write_frames(&region, interface(args)?)?;
    let mut ring = Producer::attach(&region, TO_STACK, RING)?;
    doorbell.set_nonblocking(true)?;
    let ringer = Ringer::for_untrusted(region.word32(0)?, doorbell.into());
    let rewritten = Arc::clone(&region);
    std::thread::spawn(move || rewrite(&rewritten));
    std::thread::sleep(Duration::from_millis(50));
    begun();
    for (n, len) in lens.iter().enumerate().cycle() {
        let slot = [(n * PART) as u64, *len as u64, 0, 0, 0, 0, 0, 0];
        while ring.push(&slot).is_err() {
            std::hint::spin_loop();
        }
        ringer.ring();
    }
    Ok(())
}

/// The hardware address of the interface on the wire.
fn interface(args: &WorstArgs) -> Result<[u8; 6]> {
    let (reply, _) = ask(&mut connect(&args.socket)?, &ClientRequest::Network)?;
    let ClientReply::Network(network) = reply else { bail!("{reply:?}") };
    let mac = network.interfaces.into_iter().find(|one| one.name == "eth1");
    let mac = mac.and_then(|one| one.mac).context("an interface eth1")?;
    let bytes = mac.split(':').map(|byte| u8::from_str_radix(byte, 16));
    let bytes: Vec<u8> = bytes.collect::<Result<_, _>>()?;
    bytes.try_into().ok().context("six bytes")
}

/// Fills the store with frames of several protocols; the length of each.
fn write_frames(region: &Region, to: [u8; 6]) -> Result<Vec<usize>> {
    let mut lens = Vec::new();
    for n in 0..RING {
        let protocol = [1, 6, 17, 17, 99][n as usize % 5];
        let fragment = if n % 16 == 0 { 0x2000 } else { 0 };
        let payload = vec![n as u8; 40 + (n as usize * 37) % 1400];
        let mut frame = [&to[..], &[2, 0, 0, 0, 0, 9, 8, 0]].concat();
        debug_assert_eq!(frame.len(), ETHERNET);
        frame.extend(packet(OURS, STACK, protocol, fragment, n, &payload));
        region.write(STORE_TO_STACK + n as usize * PART, &frame)?;
        lens.push(frame.len());
    }
    Ok(lens)
}

/// Changes headers while the driver copies frames and the server reads them. The first bytes, which
/// lead to the interface, stay.
fn rewrite(region: &Region) {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    loop {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let frame = random as usize % RING as usize;
        let at = ETHERNET + (random >> 32) as usize % 60;
        // It is within the store.
        let _ = region.write(STORE_TO_STACK + frame * PART + at, &[(random >> 56) as u8]);
    }
}
