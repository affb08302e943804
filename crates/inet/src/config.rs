//! The bounds and defaults of a stack.

pub(crate) mod congestion;
pub(crate) mod tcp;

use core::ops::RangeInclusive;
use core::time::Duration;

use tcp::TcpConfig;

/// Default times that fragments wait for others. IPv4: as Linux; the 60 to 120 s of RFC 1122 3.3.2
/// only help attackers. IPv6: RFC 8200 4.5.
pub(crate) const REASSEMBLY_TIMEOUTS: [Duration; 2] =
    [Duration::from_secs(30), Duration::from_secs(60)];

/// Bounds and defaults. [`Config::default`] has Linux's values, where Linux has a counterpart.
#[derive(Debug, Clone)]
pub struct Config {
    /// Most sockets at once, unaccepted and closing connections included.
    pub sockets: usize,
    /// Most connection requests at once, those of all listeners together.
    pub requests: usize,
    /// Most hosts with a stored path MTU, which is less than the link's.
    pub path_mtus: usize,
    /// Most peers whose Fast Open cookies are stored.
    pub fast_open_peers: usize,
    /// Most received frames that the core holds, out of order or not yet fetched. From a half on
    /// it refuses data of connections that are not accepted, from three quarters on out-of-order
    /// segments and datagrams; at the limit, everything with payload. The free frames decide what
    /// share a connection's out-of-order segments may hold. The default takes one window of 4 MiB
    /// in full segments of Ethernet.
    pub held_frames: usize,
    /// Most bytes of packets in the core's own memory: reassembled from fragments, or sent to this
    /// host itself. Datagrams are refused from three quarters on.
    pub joined_bytes: usize,
    /// Most frames, and bytes of frames, on their way to ourselves.
    pub loopback_frames: usize,
    /// See `loopback_frames`.
    pub loopback_bytes: usize,
    /// Longest routing table, entries of both families.
    pub routes: usize,
    /// Most addresses of one interface, of both families.
    pub addresses: usize,
    /// Most security policies.
    pub policies: usize,
    /// Most security associations.
    pub associations: usize,
    /// Most neighbours in the ARP cache.
    pub neighbours: usize,
    /// Most packets that wait for one neighbour's address; a further one displaces the oldest.
    pub neighbour_queue: usize,
    /// Most closed connections in TIME-WAIT; with more, they end without it. Linux's default grows
    /// with memory.
    pub max_tw_buckets: usize,
    /// Reverse-path check of IPv4 packets (RFC 3704 2.2, 2.4). 0: none. 1 (strict): the source must
    /// be reached by the interface that the packet came by. 2 (loose): the source must be reached
    /// by some interface.
    pub rp_filter: u8,
    /// Longest backlog of a listener. A longer one is reduced to it.
    pub backlog: u16,
    /// Ports given to sockets that do not ask for one.
    pub ephemeral_ports: RangeInclusive<u16>,
    /// Time to live of packets sent, hops (1..=255).
    pub ttl: u8,
    /// ICMP errors sent at most, per second.
    pub icmp_per_second: u32,
    /// ICMP errors sent at most in a row.
    pub icmp_burst: u32,
    /// ICMP errors sent to one address at most, per second.
    pub icmp_peer_per_second: u32,
    /// ICMP errors sent to one address at most in a row.
    pub icmp_peer_burst: u32,
    /// Receive queue of a datagram socket, payload bytes.
    pub udp_recv_buffer: usize,
    /// Datagrams in each of a datagram socket's queues.
    pub udp_queue: usize,
    /// Most multicast groups of one interface and family.
    pub groups: usize,
    /// Most multicast groups of one socket.
    pub memberships: usize,
    /// Most sources in a socket's filter of a group (0..=64).
    pub group_sources: usize,
    /// Bounds on fragments that wait for others.
    pub reassembly: ReassemblyConfig,
    /// IPv6.
    pub v6: V6Config,
    /// Static IPv4 addresses are announced when they are added, and defended against other nodes
    /// that use them (RFC 5227 2.4 c). Addresses from DHCP always are.
    pub arp_notify: bool,
    /// How addresses are looked for before they are used.
    pub acd: AcdConfig,
    /// Defaults of connections.
    pub tcp: TcpConfig,
}

/// Times of address conflict detection; the defaults are those of RFC 5227 1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcdConfig {
    /// Longest random delay before the first probe.
    pub probe_wait: Duration,
    /// Number of probes; 0 only waits.
    pub probes: u8,
    /// Shortest time between probes.
    pub probe_min: Duration,
    /// Longest time between probes.
    pub probe_max: Duration,
    /// From the last probe to the use of the address.
    pub announce_wait: Duration,
}

impl Default for AcdConfig {
    fn default() -> Self {
        Self {
            probe_wait: Duration::from_secs(1),
            probes: 3,
            probe_min: Duration::from_secs(1),
            probe_max: Duration::from_secs(2),
            announce_wait: Duration::from_secs(2),
        }
    }
}

/// Bounds on the fragments of packets that are not complete. They count as held frames too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReassemblyConfig {
    /// Most bytes of frames.
    pub bytes: usize,
    /// Most frames.
    pub frames: usize,
    /// Most bytes of frames from one source address. The least is room for one longest packet.
    pub source_bytes: usize,
    /// Most frames from one source address. The least is room for one longest packet.
    pub source_frames: usize,
    /// How long the fragments of an IPv4 packet wait.
    pub timeout_v4: Duration,
    /// How long the fragments of an IPv6 packet wait.
    pub timeout_v6: Duration,
}

impl Default for ReassemblyConfig {
    fn default() -> Self {
        Self {
            bytes: 4 << 20,
            frames: 512,
            source_bytes: 1 << 20,
            source_frames: 256,
            timeout_v4: REASSEMBLY_TIMEOUTS[0],
            timeout_v6: REASSEMBLY_TIMEOUTS[1],
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sockets: 65_536,
            requests: 16_384,
            path_mtus: 1024,
            fast_open_peers: 1024,
            held_frames: 4096,
            joined_bytes: 16 << 20,
            loopback_frames: 256,
            loopback_bytes: 1 << 20,
            routes: 256,
            addresses: 32,
            policies: 256,
            associations: 1024,
            neighbours: 1024,
            neighbour_queue: 16,
            max_tw_buckets: 32_768,
            rp_filter: 0,
            backlog: 4096,
            ephemeral_ports: 32_768..=60_999,
            ttl: 64,
            icmp_per_second: 1000,
            icmp_burst: 200,
            icmp_peer_per_second: 100,
            icmp_peer_burst: 50,
            udp_recv_buffer: 212_992,
            udp_queue: 1024,
            groups: 256,
            memberships: 20,
            group_sources: 64,
            reassembly: ReassemblyConfig::default(),
            v6: V6Config::default(),
            arp_notify: false,
            acd: AcdConfig::default(),
            tcp: TcpConfig::default(),
        }
    }
}

/// IPv6 settings of interfaces, and bounds on the state that other nodes of the link can cause.
#[derive(Debug, Clone, Copy)]
pub struct V6Config {
    /// Probes for duplicates of an address before its use, one per second (RFC 4862 5.1
    /// DupAddrDetectTransmits). With 0, addresses are used at once.
    pub dad_transmits: u8,
    /// Router advertisements are followed.
    pub accept_ra: bool,
    /// Addresses are made of the prefixes that they announce.
    pub autoconf: bool,
    /// Addresses end in an identifier that is made of this and the network (RFC 7217), not in the
    /// hardware address. The same secret gives the same addresses.
    pub stable_secret: Option<[u8; 16]>,
    /// Hops of packets where neither socket nor router says otherwise (1..=255).
    pub hop_limit: u8,
    /// Packets of connections carry flow labels (RFC 6437).
    pub auto_flow_labels: bool,
    /// An address is advertised on the link when it becomes usable (RFC 4861 7.2.6).
    pub ndisc_notify: bool,
    /// Most addresses that one interface makes of routers' prefixes.
    pub max_addresses: usize,
    /// Most default routers of one interface.
    pub routers: usize,
    /// Most networks that routers advertise as on one link.
    pub prefixes: usize,
    /// Most resolvers that routers advertise on one interface.
    pub dns_servers: usize,
}

impl Default for V6Config {
    fn default() -> Self {
        Self {
            dad_transmits: 1,
            accept_ra: true,
            autoconf: true,
            stable_secret: None,
            hop_limit: 64,
            auto_flow_labels: true,
            ndisc_notify: false,
            max_addresses: 16,
            routers: 8,
            prefixes: 16,
            dns_servers: 8,
        }
    }
}
