//! Addresses, paths, waiting and files of noise for worlds, programs and tests.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, SHA256};

/// The kernel's address in every world.
pub const HOST: &str = "10.219.7.1";
/// Tasuki's address in every world.
pub const STACK: &str = "10.219.7.2";
/// The kernel's IPv6 address in every world in which Tasuki has one of that network.
pub const HOST6: &str = "fd00:219:7::1";
/// Tasuki's IPv6 address in the tests that configure one.
pub const STACK6: &str = "fd00:219:7::2";
/// The kernel's network device in every world.
pub const DEVICE: &str = "tsk0";
/// The other end of the cable that [`DEVICE`] is an end of, in worlds that have one.
pub const FAR_END: &str = "tsk0far";
/// The time that a program or a condition may take before the test fails. It is generous, since
/// machines are slow.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The bytes of the large transfers.
pub const LARGE: usize = 256 << 20;

/// The `tasuki` under test: TASUKI_BIN, or else the one that was built beside this test.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn tasuki_binary() -> PathBuf {
    let beside = || {
        let test = std::env::current_exe().ok()?;
        Some(test.parent()?.parent()?.join("tasuki"))
    };
    let path = std::env::var_os("TASUKI_BIN").map(PathBuf::from).or_else(beside);
    path.filter(|path| path.exists()).unwrap_or_else(|| {
        panic!(
            "no tasuki binary: `cargo build -p tasuki -p tasuki-preload` first, or set TASUKI_BIN"
        )
    })
}

/// One of this crate's Python programs.
#[must_use]
pub fn program(name: &str) -> String {
    format!("{}/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The Python interpreter itself, past any version manager's wrapper. It is asked once, since a
/// wrapper takes longer than the interpreter.
#[must_use]
pub fn python() -> String {
    static PYTHON: LazyLock<String> = LazyLock::new(|| {
        let ask = ["-c", "import sys; print(sys.executable)"];
        match Command::new("python3").args(ask).output() {
            Ok(output) if output.status.success() => {
                String::from_utf8_lossy(&output.stdout).trim().to_owned()
            }
            _ => "python3".to_owned(),
        }
    });
    PYTHON.clone()
}

/// Says on the real standard error that this test did not run, and why.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    let line = format!("SKIP: {}: {why}\n", thread.name().unwrap_or("test"));
    // The macros' output would be captured by the test runner.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Builds `musl.rs`, a static program, as `binary`. `false`: there is no such target, and the test
/// prints SKIP.
///
/// # Panics
/// When there is one and it cannot be built.
#[must_use]
pub fn build_for_musl(binary: &Path) -> bool {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let rustc = || {
        let mut rustc = Command::new("rustc");
        rustc.args(["--target", &target]);
        rustc
    };
    let folder = rustc().args(["--print", "target-libdir"]).output();
    let folder = folder.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
    if !folder.is_ok_and(|folder| Path::new(&folder).is_dir()) {
        skip(&format!("needs Rust's target {target}: `scripts/deps.sh programs` adds it"));
        return false;
    }
    let built =
        rustc().args(["--edition", "2021", "-O", &program("musl.rs"), "-o"]).arg(binary).status();
    assert!(built.expect("rustc").success(), "musl.rs is built");
    true
}

/// Repeats `holds` until it is true. `what` names the condition.
///
/// # Panics
/// After [`PATIENCE`].
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "the condition never held: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Writes `len` reproducible bytes without any pattern (SplitMix64 of `seed`) to a file.
///
/// # Panics
/// When it cannot be written.
pub fn write_noise(path: &Path, len: usize, seed: u64) {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut state = seed;
    while bytes.len() < len {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(z ^ z >> 31).to_le_bytes());
    }
    bytes.truncate(len);
    std::fs::write(path, bytes).expect("the test's directory can be written to");
}

/// SHA-256 of a file, in hexadecimal. By a library that uses the processor's instructions: Debian's
/// sha256sum does not, and took a fifth of the processor time of all transfers.
///
/// # Panics
/// When it cannot be read.
#[must_use]
pub fn sha256(path: &Path) -> String {
    let mut file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut context = Context::new(&SHA256);
    let mut chunk = vec![0; 1 << 20];
    loop {
        let len = file.read(&mut chunk).expect("a file can be read");
        if len == 0 {
            break;
        }
        context.update(&chunk[..len]);
    }
    context.finish().as_ref().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}
