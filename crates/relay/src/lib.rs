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
//! incoming datagrams echo: connections to programs, datagrams, echo requests
//! host_datagrams: datagrams for servers of the host
//! carry withdrawn: bytes, both ways; connections taken back
//! state: all that the tasks share
//! waiting: the relay before a program needs it
//! at_once: answers that need no network
//! introduction host_loopback: programs with the library; servers of the host
//! packet tun sweep: packets, the device, the kernel's lists
//! icmp route_watch: messages of ICMP; programs that change what they see
//! header: IP headers
//! line detach: how a filter reaches its relay; the relay's process
//! resolver: the /etc/resolv.conf of programs
//! mount: a file over another one
//! notification filter kernel: the filter and its notifications; kernel sockets
//! trace: a line for each notification
//! call home: a notification; callers in networks of their own
//! namespace: the network namespace
//! mirror: the instance's interfaces in it
//! route: rtnetlink
//! address system: addresses, results of system calls
//! ```

mod address;
mod at_once;
mod call;
mod calls;
mod carry;
mod datagrams;
mod detach;
mod echo;
pub mod filter;
mod header;
mod home;
mod host_datagrams;
mod host_loopback;
mod icmp;
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
mod route_watch;
mod state;
mod sweep;
mod system;
pub mod trace;
mod tun;
mod waiting;
mod withdrawn;

pub use detach::detach;

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use sockets::Client;
use tokio::task::LocalSet;

use crate::host_loopback::HostLoopback;
use crate::introduction::Introductions;
use crate::line::ProgramEnds;
use crate::namespace::Namespace;
use crate::notification::NotificationSocket;
use crate::resolver::ShownResolver;
use crate::route_watch::RouteWatch;
use crate::state::Relay;
use crate::sweep::Sweep;
use crate::trace::CallTrace;
use crate::tun::Tun;

/// The relay's name as a client.
const NAME: &str = "tasuki-relay";

/// How a relay begins.
#[derive(Debug)]
pub struct Beginning {
    /// Gets a line for each call that comes to the relay.
    pub trace: Option<CallTrace>,
    /// The program has no library: its first socket will be the relay's.
    pub eager: bool,
    /// The addresses by which programs reach the host's 127.0.0.1 and ::1; none: they may not.
    pub host_loopback: Vec<IpAddr>,
}

/// Serves the programs behind a filter, as a client of their instance. `ends` gives the filter's
/// end when it is there; `None`: no program has started. `restrict` takes the process into its
/// sandbox, when it has all that it needs from outside.
///
/// Most programs have the library, and need no network namespace. So it is made at the first call
/// that needs it. Until then the relay only passes connections on, with the rights of its user
/// alone.
///
/// # Errors
/// Why programs cannot be served: no instance, or no right to make a network namespace.
pub fn run(
    beginning: Beginning,
    ends: impl FnOnce() -> Option<ProgramEnds>,
    restrict: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let Beginning { trace, eager, host_loopback } = beginning;
    let Some(ProgramEnds { calls, resolver, instance }) = ends() else { return Ok(()) };
    let mut introductions = Introductions::begin(&instance)?;
    let calls = NotificationSocket::new(calls, trace);
    let resolver = resolver.map(ShownResolver::new);
    let hosts = host_loopback.clone();
    let host_loopback = HostLoopback::start(host_loopback)?;
    // Rights in the network namespace only, where the system lets us have them.
    let user = sandbox::begin_user();
    let mut first = None;
    if !eager && user.is_ok() {
        rustix::thread::set_no_new_privs(true)?;
        first = waiting::first_socket(&calls, &mut introductions, resolver.as_ref())?;
        if first.is_none() {
            return Ok(());
        }
    }
    let (namespace, tun) = match enter_namespace(introductions.is_some(), user, hosts) {
        Ok(made) => made,
        Err(why) => {
            restrict()?;
            return waiting::refuse(&calls, &mut introductions, first, &why);
        }
    };
    let (sweep, watch) = (Sweep::new()?, RouteWatch::new()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    restrict()?;
    if first.is_none() {
        first = waiting::first_socket(&calls, &mut introductions, resolver.as_ref())?;
    }
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
        host_loopback,
        connecting: Default::default(),
        decided: Default::default(),
        withdrawn: Default::default(),
        listeners: Default::default(),
        listening: Default::default(),
        carriers: Default::default(),
        host_carriers: Default::default(),
        raw: Default::default(),
        packets: Default::default(),
        carried: Default::default(),
        binding: Default::default(),
    });
    relay.refresh_addresses();
    let serve = tasuki_tokio::run(&client, relay::serve(relay, calls, first, watch));
    match LocalSet::new().block_on(&runtime, serve) {
        Ok(done) => done,
        // The instance has ended, and all of its sockets.
        Err(_) if !client.is_alive() => Ok(()),
        Err(error) => Err(error),
    }
}

/// The network namespace and its device, or one sentence: why there are none. `user` is the outcome
/// of making a user namespace before.
fn enter_namespace(
    has_servers: bool,
    user: io::Result<()>,
    hosts: Vec<IpAddr>,
) -> Result<(Namespace, OwnedFd), String> {
    if !has_servers {
        return Err("in mode library the stack is inside one program".to_owned());
    }
    Namespace::enter(hosts).map_err(|error| {
        let error = user.err().unwrap_or(error);
        format!("this user cannot make a network namespace with a TUN device: {error}")
    })
}
