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
//! child: a relay that `tasuki run` collects
//! line detach: how a filter reaches its relay; the relay's process
//! resolver: the /etc/resolv.conf of programs
//! host_sockets settings_of_networks: more that is out of programs' reach
//! mount: a file over another one
//! notification filter kernel: the filter and its notifications; kernel sockets
//! trace: a line for each notification
//! call home: a notification; callers in networks of their own
//! namespace: the network namespace
//! mirror: the instance's interfaces in it
//! route: rtnetlink
//! inherited: descriptors that the caller left open
//! address system: addresses, results of system calls
//! ```

mod address;
mod at_once;
mod call;
mod calls;
mod carry;
mod child;
mod datagrams;
mod detach;
mod echo;
pub mod filter;
mod header;
mod home;
mod host_datagrams;
mod host_loopback;
pub mod host_sockets;
mod icmp;
mod incoming;
pub mod inherited;
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
pub mod settings_of_networks;
mod state;
mod sweep;
mod system;
pub mod trace;
mod tun;
mod waiting;
mod withdrawn;

pub use child::ChildRelay;
pub use detach::detach;

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::io::Errno;
use sandbox::Role;
use sockets::Client;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::call::Notification;
use crate::host_loopback::HostLoopback;
use crate::introduction::{Introductions, Unanswered};
use crate::line::ProgramEnds;
use crate::namespace::{EnterError, Namespace};
use crate::notification::NotificationSocket;
use crate::resolver::ShownResolver;
use crate::route_watch::RouteWatch;
use crate::state::Relay;
use crate::sweep::Sweep;
use crate::trace::CallTrace;
use crate::tun::Tun;
use crate::waiting::WaitingPrograms;

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
    /// The relay is a child of `tasuki run`, which collects it ([`ChildRelay`]).
    pub child: bool,
}

/// Serves the programs behind a filter, as a client of their instance. The filter's end comes over
/// `line`; if there is none, no program has started. `restrict` takes a process into the sandbox of
/// its role, when it has all that it needs from outside.
///
/// Most programs have the library, and need no network namespace. So it is made at the first call
/// that needs it. Until then the relay only passes connections on, with the rights of its user
/// alone.
///
/// The program starts when no process of its user can look into this one. So nothing of this
/// process, the filter's end above all, is ever within the program's reach.
///
/// # Errors
/// The system's: there is no instance, or the sandbox is demanded and cannot be had.
pub fn run(
    beginning: Beginning,
    line: &OwnedFd,
    restrict: impl Fn(Role) -> io::Result<()>,
) -> io::Result<()> {
    sandbox::forbid_inspection()?;
    let Beginning { trace, eager, host_loopback, child } = beginning;
    let Some(ProgramEnds { calls, resolver, instance }) = line::receive(line) else {
        return Ok(());
    };
    let unanswered = Unanswered::connect(&instance)?;
    let calls = NotificationSocket::new(calls, trace);
    let resolver = resolver.map(ShownResolver::new);
    let hosts = host_loopback.clone();
    let connector = HostLoopback::start(host_loopback, || restrict(Role::Connector))?;
    let (host_loopback, _running) = connector.unzip();
    // Rights in the network namespace only, where the system lets us have them.
    let user = sandbox::begin_user();
    let mut prepared = None;
    if eager || user.is_err() {
        prepared = Some(Prepared::make(&user, hosts.clone()));
        restrict(Role::Relay)?;
    } else {
        rustix::thread::set_no_new_privs(true)?;
        sandbox::forbid_reaching_out().map_err(io::Error::other)?;
    }
    line::release(line)?;
    let introductions = match unanswered.begin() {
        Ok(Some(introductions)) => Ok(introductions),
        Ok(None) => Err("in mode library the stack is inside one program".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let caller = child.then_some(line);
    let mut waiting = WaitingPrograms { calls, introductions, resolver, caller };
    let Some(first) = waiting.first_socket()? else { return Ok(()) };
    let prepared = match prepared {
        Some(prepared) => prepared,
        None => {
            let made = Prepared::make(&user, hosts);
            restrict(Role::Relay)?;
            made
        }
    };
    match (prepared, waiting) {
        (
            Ok(prepared),
            WaitingPrograms { calls, introductions: Ok(introductions), resolver, .. },
        ) => prepared.serve(introductions, resolver, host_loopback, (calls, first)),
        (prepared, mut waiting) => {
            let why = waiting.introductions.as_ref().err().cloned();
            let why = why.or(prepared.err()).unwrap_or_default();
            waiting.refuse(first, &why)
        }
    }
}

/// Tries what a relay needs for its sockets, in this process, which keeps the namespaces.
///
/// # Errors
/// One sentence: what is missing.
pub fn try_namespace() -> Result<(), String> {
    Prepared::make(&sandbox::begin_user(), Vec::new()).map(drop)
}

/// What a relay needs of the system to make sockets for programs.
struct Prepared {
    namespace: Namespace,
    tun: OwnedFd,
    sweep: Sweep,
    watch: RouteWatch,
    runtime: Runtime,
}

impl Prepared {
    /// Makes the network namespace with its device, or says in one sentence why there is none.
    /// `user` is the outcome of making a user namespace before.
    fn make(user: &io::Result<()>, hosts: Vec<IpAddr>) -> Result<Self, String> {
        let (namespace, tun) = Namespace::enter(hosts).map_err(|error| match (error, user) {
            // It needs rights that only a user namespace would have given.
            (EnterError::NoNamespace(Errno::PERM), Err(user)) => no_user_namespace(user),
            (error, _) => error.to_string(),
        })?;
        let sweep = Sweep::new().map_err(|error| format!("cannot list sockets: {error}"))?;
        let watch = RouteWatch::new().map_err(|error| format!("cannot watch routes: {error}"))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot make an event loop: {error}"))?;
        Ok(Self { namespace, tun, sweep, watch, runtime })
    }

    /// Serves programs until the last one has ended, or the instance has. A call waits already.
    fn serve(
        self,
        mut introductions: Introductions,
        resolver: Option<ShownResolver>,
        host_loopback: Option<HostLoopback>,
        (calls, first): (NotificationSocket, Notification),
    ) -> io::Result<()> {
        let Self { namespace, tun, sweep, watch, runtime } = self;
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
}

/// Why a user gets no user namespace, and what is done about it.
fn no_user_namespace(error: &io::Error) -> String {
    let what = "a relay needs a user namespace, and";
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC) => {
            format!("{what} the sysctl user.max_user_namespaces allows this user none")
        }
        Some(Errno::PERM | Errno::ACCESS) => {
            format!("{what} the system refuses this user one (AppArmor, or a container's filter)")
        }
        _ => format!("{what} this user gets none: {error}"),
    }
}
