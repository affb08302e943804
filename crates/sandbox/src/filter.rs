//! The filter of system calls of each role (seccomp(2)).
//!
//! A list holds the names of calls. A call that a role makes without limit has no condition on its
//! arguments: Linux 5.11 and later remembers the answer for these, and does not run the filter.
//! Calls with conditions are rare ones. A call outside of the list is not made. It ends the process
//! with a sentence that names it ([`crate::trap`]).

use std::collections::BTreeMap;
use std::str::FromStr as _;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};
use syscalls::Sysno;

use crate::role::{DeviceKind, Role};

/// asm-generic/socket.h; libc does not know it yet.
const PASS_RIGHTS: libc::c_int = 83;

/// Of every role, whatever the arguments.
const EVERY: &[&str] = &[
    // The data path and its sleep.
    "epoll_pwait2",
    "epoll_pwait",
    "epoll_ctl",
    "futex",
    "sched_yield",
    "write",
    "writev",
    "pwritev2",
    "read",
    "readv",
    "sendmsg",
    "sendto",
    "recvmsg",
    "recvfrom",
    // The clock, where the kernel does not export it as memory.
    "clock_gettime",
    "gettimeofday",
    // Regions and descriptors of clients that come and go.
    "close",
    "fstat",
    "fstatfs",
    "munmap",
    "epoll_create1",
    "poll",
    "ppoll",
    "timerfd_create",
    "timerfd_settime",
    "eventfd2",
    "shutdown",
    // Memory of the process itself.
    "brk",
    "madvise",
    "mremap",
    // Keys and secrets.
    "getrandom",
    // A thread that is just beginning.
    "set_robust_list",
    "rseq",
    "sched_getaffinity",
    // A panic, its backtrace, and the end.
    "getcwd",
    "getpid",
    "gettid",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigaltstack",
    "restart_syscall",
    "exit",
    "exit_group",
];

/// Of a driver beside these.
fn of_device(kind: DeviceKind) -> &'static [&'static str] {
    match kind {
        DeviceKind::Tap | DeviceKind::Passt | DeviceKind::Xdp => &[],
        DeviceKind::Pcap => &["lseek", "statx"],
        // The other end, and memory for both.
        DeviceKind::Wire => &["accept4", "memfd_create", "ftruncate", "fallocate", "fchmod"],
        // The socket is bound again when it has its ring.
        DeviceKind::Packet => &["bind", "getsockname"],
    }
}

/// Conditions on the arguments of one call. One of the rows must hold, with all of its conditions.
type Rows = Vec<Vec<Condition>>;

/// One condition: which argument, and what it is to be.
#[derive(Debug, Clone, Copy)]
struct Condition {
    argument: u8,
    /// Bits that are looked at; all of them: equality.
    mask: u64,
    value: u64,
}

/// Argument `argument` has this value (32 bits).
const fn is(argument: u8, value: u64) -> Condition {
    Condition { argument, mask: u32::MAX as u64, value }
}

/// No bit of `mask` is set in argument `argument`.
const fn without(argument: u8, mask: u64) -> Condition {
    Condition { argument, mask, value: 0 }
}

fn any_of(argument: u8, values: &[i64]) -> Rows {
    values.iter().map(|value| vec![is(argument, value.cast_unsigned() & 0xffff_ffff)]).collect()
}

/// These options of sockets, by level and number.
fn options(all: &[(libc::c_int, libc::c_int)]) -> Rows {
    let row = |&(level, option): &(libc::c_int, libc::c_int)| {
        vec![is(1, level.cast_unsigned().into()), is(2, option.cast_unsigned().into())]
    };
    all.iter().map(row).collect()
}

/// Calls with conditions, of every role.
fn conditional() -> Vec<(&'static str, Rows)> {
    let no_code = |argument| vec![vec![without(argument, libc::PROT_EXEC as u64)]];
    vec![
        ("mmap", no_code(2)),
        ("mprotect", no_code(2)),
        (
            "fcntl",
            any_of(
                1,
                &[
                    libc::F_GETFD.into(),
                    libc::F_SETFD.into(),
                    libc::F_GETFL.into(),
                    libc::F_SETFL.into(),
                    libc::F_DUPFD_CLOEXEC.into(),
                    libc::F_GET_SEALS.into(),
                ],
            ),
        ),
        ("ioctl", any_of(1, &[libc::FIONBIO.cast_signed()])),
        // Does a socket take descriptors? SO_PASSRIGHTS of Linux 6.16.
        ("getsockopt", options(&[(libc::SOL_SOCKET, PASS_RIGHTS)])),
        ("setsockopt", options(&[(libc::SOL_SOCKET, PASS_RIGHTS)])),
        // The end of a panic in a panic (abort(3)), and of a fault in memory.
        (
            "rt_sigaction",
            any_of(0, &[libc::SIGABRT.into(), libc::SIGSEGV.into(), libc::SIGBUS.into()]),
        ),
        ("tgkill", any_of(2, &[libc::SIGABRT.into()])),
        // A thread's name.
        ("prctl", any_of(0, &[libc::PR_SET_NAME.into()])),
        // Reading limits, of this process only.
        ("prlimit64", vec![vec![is(0, 0), Condition { argument: 2, mask: u64::MAX, value: 0 }]]),
    ]
}

/// Calls with conditions, of a driver beside these.
fn conditional_of_device(kind: DeviceKind) -> Vec<(&'static str, Rows)> {
    match kind {
        DeviceKind::Tap => vec![(
            "ioctl",
            any_of(1, &[libc::TUNGETIFF.cast_signed(), libc::TUNSETOFFLOAD.cast_signed()]),
        )],
        DeviceKind::Packet => vec![
            (
                "setsockopt",
                options(&[
                    (libc::SOL_PACKET, libc::PACKET_VERSION),
                    (libc::SOL_PACKET, libc::PACKET_COPY_THRESH),
                    (libc::SOL_PACKET, libc::PACKET_RX_RING),
                ]),
            ),
            (
                "getsockopt",
                options(&[
                    (libc::SOL_PACKET, libc::PACKET_STATISTICS),
                    (libc::SOL_SOCKET, libc::SO_ERROR),
                ]),
            ),
        ],
        DeviceKind::Wire => vec![("fcntl", any_of(1, &[libc::F_ADD_SEALS.into()]))],
        DeviceKind::Xdp => vec![(
            "getsockopt",
            options(&[
                (libc::SOL_XDP, libc::XDP_MMAP_OFFSETS),
                (libc::SOL_XDP, libc::XDP_STATISTICS),
                (libc::SOL_XDP, libc::XDP_OPTIONS),
            ]),
        )],
        _ => vec![],
    }
}

/// Installs the filter of a role in all threads.
///
/// # Errors
/// One sentence: this processor has none, or the kernel.
pub(crate) fn install(role: Role) -> Result<(), String> {
    let program = program(role)?;
    // rustix looks for the kernel's clock in memory when it is first asked, by calls that no list
    // has.
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let _ = rustix::param::page_size();
    apply_filter_all_threads(&program).map_err(|error| error.to_string())
}

fn program(role: Role) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let filter = SeccompFilter::new(rules(role)?, SeccompAction::Trap, SeccompAction::Allow, arch);
    filter.and_then(BpfProgram::try_from).map_err(|error| error.to_string())
}

fn rules(role: Role) -> Result<BTreeMap<i64, Vec<SeccompRule>>, String> {
    let mut rules = BTreeMap::new();
    let device = role.device();
    let names = EVERY.iter().chain(device.map_or(&[][..], of_device));
    for name in names {
        // Younger processors lack calls that have a successor.
        if let Ok(call) = Sysno::from_str(name) {
            rules.insert(i64::from(call.id()), Vec::new());
        }
    }
    let of_device = device.map_or_else(Vec::new, conditional_of_device);
    for (name, rows) in conditional().into_iter().chain(of_device) {
        let Ok(call) = Sysno::from_str(name) else { continue };
        let rows = rows.into_iter().map(|row| rule(&row)).collect::<Result<Vec<_>, _>>()?;
        rules.entry(i64::from(call.id())).or_default().extend(rows);
    }
    Ok(rules)
}

fn rule(row: &[Condition]) -> Result<SeccompRule, String> {
    let conditions = row.iter().map(|condition| {
        let Condition { argument, mask, value } = *condition;
        let width = match mask > u64::from(u32::MAX) {
            true => SeccompCmpArgLen::Qword,
            false => SeccompCmpArgLen::Dword,
        };
        let operator = match mask == u64::MAX || mask == u64::from(u32::MAX) {
            true => SeccompCmpOp::Eq,
            false => SeccompCmpOp::MaskedEq(mask),
        };
        SeccompCondition::new(argument, width, operator, value)
    });
    let conditions = conditions.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    SeccompRule::new(conditions).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(role: Role, name: &str) -> bool {
        rules(role).unwrap().contains_key(&i64::from(Sysno::from_str(name).unwrap().id()))
    }

    #[test]
    fn every_role_has_a_filter() {
        for role in Role::all() {
            let program = program(role).unwrap();
            assert!(program.len() < 4096, "{role}: {}", program.len());
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn every_name_is_a_call() {
        let names = EVERY.iter().copied().chain(conditional().into_iter().map(|(name, _)| name));
        for name in names {
            assert!(Sysno::from_str(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn no_role_opens_executes_or_signals() {
        for role in Role::all() {
            for name in [
                "openat",
                "openat2",
                "socket",
                "connect",
                "execve",
                "execveat",
                "clone",
                "clone3",
                "ptrace",
                "kill",
                "mount",
                "setuid",
                "bpf",
                "io_uring_setup",
                "pidfd_open",
                "process_vm_writev",
                "unshare",
                "setns",
                "seccomp",
            ] {
                assert!(!allows(role, name), "{role} may {name}");
            }
        }
    }

    #[test]
    fn calls_of_the_data_path_have_no_condition() {
        for name in EVERY.iter().take(14) {
            let number = i64::from(Sysno::from_str(name).unwrap().id());
            assert!(rules(Role::Inet).unwrap()[&number].is_empty(), "{name}");
        }
    }
}
