use super::*;

fn as_root() -> bool {
    rustix::process::geteuid().is_root() && std::path::Path::new(CLONE_DEVICE).exists()
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
        eprintln!("SKIP: needs root and {CLONE_DEVICE}");
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
        eprintln!("SKIP: needs root and {CLONE_DEVICE}");
        return;
    }
    let name = unique('b');
    for offload in [false, true] {
        carries_frames(&name, Tap::new(open(&name, offload).unwrap(), offload).unwrap());
    }
}

fn carries_frames(name: &str, mut tap: Tap) {
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
    let before: u64 = of("statistics/rx_packets").trim().parse().unwrap();
    let (head, body) = ([0xff; 14], [0; 46]);
    assert!(tap.transmit(&[Part::local(&head), Part::local(&body)], TxOffload::NONE).unwrap());
    let after: u64 = of("statistics/rx_packets").trim().parse().unwrap();
    assert_eq!(after, before + 1);
    // Too short for an Ethernet header: the kernel refuses it, the device is not lost.
    let error = tap.transmit(&[Part::local(&[0; 4])], TxOffload::NONE).unwrap_err();
    assert!(!crate::device::is_lost(&error), "{error}");
    // The host announces itself on the new device; frames come out whole.
    let mut page = [0; 4096];
    while let Some(Received { len, .. }) = tap.receive(&mut page).unwrap() {
        assert!(len >= 14);
    }
}
