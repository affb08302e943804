//! Shared sockets: a pair of Unix sockets for each, made at a client's request ([`abi::shared`]).
//!
//! The supervisor makes the pairs. So no descriptor travels from a program to a server. A shared
//! socket counts for the client that asked, also after that client's end, until the inet server
//! says that it is shared no more.

use std::os::fd::{AsFd, OwnedFd};

use abi::SocketId;
use abi::control::{ClientReply, ServerRequest};
use abi::shared::MOST_SHARED;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};

use super::admission::ClientStage;
use super::budget;
use super::connections::ConnectionId;
use super::requests::Refusal;
use super::servers::ServerId;
use super::{ReplyContext, Supervisor};
use crate::config::Mode;
use crate::exit::Failure;

/// Most shared sockets of a client: each takes a descriptor of the inet server.
const MOST_OF_CLIENT: usize = 1024;

/// A pair: the inet server's end, the program's end, and the cookie of the latter.
fn pair() -> Result<(OwnedFd, OwnedFd, u64), Refusal> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let failed = |errno| {
        Refusal::Client(Failure::system("make the ends of a shared socket", errno).sentence)
    };
    let (ours, program) =
        rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None).map_err(failed)?;
    // Nothing is ever sent to the program. A read by a system call of its own does not wait.
    rustix::net::shutdown(&program, Shutdown::Read).map_err(failed)?;
    // Where the kernel knows no such option, the inet server closes what comes elsewhere.
    let _ = shm::passing::refuse_descriptors(&ours);
    let cookie = sockopt::socket_cookie(&program).map_err(failed)?;
    Ok((ours, program, cookie))
}

impl Supervisor {
    /// A client asks for shared sockets.
    pub(super) fn share(
        &mut self,
        id: ConnectionId,
        sockets: Vec<SocketId>,
    ) -> Result<(), Refusal> {
        if self.sharing.in_flight < budget::SHARING_REQUESTS {
            return self.share_now(id, &sockets);
        }
        // Each connection has one request at a time.
        self.sharing.waiting.push_back((id, sockets));
        Ok(())
    }

    fn share_now(&mut self, id: ConnectionId, sockets: &[SocketId]) -> Result<(), Refusal> {
        let refuse = |message: String| Err(Refusal::Client(message));
        if self.instance.settings.mode == Mode::Library {
            return refuse("in mode library a socket stays with its process".to_owned());
        }
        let number = self.connections.get_mut(id).and_then(|connection| connection.client);
        let client = number.and_then(|number| self.clients.get(number));
        let (Some(number), Some(_)) = (number, client.filter(|c| c.stage == ClientStage::Live))
        else {
            return refuse("this connection is not a client: say hello first".to_owned());
        };
        if sockets.len() > MOST_SHARED {
            return refuse(format!("a request shares at most {MOST_SHARED} sockets"));
        }
        let most = MOST_OF_CLIENT.min(self.instance.settings.params.sockets.into());
        if self.clients.count_shared(number) + sockets.len() > most {
            return refuse(format!("a client has at most {most} shared sockets"));
        }
        let promised = self.clients.descriptors();
        let more = sockets.len() as u64;
        budget::check_more(&self.instance, promised, more).map_err(Refusal::Client)?;
        let (mut named, mut ours, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for &socket in sockets {
            let (server, program, cookie) = pair()?;
            named.push((socket, cookie));
            ours.push(server);
            ends.push(program);
        }
        let cookies: Vec<u64> = named.iter().map(|(_, cookie)| *cookie).collect();
        cookies.iter().for_each(|cookie| self.clients.add_shared(*cookie, number));
        let request = ServerRequest::ShareSockets { client: number, sockets: named };
        let context = ReplyContext::Shared { connection: id, cookies, ends };
        let fds: Vec<_> = ours.iter().map(AsFd::as_fd).collect();
        self.sharing.in_flight += 1;
        Ok(self.servers.ask(ServerId::Inet, request, &fds, context)?)
    }

    /// The inet server's answer: the program gets its ends.
    pub(super) fn reply_shared(
        &mut self,
        id: ConnectionId,
        cookies: &[u64],
        ends: &[OwnedFd],
        refusal: Option<String>,
    ) -> Result<(), Failure> {
        match refusal {
            None => self.reply(id, &ClientReply::Shared, &ends.iter().collect::<Vec<_>>())?,
            Some(message) => {
                cookies.iter().for_each(|cookie| self.clients.end_shared(*cookie));
                self.reply(id, &ClientReply::Error { message }, &[])?;
            }
        }
        self.sharing.in_flight = self.sharing.in_flight.saturating_sub(1);
        while self.sharing.in_flight < budget::SHARING_REQUESTS
            && let Some((id, sockets)) = self.sharing.waiting.pop_front()
        {
            let done = self.share_now(id, &sockets);
            self.refuse(id, done)?;
        }
        Ok(())
    }
}
