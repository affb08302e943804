//! The layers of a stack.

use alloc::vec::Vec;

use crate::bytes::{RxBytes, TxBytes};
use crate::config::Config;
use crate::context::Context;
use crate::dhcp::DhcpLayer;
use crate::icmp::IcmpLayer;
use crate::ip::Fragments;
use crate::nd::NdLayer;
use crate::secret::Secret;
use crate::sockets::SocketLayer;
use crate::sockets::events::Event;
use crate::wheel::TimerId;

/// A TCP/IP stack. `T` holds payload to be sent, `R` a received frame.
#[derive(Debug)]
pub struct Stack<T, R> {
    pub(super) config: Config,
    pub(super) cx: Context,
    pub(super) nd: NdLayer,
    pub(super) icmp: IcmpLayer,
    pub(super) fragments: Fragments<R>,
    pub(super) dhcp: DhcpLayer,
    /// Of DHCP and address conflict detection.
    pub(super) addressing_timer: Option<TimerId>,
    pub(super) sockets: SocketLayer<T, R>,
    /// Room for a private copy of a received frame.
    pub(super) copy: Vec<u8>,
}

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// A stack without interfaces. `secret` is random and this stack's alone: sequence numbers,
    /// ports and hash tables rest on it.
    pub fn new(config: Config, secret: [u8; 16]) -> Self {
        let secret = Secret::new(&secret);
        Self {
            nd: NdLayer::new(&config, &secret),
            icmp: IcmpLayer::new(&config, &secret),
            fragments: Fragments::new(config.reassembly, &secret),
            dhcp: DhcpLayer::default(),
            addressing_timer: None,
            sockets: SocketLayer::new(&config, &secret),
            cx: Context::new(&config, secret),
            copy: Vec::new(),
            config,
        }
    }

    /// Changes bounds and defaults. Sockets made afterwards use the changes. The sizes of tables
    /// are fixed when the stack is made.
    pub fn configure(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
        self.cx.ip.configure(&self.config);
        self.nd.configure(&self.config.v6);
        self.sockets.configure(&self.config);
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.sockets.poll_event(&mut self.cx)
    }

    /// Sets whether the egress is notified of the steps of making segments
    /// ([`Egress::stage`](crate::Egress::stage)).
    pub fn set_traced(&mut self, traced: bool) {
        self.cx.link.set_traced(traced);
    }

    /// The counters by name, and the number of frames held now.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let held = &self.cx.held;
        let frames = [
            ("memory.frames-refused", held.refused()),
            ("memory.frames-held", held.count() as u64),
            ("memory.joined-bytes", held.bytes() as u64),
        ];
        let below =
            self.cx.link.counters().chain(self.cx.ip.counters()).chain(self.cx.esp.counters());
        let below = below.chain(self.fragments.counters()).chain(self.nd.counters());
        let above = self.icmp.counters().chain(self.dhcp.counters());
        below.chain(above).chain(self.sockets.counters()).chain(frames)
    }

    /// The layers below the protocols, for tests.
    #[cfg(test)]
    pub(crate) fn context(&mut self) -> &mut Context {
        &mut self.cx
    }

    /// Has as many RSTs wait, for tests.
    #[cfg(test)]
    pub(crate) fn fill_resets(
        &mut self,
        count: usize,
        ends: crate::tcp::Endpoints,
        reset: crate::tcp::SegmentRepr,
    ) {
        (0..count).for_each(|_| self.sockets.queue_reset(ends, reset));
    }

    /// The sockets, for tests.
    #[cfg(test)]
    pub(crate) fn socket_layer(&self) -> &SocketLayer<T, R> {
        &self.sockets
    }
}
