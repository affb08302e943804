use abi::control::{BusyPoll, CongestionControl};

use super::*;

const EXAMPLE: &str = include_str!("../../../../examples/instance.toml");

fn refusal(text: &str) -> (usize, String) {
    let (line, sentence) = Config::parse(text).unwrap_err();
    (line.unwrap_or(0), sentence)
}

#[test]
fn nothing_is_the_default() {
    let config = Config::parse("").unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.memory.client.params(), Ok(ClientParams::default()));
    assert_eq!(config.nic.mtu.0.0, 1500);
}

#[test]
fn the_example_shows_every_key_with_its_default() {
    let config = Config::parse(EXAMPLE).unwrap();
    assert_eq!(config, Config::default());
    // Keys without a fixed default are there too, commented out; each must be a known one.
    let enabled: String = EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if is_key(rest) || rest.starts_with("[[") => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let config = Config::parse(&enabled).unwrap();
    assert!(!config.inet.address.0.is_empty() && !config.inet.gateway.0.is_empty());
    assert!(config.nic.device.is_some());
    assert!(config.memory.client.tx_pages.is_some() && config.memory.client.rx_pages.is_some());
    assert_eq!(config.memory.client.params(), Ok(ClientParams::default()));
    assert_eq!(config.interfaces.len(), 1);
    // Nothing is missing: an unknown key makes serde list the known ones, each must be in the
    // example.
    for section in
        ["instance", "inet", "tcp", "nic", "nic.fault", "[interface]", "memory", "memory.client"]
            .into_iter()
            .chain(["[xfrm.state]", "[xfrm.policy]"])
    {
        let error = toml::from_str::<Config>(&format!("[{section}]\nx-x = 1\n")).unwrap_err();
        for key in error.message().split('`').skip(3).step_by(2) {
            let there = enabled.lines().any(|line| {
                line.starts_with(&format!("{key} =")) || line == format!("[{section}.{key}]")
            });
            assert!(there, "{key} of [{section}] is not in the example");
        }
    }
}

/// Keys and defaults of each section of the example: `# ` before those without a fixed default.
fn example_keys() -> Vec<(String, String, String)> {
    let mut section = String::new();
    let mut keys = Vec::new();
    for line in EXAMPLE.lines() {
        let line = line.strip_prefix("# ").unwrap_or(line);
        if line.starts_with('[') {
            line.clone_into(&mut section);
        } else if let Some((key, value)) = line.split_once(" = ").filter(|_| is_key(line)) {
            keys.push((section.clone(), key.to_owned(), value.to_owned()));
        }
    }
    keys
}

#[test]
fn busy_poll_is_a_word_or_microseconds() {
    let busy_poll = |value: &str| {
        let text = format!("[instance]\nbusy_poll = {value}\n");
        Config::parse(&text).map(|config| config.instance.busy_poll.0)
    };
    assert_eq!(busy_poll("\"auto\""), Ok(BusyPoll::Auto));
    for micros in [0, 50, 1000] {
        assert_eq!(busy_poll(&micros.to_string()), Ok(BusyPoll::Micros(micros)));
    }
    for wrong in ["-1", "1001", "\"Auto\"", "\"50\"", "true", "0.5", "5_000_000_000"] {
        let (line, sentence) = busy_poll(wrong).unwrap_err();
        assert_eq!(line, Some(2), "{wrong}");
        assert!(sentence.contains("busy_poll") && sentence.contains("0 to 1000"), "{sentence}");
    }
}

#[test]
fn the_page_has_every_key_of_the_example_and_its_default() {
    let page = include_str!("../../../../docs/reference/configuration.md");
    let keys = example_keys();
    // Defaults that depend on the machine, and those of routes and further interfaces.
    let open = ["address", "gateway", "device", "routes", "publish", "fastopen_key", "group"];
    let open = [&open[..], &["dns", "search"]].concat();
    let plain = |section: &String| !section.starts_with("[[");
    for (section, key, default) in keys.iter().filter(|(section, ..)| plain(section)) {
        let rows = page.split_once(&format!("\n## `{section}`\n")).expect(section).1;
        let rows = rows.split_once("\n## ").map_or(rows, |(rows, _)| rows);
        let row = rows.lines().find(|row| row.starts_with(&format!("| `{key}` |")));
        let row = row.unwrap_or_else(|| panic!("{key} of {section} is not on the page"));
        let told = row.trim_end_matches(" |").rsplit_once("| ").map_or("", |(_, told)| told);
        let same = told.trim_matches('`').contains(default);
        assert!(same || open.contains(&&key[..]), "{section} {key}: {told}, not {default}");
    }
    let interface = page.split_once("\n## `[[interface]]`\n").expect("[[interface]]").1;
    let interface = interface.split_once("\n## ").expect("more sections").0;
    for (_, key, _) in keys.iter().filter(|(section, ..)| section == "[[interface]]") {
        assert!(interface.contains(&format!("`{key}`")), "{key} of [[interface]]");
    }
    for (section, key, _) in keys.iter().filter(|(section, ..)| section.starts_with("[[xfrm")) {
        let rows = page.split_once(&format!("\n## `{section}`\n")).expect(section).1;
        let rows = rows.split_once("\n## ").map_or(rows, |(rows, _)| rows);
        assert!(rows.contains(&format!("\n| `{key}` |")), "{key} of {section}");
    }
    for row in page.lines().filter_map(|row| row.strip_prefix("| `")) {
        let key = row.split_once('`').expect("a cell").0;
        let route = ["to", "via", "metric"].contains(&key);
        let known = keys.iter().any(|(_, known, _)| known == key);
        assert!(known || route, "{key} is on the page and not in the example");
    }
}

fn is_key(line: &str) -> bool {
    line.split_once(" = ").is_some_and(|(key, _)| {
        key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    })
}

#[test]
fn values_are_taken() {
    let config = Config::parse(
        "[instance]\nmode = \"fused\"\nclients = 5\n[inet]\naddress = \"10.1.2.3/16\"\n\
         gateway = \"10.1.0.1\"\n[tcp]\n\
         congestion = \"reno\"\n[nic]\ndevice = \"tap:demo\"\nmtu = 1400\n[nic.fault]\n\
         loss = 0.5\nseed = 3\n[memory]\nhuge_pages = true\nstrict = true\n\
         [memory.client]\nsockets = 16\n",
    )
    .unwrap();
    assert_eq!(config.instance.mode, Mode::Fused);
    assert_eq!(config.inet.address.0, ["10.1.2.3/16".parse().unwrap()]);
    assert_eq!(config.tcp.congestion, CongestionControl::Reno);
    assert_eq!(config.nic.device.unwrap().to_string(), "tap:demo");
    assert_eq!((config.nic.fault.0.loss, config.nic.fault.0.seed), (0.5, 3));
    assert!(config.memory.huge_pages && config.memory.strict);
    let shared = Config::parse("[memory]\nshare_frames = true\n").unwrap();
    assert!(!config.memory.share_frames && shared.memory.share_frames);
    let halting = Config::parse("[instance]\nkeep_awake = false\n").unwrap();
    assert!(config.instance.keep_awake && !halting.instance.keep_awake);
    let params = config.memory.client.params().unwrap();
    let default = ClientParams::default();
    let fewer = u32::from(default.sockets - 16) * u32::from(default.area_pages);
    assert_eq!((params.sockets, params.tx_pages), (16, default.tx_pages - fewer));
}

#[test]
fn lists_and_routes() {
    let config = Config::parse(
        "[inet]\naddress = [\"10.1.2.3/16\", \"fd00::2/64\"]\ngateway = [\"fd00::9\"]\n\
         [[inet.routes]]\nto = \"192.0.2.0/24\"\nvia = \"10.1.0.9\"\n\
         [[inet.routes]]\nto = \"2001:db8::/32\"\nmetric = 7\n",
    );
    let inet = config.unwrap().inet;
    assert_eq!((inet.address.0.len(), inet.gateway.0.len()), (2, 1));
    assert_eq!(inet.routes[0].via, Some("10.1.0.9".parse().unwrap()));
    assert_eq!((inet.routes[1].via, inet.routes[1].metric), (None, 7));
    for (text, what) in [
        ("address = [\"10.1.2.3/16\", \"fd00::2\"]", "prefix length"),
        ("address = 7", "a string or an array of strings"),
        ("gateway = \"x\"", "not an IP address"),
        ("routes = [{ to = \"10.0.0.0/33\" }]", "prefix length"),
        ("routes = [{ to = \"10.0.0.0/8\", by = \"10.1.0.1\" }]", "by"),
    ] {
        let (line, message) = Config::parse(&format!("[inet]\n{text}\n")).unwrap_err();
        assert!(line == Some(2) && message.contains(what), "{text}: {line:?} {message}");
    }
}

#[test]
fn unknown_names_are_refused_with_the_nearest() {
    let table = [
        (
            "[inet]\nadress = \"10.0.0.2/24\"\n",
            2,
            "key in [inet] `adress`; did you mean `address`?",
        ),
        ("\n[inett]\n", 2, "section `inett`; did you mean `inet`?"),
        (
            "[nic]\n\nMTU = 9\n",
            3,
            "unknown key in [nic] `MTU`; known are device, mtu, offload, publish",
        ),
        ("[nic.fault]\nlos = 0.1\n", 2, "did you mean `loss`?"),
        ("[memory.client]\nsocket = 1\n", 2, "did you mean `sockets`?"),
        ("mod = \"split\"\n", 1, "unknown key `mod`"),
        ("[instance]\nxyzzyxyzzy = 1\n", 2, "known are mode, clients"),
    ];
    for (text, line, sentence) in table {
        let (at, what) = refusal(text);
        assert!(what.contains(sentence), "{text}: {what}");
        assert_eq!(at, line, "{text}: {what}");
    }
}

#[test]
fn values_out_of_range_are_refused_with_their_line() {
    let table = [
        ("[nic]\nmtu = 9000\n", "mtu: 9000 is not in 576 to 4000"),
        ("[nic]\nmtu = -1\n", "-1 is not in 576 to 4000"),
        ("[nic]\nmtu = \"x\"\n", "invalid type"),
        ("[nic]\ndevice = \"tasuki0\"\n", "tap:tasuki0"),
        ("[nic]\ndevice = \"eth:x\"\n", "device kind `eth` is not known"),
        ("[nic]\ndevice = \"tap:a-name-too-long-for-it\"\n", "cannot be a device name"),
        ("[nic.fault]\nloss = 1.5\n", "loss = 1.5 is not a probability"),
        ("[nic.fault]\nloss = nan\n", "not a probability"),
        ("[nic.fault]\ncorrupt = 0.1\nsuper_segments = true\n", "cannot be with super_segments"),
        ("[inet]\naddress = \"10.0.0.0/24\"\n", "network address"),
        ("[inet]\ngateway = \"10.0.0\"\n", "not an IP address"),
        ("[inet]\ngateway = 10.0.0.1 # x\n", "text needs quotes: gateway = \"10.0.0.1\""),
        ("[instance]\nmode = \"spilt\"\n", "mode: unknown value `spilt`; did you mean `split`?"),
        ("[memory.client]\nthreads = 65\n", "65 is not in 1 to 64"),
        ("[memory]\nstrict = 1\n", "invalid type"),
        ("[memory\nstrict = true\n", ""),
    ];
    for (text, sentence) in table {
        let (line, what) = refusal(text);
        assert!(what.contains(sentence), "{text}: {what}");
        assert!(!what.contains('\n'), "{what:?} is more than one line");
        assert!((1..=2).contains(&line), "{text}: line {line}");
    }
}

#[test]
fn client_measures_that_do_not_fit_together() {
    let params = |text: &str| Config::parse(text).unwrap().memory.client.params();
    let error = params("[memory.client]\nsockets = 100\ntx_pages = 399\n").unwrap_err();
    assert!(error.contains("tx_pages of at least 400"), "{error}");
    let error = params("[memory.client]\nsockets = 65535\narea_pages = 256\n").unwrap_err();
    assert!(error.contains("fewer sockets"), "{error}");
    assert!(params("[memory.client]\nsockets = 4096\n").is_ok());
    // All huge pages are taken at once.
    assert_eq!(params("[memory.client]\nhuge_pages = true\n").unwrap().sockets, 1024);
}

#[test]
fn faults_on_the_command_line() {
    let fault: Fault = "loss=0.01,duplicate=0.02,reorder=0.03,corrupt=0.04,seed=9".parse().unwrap();
    let FaultConfig { loss, duplicate, reorder, corrupt, seed, .. } = fault.0;
    assert_eq!((loss, duplicate, reorder, corrupt, seed), (0.01, 0.02, 0.03, 0.04, 9));
    assert!(!fault.0.super_segments, "frames are those of a wire");
    let fault: Fault = "delay_us=1000".parse().unwrap();
    assert!(fault.0.delay_us == 1000 && !fault.0.is_none());
    let fault: Fault = "loss=0.01,super_segments=on".parse().unwrap();
    assert!(fault.0.super_segments && !fault.0.is_none());
    assert!("super_segments=on".parse::<Fault>().unwrap().0.is_none(), "no fault");
    let table = [
        ("los=0.1", "did you mean `loss`?"),
        ("loss", "not KEY=VALUE"),
        ("loss=x", "not a number"),
        ("loss=2", "not a probability"),
        ("seed=-1", "not a whole number"),
        ("delay_us=1ms", "no number of microseconds"),
        ("delay_us=1000001", "more than a second"),
        ("super_segments=1", "neither on nor off"),
        ("corrupt=0.1,super_segments=on", "leave one of both away"),
        ("", "not KEY=VALUE"),
    ];
    for (text, why) in table {
        let error = text.parse::<Fault>().unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn groups_have_names_and_numbers() {
    let all = "root:x:0:\nnet:x:103:a,b\nbroken\n";
    assert_eq!(group_number(all, "net"), Some(103));
    assert_eq!(group_number(all, "ne"), None);
    assert_eq!(group_number(all, "broken"), None);
    assert_eq!(Group::try_from("4711".to_owned()).unwrap().0.as_raw(), 4711);
    assert!(Group::try_from("no such group".to_owned()).unwrap_err().contains("/etc/group"));
    assert!(Group::try_from(u32::MAX.to_string()).is_err());
}

/// Keys in the file itself make it a file of its owner's.
#[test]
fn a_file_with_keys_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let file = tempfile::NamedTempFile::new().unwrap();
    let key = format!("0x{}", "5a".repeat(20));
    let text = format!(
        "[[xfrm.state]]\nsrc = \"10.9.0.1\"\ndst = \"10.9.0.2\"\nspi = 256\n\
         aead = {{ name = \"rfc4106(gcm(aes))\", key = \"{key}\", icv = 128 }}\n"
    );
    std::fs::write(&file, text).unwrap();
    let load = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        Config::load(file.path()).map_err(|failure| failure.sentence)
    };
    load(0o600).unwrap();
    let said = load(0o644).unwrap_err();
    assert!(said.contains("it has keys, and others may use it (mode 0644): run `chmod 600 /"));
    assert!(said.ends_with(", or use key_file") && !said.contains("5a5a"), "{said}");
}
