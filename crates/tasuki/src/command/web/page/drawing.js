// drawing.js: programs, inet server, drivers and devices, with what flows between them.
//
// Elements are made once for each process and then only changed, so that their motion goes on. On a
// wide page the parts stand side by side, on a narrow one below each other.
const MOST_PROGRAMS = 8;
const NARROW = 640;

class Drawing {
  constructor(host) {
    this.host = host;
    this.canvas = make("svg", { role: "img" });
    this.layers = ["edges", "boxes"].map(() => make("g"));
    this.canvas.append(...this.layers);
    host.append(this.canvas);
    this.parts = new Map();
    this.used = new Set();
  }

  // The element of that name, made at its first use.
  part(layer, key, build) {
    this.used.add(key);
    if (!this.parts.has(key)) {
      const element = build();
      this.parts.set(key, element);
      this.layers[layer].append(element.root);
    }
    return this.parts.get(key);
  }

  draw(snapshot, minute) {
    this.used.clear();
    const { status } = snapshot;
    const width = Math.max(300, this.host.clientWidth || 800);
    this.isNarrow = width < NARROW;
    const height = status ? this.all(status, snapshot.sockets, minute, width) : this.nothing(width);
    set(this.canvas, { viewBox: `0 0 ${width} ${height}`, height });
    for (const [key, element] of this.parts) {
      if (this.used.has(key)) continue;
      element.root.remove();
      this.parts.delete(key);
    }
  }

  nothing(width) {
    const box = this.box("nothing", { x: 8, y: 8, width: width - 16, height: 60 });
    say(box.title, "The instance does not run.");
    say(box.about, "This page waits for it.");
    box.bars.replaceChildren();
    set(this.canvas, { "aria-label": "The instance does not run." });
    return 76;
  }

  all(status, sockets, minute, width) {
    const exchanged = (key) => minute.exchanged.get(key) ?? { party: null, rate: () => 0 };
    const of = (role) => status.processes.filter((one) => one.role === role);
    const volume = (client) => {
      const { rate } = exchanged(`client ${client}`);
      return rate("copy.program-tx-bytes") + rate("copy.program-rx-bytes");
    };
    const open = (client) => sockets.filter((socket) => socket.client === client).length;
    const programs = of("client").sort((a, b) => volume(b.client) - volume(a.client) || open(b.client) - open(a.client) || a.client - b.client);
    const shown = programs.slice(0, MOST_PROGRAMS).sort((a, b) => a.client - b.client);
    const server = status.processes.find((one) => one.role.startsWith("inet"));
    const drivers = status.processes.filter((one) => one.role === "nic" || one.role === "inet+nic");
    const places = this.places(Math.max(1, shown.length), Math.max(1, drivers.length), width);

    shown.forEach((program, at) => {
      const place = places.programs[at];
      const { party, rate } = exchanged(`client ${program.client}`);
      const pool = status.pools.find((one) => one.name === `client ${program.client} rx`);
      const box = this.box(`program ${program.client} ${program.pid}`, place);
      const count = open(program.client);
      say(box.title, clipped(program.name, place.width));
      say(box.about, `process ${program.pid}, ${count} ${count === 1 ? "socket" : "sockets"}`);
      this.bars(box, place, [...ringBars(party, ["requests", "results"]), poolBar("rx pool", pool)]);
      this.edge(`edge program ${program.client}`, place, places.server, {
        out: rate("copy.program-tx-bytes"), in: rate("copy.program-rx-bytes"), unit: "B/s", bells: rate("program.bells-rung"), trunk: places.trunk,
      });
    });
    if (!shown.length) this.hint(places.programs[0], "no program");
    const more = programs.length - shown.length;
    const inner = this.box("server", places.server);
    say(inner.title, "inet server");
    const host = of("client")[0]?.name;
    const where = server ? `process ${server.pid}` : host ? `inside ${host}` : "in no process yet";
    say(inner.about, more > 0 ? `${where}; ${more} more programs` : where);
    const server_rate = (name) => minute.rates.get(name) ?? 0;
    this.bars(inner, places.server, [
      ...status.pools.filter((pool) => pool.name.startsWith("frames")).slice(0, 2).map((pool) => poolBar(pool.name, pool)),
    ], [
      `${short(server_rate("calls.executed"))} calls/s`, `${short(server_rate("server.bells-rung"))} bells/s`, `${short(server_rate("server.sleeps"))} sleeps/s`,
    ]);
    this.drivers(drivers, server, exchanged, places);
    const words = [`${programs.length} programs`, `${drivers.length} drivers`];
    set(this.canvas, { "aria-label": `Drawing: ${words.join(", ")}. The tables have all numbers.` });
    return places.height;
  }

  drivers(drivers, server, exchanged, places) {
    const nics = drivers.length ? drivers : [{ role: "nic", name: "", pid: null }];
    nics.forEach((driver, at) => {
      const [place, device] = [places.drivers[at], places.devices[at]];
      const { party, rate } = exchanged(`nic ${at}`);
      const isFused = driver.role === "inet+nic";
      const box = this.box(`driver ${at} ${driver.pid}`, place);
      say(box.title, "driver");
      say(box.about, driver.pid === null ? "in no process of its own" : isFused ? "in the inet server's process" : `process ${driver.pid}`);
      this.bars(box, place, ringBars(party, ["fill", "rx", "tx-priority", "tx"]));
      const [bytes, packets] = [["nic.tx-bytes", "nic.rx-bytes"], ["nic.tx-packets", "nic.rx-packets"]];
      this.edge(`edge driver ${at}`, places.server, place, { out: rate(packets[0]), in: rate(packets[1]), unit: "frames/s", bells: rate("nic.bells-rung") });
      const end = this.box(`device ${at}`, device);
      say(end.title, clipped(driver.name || "device", device.width));
      say(end.about, "device");
      end.bars.replaceChildren();
      this.edge(`edge device ${at}`, place, device, { out: rate(bytes[0]), in: rate(bytes[1]), unit: "B/s", bells: null });
    });
    if (server?.role === "inet+nic") {
      const [a, b] = [places.server, places.drivers[0]];
      const group = this.part(0, "fused", () => { const root = make("rect", { class: "group", rx: 8 }); return { root }; });
      const [x, y] = [Math.min(a.x, b.x) - 6, Math.min(a.y, b.y) - 6];
      set(group.root, { x, y, width: Math.max(a.x + a.width, b.x + b.width) - x + 6, height: Math.max(a.y + a.height, b.y + b.height) - y + 6 });
    }
  }

  // Where everything stands.
  places(programs, drivers, width) {
    if (this.isNarrow) return this.below(programs, drivers, width);
    const rows = Math.max(programs, drivers);
    const height = Math.max(rows * 104 + 8, 172);
    const wide = Math.min(220, (width - 16) * 0.2);
    const gap = (width - 16 - 4 * wide) / 3;
    const column = (at) => 8 + at * (wide + gap);
    const stack = (count, at) => Array.from({ length: count }, (_, row) => ({ x: column(at), y: 8 + ((height - 16) / count) * (row + 0.5) - 46, width: wide, height: 92 }));
    const server = { x: column(1), y: height / 2 - 70, width: wide, height: 140 };
    return { trunk: null, programs: stack(programs, 0), server, drivers: stack(drivers, 2), devices: stack(drivers, 3), height };
  }

  below(programs, drivers, width) {
    const half = (width - 28) / 2;
    const grid = (count, y) => Array.from({ length: count }, (_, at) => ({
      x: count === 1 ? width / 2 - half / 2 : 8 + (at % 2) * (half + 12), y: y + Math.floor(at / 2) * 104, width: half, height: 92,
    }));
    const tall = (count) => Math.ceil(count / 2) * 104;
    // Programs stand in one column, and what flows between them and the server goes down beside it.
    const column = Array.from({ length: programs }, (_, at) => ({ x: 8, y: 8 + at * 104, width: Math.min(210, width * 0.55), height: 92 }));
    const trunk = column[0].x + column[0].width + 22;
    const server_y = 8 + programs * 104 + 20;
    const drivers_y = server_y + 140 + 56;
    const devices_y = drivers_y + tall(drivers) + 44;
    const devices = grid(drivers, devices_y).map((place) => ({ ...place, height: 52 }));
    return {
      trunk, programs: column, server: { x: width / 2 - 110, y: server_y, width: 220, height: 140 },
      drivers: grid(drivers, drivers_y), devices, height: devices_y + tall(drivers) - 44,
    };
  }

  box(key, { x, y, width, height }) {
    const box = this.part(1, key, () => {
      const parts = { rect: make("rect", { class: "box", rx: 6 }), title: make("text", { class: "strong", x: 8, y: 18 }), about: make("text", { class: "small soft", x: 8, y: 33 }), bars: make("g") };
      return { ...parts, root: make("g", {}, parts.rect, parts.title, parts.about, parts.bars) };
    });
    set(box.root, { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
    set(box.rect, { width: width.toFixed(1), height });
    return box;
  }

  hint(place, text) {
    const box = this.box("hint", { ...place, height: 40 });
    say(box.title, text);
    say(box.about, "");
    box.bars.replaceChildren();
  }

  // Bars of rings and pools, and lines of text below them.
  bars(box, place, bars, lines = []) {
    const all = bars.filter(Boolean);
    const left = 74;
    const room = place.width - left - 8;
    const parts = all.flatMap(({ name, used, all, calm }, at) => {
      const y = 42 + at * 12;
      const part = all > 0 ? Math.min(1, used / all) : 0;
      return [
        make("text", { class: "small soft", x: 8, y: y + 8 }, name),
        make("g", {}, make("title", {}, `${name}: ${used} of ${all}`),
          make("rect", { class: "trough", x: left, y, width: room.toFixed(1), height: 8, rx: 2 }),
          make("rect", { class: part > 0.8 && !calm ? "level high" : "level", x: left, y, width: (room * part).toFixed(1), height: 8, rx: 2 })),
      ];
    });
    const below = 54 + all.length * 12;
    lines.forEach((line, at) => parts.push(make("text", { class: "small", x: 8, y: below + at * 15 }, line)));
    box.bars.replaceChildren(...parts);
  }

  // A line with what flows along it in both directions, its rates, and the bell between both ends.
  edge(key, a, b, { out, in: back, unit, bells, trunk = null }) {
    const ends = this.isNarrow && trunk === null
      ? [[a.x + a.width / 2, a.y + a.height], [b.x + b.width / 2, b.y]]
      : [[a.x + a.width, a.y + a.height / 2], trunk === null ? [b.x, b.y + b.height / 2] : [trunk, b.y]];
    const [from, to] = ends;
    const edge = this.part(0, key, () => {
      const parts = { line: make("path", { class: "edge" }), out: make("path", { class: "flow out" }), back: make("path", { class: "flow in" }) };
      const texts = [0, 1].map(() => make("text", { class: "small label" }));
      const bell = make("circle", { class: "bell", r: 5 });
      const title = make("title");
      bell.append(title);
      return { ...parts, texts, bell, title, root: make("g", {}, parts.line, parts.out, parts.back, bell, ...texts) };
    });
    const point = ([x, y], shift) => (this.isNarrow ? `${(x + shift).toFixed(1)} ${y.toFixed(1)}` : `${x.toFixed(1)} ${(y + shift).toFixed(1)}`);
    const path_of = (shift) => (trunk === null
      ? `M${point(from, shift)}L${point(to, shift)}`
      : `M${from[0].toFixed(1)} ${(from[1] + shift).toFixed(1)}H${(trunk - shift).toFixed(1)}V${to[1].toFixed(1)}`);
    set(edge.line, { d: path_of(0) });
    for (const [path, shift, rate] of [[edge.out, -1.8, out], [edge.back, 1.8, back]]) {
      set(path, { d: path_of(shift), class: `flow ${path === edge.out ? "out" : "in"}${rate > 0 ? "" : " idle"}` });
      // The pace grows with the logarithm of the rate, in steps: each change begins the motion anew.
      const pace = `${Math.max(0.15, 1.5 - Math.round(Math.log10(1 + rate)) * 0.15).toFixed(2)}s`;
      if (path.style.getPropertyValue("--pace") !== pace) path.style.setProperty("--pace", pace);
    }
    const middle = trunk === null ? [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2] : [trunk, from[1]];
    const [first, second] = edge.texts;
    const place = (text, dx, dy, anchor) => set(text, { x: (middle[0] + dx).toFixed(1), y: (middle[1] + dy).toFixed(1), "text-anchor": anchor });
    if (this.isNarrow) { place(first, 12, -4, "start"); place(second, 12, 12, "start"); } else { place(first, 0, -9, "middle"); place(second, 0, 20, "middle"); }
    say(first, out > 0 ? `→ ${short(out)} ${unit}` : "");
    say(second, back > 0 ? `← ${short(back)} ${unit}` : "");
    set(edge.bell, { cx: middle[0].toFixed(1), cy: middle[1].toFixed(1), class: "bell", visibility: bells === null ? "hidden" : null });
    say(edge.title, `${short(bells)} bells each second`);
    if (bells > 0) {
      void edge.bell.getBoundingClientRect();
      set(edge.bell, { class: "bell rung" });
    }
  }
}

// A full ring of empty pages is as it should be; other full rings hold somebody up.
function ringBars(party, names) {
  return names.map((name) => {
    const ring = party?.rings.find((one) => one.name === name);
    return ring && { name: name === "tx-priority" ? "tx first" : name, used: ring.used, all: ring.slots, calm: name === "fill" };
  });
}

function poolBar(name, pool) {
  return pool && { name, used: pool.pages - pool.free, all: pool.pages };
}

// Names may be as long as their owners like.
function clipped(name, width) {
  const most = Math.max(6, Math.floor(width / 8));
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}
