//! Names: programs ask the instance's name servers, over the instance.

use std::process::Command;

use tasuki_tests::{
    DEVICE, HOST, Mode, Nic, Running, STACK, World, build_for_musl, eventually, program, skip,
};

/// The host's address with the name server. The host's /etc/resolv.conf has another one, where
/// nobody answers.
const SERVER: &str = "10.219.7.53";
/// More addresses than fit an answer over UDP.
const MANY: usize = 40;

/// The words of `dns.py`: `far.lan.example` and `many.lan.example`.
fn names() -> Vec<String> {
    let many: Vec<String> = (1..=MANY).map(|last| format!("10.3.3.{last}")).collect();
    vec![
        "far.lan.example=10.1.2.3,fd00:1::3".to_owned(),
        format!("many.lan.example={}", many.join(",")),
    ]
}

/// A name server of the other host, ready.
fn serve(world: &World) -> Running {
    let address = format!("{SERVER}/24");
    let _ = world.run(&["ip", "addr", "add", &address, "dev", DEVICE]).success();
    let names = names();
    let mut words = vec![SERVER, "53"];
    words.extend(names.iter().map(String::as_str));
    let server = world.spawn(&world.script("dns.py", &words));
    let _ = server.line("ready");
    server
}

/// A world with an instance whose programs are to ask [`SERVER`], and that server.
fn world() -> Option<(World, Running)> {
    let mode = Mode::shared()?;
    let world = World::with_kernel()?;
    world.up("net", mode, &["--dns", SERVER, "--dns-search", "lan.example"]);
    let server = serve(&world);
    Some((world, server))
}

fn end(world: &World, server: Running) {
    drop(server);
    world.down("net");
    world.assert_nothing_left();
}

/// libc's resolver in Python: prints the addresses of its arguments in order.
const LOOK_UP: &str = "import socket, sys\n\
    for name in sys.argv[1:]:\n\
    \x20   found = socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)\n\
    \x20   print(name, len(found), *sorted(f[4][0] for f in found)[:2])\n";

#[test]
fn libcs_resolver_asks_the_instances_servers() {
    let Some((world, server)) = world() else { return };
    let words = world.python(&["-c", LOOK_UP, "far", "many.lan.example", "localhost"]);
    let said = Running::start(world.on_net("net", &words)).finish().success();
    assert!(said.stdout.contains("far 2 10.1.2.3 fd00:1::3"), "search list, A and AAAA: {said}");
    assert!(said.stdout.contains(&format!("many.lan.example {MANY} ")), "over TCP: {said}");
    assert!(said.stdout.contains("localhost 1 127.0.0.1"), "/etc/hosts: {said}");
    assert_eq!(said.stderr, "", "{said}");
    for line in ["A far.lan.example", "AAAA far.lan.example"] {
        let asked = server.line(line);
        assert!(asked.contains(&format!("udp {STACK} ")), "{asked}");
    }
    let asked = server.line("tcp");
    assert!(asked.contains(&format!("tcp {STACK} A many.lan.example")), "{asked}");
    end(&world, server);
}

#[test]
fn an_instance_of_its_own_has_them_too() {
    let Some(mode) = Mode::shared() else { return };
    let Some(world) = World::with_kernel() else { return };
    // The device is there once the instance is.
    let script = "import subprocess, time; time.sleep(0.1); print(open('/etc/resolv.conf').read())";
    let words = world.python(&["-c", script]);
    let with = ["--dns", "192.0.2.1,2001:db8::1", "--dns-search", "a.example,b.example"];
    let said = Running::start(world.on_stack_with(mode, &with, &words)).finish().success();
    let expected = "nameserver 192.0.2.1\nnameserver 2001:db8::1\nsearch a.example b.example\n\
                    options timeout:1 attempts:1\n";
    assert!(said.stdout.contains(expected), "{said}");
    world.assert_nothing_left();
}

/// Resolvers that are no part of libc, each if it is installed.
#[test]
fn other_resolvers_ask_them_as_well() {
    let Some((world, server)) = world() else { return };
    let node = "const d = require('dns');\n\
        d.resolve4('far.lan.example', (e, a) => console.log('resolve4', e, a));\n\
        d.lookup('far', {family: 4}, (e, a) => console.log('lookup', e, a));\n";
    let java = "public class Names { public static void main(String[] words) throws Exception {\n\
        System.out.println(\"lookup \" + java.net.Inet4Address.getByName(\"far\")); } }\n";
    std::fs::write(world.path("Names.java"), java).unwrap();
    for (words, expected) in [
        (&["node", "-e", node][..], &["resolve4 null [ '10.1.2.3' ]", "lookup null 10.1.2.3"][..]),
        (&["java", "Names.java"], &["lookup far/10.1.2.3"]),
        (&["dig", "+search", "+short", "far"], &["10.1.2.3"]),
    ] {
        if Command::new(words[0]).arg("-h").output().is_err() {
            skip(&format!("needs {}", words[0]));
            continue;
        }
        let said = Running::start(world.on_net("net", words)).finish().success();
        for line in expected {
            assert!(said.stdout.contains(line), "{line}: {said}");
        }
    }
    end(&world, server);
}

/// A static program, with Go's own resolver.
#[test]
fn a_static_program_asks_them() {
    let compilers = ["go", "/usr/local/go/bin/go"];
    let found = compilers.iter().find(|go| Command::new(go).arg("version").output().is_ok());
    let Some(go) = found else { return skip("needs go") };
    let Some((world, server)) = world() else { return };
    let binary = world.file("look_up");
    let built = Command::new(go)
        .args(["build", "-o", &binary, &program("look_up.go")])
        .envs([("CGO_ENABLED", "0"), ("GO111MODULE", "off"), ("GOFLAGS", "")])
        // With its library, once for all tests of a checkout.
        .env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go-cache"))
        .env("HOME", world.file("home"))
        .status();
    assert!(built.unwrap().success(), "look_up.go is built");
    let words = [&*binary, "far", "many.lan.example"];
    let said = Running::start(world.on_net("net", &words)).finish().success();
    assert!(said.stdout.contains("far [10.1.2.3 fd00:1::3]"), "{said}");
    assert!(said.stdout.contains(&format!("many.lan.example {MANY}")), "{said}");
    end(&world, server);
}

/// Another one, with musl's resolver.
#[test]
fn a_program_with_musl_asks_them() {
    let Some((world, server)) = world() else { return };
    if build_for_musl(&world.path("musl")) {
        let words = ["./musl", "names", "far", "many.lan.example"];
        let said = Running::start(world.on_net("net", &words)).finish().success();
        assert!(said.stdout.contains("far 10.1.2.3 fd00:1::3"), "{said}");
        let many = said.stdout.lines().find_map(|line| line.strip_prefix("many.lan.example "));
        assert!(many.is_some_and(|found| found.split(' ').count() > 1), "{said}");
    }
    end(&world, server);
}

/// A lease that comes after the program has begun.
#[test]
fn programs_see_servers_that_the_instance_learns_later() {
    let Some(mode) = Mode::shared() else { return };
    let Some(world) = World::over(Nic::Tap) else { return };
    let nic = format!("tap:{DEVICE}");
    let words = ["up", "--mode", mode.name(), "--nic", &nic, "--dhcp", "net"];
    let _ = Running::start(world.tasuki(&words)).finish().success();
    // It makes no socket, so its relay is no client yet.
    let script = "import time\n\
        print('begun', open('/etc/resolv.conf').read(), flush=True)\n\
        while '10.219.7.53' not in open('/etc/resolv.conf').read(): time.sleep(0.05)\n\
        print(open('/etc/resolv.conf').read())\n";
    let waiting = Running::start(world.on_net("net", &world.python(&["-c", script])));
    let first = waiting.line("begun");
    assert!(!first.contains(SERVER), "{first}");
    let host = format!("{HOST}/24");
    let _ = world.run(&["ip", "addr", "add", &host, "dev", DEVICE]).success();
    let given = [DEVICE, STACK, HOST, SERVER, "lan.example"];
    let dhcp = world.spawn(&world.script("dhcp.py", &given));
    let _ = dhcp.finish().success();
    let said = waiting.finish().success();
    assert!(said.stdout.contains(&format!("nameserver {SERVER}\nsearch lan.example")), "{said}");
    let server = serve(&world);
    let words = world.python(&["-c", LOOK_UP, "far"]);
    let said = Running::start(world.on_net("net", &words)).finish().success();
    assert!(said.stdout.contains("far 2 10.1.2.3 fd00:1::3"), "{said}");
    end(&world, server);
}

/// The host's file stays as it is. What the host mounts is there for the program and the other way
/// round, as without the program's own file.
#[test]
fn mounts_are_shared_as_before() {
    let Some(mode) = Mode::shared() else { return };
    let Some(world) = World::with_kernel() else { return };
    for line in ["umount /etc/resolv.conf", "mount --make-shared /"] {
        let _ = world.run(&line.split(' ').collect::<Vec<_>>());
    }
    world.up("net", mode, &["--dns", SERVER]);
    let before = world.run(&["cat", "/etc/resolv.conf"]).success().stdout;
    let (ours, hosts) = (world.file("ours"), world.file("hosts-own"));
    for directory in [&ours, &hosts] {
        std::fs::create_dir(directory).unwrap();
    }
    let script = "import os, subprocess, sys, time\n\
        ours, hosts = sys.argv[1:]\n\
        assert '10.219.7.53' in open('/etc/resolv.conf').read()\n\
        subprocess.run(['mount', '-t', 'tmpfs', 'x', ours], check=True)\n\
        open(ours + '/file', 'w').write('of the program')\n\
        print('mounted', flush=True)\n\
        while not os.path.exists(hosts + '/file'): time.sleep(0.02)\n\
        print('seen', os.readlink('/proc/self/ns/user'), flush=True)\n";
    let words = world.python(&["-c", script, &ours, &hosts]);
    let program = Running::start(world.on_net("net", &words));
    let _ = program.line("mounted");
    let seen = world.run(&["cat", &format!("{ours}/file")]).success();
    assert_eq!(seen.stdout, "of the program", "{seen}");
    let _ = world.run(&["mount", "-t", "tmpfs", "x", &hosts]).success();
    let _ = world.run(&["touch", &format!("{hosts}/file")]).success();
    let said = program.finish().success();
    let user = world.run(&["readlink", "/proc/self/ns/user"]).success();
    assert!(said.stdout.contains(&format!("seen {}", user.stdout.trim())), "{said}");
    let after = world.run(&["cat", "/etc/resolv.conf"]).success().stdout;
    assert_eq!(after, before);
    let mounts = world.run(&["cat", "/proc/self/mountinfo"]).success();
    assert!(!mounts.stdout.contains("tasuki-resolv"), "{mounts}");
    for directory in [&ours, &hosts] {
        let _ = world.run(&["umount", directory]).success();
    }
    eventually("no file is left", || {
        ["/dev/shm", "/run", "/tmp"].iter().all(|directory| {
            let names = world.run(&["ls", directory]).success();
            !names.stdout.contains("tasuki-resolv")
        })
    });
    world.down("net");
    world.assert_nothing_left();
}

/// Behind a link that is replaced, as systemd-resolved does.
#[test]
fn a_link_is_covered_and_not_the_file_behind_it() {
    let Some(mode) = Mode::shared() else { return };
    let Some(world) = World::with_kernel() else { return };
    let script = "mkdir etc && cp -a /etc/. etc/ && rm -f etc/resolv.conf &&\n\
        echo first > behind &&\n\
        ln -s $PWD/behind etc/resolv.conf && umount /etc/resolv.conf; umount /etc/hosts\n\
        mount --bind etc /etc";
    let _ = world.run(&["sh", "-c", script]).success();
    world.up("net", mode, &["--dns", SERVER]);
    let script = "import os\n\
        open('new', 'w').write('second'); os.rename('new', 'behind')\n\
        print(open('/etc/resolv.conf').read(), open('behind').read())\n";
    let said = Running::start(world.on_net("net", &world.python(&["-c", script])));
    let said = said.finish().success();
    assert!(said.stdout.contains(SERVER) && said.stdout.contains("second"), "{said}");
    let host = world.run(&["cat", "/etc/resolv.conf"]).success();
    assert_eq!(host.stdout, "second");
    world.down("net");
    world.assert_nothing_left();
}

#[test]
fn wrong_servers_and_domains_are_refused() {
    let Some(world) = World::with_kernel() else { return };
    for (words, part) in [
        (&["--dns", "dns.example"][..], "`dns.example` is not an IP address"),
        (&["--dns", "0.0.0.0"], "cannot be a name server's address"),
        (&["--dns-search", "a b"], "`a b` is not a domain"),
        (&["--dns", SERVER, "--intercept", "preload"], "--dns does not go with"),
        (&["--dns", SERVER, "--mode", "library"], "--dns does not go with"),
    ] {
        let words = [&["run"], words, &["--", "true"]].concat();
        let said = Running::start(world.tasuki(&words)).finish();
        assert!(!said.status.success() && said.stderr.contains(part), "{part}: {said}");
    }
    world.assert_nothing_left();
}
