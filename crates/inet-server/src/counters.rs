//! What the server itself counts; the protocol core counts the rest. Programs count their own
//! copies in their regions; those numbers are theirs to tell, and used for nothing but reports.

inet::counters! {
    turns "server.turns" "Turns of the event loop."
    sleeps "server.sleeps" "Times that the server slept."
    bells "server.bells-rung" "System calls made to wake a program or a driver."
    calls "calls.executed" "Calls taken from programs' request rings."
    results "calls.results" "Results posted to programs' result rings."
    results_late "calls.results-backlogged" "Results that found their ring full."
    copied_rx "copy.rx-bytes" "Received payload copied from a frame to a client's area."
    program_tx "copy.program-tx-bytes" "Payload that programs say they copied into areas to send."
    program_rx "copy.program-rx-bytes" "Payload that programs say they copied out of areas."
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
