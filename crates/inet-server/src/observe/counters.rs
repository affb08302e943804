//! The server's own counters; the protocol core has the others.
//!
//! Programs count their own copies, bells and sleeps in their regions. The server does not believe
//! those numbers; reports are their only use.

use abi::stats::{Histogram, Sizes};

inet::counters! {
    iterations "server.iterations" "Iterations of the event loop."
    sleeps "server.sleeps" "Times that the server slept."
    idle_wakes "server.idle-wake-ups" "Times that it was woken and found nothing to do."
    spins_won "server.spins-won" "Waits that were over while the server looked again."
    spins_lost "server.spins-lost" "Waits in which it looked again and slept all the same."
    wake_cost "server.wake-up-cost-ns" "The cost of a wake-up as the server measured it."
    kept_awake "server.kept-awake" "Times that processors were kept from halting."
    spin_bound "server.spin-bound-ns" "The longest spin at present."
    bells "server.bells-rung" "System calls made to wake a program or a driver."
    driver_bells "server.bells-to-drivers" "Those of them that woke a driver."
    calls "calls.executed" "Calls taken from programs' request rings."
    results "calls.results" "Results posted to programs' result rings."
    results_late "calls.results-backlogged" "Results that found their ring full."
    copied_rx "copy.rx-bytes" "Received payload copied from a frame to a client's area."
    lent_rx "payload.rx-lent-bytes" "Received payload handed to programs in its frame."
    program_tx "copy.program-tx-bytes" "Payload that programs say they copied into areas to send."
    program_rx "copy.program-rx-bytes" "Payload that programs say they copied out of areas."
    program_bells "program.bells-rung" "System calls by which programs woke the server."
    program_sleeps "program.sleeps" "Times that a thread of a program slept until there was news."
    payload_tx "payload.tx-bytes" "Payload taken from programs' sending queues."
    payload_rx "payload.rx-bytes" "Payload delivered to programs' receiving queues."
    datagrams_dropped "drop.datagrams" "Received datagrams for which their socket had no room."
    sends_dropped "drop.sends" "Descriptors whose bytes could not be sent any more."
    faults "clients.faults" "Clients dropped because they broke the rules of their region."
    admitted "clients.admitted" "Clients admitted."
    released "clients.released" "Clients of which nothing was left."
    nic_attached "nic.attached" "Times that a driver registered its interface."
    nic_bad_slots "drop.nic-bad-slots" "Slots of a driver that are no valid call."
    nic_bad_frames "drop.nic-bad-frames" "Frames whose page or extent the pool refused."
    nic_lost_pages "nic.lost-pages" "Pages that a driver did not hand back after sending."
    nic_dropped "drop.frames-without-room" "Frames not sent: no room, or no driver."
}

/// Sizes of batches. The items of a batch share the cost of an iteration.
#[derive(Debug, Default)]
pub(crate) struct BatchSizes {
    /// Frames taken from drivers in one iteration.
    pub(crate) frames_in: Sizes,
    /// Frames given to drivers in one iteration.
    pub(crate) frames_out: Sizes,
    /// Calls taken from a client in one iteration.
    pub(crate) calls: Sizes,
    /// Descriptors taken from a socket's sending queue at once.
    pub(crate) sends: Sizes,
}

impl BatchSizes {
    /// Each histogram, under its name.
    pub(crate) fn histograms(&self) -> Vec<Histogram> {
        vec![
            self.calls.histogram("calls.per-scan"),
            self.frames_in.histogram("server.frames-in-per-iteration"),
            self.frames_out.histogram("server.frames-out-per-iteration"),
            self.sends.histogram("server.sends-per-look"),
        ]
    }
}
