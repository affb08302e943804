use std::os::unix::fs::PermissionsExt;

use super::*;

const OURS: Machine = Machine { class: 2, order: 1, number: 62 };

/// A 64-bit little-endian ELF file for machine 62 with these program header types.
fn elf(kinds: &[u32]) -> Vec<u8> {
    let mut file = vec![0; 64 + 56 * kinds.len()];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[18] = 62;
    file[32] = 64;
    file[54] = 56;
    file[56] = u8::try_from(kinds.len()).unwrap();
    for (index, kind) in kinds.iter().enumerate() {
        file[64 + 56 * index..][..4].copy_from_slice(&kind.to_le_bytes());
    }
    file
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn add(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

fn code<T>(result: Result<T, Failure>) -> Option<Code> {
    result.err().map(|failure| failure.code)
}

#[test]
fn dynamic_static_and_foreign_programs() {
    let files = Files::new();
    let dynamic = files.add("dynamic", &elf(&[6, 3, 1]), 0o755);
    let fixed = files.add("static", &elf(&[1, 1]), 0o755);
    let mut arm = elf(&[3]);
    arm[18] = 183;
    let arm = files.add("arm", &arm, 0o755);
    assert_eq!(code(check(&dynamic, OURS, Reach::Shim)), None);
    let failure = check(&fixed, OURS, Reach::Shim).unwrap_err();
    assert_eq!(failure.code, Code::Unsupported);
    assert!(failure.sentence.contains("static program"), "{failure}");
    let failure = check(&arm, OURS, Reach::Shim).unwrap_err();
    assert_eq!(failure.code, Code::Unsupported);
    assert!(failure.sentence.contains("machine type"), "{failure}");
}

#[test]
fn word_size_and_byte_order() {
    let files = Files::new();
    let mut narrow = vec![0; 52 + 32];
    narrow[..6].copy_from_slice(b"\x7fELF\x01\x02");
    narrow[19] = 20;
    narrow[31] = 52;
    narrow[43] = 32;
    narrow[45] = 1;
    narrow[55] = 3;
    let path = files.add("big-endian", &narrow, 0o755);
    let machine = Machine { class: 1, order: 2, number: 20 };
    let elf = Elf::read(&File::open(&path).unwrap()).unwrap();
    assert_eq!(elf, Some(Elf { machine, dynamic: true }));
    assert_eq!(code(check(&path, OURS, Reach::Shim)), Some(Code::Unsupported));
}

#[test]
fn broken_headers_are_no_program() {
    let files = Files::new();
    let mut beyond = elf(&[3]);
    beyond[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
    let table =
        [beyond, elf(&[3])[..66].to_vec(), elf(&[])[..20].to_vec(), b"\x7fELF".to_vec(), vec![]];
    for content in table {
        let path = files.add("broken", &content, 0o755);
        assert_eq!(code(check(&path, OURS, Reach::Shim)), Some(Code::NotExecutable), "{content:?}");
    }
}

#[test]
fn scripts_are_judged_by_their_interpreter() {
    let files = Files::new();
    let dynamic = files.add("sh", &elf(&[3]), 0o755);
    let fixed = files.add("busybox", &elf(&[1]), 0o755);
    let script = |name: &str, interpreter: &Path| {
        files.add(name, format!("#! {} -e\nexit\n", interpreter.display()).as_bytes(), 0o755)
    };
    let good = script("good", &dynamic);
    assert_eq!(code(check(&good, OURS, Reach::Shim)), None);
    assert_eq!(code(check(&script("again", &good), OURS, Reach::Shim)), None);
    assert_eq!(code(check(&script("static", &fixed), OURS, Reach::Shim)), Some(Code::Unsupported));
    let none = script("none", Path::new("/none/sh"));
    assert_eq!(code(check(&none, OURS, Reach::Shim)), Some(Code::NotExecutable));
    let own = script("self", &files.0.path().join("self"));
    assert!(check(&own, OURS, Reach::Shim).unwrap_err().sentence.contains("too many"));
    let text = files.add("text", b"echo\n", 0o755);
    assert_eq!(code(check(&text, OURS, Reach::Shim)), Some(Code::NotExecutable));
    let empty = files.add("empty", b"#!\n", 0o755);
    assert_eq!(code(check(&empty, OURS, Reach::Shim)), Some(Code::NotExecutable));
}

#[test]
fn programs_that_gain_rights() {
    let files = Files::new();
    // Setuid to its own user gains nothing.
    let own = files.add("own", &elf(&[3]), 0o4755);
    assert_eq!(code(check(&own, OURS, Reach::Shim)), None);
    let foreign = files.add("foreign", &elf(&[3]), 0o755);
    if std::os::unix::fs::chown(&foreign, Some(12345), None).is_ok() {
        std::fs::set_permissions(&foreign, std::fs::Permissions::from_mode(0o4755)).unwrap();
        let failure = check(&foreign, OURS, Reach::Shim).unwrap_err();
        assert_eq!(failure.code, Code::Unsupported);
        assert!(failure.sentence.contains("setuid"), "{failure}");
    }
}

#[test]
fn programs_are_searched_as_by_a_shell() {
    let files = Files::new();
    files.add("tool", b"", 0o755);
    files.add("data", b"", 0o644);
    let path = OsString::from(format!("/none:{}", files.0.path().display()));
    let find = |name: &str| search(OsStr::new(name), &path);
    assert_eq!(find("tool").unwrap(), files.0.path().join("tool"));
    let code = |name: &str| find(name).unwrap_err().code;
    assert_eq!(code("data"), Code::NotExecutable);
    assert_eq!(code("none"), Code::NotFound);
    assert_eq!(code("/none/none"), Code::NotFound);
    assert_eq!(code("/"), Code::NotExecutable);
    assert_eq!(code(""), Code::NotFound);
}

#[test]
fn real_programs() {
    assert!(find(OsStr::new("sh"), Reach::Shim).is_ok());
}

#[test]
fn the_shim_is_searched_beside_and_installed_and_named() {
    let files = Files::new();
    let root = files.0.path();
    let exe = root.join("bin/tasuki");
    assert_eq!(find_shim(&exe, None).unwrap_err().code, Code::Unsupported);
    let named = files.add("named.so", b"", 0o644);
    assert_eq!(find_shim(&exe, Some(named.clone())).unwrap(), named);
    std::fs::create_dir_all(root.join("lib/tasuki")).unwrap();
    let installed = files.add("lib/tasuki/libtasuki_preload.so", b"", 0o644);
    assert_eq!(find_shim(&exe, Some(named.clone())).unwrap(), installed);
    std::fs::create_dir(root.join("bin")).unwrap();
    let beside = files.add("bin/libtasuki_preload.so", b"", 0o644);
    assert_eq!(find_shim(&exe, Some(named)).unwrap(), beside);
}

#[test]
fn ld_preload_keeps_what_is_there() {
    let shim = Path::new("/lib/shim.so");
    let value = |others: &str| prepend(shim, Some(OsStr::new(others))).unwrap();
    assert_eq!(prepend(shim, None).unwrap(), "/lib/shim.so");
    assert_eq!(value(""), "/lib/shim.so");
    assert_eq!(value("a.so b.so:c.so"), "/lib/shim.so:a.so:b.so:c.so");
    assert_eq!(value("/lib/shim.so:a.so"), "/lib/shim.so:a.so");
    assert_eq!(prepend(Path::new("/a b/shim.so"), None).unwrap_err().code, Code::Unsupported);
}

#[test]
fn options_of_address_sanitizer_are_kept() {
    let options = |given: &str| asan_options(Some(given.into()));
    assert_eq!(asan_options(None), "verify_asan_link_order=0");
    assert_eq!(options(""), "verify_asan_link_order=0");
    assert_eq!(options("detect_leaks=0"), "detect_leaks=0:verify_asan_link_order=0");
    assert_eq!(options("verify_asan_link_order=1:x=2"), "verify_asan_link_order=1:x=2");
}
