//! The relay: programs without the preloaded library, on Tasuki.
//!
//! A static program, or one that makes system calls by itself, calls socket(2) without passing
//! through any library. `tasuki run` gives all of its programs a filter of system calls
//! ([`filter`]), by which such a call arrives here. The relay answers it with a kernel socket of
//! its own network namespace ([`namespace`]), which no device joins to the host's. Everything that
//! the program then does with the socket is the kernel's own: reading, waiting, options, passing it
//! on. The relay ends the socket's connections, and carries their bytes through the instance.
//!
//! ```text
//!  program ──socket(2)──▶ filter ──▶ relay ──▶ a socket of the relay's namespace
//!     │ connect, bind, listen, send, …                        │
//!     ▼                                                       ▼
//!  kernel's TCP and UDP ──tun0──▶ relay ◀──── sockets of the instance ────▶ the network
//! ```
//!
//! The relay looks into no program: it reads neither its memory nor its descriptors. It gets the
//! numbers of a call, and asks the kernel which sockets its own namespace has.
//!
//! ```text layers
//! relay: the event loop
//! calls: calls of programs
//! outgoing: connections that programs make
//! incoming datagrams: connections to programs, datagrams
//! carry: bytes, both ways
//! state: all that the tasks share
//! waiting: the relay before a program needs it
//! introduction: programs with the library
//! packet tun sweep: packets, the device, the kernel's lists
//! line: how a filter reaches its relay
//! resolver: the /etc/resolv.conf of programs
//! mount: a file over another one
//! notification filter kernel: the filter and its notifications; kernel sockets
//! trace: a line for each notification
//! call: a notification
//! namespace: the network namespace
//! mirror: the instance's interfaces in it
//! route: rtnetlink
//! address system: addresses, results of system calls
//! ```

mod address;
mod call;
mod calls;
mod carry;
mod datagrams;
pub mod filter;
mod incoming;
mod introduction;
mod kernel;
pub mod line;
mod mirror;
mod mount;
mod namespace;
mod notification;
mod outgoing;
mod packet;
mod relay;
pub mod resolver;
mod route;
mod state;
mod sweep;
mod system;
pub mod trace;
mod tun;
mod waiting;

use std::io;
use std::path::Path;
use std::rc::Rc;

use sockets::Client;
use tokio::task::LocalSet;

use crate::introduction::Introductions;
use crate::line::ProgramEnds;
use crate::namespace::Namespace;
use crate::notification::NotificationSocket;
use crate::resolver::ShownResolver;
use crate::state::Relay;
use crate::sweep::Sweep;
use crate::trace::CallTrace;
use crate::tun::Tun;

/// The relay's name as a client.
const NAME: &str = "tasuki-relay";

/// Serves the programs behind a filter, as a client of the instance at `instance`. `ends` gives
/// the filter's end when it is there; `None`: no program has started. `trace` gets a line for each
/// call that comes here. `restrict` takes the process
/// into its sandbox, when it has all that it needs from outside.
///
/// # Errors
/// Why programs cannot be served: no instance, or no right to make a network namespace.
pub fn run(
    instance: &Path,
    trace: Option<CallTrace>,
    ends: impl FnOnce() -> Option<ProgramEnds>,
    restrict: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let mut introductions = Introductions::begin(instance)?;
    // Rights in the network namespace only, where the system lets us have them.
    let user = sandbox::begin_user();
    let made = match introductions {
        Some(_) => Namespace::enter().map_err(|error| {
            let error = user.err().unwrap_or(error);
            format!("this user cannot make a network namespace with a TUN device: {error}")
        }),
        None => Err("in mode library the stack is inside one program".to_owned()),
    };
    let Some(ProgramEnds { calls, resolver }) = ends() else { return Ok(()) };
    let calls = NotificationSocket::new(calls, trace);
    let resolver = resolver.map(ShownResolver::new);
    let (namespace, tun) = match made {
        Ok(made) => made,
        Err(why) => {
            restrict()?;
            return waiting::refuse(&calls, &mut introductions, &why);
        }
    };
    let sweep = Sweep::new()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    restrict()?;
    let first = waiting::first_socket(&calls, &mut introductions, resolver.as_ref())?;
    let Some(first) = first else { return Ok(()) };
    let Some(mut introductions) = introductions else { return Ok(()) };
    let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
    let client = Client::connect_over(introductions.introduce(own)?, NAME);
    let client = client.map_err(io::Error::other)?;
    let _entered = runtime.enter();
    let relay = Rc::new(Relay {
        client: client.clone(),
        namespace: namespace.into(),
        tun: Tun::new(tun)?,
        sweep,
        introductions: introductions.into(),
        resolver,
        connecting: Default::default(),
        listeners: Default::default(),
        carriers: Default::default(),
        packets: Default::default(),
        carried: Default::default(),
        binding: Default::default(),
    });
    relay.refresh_addresses();
    let serve = tasuki_tokio::run(&client, relay::serve(relay, calls, first));
    match LocalSet::new().block_on(&runtime, serve) {
        Ok(done) => done,
        // The instance has ended, and all of its sockets.
        Err(_) if !client.is_alive() => Ok(()),
        Err(error) => Err(error),
    }
}
