// recording.js: frames and marks of a recording on a time axis. Zoom and pan by keys, buttons, the
// wheel with the control key, and by dragging.
const LANES = [
  ["program", (mark) => mark.process === "program"],
  ["inet server", (mark) => mark.process === "inet"],
  ["driver", (mark) => mark.process === "driver"],
];
// Strokes in one lane; more are not told apart on a screen.
const MOST_STROKES = 1500;
const FRAME_COLUMNS = ["Time", "Way", "Protocol", "From", "To", "Bytes", "Payload", "TCP"];
const MOST_FRAME_ROWS = 200;

class RecordingView {
  constructor() {
    this.recording = null;
    this.canvas = make("svg", { role: "img", tabindex: "0", height: 220 });
    const button = (text, label, action) => {
      const one = make("button", { type: "button", "aria-label": label }, text);
      one.addEventListener("click", action);
      return one;
    };
    this.bar = make("div", { class: "controls", role: "toolbar", "aria-label": "Time axis" },
      button("+", "Zoom in", () => this.zoom(0.5)), button("−", "Zoom out", () => this.zoom(2)),
      button("◀", "Earlier", () => this.pan(-0.25)), button("▶", "Later", () => this.pan(0.25)), button("All", "Show all", () => this.all()));
    this.reading = make("p", { class: "about", "aria-live": "polite" });
    this.host = byId("record-axis");
    this.host.append(this.bar, this.canvas, this.reading);
    this.bar.hidden = true;
    byId("record-frames").tHead.append(make("tr", {}, ...FRAME_COLUMNS.map((name) => make("th", { scope: "col" }, name))));
    byId("record-form").addEventListener("submit", (event) => { event.preventDefault(); this.record(); });
    this.listen();
  }

  async record() {
    if (this.runs) return;
    this.runs = true;
    const state = byId("record-state");
    const words = new URLSearchParams({ seconds: byId("record-seconds").value });
    if (byId("record-interface").value) words.set("interface", byId("record-interface").value);
    say(state, "recording …");
    byId("record").disabled = true;
    try {
      const answer = await fetch(`api/recording?${words}`);
      const told = await answer.json();
      if (answer.ok) this.take(told);
      else { say(state, told.error); byId("record-again").checked = false; }
    } catch {
      say(state, "the server does not answer");
      byId("record-again").checked = false;
    }
    this.runs = false;
    byId("record").disabled = false;
    if (byId("record-again").checked && !byId("packets").hidden) setTimeout(() => this.record(), 200);
  }

  take(recording) {
    this.recording = recording;
    const missed = recording.frames_missed ? `, ${recording.frames_missed} missed` : "";
    const lost = recording.marks_missed ? `, ${recording.marks_missed} marks missed` : "";
    say(byId("record-state"), `${recording.frames.length} frames${missed}, ${recording.marks.length} marks${lost}, from ${clock(recording.began_ms)}`);
    this.bar.hidden = false;
    this.all();
    this.stages();
  }

  // All that is there: marks may begin later than frames, since only the newest are kept.
  all() {
    if (!this.recording) return;
    this.view = [0, Math.max(this.recording.lasted_ns, 1000)];
    this.draw();
  }

  zoom(factor, part = 0.5) {
    if (!this.recording) return;
    const [low, high] = this.view;
    const wide = Math.min(Math.max((high - low) * factor, 1000), Math.max(this.recording.lasted_ns * 2, 1000));
    const still = low + (high - low) * part;
    this.view = [still - wide * part, still + wide * (1 - part)];
    this.draw();
  }

  pan(part) {
    if (!this.recording) return;
    const shift = (this.view[1] - this.view[0]) * part;
    this.view = this.view.map((edge) => edge + shift);
    this.draw();
  }

  draw() {
    const { frames, marks } = this.recording;
    const width = Math.max(280, this.host.clientWidth || 800);
    const [left, right] = [width < 600 ? 70 : 92, width - 8];
    const [low, high] = this.view;
    this.box = { left, right };
    const across = (at) => left + ((at - low) / (high - low)) * (right - left);
    const isIn = ({ at_ns }) => at_ns >= low && at_ns <= high;
    const parts = [];
    const lane = (at, name) => {
      const y = 8 + at * 36;
      parts.push(make("rect", { class: "lane", x: left, y, width: right - left, height: 28 }), make("text", { class: "small", x: 4, y: y + 18 }, name));
      return y;
    };
    // Strokes of one kind at one pixel are one.
    const strokes = (all, y, height, kind) => {
      const places = new Set(all.map(({ at_ns }) => across(at_ns).toFixed(all.length > MOST_STROKES ? 0 : 1)));
      const path = [...places].map((x) => `M${x} ${y}v${height}`).join("");
      if (path) parts.push(make("path", { class: kind, d: path }));
    };
    LANES.forEach(([name, fits], at) => {
      strokes(marks.filter((mark) => fits(mark) && isIn(mark)), lane(at, name) + 4, 20, `mark ${name.split(" ")[0]}`);
    });
    const y = lane(LANES.length, "wire");
    const shown = frames.filter(isIn);
    strokes(shown.filter((frame) => frame.sent), y + 1, 13, "packet sent");
    strokes(shown.filter((frame) => !frame.sent), y + 14, 13, "packet received");
    const bottom = y + 32;
    for (const at of ticks(low, high, width < 600 ? 4 : 8)) {
      const x = across(at).toFixed(1);
      const anchor = x > right - 24 ? "end" : "middle";
      parts.push(make("path", { class: "grid", d: `M${x} 8V${bottom}` }), make("text", { class: "small soft", x, y: bottom + 14, "text-anchor": anchor }, time(at / 1000).replace("–", "0")));
    }
    set(this.canvas, { viewBox: `0 0 ${width} ${bottom + 20}`, height: bottom + 20, "aria-label": `${shown.length} frames from ${time(low / 1000)} to ${time(high / 1000)}. Keys: plus, minus, arrows, 0 for all. The table below has the frames.` });
    this.canvas.replaceChildren(...parts);
    this.table(shown);
  }

  table(frames) {
    const rows = frames.slice(0, MOST_FRAME_ROWS).map((frame) => {
      const { tcp } = frame;
      const said = tcp ? `${tcp.flags} seq ${tcp.seq}${tcp.ack === null ? "" : ` ack ${tcp.ack}`} win ${tcp.window}` : "";
      const cells = [time(frame.at_ns / 1000), frame.sent ? "sent" : "received", frame.protocol, frame.from, frame.to, frame.len, frame.payload, said];
      return make("tr", {}, ...cells.map((cell) => make("td", {}, String(cell))));
    });
    byId("record-frames").tBodies[0].replaceChildren(...rows);
    const more = frames.length > MOST_FRAME_ROWS ? `; the table has the first ${MOST_FRAME_ROWS}` : "";
    say(this.reading, `${frames.length} frames in view${more}. On the wire, sent frames stand above received ones; one line may be several.`);
  }

  stages() {
    const host = byId("record-stages");
    const { sends, stages, receives, receive_stages } = this.recording;
    host.replaceChildren(...[[`Stages of a send (${sends} seen)`, stages], [`Stages of a receive (${receives} seen)`, receive_stages]].map(([title, rows]) => {
      const most = Math.max(...rows.map((row) => row.median_ns), 1);
      const body = rows.map((row) => {
        const bar = make("svg", { width: 90, height: 10, "aria-hidden": "true" }, make("rect", { class: "level", width: ((row.median_ns / most) * 90).toFixed(1), height: 10, rx: 2 }));
        const cells = [row.stage, row.process, time(row.median_ns / 1000), time(row.mean_ns / 1000)];
        return make("tr", {}, ...cells.map((cell, at) => make("td", { class: at > 1 ? "number" : "" }, cell)), make("td", {}, bar));
      });
      const head = make("tr", {}, ...["Stage", "Process", "Median", "Mean", ""].map((name, at) => make(name ? "th" : "td", { class: at > 1 ? "number" : "" }, name)));
      return make("div", {}, make("h3", {}, title), make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body))));
    }));
  }

  listen() {
    listenForAxis(this.canvas, this);
    const part = (event) => {
      const at = event.clientX - this.canvas.getBoundingClientRect().left;
      return Math.min(1, Math.max(0, (at - this.box.left) / (this.box.right - this.box.left)));
    };
    this.canvas.addEventListener("wheel", (event) => {
      if (!this.recording || !event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.7 : 1 / 0.7, part(event));
    }, { passive: false });
    let from = null;
    this.canvas.addEventListener("pointerdown", (event) => { from = this.recording ? part(event) : null; });
    this.canvas.addEventListener("pointermove", (event) => {
      if (from === null || event.buttons === 0) return;
      const to = part(event);
      this.pan(from - to);
      from = to;
    });
    window.addEventListener("pointerup", () => { from = null; });
  }
}
