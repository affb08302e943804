//! The filter of system calls of each role (seccomp(2)).
//!
//! A list holds the names of calls. A call that a role makes without limit has no condition on its
//! arguments: Linux 5.11 and later remembers the answer for these, and does not run the filter. On
//! older kernels the calls of the data path ([`HOT`]) are compared first. Calls with conditions are
//! rare ones. A call outside of the list is not made. It ends the process with a sentence that
//! names it ([`crate::trap`]).

use std::collections::BTreeMap;
use std::str::FromStr as _;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};
use syscalls::Sysno;

use crate::ffi;
use crate::role::{DeviceKind, Role};

/// asm-generic/socket.h; libc does not know it yet.
const PASS_RIGHTS: libc::c_int = 83;

/// The data path and its sleep, of every role, whatever the arguments; the most frequent ones
/// first.
const HOT: &[&str] = &[
    "sched_yield",
    "readv",
    "writev",
    "futex",
    "epoll_pwait2",
    "write",
    "read",
    "epoll_pwait",
    "recvmsg",
    "sendto",
    "sendmsg",
    "recvfrom",
    "pwritev2",
    "epoll_ctl",
];

/// Of every role beside these, whatever the arguments.
const EVERY: &[&str] = &[
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
    // Ends the wait of a close. Timers were made before.
    "timer_settime",
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

/// Of the relay beside these: sockets of its own network namespace.
const OF_RELAY: &[&str] = &[
    "bind",
    "listen",
    "connect",
    "accept4",
    "getsockname",
    "getpeername",
    "getsockopt",
    "setsockopt",
    "epoll_wait",
    // The instance's word on the first datagram to a destination.
    "futex_waitv",
    // Is a caller in the network namespace in which programs begin? The directory is open already.
    "statx",
    // The connector's end.
    "wait4",
];

/// Of the connector beside these: connections in its caller's network namespace.
const OF_CONNECTOR: &[&str] = &["connect"];

/// Calls by which a process takes another one over, becomes another program, or has the kernel run
/// code: no process of ours makes them once it has begun.
const REACHING_OUT: &[&str] = &[
    "execve",
    "execveat",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "pidfd_getfd",
    "kcmp",
    "userfaultfd",
    "perf_event_open",
    "bpf",
    "io_uring_setup",
    "keyctl",
    "add_key",
    "request_key",
    "init_module",
    "finit_module",
    "kexec_load",
    "kexec_file_load",
];

/// Of a target beside these: what it does with files that are open. Its io_uring takes no other
/// operations than those that it was made for.
const OF_TARGET: &[&str] = &[
    "io_uring_enter",
    "lseek",
    "statx",
    // tokio's wait, that for a call's result, and the pause of one that has to look again.
    "epoll_wait",
    "futex_waitv",
    "clock_nanosleep",
    // Another size.
    "ftruncate",
    // Those who manage it.
    "accept4",
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

/// Calls with conditions, of the relay beside these.
fn conditional_of_relay() -> Vec<(&'static str, Rows)> {
    let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(i64::from);
    let ioctls = [
        libc::SECCOMP_IOCTL_NOTIF_RECV,
        libc::SECCOMP_IOCTL_NOTIF_SEND,
        libc::SECCOMP_IOCTL_NOTIF_ADDFD,
        // Names of devices that were opened before.
        libc::TUNSETIFF,
        libc::TUNSETIFINDEX,
    ];
    vec![
        ("socket", any_of(0, &families)),
        ("ioctl", any_of(1, &ioctls.map(|ioctl| ioctl.cast_signed()))),
    ]
}

/// Calls with conditions, of the connector beside these.
fn conditional_of_connector() -> Vec<(&'static str, Rows)> {
    vec![("socket", any_of(0, &[libc::AF_INET, libc::AF_INET6].map(i64::from)))]
}

/// Refuses the calls by which a process reaches another one (EPERM), for good. For a process of
/// ours that still needs too much for the filter of its role. It has `no_new_privs`.
///
/// # Errors
/// One sentence: this processor has none, or the kernel.
pub fn forbid_reaching_out() -> Result<(), String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let numbers = REACHING_OUT.iter().filter_map(|name| Sysno::from_str(name).ok());
    let rules = numbers.map(|call| (i64::from(call.id()), Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch);
    let program = filter.and_then(BpfProgram::try_from).map_err(|error| error.to_string())?;
    let program: Vec<_> = program.iter().map(instruction).collect();
    ffi::filter_system_calls(&program).map_err(|error| error.to_string())
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
    let program: Vec<_> = program.iter().map(instruction).collect();
    ffi::filter_system_calls(&program).map_err(|error| error.to_string())
}

fn instruction(one: &sock_filter) -> libc::sock_filter {
    libc::sock_filter { code: one.code, jt: one.jt, jf: one.jf, k: one.k }
}

/// Instructions of a program before its first comparison of the call's number: it loads and
/// compares the processor, ends the process if it is another one, and loads the number.
const HEAD: usize = 4;

fn program(role: Role) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let filter = SeccompFilter::new(rules(role)?, SeccompAction::Trap, SeccompAction::Allow, arch);
    let mut program = filter.and_then(BpfProgram::try_from).map_err(|error| error.to_string())?;
    // The rest compares by ascending number. All jumps are relative, so it can move.
    let hot = HOT.iter().filter_map(|name| Sysno::from_str(name).ok()).flat_map(allow);
    program.splice(HEAD..HEAD, hot);
    Ok(program)
}

/// Allows one call if its number is loaded.
fn allow(call: Sysno) -> [sock_filter; 2] {
    let number = call.id().cast_unsigned();
    let compare = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let end = (libc::BPF_RET | libc::BPF_K) as u16;
    [
        sock_filter { code: compare, jt: 0, jf: 1, k: number },
        sock_filter { code: end, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ]
}

fn rules(role: Role) -> Result<BTreeMap<i64, Vec<SeccompRule>>, String> {
    let mut rules = BTreeMap::new();
    let device = role.device();
    let own = match role {
        Role::Inet => &[],
        Role::Driver(kind) | Role::Fused(kind) => of_device(kind),
        Role::Relay => OF_RELAY,
        Role::Connector => OF_CONNECTOR,
        Role::Target => OF_TARGET,
    };
    let names = HOT.iter().chain(EVERY).chain(own);
    for name in names {
        // Younger processors lack calls that have a successor.
        if let Ok(call) = Sysno::from_str(name) {
            rules.insert(i64::from(call.id()), Vec::new());
        }
    }
    let of_device = device.map_or_else(Vec::new, conditional_of_device);
    let of_role = match role {
        Role::Relay => conditional_of_relay(),
        Role::Connector => conditional_of_connector(),
        _ => Vec::new(),
    };
    for (name, rows) in conditional().into_iter().chain(of_device).chain(of_role) {
        let Ok(call) = Sysno::from_str(name) else { continue };
        let number = i64::from(call.id());
        if rules.get(&number).is_some_and(Vec::is_empty) {
            // It is allowed whatever its arguments.
            continue;
        }
        let rows = rows.into_iter().map(|row| rule(&row)).collect::<Result<Vec<_>, _>>()?;
        rules.entry(number).or_default().extend(rows);
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
        let names = HOT
            .iter()
            .chain(EVERY)
            .chain(OF_RELAY)
            .chain(OF_CONNECTOR)
            .chain(OF_TARGET)
            .chain(REACHING_OUT)
            .copied()
            .chain(conditional().into_iter().map(|(name, _)| name));
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
                "io_uring_register",
                "pidfd_open",
                "process_vm_writev",
                "unshare",
                "setns",
                "seccomp",
            ] {
                assert!(!allows(role, name), "{role} may {name}");
            }
            for name in ["socket", "connect"] {
                let connects = matches!(role, Role::Relay | Role::Connector);
                assert_eq!(allows(role, name), connects, "{role}: {name}");
            }
        }
    }

    /// Runs a program for a call as the kernel does when it looks for calls that are allowed
    /// whatever their arguments (seccomp_is_const_allow). Returns the verdict, which is `None` when
    /// it depends on the arguments, and the number of instructions.
    fn run(program: &[sock_filter], call: Sysno) -> (Option<bool>, usize) {
        const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
        const COMPARE: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let arch = match arch {
            TargetArch::x86_64 => 0xc000_003e,
            TargetArch::aarch64 => 0xc000_00b7,
            TargetArch::riscv64 => 0xc000_00f3,
        };
        let (mut at, mut steps, mut loaded) = (0, 0, 0);
        loop {
            let one = &program[at];
            (at, steps) = (at + 1, steps + 1);
            match (u32::from(one.code), one.k) {
                (LOAD, 0) => loaded = call.id().cast_unsigned(),
                (LOAD, 4) => loaded = arch,
                (JUMP, by) => at += by as usize,
                (COMPARE, value) => {
                    at += usize::from(if loaded == value { one.jt } else { one.jf });
                }
                (RETURN, verdict) => return (Some(verdict == libc::SECCOMP_RET_ALLOW), steps),
                _ => return (None, steps),
            }
        }
    }

    #[test]
    fn the_kernel_remembers_the_calls_of_the_data_path() {
        for role in Role::all() {
            let program = program(role).unwrap();
            for (rank, name) in HOT.iter().enumerate() {
                let Ok(call) = Sysno::from_str(name) else { continue };
                let (verdict, steps) = run(&program, call);
                assert_eq!(verdict, Some(true), "{role}: {name}");
                assert!(steps <= HEAD + 2 + rank, "{role}: {name} takes {steps} instructions");
            }
            for name in EVERY {
                let Ok(call) = Sysno::from_str(name) else { continue };
                assert_eq!(run(&program, call).0, Some(true), "{role}: {name}");
            }
            assert_eq!(run(&program, Sysno::mmap).0, None, "{role}: depends on arguments");
            assert_eq!(run(&program, Sysno::openat).0, Some(false), "{role}");
            assert_eq!(run(&program, Sysno::execve).0, Some(false), "{role}");
        }
    }
}
