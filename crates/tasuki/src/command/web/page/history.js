// history.js: the last minute, out of the snapshots that this page has seen.
const MINUTE = 60_000;
// A gap as long as this breaks a curve.
const GAP = 5000;

class Series {
  constructor() { this.points = []; }

  add(at, value) {
    const last = this.points.at(-1);
    if (last && at - last[0] > GAP) this.points.push([at - 1, null]);
    this.points.push([at, value]);
    while (this.points.length && this.points[0][0] < at - MINUTE) this.points.shift();
  }
}

const keyOf = (socket) => `${socket.netid} ${socket.local} ${socket.peer ?? ""}`;

class LastMinute {
  constructor() {
    this.before = null;
    this.series = new Map();
    this.rates = new Map();
    this.connections = new Map();
  }

  of(name) {
    if (!this.series.has(name)) this.series.set(name, new Series());
    return this.series.get(name);
  }

  // Counters that an instance has counted anew since the last snapshot are left out.
  take(snapshot) {
    const { before } = this;
    this.before = snapshot;
    this.rates = new Map();
    const seconds = before ? (snapshot.at_ms - before.at_ms) / 1000 : 0;
    const isSame = before?.status && snapshot.status && seconds > 0 &&
      before.status.processes[0]?.pid === snapshot.status.processes[0]?.pid;
    if (isSame) {
      for (const [name, value] of Object.entries(snapshot.status.counters)) {
        const grown = value - (before.status.counters[name] ?? 0);
        if (grown >= 0) this.rates.set(name, grown / seconds);
      }
      for (const [name, rate] of this.rates) {
        if (PLOTTED.has(name)) this.of(name).add(snapshot.at_ms, rate);
      }
    }
    this.takeSockets(snapshot, isSame ? seconds : 0);
    this.parties(snapshot, isSame ? before : null, seconds);
  }

  takeSockets(snapshot, seconds) {
    const seen = new Map();
    for (const socket of snapshot.sockets) {
      const key = keyOf(socket);
      const known = this.connections.get(key);
      const one = known || { series: {} };
      one.out = one.in = null;
      const { tcp } = socket;
      if (tcp) {
        if (one.socket?.tcp && seconds > 0) {
          const rate = (now, then) => (now >= then ? (now - then) / seconds : null);
          one.out = rate(tcp.bytes_acked, one.socket.tcp.bytes_acked);
          one.in = rate(tcp.bytes_received, one.socket.tcp.bytes_received);
          one.again = rate(tcp.retrans_total, one.socket.tcp.retrans_total);
        }
        this.takeConnection(one, snapshot.at_ms, tcp);
      }
      one.socket = socket;
      seen.set(key, one);
    }
    // One that has gone stays for a minute: its end is what a viewer wants to see.
    for (const [key, one] of this.connections) {
      if (seen.has(key)) continue;
      one.gone ??= snapshot.at_ms;
      if (snapshot.at_ms - one.gone < MINUTE) seen.set(key, one);
    }
    this.connections = seen;
  }

  takeConnection(one, at, tcp) {
    delete one.gone;
    const add = (name, value) => (one.series[name] ??= new Series()).add(at, value);
    add("sent", tcp.bytes_sent - tcp.bytes_retrans);
    add("acked", tcp.bytes_acked);
    add("edge", tcp.bytes_acked + tcp.snd_wnd);
    add("received", tcp.bytes_received);
    add("cwnd", tcp.cwnd * tcp.mss);
    add("snd_wnd", tcp.snd_wnd);
    add("rcv_wnd", tcp.rcv_wnd);
    add("flight", tcp.unacked * tcp.mss);
    add("rtt", tcp.rtt_us / 1000);
    add("minrtt", tcp.minrtt_us / 1000);
    add("retrans", one.again ?? 0);
    add("lost", tcp.lost);
    add("out", one.out);
    add("in", one.in);
  }

  // What each program and driver has exchanged since the last snapshot, each second.
  parties(snapshot, before, seconds) {
    const key = (party) => `${party.role} ${party.number}`;
    const earlier = new Map((before?.status?.parties ?? []).map((party) => [key(party), party]));
    this.exchanged = new Map((snapshot.status?.parties ?? []).map((party) => {
      const then = earlier.get(key(party))?.counters;
      const rate = (name) => {
        const grown = then ? (party.counters[name] ?? 0) - (then[name] ?? 0) : 0;
        return grown > 0 ? grown / seconds : 0;
      };
      return [key(party), { party, rate }];
    }));
  }
}

// Counters with a curve on the first view.
const PLOTTED = new Set([
  "nic.rx-bytes", "nic.tx-bytes", "nic.rx-packets", "nic.tx-packets", "tcp.retransmits", "tcp.timeouts",
  "server.bells-rung", "program.bells-rung", "nic.bells-rung", "copy.rx-bytes", "copy.program-tx-bytes", "copy.program-rx-bytes",
]);
