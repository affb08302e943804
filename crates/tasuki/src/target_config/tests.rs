//! The example, the page, and what is refused.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

const EXAMPLE: &str = include_str!("../../../../examples/target.toml");
const PAGE: &str = include_str!("../../../../docs/reference/configuration-targets.md");

/// A folder with secrets of these names.
fn folder(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let path = folder.path().join(format!("{name}.secret"));
        std::fs::write(&path, format!("secret of {name}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    folder
}

fn parse(text: &str) -> Result<TargetConfig, Misplaced> {
    let folder = folder(&["alice", "bob", "disks"]);
    TargetConfig::parse(text, folder.path())
}

#[track_caller]
fn refused(text: &str, line: Option<usize>, sentence: &str) {
    let (at, what) = parse(text).err().unwrap_or_else(|| panic!("{text} is taken"));
    assert!(what.contains(sentence), "{text}: {what}");
    assert!(!what.contains('\n'), "{what:?} is more than one line");
    assert_eq!(at, line, "{text}: {what}");
}

/// The example with every key.
fn enabled() -> String {
    let lines = EXAMPLE.lines().map(|line| match line.strip_prefix("# ") {
        Some(rest) if is_key(rest) || rest.starts_with("[[") => format!("{rest}\n"),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

fn is_key(line: &str) -> bool {
    let key = line.split_once(" = ").map_or("", |(key, _)| key);
    !key.is_empty()
        && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Section, key and value of each line of the example.
fn keys() -> Vec<(String, String, String)> {
    let (mut section, mut keys) = (String::new(), Vec::new());
    for line in enabled().lines() {
        if line.starts_with('[') {
            line.clone_into(&mut section);
        } else if let Some((key, value)) = line.split_once(" = ").filter(|_| is_key(line)) {
            keys.push((section.clone(), key.to_owned(), value.to_owned()));
        }
    }
    keys
}

#[test]
fn the_example_has_every_key_and_the_defaults() {
    let plain = parse(EXAMPLE).unwrap();
    let bare = parse("[[lun]]\nvolume = \"memory:64M\"\n").unwrap();
    assert_eq!(format!("{plain:?}"), format!("{bare:?}"));
    let full = enabled();
    let config = parse(&full).unwrap();
    assert_eq!(config.access.users.len(), 1);
    assert_eq!(config.access.rules.len(), 1);
    assert_eq!(config.access.target.as_ref().map(|own| &*own.name), Some("disks"));
    // serde lists the known keys; each is in the example.
    for section in ["[target]", "[[lun]]", "[[user]]", "[[allow]]"] {
        let text = format!("{section}\nx-x = 1\n");
        let error = toml::from_str::<TargetFile>(&text).unwrap_err();
        let known: Vec<&str> = error.message().split('`').skip(3).step_by(2).collect();
        assert!(!known.is_empty(), "{error}");
        for key in known {
            let there = keys().iter().any(|(at, name, _)| at == section && name == key);
            assert!(there, "{key} of {section} is not in the example");
        }
    }
}

#[test]
fn the_page_has_every_key_and_its_default() {
    for (section, key, value) in keys() {
        let rows = PAGE.split_once(&format!("\n## `{section}`\n")).expect(&section).1;
        let rows = rows.split_once("\n## ").map_or(rows, |(rows, _)| rows);
        let row = rows.lines().find(|row| row.starts_with(&format!("| `{key}` |")));
        let row = row.unwrap_or_else(|| panic!("{key} of {section} is not on the page"));
        let fixed = EXAMPLE.lines().any(|line| line == format!("{key} = {value}"));
        let told = row.trim_end_matches(" |").rsplit_once("| ").map_or("", |(_, told)| told);
        let required = told == "required";
        assert!(!fixed || required || told == value, "{section} {key}: {told}, not {value}");
    }
    for row in PAGE.lines().filter_map(|row| row.strip_prefix("| `")) {
        let key = row.split_once('`').expect("a cell").0;
        if key.starts_with('[') {
            continue;
        }
        assert!(keys().iter().any(|(_, known, _)| known == key), "{key} is not in the example");
    }
}

#[test]
fn a_file_says_who_may_use_what() {
    let folder = folder(&["alice", "bob"]);
    let text = "[[lun]]\nvolume = \"file:a,b.img\"\n[[lun]]\nnumber = 7\nvolume = \"null:1G\"\n\
                read_only = true\nblock = 4096\n[[lun]]\nvolume = \"memory:1M\"\n\
                [[user]]\nname = \"alice\"\nsecret_file = \"alice.secret\"\n\
                [[user]]\nname = \"bob\"\nsecret_file = \"bob.secret\"\n\
                [[allow]]\nuser = [\"alice\", \"bob\"]\nread_only = true\n\
                [[allow]]\nuser = \"alice\"\nluns = [7]\naddress = \"10.9.0.0/24\"\n\
                identity = [\"host.example\", \
                \"SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU\"]\n";
    let config = TargetConfig::parse(text, folder.path()).unwrap();
    let numbers: Vec<u16> = config.luns.keys().map(|lun| lun.get()).collect();
    assert_eq!(numbers, [0, 7, 8]);
    let first = config.luns.values().next().unwrap();
    assert_eq!(first.volume, VolumeSpecification::File(folder.path().join("a,b.img")));
    let AccessPolicy { rules, users, target, md5 } = &config.access;
    assert_eq!((users.len(), target.is_none(), *md5), (2, true, false));
    assert!(users[1].secret.is_same(&ChapSecret::new(b"secret of bob")));
    assert_eq!((rules[0].users.len(), &rules[0].luns, rules[0].right), (2, &None, UnitRight::Read));
    assert_eq!(rules[1].right, UnitRight::Write);
    assert!(rules[0].identities.is_empty());
    assert_eq!((rules[1].identities.len(), &*rules[1].identities[0]), (2, "host.example"));
    assert_eq!(config.transport, TransportChoice::Sealed);
    assert!(!format!("{config:?}").contains("secret of"), "no secret is shown");
}

#[test]
fn unknown_names_get_the_nearest() {
    for (text, line, sentence) in [
        ("[targett]\n", 1, "unknown section `targett`; did you mean `target`?"),
        ("[target]\n\nprot = 1\n", 3, "unknown key in [target] `prot`; did you mean `port`?"),
        ("[[lun]]\nvolum = \"null:1\"\n", 2, "did you mean `volume`?"),
        ("[[user]]\nsecret = \"a\"\n", 2, "unknown key in [[user]] `secret`"),
        ("[[allow]]\nadress = \"a\"\n", 2, "did you mean `address`?"),
        ("[target]\ntransport = \"plian\"\n", 2, "unknown value `plian`; did you mean `plain`?"),
    ] {
        refused(text, Some(line), sentence);
    }
}

#[test]
fn wrong_values_are_refused_with_their_line() {
    let user = "[[user]]\nname = \"alice\"\nsecret_file = \"alice.secret\"\n";
    let user = |rest: &str| format!("{user}{rest}");
    for (text, line, sentence) in [
        ("[target]\nport = 0\n", Some(2), "0 is not in 1 to 65535"),
        ("[target]\niqn = \"disks\"\n", Some(2), "begins with iqn."),
        ("[target]\nnet = \"A\"\n", Some(2), "a-z, 0-9"),
        ("[target]\naddress = \"10.9\"\n", Some(2), "address: "),
        ("[target]\nchap_name = \"a\"\n", None, "needs chap_secret_file"),
        ("[target]\nchap_secret_file = \"disks.secret\"\n", Some(2), "add a [[user]]"),
        ("[[lun]]\nvolume = \"disk:a\"\n", Some(2), "is no volume"),
        ("[[lun]]\nvolume = \"null:1\"\nblock = 1024\n", Some(3), "neither 512 nor 4096"),
        ("[[lun]]\nnumber = 16384\nvolume = \"null:1\"\n", Some(2), "not in 0 to 16383"),
        (
            "[[lun]]\nnumber = 16383\nvolume = \"null:1\"\n[[lun]]\nvolume = \"null:1\"\n",
            Some(4),
            "no logical unit 16384",
        ),
        (
            "[[lun]]\nvolume = \"null:1\"\n[[lun]]\nnumber = 0\nvolume = \"null:1\"\n",
            Some(3),
            "logical unit 0 is there twice",
        ),
        ("[[user]]\nname = \"a b\"\nsecret_file = \"x\"\n", Some(2), "no name for CHAP"),
        ("[[user]]\nname = \"carol\"\nsecret_file = \"x\"\n", Some(1), "cannot read the secret"),
        ("[[user]]\nname = \"alice\"\n", Some(1), "missing field `secret_file`"),
        (&user(&user("")), Some(4), "user alice is there twice"),
        (&user("[[allow]]\nuser = \"bob\"\n"), Some(4), "no [[user]] of the name bob"),
        (&user("[[allow]]\nluns = [0]\n"), None, "no [[allow]] has user alice"),
        ("[[allow]]\naddress = \"10.9.0.1/24\"\n", Some(2), "say 10.9.0.0/24"),
        ("[[allow]]\ninitiator = [\"a\"]\n", Some(2), "begins with iqn."),
        ("[[allow]]\nidentity = \"SHA256:a\"\n", Some(2), "`tasuki key show`"),
        ("[[allow]]\nidentity = [\"a b\"]\n", Some(2), "is neither a key"),
        (&user("[target]\nchap_secret_file = \"alice.secret\"\n"), Some(5), "the same secret"),
    ] {
        refused(text, line, sentence);
    }
}
