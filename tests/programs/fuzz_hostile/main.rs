//! The programs of the hostile-client fuzzer (tests/tests/fuzz_hostile.rs).
//!
//! * `hostile SOCKET SEED MILLISECONDS LOG` is a client that does random valid and invalid things,
//!   and logs each one. It ends after that time, unless an action ended it.
//! * `inherit …` is its child, which shares the membership.
//! * `crowd SOCKET CLIENTS SEED` is so many clients at once, which do random things. Every second
//!   one breaks a rule in the end. It says how many were admitted, and waits to be ended.
//! * `peer` is the other host: servers that answer, and a dialer of the honest client's listener.
//! * `honest SECONDS STATUS` is an unmodified program that checks data and latency all the while.
//! * `newcomer` is a short program: a connection, some bytes, the end.
//!
//! ```text layers
//! actions: the random things that a hostile client does
//! calls words control: random calls, random words in the region, nonsense for the supervisor
//! passing: descriptors of all kinds
//! member: admission, and access to the region
//! honest: the programs that must not notice
//! random: numbers out of a seed
//! ```

#![forbid(unsafe_code)]

mod actions;
mod calls;
mod control;
mod honest;
mod member;
mod passing;
mod random;
mod words;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["hostile", socket, seed, time, log] => actions::hostile(socket, seed, time, log),
        ["inherit", ref inherited @ ..] => actions::inherit(inherited),
        ["crowd", socket, clients, seed] => actions::crowd(socket, clients, seed),
        ["peer"] => honest::peer(),
        ["honest", seconds, status] => honest::client(seconds, status),
        ["newcomer"] => honest::newcomer(),
        _ => panic!("unknown words {words:?}"),
    }
}
