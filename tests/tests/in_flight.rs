//! The kernel bounds the descriptors that a user's processes have sent and not received. One
//! program can use up all of them: then the supervisor can pass none either. New programs are
//! refused with the reason, and the instance goes on.

use tasuki_tests::{HOST, Mode, Nic, Running, World, skip};

const NET: &str = "inflight";
/// The supervisor's limit, which is also the kernel's bound for it. It is lower than that of any
/// other test, since what is in flight counts for all processes of the user.
const LIMIT: &str = "--nofile=512:512";
const CONNECT: &str = "import socket; socket.create_connection((\"HOST\", 8000)).close()";

fn goes_on(mode: Mode, privileged: bool) {
    let Some(world) = World::over(Nic::Tap) else { return };
    let server = world.http_server();
    // As the supervisor of a user without rights.
    let unprivileged = ["setpriv", "--bounding-set=-sys_resource,-sys_admin", "--"];
    let by = [&["prlimit", LIMIT, "--"], &unprivileged[..]].concat();
    world.up_by(if privileged { &by[..3] } else { &by }, NET, mode, &[]);

    let connect = CONNECT.replace("HOST", HOST);
    let program = || Running::start(world.on_net(NET, &world.python(&["-c", &connect]))).finish();
    let _ = program().success();
    let mut hog = world.command(&world.script("in_flight.py", &["750"]));
    let (stdin, hold) = std::io::pipe().unwrap();
    let _ = hog.stdin(stdin);
    let hog = Running::start(hog);
    let _ = hog.line("in flight");
    if privileged {
        let _ = program().success();
    } else {
        let refused = program().code(1);
        assert!(refused.stderr.contains("descriptors cannot be passed now"), "{refused}");
    }
    let roles = world.ps(NET).processes.iter().filter(|p| p.role == "client").count();
    assert_eq!(roles, 0);
    drop(hold);
    let _ = hog.finish().success();
    let _ = program().success();
    drop(server);
    world.down(NET);
    world.assert_nothing_left();
}

/// CAP_SYS_RESOURCE, which even root may lack in a container.
fn root_may_exceed() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_RESOURCE))
}

/// One after the other: all programs of the user have this bound together.
#[test]
fn only_newcomers_are_refused() {
    goes_on(Mode::given(), false);
    if root_may_exceed() {
        goes_on(Mode::given(), true);
    } else {
        skip("no CAP_SYS_RESOURCE: root is as bounded as others here");
    }
}
