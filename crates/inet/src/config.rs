//! The bounds and defaults of a stack.

use core::ops::RangeInclusive;

use crate::tcp::TcpConfig;

/// Bounds and defaults; [`Config::default`] is what Linux does, as far as it has the same notion.
#[derive(Debug, Clone)]
pub struct Config {
    /// Most sockets at once, unaccepted and closing connections included.
    pub sockets: usize,
    /// Most connection requests at once, those of all listeners together.
    pub requests: usize,
    /// Most received frames that the core holds (out of order, or not yet fetched). Out-of-order
    /// segments and datagrams are refused from three quarters on, everything with payload at the
    /// limit.
    pub held_frames: usize,
    /// Longest routing table, entries of both families.
    pub routes: usize,
    /// Most addresses of one interface, of both families.
    pub addresses: usize,
    /// Most neighbours in the ARP cache.
    pub neighbours: usize,
    /// Most packets that wait for one neighbour's address; the oldest gives way.
    pub neighbour_queue: usize,
    /// Most connections in TIME-WAIT; the oldest ends early.
    pub time_wait: usize,
    /// Longest backlog of a listener; longer ones are cut to it.
    pub backlog: u16,
    /// Ports given to sockets that do not ask for one.
    pub ephemeral_ports: RangeInclusive<u16>,
    /// Time to live of packets sent, hops (1..=255).
    pub ttl: u8,
    /// ICMP errors sent at most, per second.
    pub icmp_per_second: u32,
    /// ICMP errors sent at most in a row.
    pub icmp_burst: u32,
    /// Receive queue of a datagram socket, payload bytes.
    pub udp_recv_buffer: usize,
    /// Datagrams in each of a datagram socket's queues.
    pub udp_queue: usize,
    /// Defaults of connections.
    pub tcp: TcpConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sockets: 65_536,
            requests: 16_384,
            held_frames: 1024,
            routes: 256,
            addresses: 32,
            neighbours: 1024,
            neighbour_queue: 16,
            time_wait: 16_384,
            backlog: 4096,
            ephemeral_ports: 32_768..=60_999,
            ttl: 64,
            icmp_per_second: 1000,
            icmp_burst: 50,
            udp_recv_buffer: 212_992,
            udp_queue: 1024,
            tcp: TcpConfig::default(),
        }
    }
}
