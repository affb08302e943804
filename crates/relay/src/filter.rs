//! The filter of system calls that programs get, and the call that installs it.
//!
//! The filter decides by numbers in registers alone, which a program cannot change afterwards. All
//! processes that a program starts have it as well, and nobody can take it away.
//!
//! | call | verdict |
//! |---|---|
//! | socket(AF_INET or AF_INET6) | the relay answers |
//! | socket(AF_NETLINK) of a protocol about networks | the relay answers |
//! | of one about processes, devices or the audit log | made |
//! | socket(AF_PACKET or AF_KEY) | the relay: made in a network namespace of the caller's own |
//! | socket(AF_UNIX, AF_ALG) | made |
//! | socket of another family or netlink protocol | refused: it might reach the host's network |
//! | socketpair of another family than AF_UNIX | as Linux: EOPNOTSUPP, of type 0 ESOCKTNOSUPPORT |
//! | bind, listen | the relay looks at it first |
//! | ioctl that changes an interface or route, SO_BINDTODEVICE | the relay: as AF_PACKET |
//! | request_key with a text for the helper | EPERM: the host's helper asks the host's network |
//! | io_uring | ENOSYS: its sockets would not be seen, on a ring of another process either |
//! | bpf, modules, kexec | EPERM: code in the kernel reaches every network |
//! | seccomp(SECCOMP_FILTER_FLAG_NEW_LISTENER) | EBUSY: of two listeners the newer would decide |
//! | pidfd_getfd | EPERM: another process's sockets are the host's |
//! | some of these by another calling convention (32 bits, x32) | ENOSYS |
//! | all others | made |
//!
//! `docs/reference/system-calls.md` has a verdict for each call that could lead to a network, a key
//! or another process, and why. A test compares it with this filter.
//!
//! A call that is made whatever its arguments costs nothing: the kernel finds that out when the
//! filter is installed, and runs the filter for the others only.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libc::sock_filter;

/// The audit architecture of this build's system calls.
#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;
/// Numbers from here on are x32's, on x86-64.
const X32: u32 = 0x4000_0000;
/// The same numbers for every processor.
const URING: [u32; 3] = [425, 426, 427];
const PIDFD_GETFD: u32 = 438;
/// Calls of 32-bit programs that are refused here: socketcall(2) of i386, socket(2), socketpair(2),
/// request_key(2), bpf(2), modules, kexec(2), seccomp(2).
const OF_32_BITS: [u32; 10] = if cfg!(target_arch = "x86_64") {
    [102, 359, 360, 287, 357, 128, 129, 350, 283, 354]
} else {
    [281, 281, 288, 310, 386, 128, 129, 379, 347, 383]
};
/// As on every processor.
const SO_BINDTOIFINDEX: u32 = 62;

/// Netlink about interfaces, routes, sockets, packets. USERSOCK is for programs of one network.
const OF_NETWORKS: [u32; 7] = [
    libc::NETLINK_ROUTE as u32,
    libc::NETLINK_USERSOCK as u32,
    libc::NETLINK_SOCK_DIAG as u32,
    libc::NETLINK_XFRM as u32,
    libc::NETLINK_FIB_LOOKUP as u32,
    libc::NETLINK_NETFILTER as u32,
    libc::NETLINK_GENERIC as u32,
];
/// Netlink about other things.
const OF_OTHERS: [u32; 5] = [
    libc::NETLINK_SELINUX as u32,
    libc::NETLINK_AUDIT as u32,
    libc::NETLINK_CONNECTOR as u32,
    libc::NETLINK_KOBJECT_UEVENT as u32,
    libc::NETLINK_CRYPTO as u32,
];

/// Requests of ioctl(2) that change an interface, a route or a neighbour (linux/sockios.h).
/// Every kind of socket takes them, and they act in the network namespace that it was made in.
const CHANGING: [u32; 35] = [
    // Routes.
    0x890B, 0x890C, // Flags, addresses, metric, memory, MTU, name, hardware address.
    0x8914, 0x8916, 0x8918, 0x891A, 0x891C, 0x891E, 0x8920, 0x8922, 0x8923, 0x8924, 0x8926,
    // Slaves, groups, flags, removal of an address, broadcast, bridge, queue, PHY, WAN.
    0x8930, 0x8931, 0x8932, 0x8934, 0x8936, 0x8937, 0x8941, 0x8943, 0x8949, 0x894A,
    // ARP, RARP, map, VLAN.
    0x8953, 0x8955, 0x8960, 0x8962, 0x8971, 0x8983, // Bonding, bridges.
    0x8990, 0x8991, 0x8995, 0x89A0, 0x89A1, 0x89A2,
];
/// The first of them.
const FIRST_OF_INTERFACES: u32 = 0x890B;
/// From here on they are the device's own, and those of wireless devices.
const OF_DEVICES: u32 = 0x89F0;
/// The first that is none.
const NOT_OF_INTERFACES: u32 = 0x8C00;

/// Offsets in seccomp_data.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };
const SECOND_ARGUMENT: u32 = FIRST_ARGUMENT + 8;
const THIRD_ARGUMENT: u32 = FIRST_ARGUMENT + 16;
/// The upper half of the third one.
const THIRD_UPPER: u32 = THIRD_ARGUMENT ^ 4;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;

const fn errno(number: libc::c_int) -> u32 {
    libc::SECCOMP_RET_ERRNO | number.cast_unsigned()
}

/// Most instructions of a filter.
const ROOM: usize = 256;

/// A filter, or a part of one.
#[derive(Clone, Copy)]
struct Instructions {
    all: [sock_filter; ROOM],
    len: usize,
}

impl Instructions {
    const fn new() -> Self {
        Self { all: [sock_filter { code: 0, jt: 0, jf: 0, k: 0 }; ROOM], len: 0 }
    }

    const fn push(mut self, code: u32, (jt, jf): (u8, u8), k: u32) -> Self {
        self.all[self.len] = sock_filter { code: code as u16, jt, jf, k };
        self.len += 1;
        self
    }

    const fn load(self, offset: u32) -> Self {
        self.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), offset)
    }

    const fn answer(self, verdict: u32) -> Self {
        self.push(libc::BPF_RET | libc::BPF_K, (0, 0), verdict)
    }

    /// If the loaded number is `value`.
    const fn answer_if(self, value: u32, verdict: u32) -> Self {
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, (0, 1), value).answer(verdict)
    }

    /// If it is one of these.
    const fn answer_if_any(mut self, values: &[u32], verdict: u32) -> Self {
        let mut at = 0;
        while at < values.len() {
            self = self.answer_if(values[at], verdict);
            at += 1;
        }
        self
    }

    /// If it is `least` or more.
    const fn answer_from(self, least: u32, verdict: u32) -> Self {
        self.push(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, (0, 1), least).answer(verdict)
    }

    /// If it is below `end`.
    const fn answer_below(self, end: u32, verdict: u32) -> Self {
        self.push(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, (1, 0), end).answer(verdict)
    }

    /// If it has one of these bits.
    const fn answer_if_bits(self, bits: u32, verdict: u32) -> Self {
        self.push(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, (0, 1), bits).answer(verdict)
    }

    /// If it has none of these bits.
    const fn answer_unless_bits(self, bits: u32, verdict: u32) -> Self {
        self.push(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, (1, 0), bits).answer(verdict)
    }

    /// Runs `part`, which ends with an answer, if the loaded number is `value`.
    const fn run_if(self, value: u32, part: &Self) -> Self {
        let jump = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        let mut joined = self.push(jump, (0, part.len as u8), value);
        let mut at = 0;
        while at < part.len {
            joined.all[joined.len] = part.all[at];
            joined.len += 1;
            at += 1;
        }
        joined
    }
}

/// The verdicts that are not the same in every filter.
struct Verdicts {
    /// Sockets of the instance's network.
    network: u32,
    /// bind and listen.
    watched: u32,
    /// Sockets of packets and keys: of a network namespace of the caller's own, or none.
    packets: u32,
    /// Changes of interfaces, likewise.
    changes: u32,
}

const fn socket(verdicts: &Verdicts) -> Instructions {
    let netlink = Instructions::new()
        .load(THIRD_ARGUMENT)
        .answer_if_any(&OF_OTHERS, ALLOW)
        .answer_if_any(&OF_NETWORKS, verdicts.network)
        .answer(errno(libc::EPROTONOSUPPORT));
    Instructions::new()
        .load(FIRST_ARGUMENT)
        .answer_if(libc::AF_UNIX as u32, ALLOW)
        .answer_if(libc::AF_INET as u32, verdicts.network)
        .answer_if(libc::AF_INET6 as u32, verdicts.network)
        .answer_if(libc::AF_ALG as u32, ALLOW)
        .answer_if(libc::AF_PACKET as u32, verdicts.packets)
        .answer_if(libc::AF_KEY as u32, verdicts.packets)
        .run_if(libc::AF_NETLINK as u32, &netlink)
        .answer(errno(libc::EAFNOSUPPORT))
}

const fn ioctl(verdicts: &Verdicts) -> Instructions {
    Instructions::new()
        .load(SECOND_ARGUMENT)
        .answer_below(FIRST_OF_INTERFACES, ALLOW)
        .answer_from(NOT_OF_INTERFACES, ALLOW)
        .answer_from(OF_DEVICES, verdicts.changes)
        .answer_if_any(&CHANGING, verdicts.changes)
        .answer(ALLOW)
}

const fn setsockopt(verdicts: &Verdicts) -> Instructions {
    let option = Instructions::new()
        .load(THIRD_ARGUMENT)
        .answer_if(libc::SO_BINDTODEVICE as u32, verdicts.changes)
        .answer_if(SO_BINDTOIFINDEX, verdicts.changes)
        .answer(ALLOW);
    Instructions::new().load(SECOND_ARGUMENT).run_if(libc::SOL_SOCKET as u32, &option).answer(ALLOW)
}

/// Without a text for the helper the kernel looks for the key, and starts no helper.
const fn request_key() -> Instructions {
    let upper =
        Instructions::new().load(THIRD_UPPER).answer_if(0, ALLOW).answer(errno(libc::EPERM));
    Instructions::new().load(THIRD_ARGUMENT).run_if(0, &upper).answer(errno(libc::EPERM))
}

/// The relay may be gone, and the kernel would let the program have a listener of its own.
const fn seccomp() -> Instructions {
    Instructions::new()
        .load(SECOND_ARGUMENT)
        .answer_if_bits(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32, errno(libc::EBUSY))
        .answer(ALLOW)
}

const fn socketpair() -> Instructions {
    /// The bits of socket(2)'s second argument that are a type.
    const TYPE: u32 = 0xf;
    Instructions::new()
        .load(FIRST_ARGUMENT)
        .answer_if(libc::AF_UNIX as u32, ALLOW)
        .load(SECOND_ARGUMENT)
        .answer_unless_bits(TYPE, errno(libc::ESOCKTNOSUPPORT))
        .answer(errno(libc::EOPNOTSUPP))
}

/// The program; see the module.
const fn program(verdicts: &Verdicts) -> Instructions {
    let none = errno(libc::ENOSYS);
    let refused = [
        libc::SYS_bpf as u32,
        libc::SYS_init_module as u32,
        libc::SYS_finit_module as u32,
        libc::SYS_delete_module as u32,
        libc::SYS_kexec_load as u32,
        libc::SYS_kexec_file_load as u32,
        PIDFD_GETFD,
    ];
    let native = Instructions::new()
        .load(NUMBER)
        .answer_from(X32, none)
        .run_if(libc::SYS_ioctl as u32, &ioctl(verdicts))
        .run_if(libc::SYS_setsockopt as u32, &setsockopt(verdicts))
        .run_if(libc::SYS_socket as u32, &socket(verdicts))
        .run_if(libc::SYS_socketpair as u32, &socketpair())
        .answer_if(libc::SYS_bind as u32, verdicts.watched)
        .answer_if(libc::SYS_listen as u32, verdicts.watched)
        .run_if(libc::SYS_request_key as u32, &request_key())
        .run_if(libc::SYS_seccomp as u32, &seccomp())
        .answer_if_any(&URING, none)
        .answer_if_any(&refused, errno(libc::EPERM))
        .answer(ALLOW);
    Instructions::new()
        .load(ARCHITECTURE)
        .run_if(ARCH, &native)
        .load(NUMBER)
        .answer_if_any(&OF_32_BITS, none)
        .answer_if_any(&URING, none)
        .answer_if(PIDFD_GETFD, none)
        .answer(ALLOW)
}

static NOTIFYING: Instructions =
    program(&Verdicts { network: NOTIFY, watched: NOTIFY, packets: NOTIFY, changes: NOTIFY });
/// Kinds of pairs: streams and sequenced packets, with either flag, both or none.
const CONNECTED: [u32; 8] = {
    let (stream, packets) = (libc::SOCK_STREAM as u32, libc::SOCK_SEQPACKET as u32);
    let (wait, exec) = (libc::SOCK_NONBLOCK as u32, libc::SOCK_CLOEXEC as u32);
    [
        stream,
        stream | wait,
        stream | exec,
        stream | wait | exec,
        packets,
        packets | wait,
        packets | exec,
        packets | wait | exec,
    ]
};

/// Beside one of the others. Those refuse sockets of other conventions.
static WITHOUT_UNIX: Instructions = {
    let no = errno(libc::EPERM);
    let socket =
        Instructions::new().load(FIRST_ARGUMENT).answer_if(libc::AF_UNIX as u32, no).answer(ALLOW);
    let kinds =
        Instructions::new().load(SECOND_ARGUMENT).answer_if_any(&CONNECTED, ALLOW).answer(no);
    let pair =
        Instructions::new().load(FIRST_ARGUMENT).run_if(libc::AF_UNIX as u32, &kinds).answer(ALLOW);
    Instructions::new()
        .load(NUMBER)
        .run_if(libc::SYS_socket as u32, &socket)
        .run_if(libc::SYS_socketpair as u32, &pair)
        .answer(ALLOW)
};
static REFUSING: Instructions = program(&Verdicts {
    network: errno(libc::ENETDOWN),
    watched: ALLOW,
    packets: errno(libc::EAFNOSUPPORT),
    changes: errno(libc::EPERM),
});

/// Installs the filter in this thread, for good. Returns the relay's end.
///
/// Without the right to filter others (CAP_SYS_ADMIN in its user namespace) the thread first sets
/// `no_new_privs`: setuid programs then run without the rights of their owner.
///
/// Async-signal-safe: it may run between fork and exec.
///
/// # Errors
/// The system's: EBUSY when a filter with such an end is there already (`tasuki run` inside of
/// another); EINVAL where the kernel is older than 5.19.
pub fn install() -> io::Result<OwnedFd> {
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let listener = set(&NOTIFYING, flags)?;
    // SAFETY: the call made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(listener) })
}

/// As [`install`], for an instance without a relay: a call that the relay would answer fails with
/// ENETDOWN.
///
/// # Errors
/// The system's.
pub fn install_refusing() -> io::Result<()> {
    set(&REFUSING, 0).map(drop)
}

/// Refuses Unix sockets that could have or use a name, for good, beside the other filter. Connected
/// pairs stay that cannot be connected elsewhere: streams and sequenced packets.
///
/// Async-signal-safe: it may run between fork and exec.
///
/// # Errors
/// The system's.
pub(crate) fn install_without_unix() -> io::Result<()> {
    set(&WITHOUT_UNIX, 0).map(drop)
}

fn set(program: &'static Instructions, flags: libc::c_ulong) -> io::Result<libc::c_int> {
    let program =
        libc::sock_fprog { len: program.len as u16, filter: program.all.as_ptr().cast_mut() };
    let set = || {
        // SAFETY: the kernel copies the program, which is a constant.
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        }
    };
    let mut done = set();
    if done < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EACCES) {
        rustix::thread::set_no_new_privs(true)?;
        done = set();
    }
    crate::system::check(libc::c_int::try_from(done).unwrap_or(-1))
}

#[cfg(test)]
mod tests;
