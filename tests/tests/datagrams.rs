//! Calls on datagram sockets and their options, row by row: each program prints the same on the
//! kernel and on Tasuki.

use tasuki_tests::{DEVICE, HOST, HOST6, Mode, Running, STACK, World};

const NET: &str = "datagrams";
const STACK6: &str = "fd00:219:7::2";

/// Runs the program on the kernel and on the stack, with the addresses and the interface of each.
/// `parts` are further arguments.
fn same_on_both(script: &str, parts: &[&str]) {
    let Some(world) = World::with_kernel() else { return };
    world.up(NET, Mode::given(), &["--ip", &format!("{STACK6}/64")]);
    let words = |here: [&str; 3]| world.script(script, &[&here[..], parts].concat());
    let kernel = world.run(&words([HOST, HOST6, DEVICE])).success().stdout;
    let on_stack = world.on_net(NET, &words([STACK, STACK6, "eth0"]));
    let ours = Running::start(on_stack).finish().success().stdout;
    for (kernel, ours) in kernel.lines().zip(ours.lines()) {
        assert_eq!(kernel, ours, "{script}: the kernel's row, and ours");
    }
    assert_eq!(kernel, ours, "{script}: rows");
    assert!(kernel.lines().count() > 5, "{script}: {kernel}");
    world.down(NET);
}

/// shutdown(2) wakes whoever waits, with and without a peer.
#[test]
fn shutdown_is_as_on_linux() {
    same_on_both("datagram_shutdown.py", &[]);
}

/// Addresses of groups and broadcasts: who may be bound there, and who receives what.
#[test]
fn groups_and_broadcasts_are_delivered_as_on_linux() {
    let parts = ["binding", "ports", "delivery", "delivery6", "loopback", "interfaces"];
    same_on_both("group_addresses.py", &parts);
}

/// Memberships by all structures, and their filters of sources.
#[test]
fn memberships_and_sources_are_as_on_linux() {
    same_on_both("group_addresses.py", &["memberships", "sources"]);
}

/// UDP_SEGMENT by option and by message, with MSG_MORE and UDP_CORK.
#[test]
fn corked_datagrams_are_split_as_on_linux() {
    same_on_both("corked_datagrams.py", &[]);
}

/// Options and their values, and the control messages of RFC 2292 and RFC 3542.
#[test]
fn options_and_messages_are_as_on_linux() {
    same_on_both("datagram_options.py", &["values", "messages", "hops"]);
}

/// Special destinations, empty and long datagrams, refused ones, requests about interfaces.
#[test]
fn destinations_and_errors_are_as_on_linux() {
    let parts = ["destinations", "lengths", "refused", "requests"];
    same_on_both("datagram_options.py", &parts);
}

/// One numbering of interfaces, by the library, by getaddrinfo(3) and by rtnetlink.
#[test]
fn interfaces_have_one_number_everywhere() {
    let Some(world) = World::with_kernel() else { return };
    world.up(NET, Mode::given(), &["--ip", &format!("{STACK6}/64")]);
    let words = world.script("link_names.py", &["eth0"]);
    let said = Running::start(world.on_net(NET, &words)).finish().success().stdout;
    let lines = [
        "index 2 name eth0 list [(1, 'lo'), (2, 'eth0')]",
        "ioctl 2 netlink 2",
        "getaddrinfo fe80::1 2 ff02::1 2 number 7",
        "unknown gaierror",
        "getnameinfo fe80::1%eth0 fe80::1%77",
        "lo 1",
        "pktinfo 1",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), lines);
    world.down(NET);
}
