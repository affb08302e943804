//! Where the servers listen: ports that their clients take by default, but for nginx.

/// nginx's.
pub(crate) const NGINX_PORT: u16 = 8080;
/// sockperf's, of TCP and UDP.
pub(crate) const SOCKPERF_PORT: u16 = 11_111;
/// memcached's.
pub(crate) const MEMCACHED_PORT: u16 = 11_211;
/// redis-server's.
pub(crate) const REDIS_PORT: u16 = 6379;
/// iperf3's.
pub(crate) const IPERF3_PORT: u16 = 5201;
/// PostgreSQL's.
pub(crate) const POSTGRES_PORT: u16 = 5432;
