//! A hostile client: its profile, and one random action after the other.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use shm::Channel;

use crate::member::Member;
use crate::random::Random;
use crate::{calls, control, passing, words};

/// What a client is inclined to do. An unsound word ends most memberships, so not every client
/// writes some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Profile {
    /// Only what a correct client could do, but much of it.
    Sound,
    /// Calls and data with wrong fields now and then.
    Wrong,
    /// Random words everywhere.
    Scribbler,
    /// Descriptors and messages, mostly.
    Talker,
    /// Takes no part in the admission.
    Stranger,
    /// Anything.
    All,
}

/// A hostile client at work.
struct Hostile {
    socket: String,
    random: Random,
    profile: Profile,
    member: Option<Member>,
    /// More memberships of this process, and connections that say nothing more.
    others: Vec<Member>,
    connections: Vec<UnixStream>,
    until: Instant,
    begun: Instant,
    log: File,
    log_path: String,
    /// How many ancestors were hostile clients too.
    depth: usize,
}

/// The program `hostile`.
pub(crate) fn hostile(socket: &str, seed: &str, time: &str, log: &str) {
    let seed = seed.parse().expect("a seed");
    let mut random = Random::new(seed);
    let profiles = [
        Profile::Sound,
        Profile::Sound,
        Profile::Wrong,
        Profile::Scribbler,
        Profile::Talker,
        Profile::Stranger,
        Profile::All,
    ];
    let profile = random.pick(&profiles);
    let member = if profile == Profile::Stranger { None } else { Member::admit(socket) };
    run(random, profile, member, [socket, time, log], 0);
}

/// The program `crowd`.
pub(crate) fn crowd(socket: &str, clients: &str, seed: &str) {
    let mut random = Random::new(seed.parse().expect("a seed"));
    let clients: usize = clients.parse().expect("a number");
    let mut members: Vec<_> = (0..clients).filter_map(|_| Member::admit(socket)).collect();
    for _ in 0..4 {
        for member in &mut members {
            calls::sound(member, &mut random, 30);
            calls::send(member, &mut random, true);
        }
    }
    for member in members.iter_mut().step_by(2) {
        let _ = words::scribble(member, &mut random);
        calls::unsound(member, &mut random);
    }
    println!("{} admitted", members.len());
    loop {
        std::thread::park();
    }
}

/// The program `inherit`: standard input is the line to the parent.
pub(crate) fn inherit(words: &[&str]) {
    let [socket, seed, time, log, depth] = words else { panic!("unknown words {words:?}") };
    let line = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned();
    let mut line = Channel::from_fd(line.expect("a line to the parent"));
    let member = Member::shared(&mut line);
    let random = Random::new(seed.parse().expect("a seed"));
    let depth = depth.parse().expect("a depth");
    run(random, Profile::All, member, [socket, time, log], depth);
}

fn run(
    random: Random,
    profile: Profile,
    member: Option<Member>,
    [socket, time, log_path]: [&str; 3],
    depth: usize,
) {
    let begun = Instant::now();
    let until = begun + Duration::from_millis(time.parse().expect("a time"));
    let log = OpenOptions::new().create(true).append(true).open(log_path).expect("a log");
    let mut hostile = Hostile {
        socket: socket.to_owned(),
        random,
        profile,
        member,
        others: Vec::new(),
        connections: Vec::new(),
        until,
        begun,
        log,
        log_path: log_path.to_owned(),
        depth,
    };
    let admitted = hostile.member.as_ref().map(|member| member.client);
    hostile.note(&format!("{profile:?}, depth {depth}, client {admitted:?}"));
    while Instant::now() < until {
        let said = hostile.act();
        hostile.note(&said);
        if hostile.random.one_in(4) {
            let pause = hostile.random.below(20) as u64;
            std::thread::sleep(Duration::from_millis(pause));
        }
    }
    hostile.note("its time is over");
}

impl Hostile {
    fn note(&mut self, said: &str) {
        let mut line = String::new();
        let at = self.begun.elapsed().as_millis();
        let _ = writeln!(line, "{} +{at} ms: {said}", std::process::id());
        // A log that cannot be written is no reason to stop.
        let _ = self.log.write_all(line.as_bytes());
    }

    /// Does one random thing; says what, for the log. It is logged before if it may be the last.
    fn act(&mut self) -> String {
        if self.random.one_in(150) {
            return self.end();
        }
        if self.random.one_in(60) && self.depth < 2 {
            return self.fork();
        }
        let choice = match self.profile {
            Profile::Sound => self.random.pick(&[0, 0, 0, 1, 1, 2, 4, 9]),
            Profile::Wrong => self.random.pick(&[0, 0, 0, 1, 1, 1, 5, 6, 2]),
            Profile::Scribbler => self.random.pick(&[0, 0, 1, 3, 3, 2, 4]),
            Profile::Talker => self.random.pick(&[7, 7, 8, 9, 10, 0]),
            Profile::Stranger => self.random.pick(&[7, 8, 8, 9, 10]),
            Profile::All => self.random.below(11),
        };
        match choice {
            7 => passing::pass(self.member.as_ref(), &self.socket, &mut self.random),
            8 => control::garbage(&self.socket, &mut self.random, &mut self.connections),
            9 => {
                let line = self.member.as_mut().map(|member| &mut member.control);
                let line = line.filter(|_| self.random.one_in(2));
                control::question(line, &self.socket, &mut self.random)
            }
            10 => control::hellos(&self.socket, &mut self.random, &mut self.others),
            choice => self.act_as_member(choice),
        }
    }

    fn act_as_member(&mut self, choice: usize) -> String {
        let random = &mut self.random;
        let Some(member) = &mut self.member else {
            // After a while as a stranger, or after a refusal.
            if self.profile != Profile::Stranger {
                self.member = Member::admit(&self.socket);
            }
            return format!("admission: {}", self.member.is_some());
        };
        match choice {
            0 => {
                let count = random.pick(&[1, 4, 16, 64, 250]);
                calls::sound(member, random, count);
                format!("{count} calls, {} sockets", member.sockets.len())
            }
            1 => {
                calls::send(member, random, true);
                "data".to_owned()
            }
            2 => {
                words::bells(member, random);
                "bells".to_owned()
            }
            3 => words::scribble(member, random),
            4 => {
                words::dirty(member, random);
                "all sockets dirty".to_owned()
            }
            5 => {
                calls::send(member, random, false);
                "wrong data".to_owned()
            }
            _ => {
                calls::unsound(member, random);
                "a wrong call".to_owned()
            }
        }
    }

    /// Leaves in one of the ways there are.
    fn end(&mut self) -> String {
        match self.random.below(6) {
            0 => {
                self.note("SIGKILL");
                // It does not return.
                let _ = kill_process(getpid(), Signal::KILL);
                String::new()
            }
            1 => self.stop(),
            2 => {
                self.member = None;
                "closed everything".to_owned()
            }
            3 => {
                self.others.clear();
                self.connections.clear();
                "closed all but the membership".to_owned()
            }
            4 => {
                if let Some(member) = &mut self.member {
                    let bye = br#"{"request":"bye"}"#;
                    // It may have been dropped.
                    let _ = member.control.post(bye, &[]);
                }
                "said goodbye, and goes on".to_owned()
            }
            _ => {
                let thread = self.member.as_mut().and_then(Member::attach_thread);
                format!("one more thread: {}", thread.is_some())
            }
        }
    }

    /// Stops, until a helper continues or kills this process.
    fn stop(&mut self) -> String {
        let signal = self.random.pick(&["CONT", "CONT", "KILL"]);
        let wait = self.random.pick(&["0.1", "1", "3"]);
        self.note(&format!("SIGSTOP, after {wait} s {signal}"));
        let script = format!("sleep {wait}; kill -{signal} {}", std::process::id());
        if Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().is_ok() {
            // It runs on after the helper's signal.
            let _ = kill_process(getpid(), Signal::STOP);
        }
        "goes on".to_owned()
    }

    /// Starts a child that has the membership too.
    fn fork(&mut self) -> String {
        let Some(member) = &self.member else { return "no membership to share".to_owned() };
        let left = self.until.saturating_duration_since(Instant::now()).as_millis();
        let seed = self.random.next().to_string();
        let depth = (self.depth + 1).to_string();
        let words = ["inherit", &self.socket, &seed, &left.to_string(), &self.log_path, &depth];
        let Ok((mut ours, theirs)) = Channel::pair() else { return "no line".to_owned() };
        let Ok(program) = std::env::current_exe() else { return "no program".to_owned() };
        let theirs = Stdio::from(std::os::fd::OwnedFd::from(theirs));
        // It lives on when this process ends.
        let child = Command::new(program).args(words).stdin(theirs).spawn();
        let shared = child.is_ok() && member.share(&mut ours).is_some();
        format!("a child with seed {seed} shares the membership: {shared}")
    }
}
