// plot.js: curves over the last minute. The right edge is the newest snapshot.
class MinutePlot {
  // Each of `curves`: name in words, and a function that gives its series.
  constructor(host, title, unit, curves) {
    Object.assign(this, { title, unit, curves });
    this.canvas = make("svg", { role: "img", height: 150 });
    this.legend = make("p", { class: "legend" });
    this.values = curves.map(([name], at) => {
      const value = make("span");
      this.legend.append(make("span", { class: `s${at}` }, make("span", { class: "key", "aria-hidden": "true" }, "━ "), `${name} `, value));
      return value;
    });
    this.element = make("div", { class: "plot" }, make("h3", {}, `${title}, ${unit}`), this.canvas, this.legend);
    host.append(this.element);
  }

  draw(now, events) {
    const width = Math.max(260, this.element.clientWidth || 360);
    const [left, right, top, bottom] = [52, width - 8, 8, 128];
    const all = this.curves.map(([, series]) => series()?.points ?? []);
    const values = all.flat().map(([, value]) => value).filter((value) => value !== null);
    // A sequence number begins where the minute does; other things begin at nothing.
    const isHigh = this.fromLeast && values.length;
    const low = isHigh ? Math.min(...values) : 0;
    const high = Math.max(...values, low + (isHigh ? 1 : 0)) || 1;
    const top_value = low + (high - low) * 1.06;
    const across = (at) => left + ((at - (now - MINUTE)) / MINUTE) * (right - left);
    const up = (value) => bottom - ((value - low) / (top_value - low)) * (bottom - top);
    const parts = [];
    for (const value of ticks(low, top_value, 4)) {
      parts.push(make("path", { class: "grid", d: `M${left} ${up(value).toFixed(1)}H${right}` }));
      parts.push(make("text", { class: "small soft", x: left - 5, y: up(value) + 4, "text-anchor": "end" }, short(value)));
    }
    for (const ago of [60, 45, 30, 15, 0]) {
      const x = across(now - ago * 1000);
      const anchor = ago === 60 ? "start" : ago === 0 ? "end" : "middle";
      parts.push(make("text", { class: "small soft", x, y: 144, "text-anchor": anchor }, ago ? `−${ago} s` : "now"));
    }
    for (const event of events) {
      if (event.at_ms < now - MINUTE || QUIET.has(event.kind)) continue;
      const x = across(event.at_ms).toFixed(1);
      parts.push(make("path", { class: "event", d: `M${x} ${top}V${bottom}` }, make("title", {}, event.text)));
    }
    parts.push(make("path", { class: "frame", d: `M${left} ${top}V${bottom}H${right}` }));
    all.forEach((points, at) => {
      let path = "";
      let isBroken = true;
      for (const [x, value] of points) {
        if (value === null) { isBroken = true; continue; }
        path += `${isBroken ? "M" : "L"}${across(x).toFixed(1)} ${up(value).toFixed(1)}`;
        isBroken = false;
      }
      parts.push(make("g", { class: `s${at}` }, make("path", { class: "curve", d: path || "M0 0" })));
      const last = points.at(-1)?.[1];
      say(this.values[at], last === null || last === undefined ? "–" : short(last));
    });
    set(this.canvas, {
      viewBox: `0 0 ${width} 150`,
      "aria-label": `${this.title}, ${this.unit}: ${this.curves.map(([name], at) => `${name} ${this.values[at].textContent}`).join(", ")}`,
    });
    this.canvas.replaceChildren(...parts);
  }
}

// Events that are no line across the plots: there may be many.
const QUIET = new Set(["seen", "program-came", "program-went"]);
