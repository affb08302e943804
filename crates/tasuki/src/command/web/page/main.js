// main.js: the stream of snapshots, the views, the theme.
const VIEWS = ["overview", "connections", "counters", "packets"];

class Overview {
  constructor(minute) {
    this.drawing = new Drawing(byId("drawing"));
    const of = (name) => () => minute.series.get(name);
    this.rates = new PlotGroup("rates", byId("rates"));
    this.rates.add("On the devices", "B/s", [["sent", of("nic.tx-bytes")], ["received", of("nic.rx-bytes")]]);
    this.rates.add("On the devices", "frames/s", [["sent", of("nic.tx-packets")], ["received", of("nic.rx-packets")]]);
    this.rates.add("Loss", "each second", [["retransmissions", of("tcp.retransmits")], ["timeouts", of("tcp.timeouts")]]);
    this.rates.add("Bells", "each second", [["by programs", of("program.bells-rung")], ["by the inet server", of("server.bells-rung")], ["by drivers", of("nic.bells-rung")]]);
    this.rates.add("Copied", "B/s", [["frames to programs' areas", of("copy.rx-bytes")], ["out of areas, by programs", of("copy.program-rx-bytes")], ["into areas, by programs", of("copy.program-tx-bytes")]]);
    this.shown = "";
  }

  draw(snapshot, minute) {
    this.drawing.draw(snapshot, minute);
    this.rates.draw(snapshot);
    const newest = snapshot.events.slice(-60).reverse();
    const shown = newest.map((event) => `${event.at_ms} ${event.text}`).join("\n");
    if (shown === this.shown) return;
    this.shown = shown;
    byId("events").replaceChildren(...newest.map((event) => make("li", { class: event.kind }, make("time", { datetime: new Date(event.at_ms).toISOString() }, clock(event.at_ms)), event.text)));
  }
}

const minute = new LastMinute();
const view = { current: "overview", snapshot: null, heard: 0, seen: 0, paused: false };
const overview = new Overview(minute);
const connection = new ConnectionView();
const connections = new Connections((key) => {
  connections.chosen = connection.key = connection.key === key ? null : key;
  show();
});
const counters = new Counters();
const recording = new RecordingView();

// Only the view that is seen is drawn.
function show() {
  const { snapshot } = view;
  if (!snapshot) return;
  if (view.current === "overview") overview.draw(snapshot, minute);
  if (view.current === "connections") {
    connections.take(snapshot, minute);
    connection.draw(snapshot, minute);
  }
  if (view.current === "counters") counters.take(snapshot, minute);
}

function state() {
  const element = byId("state");
  const { snapshot } = view;
  const isSilent = Date.now() - view.heard > Math.max(4000, 3 * (snapshot?.interval_ms ?? 0));
  let [kind, text] = ["", "connecting …"];
  if (snapshot?.status) text = `${snapshot.status.mode}, ${snapshot.status.addresses.join(", ")}, every ${digits(snapshot.interval_ms / 1000)} s`;
  if (snapshot && !snapshot.status) [kind, text] = ["ended", "the instance has ended; waiting for it"];
  if (snapshot && isSilent) [kind, text] = ["silent", "the server does not answer: is `tasuki web` still running?"];
  if (view.refused) [kind, text] = ["silent", view.refused];
  if (view.paused) text += " (paused)";
  set(element, { class: kind });
  say(element, text);
}

function take(snapshot) {
  view.heard = Date.now();
  view.seen += 1;
  minute.take(snapshot);
  if (!view.paused) {
    view.snapshot = snapshot;
    show();
  }
  say(byId("instance"), snapshot.instance);
  state();
}

// A hidden page looks at nothing, and costs the instance nothing.
let source = null;
function listen() {
  source?.close();
  source = null;
  if (document.hidden) return;
  source = new EventSource("api/events");
  source.addEventListener("message", (event) => take(JSON.parse(event.data)));
  source.addEventListener("open", () => { view.refused = null; });
  source.addEventListener("error", async () => {
    if (source?.readyState !== EventSource.CLOSED) return;
    // A browser gives up after an answer that is an error. It does not say which.
    const answer = await fetch("api/snapshot").catch(() => null);
    view.refused = answer && !answer.ok ? (await answer.json()).error : answer ? "too many pages look: this one tries again" : null;
    state();
    setTimeout(listen, 3000);
  });
}

function go() {
  const wanted = location.hash.slice(1);
  view.current = VIEWS.includes(wanted) ? wanted : "overview";
  for (const name of VIEWS) byId(name).hidden = name !== view.current;
  for (const link of document.querySelectorAll("nav a")) set(link, { "aria-current": link.hash === `#${view.current}` ? "page" : null });
  show();
  if (view.current === "packets" && recording.recording) recording.draw();
}

function themes() {
  const root = document.documentElement;
  const names = { system: "as the system", dark: "dark", light: "light" };
  const use = (theme) => {
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    say(byId("theme"), `Theme: ${names[theme]}`);
  };
  const before = kept.get("theme");
  use(before in names ? before : "system");
  byId("theme").addEventListener("click", () => {
    const order = Object.keys(names);
    const next = order[(order.indexOf(root.dataset.theme ?? "system") + 1) % order.length];
    use(next);
    kept.set("theme", next);
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
}

byId("pause").addEventListener("click", () => {
  view.paused = !view.paused;
  set(byId("pause"), { "aria-pressed": String(view.paused) });
  state();
});
window.addEventListener("hashchange", go);
window.addEventListener("resize", () => { show(); if (view.current === "packets" && recording.recording) recording.draw(); });
document.addEventListener("visibilitychange", listen);
setInterval(state, 1000);
themes();
go();
counters.load().catch(() => { view.refused = "the server does not answer"; state(); });
listen();
