use super::request::CLONE_DEVICE;
use super::*;
use crate::testing::skip;

/// May this test make devices? Otherwise it says so.
fn as_root() -> bool {
    let may = rustix::process::geteuid().is_root() && std::path::Path::new(CLONE_DEVICE).exists();
    if !may {
        skip(&format!("needs root and {CLONE_DEVICE}"));
    }
    may
}

/// A name that only this test uses.
fn unique(letter: char) -> String {
    format!("tsk{letter}{}", std::process::id())
}

#[test]
fn impossible_names_are_refused_before_the_kernel_sees_them() {
    for name in ["", "a b", "a/b", "..", "sixteen-chars-xx", "a:0", "tap%d", "a\0b"] {
        assert!(matches!(open(name, true), Err(TapError::BadName(bad)) if bad == name), "{name:?}");
    }
}

#[test]
fn a_device_lives_as_long_as_its_descriptor() {
    if !as_root() {
        return;
    }
    let name = unique('a');
    let fd = open(&name, false).unwrap();
    assert!(exists(&name));
    let taken = open(&name, true).unwrap_err();
    assert!(matches!(&taken, TapError::NameTaken(taken) if *taken == name), "{taken}");
    drop(fd);
    assert!(!exists(&name));
    assert!(matches!(open("lo", true), Err(TapError::NameTaken(_))));
}

#[test]
fn a_configured_device_is_up_and_carries_frames() {
    if !as_root() {
        return;
    }
    let name = unique('b');
    for offload in [false, true] {
        carries_frames(&name, &mut Tap::new(open(&name, offload).unwrap(), offload).unwrap());
    }
}

fn carries_frames(name: &str, tap: &mut Tap) {
    let addresses = ["10.219.201.1/24", "fd00:219:201::1/64"].map(|text| text.parse().unwrap());
    configure(name, &addresses, 1400).unwrap();
    // Prefix length, scope, flags (permanent, and not tentative) and name. A kernel thread ends
    // what is tentative without probes, as soon as it runs.
    let settled = format!("40 00 80 {name}");
    let begun = std::time::Instant::now();
    let six = loop {
        let all = std::fs::read_to_string("/proc/self/net/if_inet6").unwrap();
        let line = all.lines().find(|line| line.starts_with("fd000219020100000000000000000001"));
        let words = line.unwrap().split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
        if words == settled || begun.elapsed().as_secs() > 20 {
            break words;
        }
    };
    assert_eq!(six, settled);
    let of = |what: &str| std::fs::read_to_string(format!("/sys/class/net/{name}/{what}")).unwrap();
    assert_eq!(of("mtu").trim(), "1400");
    assert_eq!(of("tx_queue_len").trim(), HOST_QUEUE.to_string());
    let flags = u32::from_str_radix(of("flags").trim().trim_start_matches("0x"), 16).unwrap();
    assert_eq!(flags & 1, 1, "IFF_UP");
    let before = received(name);
    let (head, body) = ([0xff; 14], [0; 46]);
    assert!(tap.transmit(&[Part::local(&head), Part::local(&body)], TxOffload::NONE).unwrap());
    assert_eq!(received(name), before + 1);
    // Too short for an Ethernet header: the kernel refuses it, the device is not lost.
    let error = tap.transmit(&[Part::local(&[0; 4])], TxOffload::NONE).unwrap_err();
    assert!(!crate::device::is_lost(&error), "{error}");
    // The host announces itself on the new device; frames come out whole.
    let mut page = [0; 4096];
    while let Some(Received { len, .. }) = tap.receive(&mut page).unwrap() {
        assert!(len >= 14);
    }
}

/// The kernel's count of received frames.
fn received(name: &str) -> u64 {
    let file = format!("/sys/class/net/{name}/statistics/rx_packets");
    std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

#[test]
fn frames_in_bulk_are_received_by_a_kernel_thread() {
    if !as_root() {
        return;
    }
    let name = unique('c');
    let queues = open_queues(&name, false).unwrap();
    if queues.len() < 4 {
        skip("this kernel has no thread for a TAP device");
        return;
    }
    let mut tap = Tap::from_queues(queues, false).unwrap();
    carries_frames(&name, &mut tap);
    tap.flush().unwrap();
    let show = ["qdisc", "show", "dev", &name];
    if let Ok(said) = std::process::Command::new("tc").args(show).output() {
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(said.starts_with("qdisc noqueue") && said.lines().count() == 1, "{said}");
    }
    let before = received(&name);
    let by_thread = |tap: &Tap| {
        let mut count = 0;
        tap.counters(&mut |name, value| {
            count = if name == "tap.tx-by-thread" { value } else { count };
        });
        count
    };
    assert_eq!(by_thread(&tap), 0);
    for _ in 0..100 {
        assert!(tap.transmit(&[Part::local(&[0xff; 60])], TxOffload::NONE).unwrap());
    }
    tap.flush().unwrap();
    assert_eq!(by_thread(&tap), 92);
    let begun = std::time::Instant::now();
    while received(&name) < before + 100 {
        assert!(begun.elapsed().as_secs() < 20, "{} of 100", received(&name) - before);
    }
    // Both queues are the device.
    drop(tap);
    assert!(!exists(&name));
}

#[test]
fn all_frames_of_the_host_come_by_one_queue() {
    if !as_root() {
        return;
    }
    let name = unique('d');
    let queues = open_queues(&name, false).unwrap();
    let [first, second, third, _] = &queues[..] else {
        skip("this kernel has no thread for a TAP device");
        return;
    };
    configure(&name, &["10.219.202.1/24".parse().unwrap()], 1500).unwrap();
    // A neighbour of each address is solicited.
    let socket = std::net::UdpSocket::bind("10.219.202.1:0").unwrap();
    (2..60).for_each(|last| _ = socket.send_to(&[0], format!("10.219.202.{last}:9")).unwrap());
    let mut page = [0; 4096];
    let mut count = 0;
    while rustix::io::read(first, &mut page).is_ok() {
        count += 1;
    }
    assert!(count >= 58, "{count}");
    for other in [second, third] {
        assert_eq!(rustix::io::read(other, &mut page), Err(Errno::AGAIN));
    }
}

#[test]
fn where_no_thread_can_be_had_all_goes_by_one_queue() {
    if !as_root() {
        return;
    }
    let apart = std::thread::spawn(|| {
        // The sysfs that is mounted is not that of the new namespace.
        let namespace = rustix::thread::UnshareFlags::NEWNET;
        // SAFETY: descriptors stay shared, and of this thread only the network is another.
        unsafe { rustix::thread::unshare_unsafe(namespace) }.unwrap();
        let name = unique('e');
        let queues = open_queues(&name, false).unwrap();
        // The others are for unsolicited frames and for datagrams.
        assert!(queues.len() <= 3);
        let mut tap = Tap::from_queues(queues, false).unwrap();
        configure(&name, &["10.219.203.1/24".parse().unwrap()], 1500).unwrap();
        for _ in 0..100 {
            assert!(tap.transmit(&[Part::local(&[0xff; 60])], TxOffload::NONE).unwrap());
        }
        tap.flush().unwrap();
        tap.counters(&mut |name, _| assert_ne!(name, "tap.tx-by-thread"));
        let socket = std::net::UdpSocket::bind("10.219.203.1:0").unwrap();
        let _ = socket.send_to(&[0], "10.219.203.2:9").unwrap();
        assert!(tap.receive(&mut [0; 4096]).unwrap().is_some());
    });
    apart.join().unwrap();
}
