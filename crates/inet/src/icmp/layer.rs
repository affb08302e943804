//! The parts that both families share: the bound on errors sent, and the counters.

use crate::config::Config;
use crate::interface_id::InterfaceId;
use crate::ip::Packet;
use crate::limit::{RateLimit, RateLimits};
use crate::secret::Secret;
use crate::time::Instant;

counters! { IcmpCounters:
    icmp_malformed "icmp.malformed" "ICMP messages too short or with an impossible quotation."
    icmp_bad_checksum "icmp.bad-checksum" "ICMP messages with a bad checksum."
    icmp_echoes "icmp.echo-replies" "Echo requests answered."
    icmp_in "icmp.errors-in" "ICMP errors that concern a socket."
    icmp_stray "icmp.errors-stray" "ICMP errors that match no socket or are not acted upon."
    icmp_out "icmp.errors-out" "ICMP errors sent."
    icmp_limited "icmp.errors-limited" "ICMP errors not sent because of the rate limit."
}

/// ICMP of one stack.
#[derive(Debug)]
pub(crate) struct IcmpLayer {
    limit: RateLimit,
    /// The bound for each destination, so that no node uses up the errors of all others.
    destinations: RateLimits,
    pub(super) counters: IcmpCounters,
}

impl IcmpLayer {
    pub(crate) fn new(config: &Config, secret: &Secret) -> Self {
        let limit = RateLimit::new(config.icmp_per_second, config.icmp_burst);
        let [rate, burst] = [config.icmp_peer_per_second, config.icmp_peer_burst];
        let destinations = RateLimits::new(secret.tables(), rate, burst);
        Self { limit, destinations, counters: IcmpCounters::default() }
    }

    /// Name and value of each counter.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.counters.iter()
    }

    /// Counts a received error, and whether a socket accepted it.
    pub(crate) fn count_report(&mut self, believed: bool) {
        self.counters.icmp_in += u64::from(believed);
        self.counters.icmp_stray += u64::from(!believed);
    }

    /// Counts a message that no socket waits for.
    pub(crate) fn count_stray(&mut self) {
        self.counters.icmp_stray += 1;
    }

    /// Whether an error about `packet` may be sent: not more than so many in a second to its
    /// sender, and to all. Counts it.
    pub(super) fn may_send_error(&mut self, now: Instant, packet: &Packet) -> bool {
        // As Linux: packets within the host are not limited.
        let inside = packet.interface == InterfaceId::LOOPBACK;
        let may = inside || self.destinations.take(now, packet.source) && self.limit.take(now);
        self.counters.icmp_out += u64::from(may);
        self.counters.icmp_limited += u64::from(!may);
        may
    }
}
