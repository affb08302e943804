use std::str::FromStr as _;

use syscalls::Sysno;

use super::*;

/// The page with a verdict for each call that could lead to a network, a key or another process.
const PAGE: &str = include_str!("../../../../docs/reference/system-calls.md");

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const BITS: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;

/// Runs a filter as the kernel does. `None`: it looks at an argument, and there are none, as when
/// the kernel looks for calls that are made whatever their arguments.
fn run(filter: &Instructions, arch: u32, number: u32, arguments: Option<[u64; 3]>) -> Option<u32> {
    let program = &filter.all[..filter.len];
    let (mut at, mut loaded) = (0, 0);
    loop {
        let one = program[at];
        at += 1;
        let jumps = match u32::from(one.code) {
            LOAD => {
                loaded = match one.k {
                    NUMBER => number,
                    ARCHITECTURE => arch,
                    offset => {
                        let argument = arguments?[(offset as usize - 16) / 8];
                        let upper = (offset - 16) % 8 != FIRST_ARGUMENT - 16;
                        (if upper { argument >> 32 } else { argument }) as u32
                    }
                };
                continue;
            }
            EQUAL => loaded == one.k,
            LEAST => loaded >= one.k,
            BITS => loaded & one.k != 0,
            _ => return Some(one.k),
        };
        at += usize::from(if jumps { one.jt } else { one.jf });
    }
}

/// The verdicts of the filter with a relay, and of the one without.
fn ask(number: libc::c_long, arguments: [libc::c_int; 3]) -> (u32, u32) {
    let arguments = Some(arguments.map(|argument| u64::from(argument.cast_unsigned())));
    let verdict = |filter| run(filter, ARCH, number as u32, arguments).unwrap();
    (verdict(&NOTIFYING), verdict(&REFUSING))
}

#[test]
fn sockets() {
    let refused = errno(libc::ENETDOWN);
    for family in [libc::AF_INET, libc::AF_INET6] {
        assert_eq!(ask(libc::SYS_socket, [family, 0, 0]), (NOTIFY, refused));
    }
    for family in [libc::AF_UNIX, libc::AF_ALG] {
        assert_eq!(ask(libc::SYS_socket, [family, 0, 0]), (ALLOW, ALLOW));
    }
    let unknown = errno(libc::EAFNOSUPPORT);
    for family in [libc::AF_PACKET, libc::AF_KEY] {
        assert_eq!(ask(libc::SYS_socket, [family, 0, 0]), (NOTIFY, unknown));
    }
    // Amateur radio and other old networks, PPP over X, RDS, CAN, TIPC, Bluetooth, RxRPC, phones,
    // KCM, Qualcomm's router, SMC, AF_XDP, MCTP, and families to come.
    for family in [0, 3, 4, 5, 9, 19, 21, 24, 26, 29, 30, 31, 33, 35, 39, 40, 41, 42, 43, 44, 45] {
        assert_eq!(ask(libc::SYS_socket, [family, 0, 0]), (unknown, unknown), "{family}");
    }
    for family in [46, 1000, -1] {
        assert_eq!(ask(libc::SYS_socket, [family, 0, 0]), (unknown, unknown), "{family}");
    }
    for call in [libc::SYS_bind, libc::SYS_listen] {
        assert_eq!(ask(call, [3, 0, 0]), (NOTIFY, ALLOW));
    }
    assert_eq!(ask(libc::SYS_socketpair, [libc::AF_UNIX, 1, 0]), (ALLOW, ALLOW));
    let pairs = errno(libc::EOPNOTSUPP);
    for family in [libc::AF_INET, libc::AF_TIPC, libc::AF_NETLINK] {
        assert_eq!(ask(libc::SYS_socketpair, [family, 1, 0]), (pairs, pairs));
        let typeless = errno(libc::ESOCKTNOSUPPORT);
        let asked = ask(libc::SYS_socketpair, [family, libc::SOCK_NONBLOCK, 0]);
        assert_eq!(asked, (typeless, typeless));
    }
}

#[test]
fn unix_sockets_without_names() {
    let asked = |number: libc::c_long, family: libc::c_int, kind: libc::c_int| {
        let arguments = [family, kind, 0].map(|one| u64::from(one.cast_unsigned()));
        run(&WITHOUT_UNIX, ARCH, number as u32, Some(arguments)).unwrap()
    };
    let no = errno(libc::EPERM);
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET] {
        assert_eq!(asked(libc::SYS_socket, libc::AF_UNIX, kind), no);
        assert_eq!(asked(libc::SYS_socket, libc::AF_INET, kind), ALLOW);
        let expected = if kind == libc::SOCK_DGRAM { no } else { ALLOW };
        for flags in [0, libc::SOCK_CLOEXEC, libc::SOCK_NONBLOCK, flags] {
            assert_eq!(asked(libc::SYS_socketpair, libc::AF_UNIX, kind | flags), expected);
        }
    }
    assert_eq!(asked(libc::SYS_connect, libc::AF_UNIX, 0), ALLOW);
}

#[test]
fn netlink_by_protocol() {
    let none = errno(libc::EPROTONOSUPPORT);
    let down = errno(libc::ENETDOWN);
    for protocol in -1..=40 {
        let expected = match protocol {
            0 | 2 | 4 | 6 | 10 | 12 | 16 => (NOTIFY, down),
            7 | 9 | 11 | 15 | 21 => (ALLOW, ALLOW),
            _ => (none, none),
        };
        let found = ask(libc::SYS_socket, [libc::AF_NETLINK, libc::SOCK_RAW, protocol]);
        assert_eq!(found, expected, "{protocol}");
    }
}

#[test]
fn changes_of_interfaces() {
    let change = (NOTIFY, errno(libc::EPERM));
    for request in [
        libc::SIOCADDRT as libc::c_int,
        libc::SIOCSIFFLAGS as libc::c_int,
        libc::SIOCSIFADDR as libc::c_int,
        libc::SIOCSIFMTU as libc::c_int,
        libc::SIOCSIFHWADDR as libc::c_int,
        // A bridge; a device's own.
        0x89A0,
        0x89F1,
        0x8B06,
    ] {
        assert_eq!(ask(libc::SYS_ioctl, [3, request, 0]), change, "{request:#x}");
    }
    for request in [
        libc::TCGETS as libc::c_int,
        libc::FIONREAD as libc::c_int,
        libc::SIOCGIFCONF as libc::c_int,
        libc::SIOCGIFFLAGS as libc::c_int,
        libc::SIOCGIFINDEX as libc::c_int,
        libc::SIOCETHTOOL as libc::c_int,
        // The bytes that a TCP socket has not sent.
        0x894B,
        0x8C00,
        0x4004_6601,
    ] {
        assert_eq!(ask(libc::SYS_ioctl, [3, request, 0]), (ALLOW, ALLOW), "{request:#x}");
    }
    for name in [libc::SO_BINDTODEVICE, SO_BINDTOIFINDEX.cast_signed()] {
        assert_eq!(ask(libc::SYS_setsockopt, [3, libc::SOL_SOCKET, name]), change);
        assert_eq!(ask(libc::SYS_setsockopt, [3, libc::SOL_TCP, name]), (ALLOW, ALLOW));
    }
    let other = [3, libc::SOL_SOCKET, libc::SO_REUSEADDR];
    assert_eq!(ask(libc::SYS_setsockopt, other), (ALLOW, ALLOW));
}

#[test]
fn a_key_is_looked_for_and_no_helper_started() {
    let number = libc::SYS_request_key as u32;
    let asked = |text| run(&NOTIFYING, ARCH, number, Some([1, 2, text])).unwrap();
    assert_eq!(asked(0), ALLOW);
    for text in [1, 0x7fff_0000_1000, 1 << 32] {
        assert_eq!(asked(text), errno(libc::EPERM), "{text:#x}");
    }
}

#[test]
fn filters_of_programs_have_no_listener() {
    let asked = |flags: libc::c_ulong| {
        let mode = libc::SECCOMP_SET_MODE_FILTER.cast_signed();
        ask(libc::SYS_seccomp, [mode, flags as libc::c_int, 0])
    };
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let taken = errno(libc::EBUSY);
    assert_eq!(asked(0), (ALLOW, ALLOW));
    assert_eq!(asked(libc::SECCOMP_FILTER_FLAG_TSYNC), (ALLOW, ALLOW));
    assert_eq!(asked(listener), (taken, taken));
    assert_eq!(asked(listener | libc::SECCOMP_FILTER_FLAG_LOG), (taken, taken));
}

#[test]
fn calls_of_other_conventions() {
    let none = errno(libc::ENOSYS);
    let other = ARCH ^ 0x8000_0000;
    let verdict = |arch, number| run(&NOTIFYING, arch, number, Some([2, 0, 0]));
    for number in OF_32_BITS.into_iter().chain(URING).chain([PIDFD_GETFD]) {
        assert_eq!(verdict(other, number), Some(none), "{number}");
    }
    assert_eq!(verdict(other, 3), Some(ALLOW));
    for number in [0, libc::SYS_socket as u32] {
        assert_eq!(verdict(ARCH, X32 + number), Some(none));
    }
}

/// What the page says of a call: the first word of its verdict.
fn said() -> Vec<(&'static str, &'static str)> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.flat_map(|row| {
        let mut cells = row.split(" | ");
        let (calls, verdict) = (cells.next().unwrap_or(""), cells.next().unwrap_or(""));
        let verdict = verdict.split([' ', ':', ',']).next().unwrap_or("");
        calls.split("`, `").map(move |call| (call.trim_end_matches('`'), verdict))
    })
    .collect()
}

#[test]
fn the_page_has_every_verdict() {
    let said = said();
    assert!(said.len() > 60, "{}", said.len());
    let verdict = |call: Sysno| match run(&NOTIFYING, ARCH, call.id().cast_unsigned(), None) {
        None => "arguments",
        Some(ALLOW) => "made",
        Some(NOTIFY) => "relay",
        Some(other) if other == errno(libc::ENOSYS) => "ENOSYS",
        Some(other) if other == errno(libc::EPERM) => "EPERM",
        Some(other) => panic!("{call}: {other:#x}"),
    };
    for (name, word) in &said {
        // Younger processors lack calls that have a successor.
        if let Ok(call) = Sysno::from_str(name) {
            assert_eq!(*word, verdict(call), "{name}");
        }
    }
    for call in Sysno::iter() {
        let known = said.iter().any(|(name, _)| *name == call.name());
        assert!(known || verdict(call) == "made", "{call} is not on the page");
    }
}
