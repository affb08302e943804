//! A client's membership as the supervisor and the inet server know it, with access to every word.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::SocketId;
use abi::client::{ClientLayout, ClientParams};
use abi::control::{ClientReply, ClientRequest, VERSION};
use shm::{Access, Channel, Message, Region, TryRecv};

/// The supervisor may be busy with many hostile clients. A test notices a stop by other means.
const ANSWER: Duration = Duration::from_secs(20);

/// One thread slot.
pub(crate) struct Slot {
    pub(crate) number: u16,
    pub(crate) bell: OwnedFd,
}

/// The membership.
pub(crate) struct Member {
    pub(crate) control: Channel,
    pub(crate) memory: OwnedFd,
    pub(crate) region: Arc<Region>,
    pub(crate) layout: ClientLayout,
    pub(crate) bell: OwnedFd,
    pub(crate) client: u16,
    pub(crate) threads: Vec<Slot>,
    /// Sockets that were made, some of them closed since.
    pub(crate) sockets: Vec<SocketId>,
    pub(crate) tag: u32,
}

/// Asks the supervisor; `None` when it does not answer, which is its right.
pub(crate) fn ask(
    control: &mut Channel,
    request: &ClientRequest,
) -> Option<(ClientReply, Message)> {
    let body = serde_json::to_vec(request).expect("a request is plain data");
    control.send(&body, &[]).ok()?;
    let begun = Instant::now();
    loop {
        match control.try_recv().ok()? {
            TryRecv::Message(message) => {
                let reply = serde_json::from_slice(&message.body).ok()?;
                return Some((reply, message));
            }
            TryRecv::Ended => return None,
            TryRecv::Empty if begun.elapsed() > ANSWER => return None,
            TryRecv::Empty => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// A control connection.
pub(crate) fn connect(socket: &str) -> Option<Channel> {
    Some(Channel::from_fd(UnixStream::connect(socket).ok()?.into()))
}

impl Member {
    /// Admission in order; `None` when the supervisor refuses.
    pub(crate) fn admit(socket: &str) -> Option<Self> {
        let mut control = connect(socket)?;
        let hello = ClientRequest::Hello { version: VERSION, program: "fuzz".to_owned() };
        let (reply, message) = ask(&mut control, &hello)?;
        let ClientReply::Welcome { client, params, .. } = reply else { return None };
        let mut fds = message.fds.into_iter();
        let (memory, bell) = (fds.next()?, fds.next()?);
        let layout = params.layout().ok()?;
        let region = Region::map(memory.as_fd(), layout.len, Access::ReadWrite).ok()?;
        let (threads, sockets) = (Vec::new(), Vec::new());
        let mut member =
            Self { control, memory, region, layout, bell, client, threads, sockets, tag: 0 };
        member.attach_thread()?;
        Some(member)
    }

    /// One more thread slot.
    pub(crate) fn attach_thread(&mut self) -> Option<()> {
        let (reply, message) = ask(&mut self.control, &ClientRequest::AttachThread)?;
        let ClientReply::Thread { thread } = reply else { return None };
        self.threads.push(Slot { number: thread, bell: message.fds.into_iter().next()? });
        Some(())
    }

    /// Sends the membership over a line: to a child, which goes on with it beside this process.
    pub(crate) fn share(&self, line: &mut Channel) -> Option<()> {
        let thread = self.threads.first()?;
        let body = serde_json::to_vec(&(self.layout.params, self.client, thread.number)).ok()?;
        let own = [&self.memory, &self.bell, &thread.bell].map(|fd| fd.as_fd());
        line.send(&body, &[self.control.as_fd(), own[0], own[1], own[2]]).ok()
    }

    /// The membership that a parent shares.
    pub(crate) fn shared(line: &mut Channel) -> Option<Self> {
        let message = line.recv().ok()??;
        let (params, client, number): (ClientParams, u16, u16) =
            serde_json::from_slice(&message.body).ok()?;
        let mut fds = message.fds.into_iter();
        let control = Channel::from_fd(fds.next()?);
        let (memory, bell) = (fds.next()?, fds.next()?);
        let threads = vec![Slot { number, bell: fds.next()? }];
        let layout = params.layout().ok()?;
        let region = Region::map(memory.as_fd(), layout.len, Access::ReadWrite).ok()?;
        let sockets = Vec::new();
        Some(Self { control, memory, region, layout, bell, client, threads, sockets, tag: 0 })
    }

    /// The word at an offset.
    pub(crate) fn word(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        // Offsets come from the layout; a wrong one reads as 0.
        let _ = self.region.read(at & !7, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Writes the word at an offset.
    pub(crate) fn set_word(&self, at: usize, word: u64) {
        // As above: an offset outside of the region writes nothing.
        let _ = self.region.write(at & !7, &word.to_le_bytes());
    }

    /// Rings the server, whether or not it sleeps.
    pub(crate) fn ring(&self) {
        // A full eventfd has rung.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Marks a socket in the dirty bitmap.
    pub(crate) fn mark_dirty(&self, socket: u16) {
        if let Ok(head) = self.layout.head(&self.region) {
            head.dirty.set(socket % self.layout.params.sockets);
        }
    }
}
