// connections.js: the table of sockets, and one connection with its plots.
const MOST_ROWS = 300;
const COLUMNS = [
  ["Netid", (row) => row.socket.netid],
  ["State", (row) => row.state],
  ["Local address", (row) => row.socket.local],
  ["Peer address", (row) => row.socket.peer ?? "*"],
  ["Program", (row) => row.program],
  ["Recv-Q", (row) => row.socket.recv_q, "number"],
  ["Send-Q", (row) => row.socket.send_q, "number"],
  ["Out B/s", (row) => row.one.out, "number", short],
  ["In B/s", (row) => row.one.in, "number", short],
  ["RTT", (row) => row.socket.tcp?.rtt_us ?? null, "number", time],
  ["Cwnd", (row) => row.socket.tcp?.cwnd ?? null, "number wide", short],
  ["Retrans", (row) => row.socket.tcp?.retrans_total ?? null, "number wide", short],
];
const KINDS = {
  all: () => true,
  open: (socket) => socket.netid === "tcp" && socket.state !== "LISTEN",
  listen: (socket) => socket.state === "LISTEN" || socket.state === "UNCONN",
  udp: (socket) => socket.netid !== "tcp",
};

class Connections {
  constructor(choose) {
    this.choose = choose;
    this.rows = new Map();
    this.sort = { column: 0, descending: false };
    this.body = byId("sockets").tBodies[0];
    const head = make("tr");
    this.heads = COLUMNS.map(([name, , kind], at) => {
      const button = make("button", { type: "button" }, name);
      button.addEventListener("click", () => this.sortBy(at));
      const cell = make("th", { scope: "col", class: kind ?? "" }, button);
      head.append(cell);
      return cell;
    });
    byId("sockets").tHead.append(head);
    for (const id of ["socket-search", "socket-kind"]) byId(id).addEventListener("input", () => this.draw());
    byId("socket-filter").addEventListener("submit", (event) => event.preventDefault());
    this.sortBy(0);
  }

  // Numbers begin with the largest.
  sortBy(column) {
    const isSame = this.sort.column === column && this.snapshot;
    const isNumber = COLUMNS[column][2]?.startsWith("number") ?? false;
    this.sort = { column, descending: isSame ? !this.sort.descending : isNumber };
    this.heads.forEach((cell, at) => set(cell, { "aria-sort": at === column ? (this.sort.descending ? "descending" : "ascending") : "none" }));
    this.draw();
  }

  take(snapshot, minute) {
    this.snapshot = snapshot;
    const programs = new Map((snapshot.status?.processes ?? []).filter((one) => one.client !== null).map((one) => [one.client, `${one.name} ${one.pid}`]));
    this.all = [...minute.connections].map(([key, one]) => ({
      key, one, socket: one.socket, state: one.gone ? "gone" : one.socket.state, program: programs.get(one.socket.client) ?? "",
    }));
    this.draw();
  }

  found() {
    const words = byId("socket-search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = KINDS[byId("socket-kind").value] ?? KINDS.all;
    const [, value] = COLUMNS[this.sort.column];
    const sign = this.sort.descending ? -1 : 1;
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === y) return a.key < b.key ? -1 : 1;
      // What is not known is last.
      if (x === null || y === null) return x === null ? 1 : -1;
      return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
    };
    return this.all.filter((row) => {
      const text = `${row.socket.netid} ${row.state} ${row.socket.local} ${row.socket.peer ?? ""} ${row.program}`.toLowerCase();
      return fits(row.socket) && words.every((word) => text.includes(word));
    }).sort(compare);
  }

  draw() {
    if (!this.snapshot) return;
    const found = this.found();
    const shown = found.slice(0, MOST_ROWS);
    const rows = shown.map((row) => this.row(row));
    const isSame = rows.length === this.body.children.length && rows.every((row, at) => row === this.body.children[at]);
    if (!isSame) {
      // The focus stays with its row.
      const focused = document.activeElement;
      this.body.replaceChildren(...rows);
      if (rows.includes(focused)) focused.focus({ preventScroll: true });
    }
    const keys = new Set(shown.map((row) => row.key));
    for (const key of this.rows.keys()) if (!keys.has(key)) this.rows.delete(key);
    const more = this.snapshot.more_sockets ? "; the instance has more than are asked for" : "";
    const cut = found.length > MOST_ROWS ? `, the first ${MOST_ROWS} shown` : "";
    say(byId("socket-count"), `${found.length} of ${this.all.length}${cut}${more}`);
  }

  row(row) {
    let element = this.rows.get(row.key);
    if (!element) {
      element = make("tr", { tabindex: "0" }, ...COLUMNS.map(([, , kind]) => make("td", { class: kind ?? "" })));
      const choose = () => this.choose(row.key);
      element.addEventListener("click", choose);
      element.addEventListener("keydown", (event) => {
        const to = { ArrowDown: element.nextElementSibling, ArrowUp: element.previousElementSibling }[event.key];
        if (event.key === "Enter" || event.key === " ") choose();
        else if (to) to.focus();
        else return;
        event.preventDefault();
      });
      this.rows.set(row.key, element);
    }
    COLUMNS.forEach(([, value, , show], at) => {
      const raw = value(row);
      say(element.children[at], show ? show(raw) : String(raw));
    });
    set(element, { "aria-selected": String(row.key === this.chosen) });
    return element;
  }
}

// One connection: plots of the last minute, and all of TCP_INFO.
class ConnectionView {
  constructor() {
    this.key = null;
    this.one = null;
    const of = (name) => () => this.one?.series[name];
    this.plots = new PlotGroup("connection", byId("connection-plots"));
    this.plots.add("Sequence", "bytes", [["sent", of("sent")], ["acknowledged", of("acked")], ["peer's window ends", of("edge")]], true);
    this.plots.add("Received", "bytes", [["received", of("received")]], true);
    this.plots.add("Throughput", "B/s", [["out", of("out")], ["in", of("in")]]);
    this.plots.add("Windows", "bytes", [["congestion window", of("cwnd")], ["peer's window", of("snd_wnd")], ["our window", of("rcv_wnd")], ["in flight", of("flight")]]);
    this.plots.add("Round-trip time", "ms", [["smoothed", of("rtt")], ["least", of("minrtt")]]);
    this.plots.add("Loss", "segments", [["retransmitted each second", of("retrans")], ["believed lost", of("lost")]]);
    this.info = new Map();
  }

  draw(snapshot, minute) {
    this.one = minute.connections.get(this.key) ?? null;
    const is = this.one !== null;
    byId("connection").hidden = !is;
    if (!is) return;
    const { socket, gone } = this.one;
    say(byId("connection-title"), `${socket.netid} ${socket.local} → ${socket.peer ?? "*"}`);
    say(byId("connection-about"), gone ? "It has gone; the plots show its last minute." : socket.tcp ? `${socket.state}, ${socket.tcp.congestion}` : `${socket.state}. Only TCP connections of a program have plots.`);
    byId("connection-plots").hidden = !socket.tcp;
    if (socket.tcp) this.plots.draw(snapshot);
    this.all(socket.tcp ?? {});
  }

  all(tcp) {
    for (const [name, value] of Object.entries(tcp)) {
      if (!this.info.has(name)) {
        const cell = make("dd");
        byId("connection-info").append(make("div", {}, make("dt", {}, name), cell));
        this.info.set(name, cell);
      }
      say(this.info.get(name), Array.isArray(value) ? value.join(", ") : String(value));
    }
  }
}
