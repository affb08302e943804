//! The kinds of worst: what each one is, and how many threads it computes with.

use serde::{Deserialize, Serialize};

/// A thing that a client, a peer or another program of the machine does at the neighbour's cost.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    clap::ValueEnum,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// The scale: one thread that computes, and uses nothing of Tasuki.
    Compute1,
    /// The scale for kinds with two threads.
    Compute2,
    /// The scale for kinds with four threads.
    Compute4,
    /// Null calls, 256 together, without a pause.
    CallFlood,
    /// Sockets are opened, bound and closed.
    SocketChurn,
    /// Connects that nobody accepts.
    RefusedConnects,
    /// All ports are held, and connects go on (row 6).
    PortsHeld,
    /// Connections are made and closed: TIME-WAIT fills.
    TimeWaitFlood,
    /// Datagrams, as fast as a socket takes them.
    DatagramFlood,
    /// Writes of one byte, without Nagle's delay.
    TinySends,
    /// Four streams send in bulk.
    BulkSends,
    /// The server is rung for nothing.
    BellFlood,
    /// All sockets are marked as having news, again and again.
    DirtyFlood,
    /// A listener that accepts nothing, and a host that connects.
    BacklogFlood,
    /// A thousand connects to hosts that do not exist: timers and neighbour requests.
    TimerFlood,
    /// A thousand sockets are looked at in turn.
    PollStorm,
    /// Datagrams come and are not read: frames are held.
    UnreadDatagrams,
    /// Streams come and are not read: the receiving pool is held.
    UnreadStreams,
    /// Closed connections whose peer keeps a window of zero (row 4).
    ZeroWindowOrphans,
    /// shutdown(SHUT_RD) with sends before and after (row 5).
    ShutdownLoop,
    /// Clients that come and go, in four threads.
    ClientBomb,
    /// Clients that break the rules of their regions, one after the other (row 10).
    FaultLoop,
    /// A lingering socket in the own doorbell (row 1).
    LingeringBell,
    /// A lingering socket in the control connection (row 2).
    LingeringControl,
    /// An operator asks `ss -i` of a thousand connections, again and again (row 3).
    SsFlood,
    /// An operator's captures, as many as are given, which nobody reads (row 8).
    CaptureReaders,
    /// As many threads and clients as are admitted (row 9).
    DescriptorFlood,
    /// Garbage on fresh control connections.
    ControlGarbage,
    /// An operator asks `ps` without a pause (row 12's relative).
    QuestionFlood,
    /// Echo requests from the host.
    PingFlood,
    /// SYNs of made-up sources from the host.
    SynFlood,
    /// First fragments that never become datagrams.
    FragmentFlood,
    /// Datagrams to ports where nobody listens.
    ClosedPortFlood,
    /// A client joins and leaves a multicast group that has thousands of members.
    GroupChurn,
    /// Another user takes the lock of the runtime directory, or tries to (row 7).
    DirectoryLock,
    /// Another user writes in the runtime directory, or tries to (row 11).
    DirectoryWrites,
    /// The other end of a wire, another user's, floods it and rewrites its frames (row 13).
    WireRewrites,
}

/// Where a kind runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// A program that is a client.
    Client,
    /// The host at the other end of the link.
    Host,
    /// A program of another user of the machine.
    User,
    /// The other end of a second interface, a wire.
    Wire,
    /// It has nothing to do with Tasuki.
    Nowhere,
}

impl Kind {
    /// The scales, by threads.
    pub(crate) const SCALES: [(usize, Self); 3] =
        [(1, Self::Compute1), (2, Self::Compute2), (4, Self::Compute4)];

    /// Threads that compute without a pause, those of the host's program included: it begins a
    /// thread for each connection that it accepts.
    pub(crate) fn threads(self) -> usize {
        match self {
            Self::Compute2
            | Self::BacklogFlood
            | Self::TimeWaitFlood
            | Self::TinySends
            | Self::UnreadDatagrams
            | Self::WireRewrites => 2,
            Self::Compute4 | Self::BulkSends | Self::ClientBomb => 4,
            _ => 1,
        }
    }

    pub(crate) fn side(self) -> Side {
        match self {
            Self::Compute1 | Self::Compute2 | Self::Compute4 => Side::Nowhere,
            Self::PingFlood | Self::SynFlood | Self::FragmentFlood | Self::ClosedPortFlood => {
                Side::Host
            }
            Self::DirectoryLock | Self::DirectoryWrites => Side::User,
            Self::WireRewrites => Side::Wire,
            _ => Side::Client,
        }
    }

    /// As on the command line.
    pub(crate) fn name(self) -> String {
        use clap::ValueEnum as _;
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
