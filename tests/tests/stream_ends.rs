//! Streams end by Linux's rules. The program prints the same on the kernel's stack.

use tasuki_tests::{Mode, Running, World};

/// The output of `stream_ends.py` with these words, on a stack.
fn ends(world: &World, words: &[&str]) -> String {
    let program = world.script("stream_ends.py", words);
    Running::start(world.on_stack(Mode::given(), &program)).finish().success().stdout
}

#[test]
fn bytes_arrive_before_the_reset() {
    let Some(world) = World::new() else { return };
    assert_eq!(ends(&world, &["reset"]), "1000 ECONNRESET\n".repeat(20));
}

#[test]
fn a_port_is_free_once_its_server_is_waited_for() {
    let Some(world) = World::new() else { return };
    // The child of a program cannot use its stack.
    if Mode::shared().is_some() {
        assert_eq!(ends(&world, &["again"]), "free\n");
    }
}

#[test]
fn shutdown_ends_a_connect_that_waits() {
    let Some(world) = World::new() else { return };
    // OUT, ERR and HUP.
    let one = "['ECONNRESET'] EINPROGRESS None 28 ECONNRESET\n";
    assert_eq!(ends(&world, &["connects", "10.219.7.77"]), one.repeat(3));
}

#[test]
fn connect_tells_how_the_attempt_before_it_came_out() {
    let Some(world) = World::new() else { return };
    let expected = "EINPROGRESS ECONNREFUSED EINPROGRESS None EISCONN\n\
                    EINPROGRESS ECONNREFUSED ECONNABORTED EINPROGRESS None EISCONN\n\
                    ECONNREFUSED ENOTCONN None None EISCONN\n\
                    ECONNREFUSED\n";
    assert_eq!(ends(&world, &["attempts"]), expected);
}
