//! `tasuki run -- bash`: what people type there, as a script on its input and on a terminal.
//!
//! All programs of the session are on Tasuki, and so are the shell's own sockets. The data are
//! compared. No packet uses the host's network: [`ProgramWorld`].

use rustix::process::Signal;
use tasuki_tests::{
    Finished, HOST, ProgramWorld, Running, program, sha256, tasuki_binary, write_noise,
};

/// What a shell on a terminal asks for lines with.
const PROMPT: &str = "typed> ";

/// A world with a file, and the far host's servers of it and of greetings.
fn world() -> Option<(ProgramWorld, [Running; 2])> {
    let world = ProgramWorld::new(&["bash", "curl", "wget", "nc"])?;
    write_noise(&world.path("file"), 700_001, 15);
    std::fs::write(world.path("who"), "the far host\n").expect("a file");
    let files = world.spawn(&world.python(&["-m", "http.server", "8001"]));
    let _ = files.line("Serving HTTP");
    let greet = world.spawn(&world.script("shells/greet.py", &[HOST, "8002"]));
    let _ = greet.line("ready");
    Some((world, [files, greet]))
}

fn end(world: &ProgramWorld, servers: [Running; 2]) {
    for server in servers {
        server.signal(Signal::KILL);
        let _ = server.finish();
    }
    world.end();
}

/// `tasuki run … -- bash` with these words behind it, in an environment for the sessions.
fn shell(how: &str, words: &[&str]) -> Vec<String> {
    let tasuki = tasuki_binary();
    let tasuki = tasuki.to_str().expect("a plain path");
    let (far, prompt) = (format!("FAR={HOST}"), format!("PS1={PROMPT}"));
    let run = ["env", &far, &prompt, tasuki, "run", "--net", "programs", "--intercept", how];
    let bash = ["--", "bash", "--norc", "--noprofile"];
    [&run[..], &bash, words].concat().into_iter().map(str::to_owned).collect()
}

/// Types a session into a shell on a terminal.
fn type_in(world: &ProgramWorld, how: &str, session: &str) -> Finished {
    let typed = [&*world.file(session), PROMPT];
    let words = world.script("shells/type.py", &typed);
    let bash = shell(how, &["--noediting", "-i"]);
    Running::start(world.command(&[words, bash].concat())).finish()
}

/// The session's end, and what each of its lines is to print.
fn check_session(world: &ProgramWorld, said: Finished) {
    let said = said.code(9);
    let digest = sha256(&world.path("file"));
    let whole = ["local", "far", "substituted", "inherited", "subshell", "nc"];
    let background = [1, 2, 3, 4].map(|number| format!("background{number}"));
    for what in whole.into_iter().chain(background.iter().map(String::as_str)) {
        let line = format!("{what} {digest}");
        assert!(said.stdout.lines().any(|it| it == line), "{line}: {said}");
    }
    for line in ["same", "read the far host", "refused 7", "22 0", "killed 143"] {
        assert!(said.stdout.lines().any(|it| it == line), "{line}: {said}");
    }
    let copy = sha256(&world.path("copy"));
    assert_eq!(copy, digest, "what tee wrote");
}

/// The session, with an exit code of its own.
fn write_session(world: &ProgramWorld, name: &str) {
    let session = std::fs::read_to_string(program("shells/session.sh")).expect("the session");
    std::fs::write(world.path(name), session + "exit 9\n").expect("a file");
}

fn on_input(how: &str) {
    let Some((world, servers)) = world() else { return };
    write_session(&world, "session");
    // sh executes the words behind its script.
    let begin = ["sh", "-c", "exec \"$@\" <session", "sh"].map(str::to_owned);
    let said = Running::start(world.command(&[&begin[..], &shell(how, &["-s"])].concat()));
    check_session(&world, said.finish());
    end(&world, servers);
}

#[test]
fn a_session_comes_from_the_shells_input() {
    on_input("auto");
}

#[test]
fn a_session_comes_from_the_shells_input_without_the_library() {
    on_input("seccomp");
}

/// Job control: each line's programs are a process group of their own.
#[test]
fn a_session_is_typed_on_a_terminal() {
    let Some((world, servers)) = world() else { return };
    write_session(&world, "session");
    let said = type_in(&world, "auto", "session");
    check_session(&world, said);
    end(&world, servers);
}

/// Ctrl-C, Ctrl-Z and Ctrl-D on a program whose connection waits.
#[test]
fn keys_interrupt_and_stop_a_program() {
    let Some((world, servers)) = world() else { return };
    for how in ["auto", "seccomp"] {
        let _ = std::fs::copy(program("shells/keys.sh"), world.path("keys")).expect("a copy");
        let said = type_in(&world, how, "keys").code(9);
        let digest = format!("{}  -", sha256(&world.path("file")));
        for line in ["interrupted 130", "stopped 148", &digest, "farewell", "ended 0"] {
            assert!(said.stdout.lines().any(|it| it == line), "{line}: {said}");
        }
    }
    end(&world, servers);
}
