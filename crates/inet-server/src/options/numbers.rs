//! Linux's numbers of levels and options: socket(7), ip(7), ipv6(7), tcp(7), udp(7).

pub(super) const IPPROTO_IP: i32 = 0;
pub(super) const IPPROTO_ICMP: i32 = 1;
pub(super) const SOL_SOCKET: i32 = 1;
pub(super) const IPPROTO_TCP: i32 = 6;
pub(super) const IPPROTO_UDP: i32 = 17;
pub(super) const IPPROTO_IPV6: i32 = 41;
pub(super) const IPPROTO_ICMPV6: i32 = 58;
pub(super) const IPPROTO_UDPLITE: i32 = 136;

pub(super) const SOCK_STREAM: i32 = 1;
pub(super) const SOCK_DGRAM: i32 = 2;

pub(super) const SO_REUSEADDR: i32 = 2;
pub(super) const SO_TYPE: i32 = 3;
pub(super) const SO_ERROR: i32 = 4;
pub(super) const SO_BROADCAST: i32 = 6;
pub(super) const SO_SNDBUF: i32 = 7;
pub(super) const SO_RCVBUF: i32 = 8;
pub(super) const SO_KEEPALIVE: i32 = 9;
pub(super) const SO_OOBINLINE: i32 = 10;
pub(super) const SO_PRIORITY: i32 = 12;
pub(super) const SO_LINGER: i32 = 13;
pub(super) const SO_REUSEPORT: i32 = 15;
pub(super) const SO_RCVLOWAT: i32 = 18;
pub(super) const SO_SNDLOWAT: i32 = 19;
pub(super) const SO_BINDTODEVICE: i32 = 25;
pub(super) const SO_ACCEPTCONN: i32 = 30;
pub(super) const SO_TIMESTAMP: i32 = 29;
pub(super) const SO_SNDBUFFORCE: i32 = 32;
pub(super) const SO_RCVBUFFORCE: i32 = 33;
pub(super) const SO_TIMESTAMPNS: i32 = 35;
pub(super) const SO_PROTOCOL: i32 = 38;
pub(super) const SO_DOMAIN: i32 = 39;
pub(super) const SO_COOKIE: i32 = 57;
pub(super) const SO_BINDTOIFINDEX: i32 = 62;
pub(super) const SO_TIMESTAMP_NEW: i32 = 63;
pub(super) const SO_TIMESTAMPNS_NEW: i32 = 64;

pub(super) const IP_TOS: i32 = 1;
pub(super) const IP_TTL: i32 = 2;
pub(super) const IP_PKTINFO: i32 = 8;
pub(super) const IP_RECVTTL: i32 = 12;
pub(super) const IP_RECVTOS: i32 = 13;
pub(super) const IP_RECVORIGDSTADDR: i32 = 20;
pub(super) const IP_MTU_DISCOVER: i32 = 10;
pub(super) const IP_MTU: i32 = 14;
pub(super) const IP_BIND_ADDRESS_NO_PORT: i32 = 24;
pub(super) const IP_RECVERR: i32 = 11;
pub(super) const IP_MULTICAST_IF: i32 = 32;
pub(super) const IP_MULTICAST_TTL: i32 = 33;
pub(super) const IP_MULTICAST_LOOP: i32 = 34;
pub(super) const IP_ADD_MEMBERSHIP: i32 = 35;
pub(super) const IP_DROP_MEMBERSHIP: i32 = 36;
pub(super) const IP_MULTICAST_ALL: i32 = 49;

pub(super) const IPV6_UNICAST_HOPS: i32 = 16;
pub(super) const IPV6_RECVERR: i32 = 25;
pub(super) const IPV6_MULTICAST_IF: i32 = 17;
pub(super) const IPV6_MULTICAST_HOPS: i32 = 18;
pub(super) const IPV6_MULTICAST_LOOP: i32 = 19;
pub(super) const IPV6_JOIN_GROUP: i32 = 20;
pub(super) const IPV6_LEAVE_GROUP: i32 = 21;
pub(super) const IPV6_MTU_DISCOVER: i32 = 23;
pub(super) const IPV6_MTU: i32 = 24;
pub(super) const IPV6_V6ONLY: i32 = 26;
pub(super) const IPV6_MULTICAST_ALL: i32 = 29;
pub(super) const IPV6_RECVPKTINFO: i32 = 49;
pub(super) const IPV6_RECVHOPLIMIT: i32 = 51;
pub(super) const IPV6_RECVTCLASS: i32 = 66;
pub(super) const IPV6_TCLASS: i32 = 67;

pub(super) const IPV6_RECVORIGDSTADDR: i32 = 74;

pub(super) const UDP_CORK: i32 = 1;
pub(super) const UDPLITE_SEND_CSCOV: i32 = 10;
pub(super) const UDPLITE_RECV_CSCOV: i32 = 11;
pub(super) const UDP_SEGMENT: i32 = 103;
pub(super) const UDP_GRO: i32 = 104;

pub(super) const TCP_NODELAY: i32 = 1;
pub(super) const TCP_MAXSEG: i32 = 2;
pub(super) const TCP_CORK: i32 = 3;
pub(super) const TCP_KEEPIDLE: i32 = 4;
pub(super) const TCP_KEEPINTVL: i32 = 5;
pub(super) const TCP_KEEPCNT: i32 = 6;
pub(super) const TCP_SYNCNT: i32 = 7;
pub(super) const TCP_LINGER2: i32 = 8;
pub(super) const TCP_DEFER_ACCEPT: i32 = 9;
pub(super) const TCP_WINDOW_CLAMP: i32 = 10;
pub(super) const TCP_INFO: i32 = 11;
pub(super) const TCP_QUICKACK: i32 = 12;
pub(super) const TCP_CONGESTION: i32 = 13;
pub(super) const TCP_USER_TIMEOUT: i32 = 18;
pub(super) const TCP_FASTOPEN: i32 = 23;
pub(super) const TCP_FASTOPEN_CONNECT: i32 = 30;
pub(super) const TCP_FASTOPEN_KEY: i32 = 33;
pub(super) const TCP_FASTOPEN_NO_COOKIE: i32 = 34;
pub(super) const TCP_NOTSENT_LOWAT: i32 = 25;

pub(super) const AF_INET: i32 = 2;
pub(super) const AF_INET6: i32 = 10;
