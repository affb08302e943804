//! `tasuki web`: an instance as a page in a browser, live.
//!
//! ```text
//!  browser, curl,      ┌ thread: tokio ───────────┐ questions  ┌ thread: watcher ┐
//!  Prometheus ──HTTP──▶│ http ▶ access ▶ routes   │───────────▶│ operator's line │──▶ supervisor
//!                      │   one event stream each ◀┼──snapshots─│ events          │
//!                      └──────────┬───────────────┘            └─────────────────┘
//!                                 └ thread for a recording: frames, marks ──────────▶ supervisor
//! ```
//!
//! The watcher asks the instance what `tasuki ps` and `tasuki ss` ask, while somebody looks, and
//! only then. A snapshot is encoded once for all viewers. A viewer that reads slowly misses
//! snapshots, and gets the newest one next; so it needs no more memory than others.
//!
//! The process has the rights of its user and no others. It reads: nothing that comes over HTTP
//! changes the instance. [`access`] says who is let in.

mod access;
mod events;
mod frames;
mod http;
mod page;
mod recording;
mod routes;
mod snapshot;
mod stream;
mod watcher;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use self::access::{Access, Token};
use self::routes::Site;
use self::watcher::Watcher;
use super::print;
use crate::cli::WebArgs;
use crate::exit::{self, Code, Failure};
use crate::operator::Operator;

/// How long the end waits for a recording to stop.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Serves the page until a signal.
///
/// # Errors
/// When the instance does not run, the address cannot be had, or the token's file is wrong.
pub(crate) fn web(args: &WebArgs) -> Result<u8, Failure> {
    if !args.listen.ip().is_loopback() && !args.allow_remote {
        let sentence = format!(
            "--listen {} is open to other machines, without encryption: say --allow-remote too, or \
             use a tunnel (ssh -L)",
            args.listen
        );
        return Err(Failure::new(Code::Usage, sentence));
    }
    let token = args.token_file.as_deref().map_or_else(Token::draw, Token::read)?;
    let operator = Operator::connect_or_guess(args.name.as_ref())?;
    let name = operator.name().clone();
    let listener = listen(args.listen)?;
    let here = listener.local_addr().map_err(|error| Failure::system("listen", error))?;
    let (watcher, watched) = Watcher::new(operator, args.interval)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .build()
        .map_err(|error| Failure::system("start the web server", error))?;
    // A signal that comes once the address is printed ends the command in order.
    let mut ends = {
        let _inside = runtime.enter();
        Ends::new()?
    };
    std::thread::Builder::new()
        .name("watcher".to_owned())
        .spawn(move || watcher.run())
        .map_err(|error| Failure::system("start a thread", error))?;
    if !here.ip().is_loopback() {
        exit::say(format_args!(
            "warning: every machine that reaches {here} and has the token sees what instance \
             {name} does; nothing is encrypted"
        ));
    }
    let address = browsers_address(here);
    print(&format!("http://{address}/?token={}\n", token.as_text()))?;
    exit::say(format_args!("watching instance {name}; Ctrl-C ends"));
    let site = Site::new(Access::new(token, here.port()), watched, name);
    runtime.block_on(tokio::task::LocalSet::new().run_until(async {
        let served = http::serve(listener, site.clone());
        tokio::select! {
            failure = served => Err(failure),
            () = ends.next() => {
                // Marks that are switched on would stay on.
                site.stop_recording(END_PATIENCE).await;
                Ok(0)
            }
        }
    }))
}

/// Takes the address.
fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| {
        let (code, why) = match error.kind() {
            ErrorKind::AddrInUse => (
                Code::InUse,
                "another program listens there: choose another port with --listen, or 0 for any"
                    .to_owned(),
            ),
            ErrorKind::AddrNotAvailable => {
                (Code::Usage, "this machine has no such address: see `ip addr`".to_owned())
            }
            ErrorKind::PermissionDenied => {
                (Code::Rights, "ports below 1024 are for root: choose a higher one".to_owned())
            }
            _ => (Code::Internal, error.to_string()),
        };
        Failure::new(code, format!("cannot listen on {address}: {why}"))
    })
}

/// What a browser of this machine takes: an address of the machine, where all were meant.
fn browsers_address(here: SocketAddr) -> SocketAddr {
    match here {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => ([127, 0, 0, 1], v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            (std::net::Ipv6Addr::LOCALHOST, v6.port()).into()
        }
        other => other,
    }
}

/// The signals that end the command.
struct Ends(Vec<tokio::signal::unix::Signal>);

impl Ends {
    fn new() -> Result<Self, Failure> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let all: std::io::Result<Vec<_>> = kinds.into_iter().map(signal).collect();
        Ok(Self(all.map_err(|error| Failure::system("watch for signals", error))?))
    }

    async fn next(&mut self) {
        std::future::poll_fn(|context| {
            let mut all = self.0.iter_mut();
            match all.any(|signal| signal.poll_recv(context).is_ready()) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_for_browsers() {
        for (listens, opened) in [
            ("0.0.0.0:8", "127.0.0.1:8"),
            ("[::]:8", "[::1]:8"),
            ("127.0.0.1:9", "127.0.0.1:9"),
            ("192.0.2.1:9", "192.0.2.1:9"),
        ] {
            assert_eq!(browsers_address(listens.parse().unwrap()).to_string(), opened);
        }
    }

    #[test]
    fn an_address_in_use_is_one_sentence() {
        let first = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let taken = first.local_addr().unwrap();
        let failure = listen(taken).unwrap_err();
        assert_eq!(failure.code, Code::InUse);
        assert!(failure.sentence.contains("choose another port"), "{failure}");
        let failure = listen("192.0.2.1:0".parse().unwrap()).unwrap_err();
        assert_eq!(failure.code, Code::Usage, "{failure}");
    }
}
