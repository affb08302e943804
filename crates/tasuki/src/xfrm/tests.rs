//! What is written is read again, and wrong words are refused with a sentence.

use std::os::unix::fs::PermissionsExt;

use abi::xfrm::{XfrmAction, XfrmMode, XfrmStateStatus};

use super::*;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn status(line: &str) -> XfrmStateStatus {
    XfrmStateStatus {
        state: parse_state(&words(line), false).unwrap(),
        age: "valid".to_owned(),
        bytes: 1,
        packets: 2,
        added: 3,
        used: Some(4),
        replay: 5,
        failed: 6,
    }
}

#[test]
fn associations_are_read_as_they_are_written() {
    let lines = [
        "src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x00001000 reqid 1 mode transport \
         replay-window 64 flag esn aead rfc4106(gcm(aes)) \
         0x00112233445566778899aabbccddeeff01020304 128",
        "src fd00::1 dst fd00::2 proto esp spi 0x00001001 reqid 0 mode tunnel replay-window 0 \
         auth-trunc hmac(sha256) 0x0102 128 enc cbc(aes) 0x0304 \
         sel src fd00:1::/64 dst ::/0 proto tcp dport 80 tfcpad 1200",
        "src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x00001000 reqid 1 mode transport \
         replay-window 32 auth hmac(sha1) 0x05 enc cipher_null 0x",
    ];
    for line in lines {
        let text = state_text(&status(line), false);
        assert_eq!(words(&text), words(line));
    }
    let limited = "src 10.0.0.1 dst 10.0.0.2 spi 256 limit byte-soft 5 limit time-use-hard 0x10 \
                   replay-oseq 7 replay-oseq-hi 1 replay-seq 9";
    let status = status(limited);
    assert_eq!((status.state.oseq, status.state.seq), (1 << 32 | 7, 9));
    let text = state_text(&status, true);
    assert!(text.contains("limits: byte-soft 5, time-use-hard 16"), "{text}");
    assert!(text.contains("current: 1 bytes, 2 packets, 3 s old, used for 4 s"), "{text}");
    assert!(text.contains("stats: replay 5, failed 6"), "{text}");
}

#[test]
fn hidden_keys_are_not_written() {
    let mut status = status("src 10.0.0.1 dst 10.0.0.2 spi 256 aead rfc4106(gcm(aes)) 0x77 128");
    status.state.algorithms = status.state.algorithms.without_keys();
    let text = state_text(&status, true);
    assert!(text.contains("aead rfc4106(gcm(aes)) <hidden> 128"), "{text}");
}

#[test]
fn policies_are_read_as_they_are_written() {
    let lines = [
        "src 10.0.0.0/24 dst 10.0.0.2/32 dir out priority 0 tmpl proto esp reqid 1 mode transport",
        "src ::/0 dst fd00::/64 proto tcp sport 3260 dir in priority 9 \
         tmpl src fd00::1 dst fd00::2 proto esp spi 0x00001000 reqid 2 mode tunnel level use",
        "src 0.0.0.0/0 dst 10.0.0.2/32 proto icmp type 8 dir out action block priority 3",
        "src 0.0.0.0/0 dst 10.0.0.2/32 proto 47 dir out priority 3",
    ];
    for line in lines {
        let policy = parse_policy(&words(line)).unwrap();
        assert_eq!(words(&policy_text(&policy)), words(line));
    }
    let policy = parse_policy(&words("dir in src 10.0.0.1 tmpl mode tunnel")).unwrap();
    assert_eq!((policy.sel.src.prefix, policy.sel.dst.prefix), (32, 0));
    let XfrmAction::Protect(template) = policy.action else { panic!("{policy:?}") };
    assert_eq!(template.mode, XfrmMode::Tunnel);
    let (dir, sel) = parse_policy_name(&words("dir in src 10.0.0.1")).unwrap();
    assert_eq!((dir, sel), (policy.dir, policy.sel));
    let name = parse_state_name(&words("src 10.0.0.1 dst 10.0.0.2 proto esp spi 4096")).unwrap();
    assert_eq!((name.dst.to_string().as_str(), name.spi), ("10.0.0.2", 4096));
}

#[test]
fn wrong_words_are_refused_with_a_sentence() {
    let states = [
        ("src 10.0.0.1", "needs src, dst and spi"),
        ("src 10.0.0.300", "is not an IP address"),
        ("spi", "spi needs a value"),
        ("spi 0x1ffffffff", "is not a number that fits"),
        ("proto ah", "`ah` is not known here; known are esp"),
        ("mode beet", "transport and tunnel"),
        ("flag af-unspec", "known are esn"),
        ("colour red", "`colour` is not known here"),
        ("limit byte-medium 3", "soft or hard"),
        ("aead rfc4106(gcm(aes)) secret 128", "a key is hexadecimal digits after 0x"),
        ("aead rfc4106(gcm(aes)) @/nonexistent 128", "the key file /nonexistent"),
        ("sel sport 1", "src or dst is needed"),
    ];
    for (line, expected) in states {
        let error = parse_state(&words(line), false).unwrap_err();
        assert!(error.contains(expected), "{line}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
    let policies = [
        ("src 10.0.0.1", "dir in or dir out is needed"),
        ("dir fwd", "nothing is forwarded"),
        ("dir in", "src or dst is needed"),
        ("dir in src 10.0.0.1 action block tmpl", "has no tmpl"),
        ("dir in src 10.0.0.1 tmpl src 10.0.0.1", "both src and dst"),
        ("dir in src 10.0.0.1 tmpl reqid 1 tmpl reqid 2", "one tmpl"),
        ("dir in src 10.0.0.1/33", "not a prefix length"),
        ("dir in src 10.0.0.1 proto tp", "neither tcp"),
    ];
    for (line, expected) in policies {
        let error = parse_policy(&words(line)).unwrap_err();
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "0x0102\n").unwrap();
    let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    mode(0o640);
    let error = key_in_file(&path).unwrap_err();
    assert!(error.contains("mode 0640") && error.contains("chmod 600"), "{error}");
    mode(0o600);
    assert_eq!(key_in_file(&path).unwrap().bytes(), [1, 2]);
    let line = format!("src 10.0.0.1 dst 10.0.0.2 spi 256 enc cbc(aes) @{}", path.display());
    let state = parse_state(&words(&line), false).unwrap();
    assert_eq!(state.algorithms.enc.unwrap().key.unwrap().bytes(), [1, 2]);
}
