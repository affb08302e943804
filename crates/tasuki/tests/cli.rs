//! The command as a user meets it, as far as no right is needed: what is refused, and how.

use std::path::Path;
use std::process::{Command, Output};

fn tasuki(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tasuki"));
    command.args(arguments).env_remove("TASUKI_PRELOAD").env_remove("TASUKI_SOCKET");
    command.output().expect("tasuki starts")
}

/// Exit code and what standard error says, which must be one sentence of one line.
fn refusal(arguments: &[&str]) -> (i32, String) {
    let output = tasuki(arguments);
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.stdout.is_empty(), "{arguments:?} printed to standard output");
    assert!(text.starts_with("tasuki: "), "{arguments:?}: {text}");
    assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
    (output.status.code().expect("an exit code"), text)
}

fn file(directory: &Path, name: &str, content: &[u8], mode: u32) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join(name);
    std::fs::write(&path, content).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn help_has_examples_and_exit_codes() {
    for arguments in [&["--help"][..], &["run", "--help"]] {
        let output = tasuki(arguments);
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        for code in ["118", "119", "120", "121", "122", "123", "125", "126", "127"] {
            assert!(text.contains(code), "{arguments:?} does not tell {code}");
        }
    }
    for command in ["run", "up", "down", "ps", "ss", "capture", "completion"] {
        let output = tasuki(&[command, "--help"]);
        assert!(output.status.success(), "{command}");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(text.contains("Examples:"), "{command}: {text}");
    }
}

/// A pipe whose reader is gone.
fn unheard() -> std::io::PipeWriter {
    std::io::pipe().expect("a pipe").1
}

#[test]
fn the_exit_code_is_right_where_nobody_hears_why() {
    for (arguments, code) in [
        (&["frobnicate"][..], 2),
        (&["up", "--address", "10.0.0.2/24", "--gateway", "10.9.0.1"], 118),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tasuki"));
        let status = command.args(arguments).stderr(unheard()).status().expect("tasuki starts");
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn wrong_usage_is_2() {
    for arguments in [&["frobnicate"][..], &["run"], &["run", "--mode", "x", "--", "true"]] {
        let (code, text) = refusal(arguments);
        assert_eq!(code, 2, "{arguments:?}");
        assert!(text.contains("--help`"), "{text}");
    }
    // Without anything, the whole help.
    let output = tasuki(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: tasuki"));
}

#[test]
fn wrong_configuration_is_118() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = file(directory.path(), "a.toml", b"[inet]\nadress = \"10.0.0.2/24\"\n", 0o644);
    let (code, text) = refusal(&["up", "--config", &config]);
    assert_eq!(code, 118);
    assert!(text.contains("a.toml:2: unknown key in [inet] `adress`"), "{text}");
    assert!(text.contains("did you mean `address`?"), "{text}");
    assert_eq!(refusal(&["up", "--config", "/none.toml"]).0, 118);
    let (code, text) =
        refusal(&["up", "--address", "10.0.0.2/24", "--gateway", "10.0.1.1", "nonesuch"]);
    assert_eq!(code, 118);
    assert!(text.contains("10.0.1.1"), "{text}");
}

#[test]
fn programs_that_cannot_run_are_126_and_127() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = file(directory.path(), "data", b"", 0o644);
    let text = file(directory.path(), "text", b"hello\n", 0o755);
    assert_eq!(refusal(&["run", "--", "no-such-program-here"]).0, 127);
    assert_eq!(refusal(&["run", "--", "/no/such/program"]).0, 127);
    assert_eq!(refusal(&["run", "--", &data]).0, 126);
    assert_eq!(refusal(&["run", "--", &text]).0, 126);
    assert_eq!(refusal(&["run", "--", "/"]).0, 126);
}

#[test]
fn static_programs_are_121() {
    let directory = tempfile::tempdir().expect("a directory");
    // This test's own ELF header, with no program headers: nothing names a dynamic loader.
    let mut elf = std::fs::read(std::env::current_exe().expect("a path")).expect("read");
    elf.truncate(64);
    let count = if elf[4] == 2 { 56 } else { 44 };
    elf[count..count + 2].fill(0);
    let program = file(directory.path(), "static", &elf, 0o755);
    let (code, text) = refusal(&["run", "--intercept", "preload", "--", &program]);
    assert_eq!(code, 121);
    assert!(text.contains("static program"), "{text}");
    let script = file(directory.path(), "script", format!("#!{program}\n").as_bytes(), 0o755);
    assert_eq!(refusal(&["run", "--intercept", "preload", "--", &script]).0, 121);
}

#[test]
fn instances_that_do_not_run_are_122() {
    for arguments in [
        &["down", "nonesuch-instance"][..],
        &["ps", "nonesuch-instance"],
        &["ss", "--net", "nonesuch-instance"],
        &["capture", "-w", "/dev/null", "--net", "nonesuch-instance"],
    ] {
        let (code, text) = refusal(arguments);
        assert_eq!(code, 122, "{arguments:?}");
        assert!(text.contains("tasuki up nonesuch-instance"), "{text}");
    }
}

#[test]
fn a_capture_of_nothing_leaves_the_file_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = file(directory.path(), "x.pcapng", b"precious", 0o644);
    assert_eq!(refusal(&["capture", "-w", &path, "-i", "nonesuch-instance"]).0, 122);
    assert_eq!(std::fs::read(path).expect("read"), b"precious");
}

#[test]
fn a_log_filter_that_is_none_is_told() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tasuki"));
    let output = command.args(["down", "nonesuch-instance"]).env("TASUKI_LOG", "a==b").output();
    let text = String::from_utf8(output.expect("tasuki starts").stderr).expect("UTF-8");
    assert!(text.contains("TASUKI_LOG is ignored"), "{text}");
}

#[test]
fn completion_scripts() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = tasuki(&["completion", shell]);
        assert!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(script.contains("capture"), "{shell}");
    }
}
