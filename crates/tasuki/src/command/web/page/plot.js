// plot.js: curves over the last minute, drawn by uPlot. The right edge is the newest snapshot.
//
// The plots of a view are a PlotGroup: they show the same part of the minute, and the pointer is at
// the same time in all of them. A drag, or + and -, show a shorter part, which then stands still
// until it is older than a minute. The colours are the style sheet's at each drawing.
const PLOT_HEIGHT = 150;
// The shortest part of the minute that is shown, seconds.
const SHORTEST = 1;
// As near to a line of an event, in pixels, the pointer is on it.
const NEAR = 5;
// Events that are no line across the plots: there may be many.
const QUIET = new Set(["seen", "program-came", "program-went"]);

// Times for an axis. At its right end there is no room for one.
const times = ({ valToPos, over }, splits) => splits.map((at) => (valToPos(at, "x") > over.clientWidth - 20 ? null : new Date(at * 1000).toLocaleTimeString("en-GB")));

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

class PlotGroup {
  constructor(name, host) {
    Object.assign(this, { name, host });
    this.plots = [];
    this.events = [];
    // The shown part, seconds since 1970. `null`: all of the last minute.
    this.part = null;
  }

  // Each of `curves`: name in words, and a function that gives its series. `fromLeast`: the axis
  // begins at the least value, as for sequence numbers, and not at nothing.
  add(title, unit, curves, fromLeast = false) {
    this.plots.push(new MinutePlot(this, { title, unit, curves, fromLeast }));
  }

  draw(snapshot) {
    this.newest = snapshot.at_ms / 1000;
    this.events = snapshot.events.filter((event) => !QUIET.has(event.kind));
    if (this.part && this.part[1] < this.oldest()) this.part = null;
    this.redraw();
  }

  // Before the first snapshot there is nothing to draw.
  redraw() { if (this.newest) this.plots.forEach((plot) => plot.draw()); }

  oldest() { return this.newest - MINUTE / 1000; }

  range() { return this.part ?? [this.oldest(), this.newest]; }

  show(low, high) {
    if (!this.newest) return;
    const length = Math.max(SHORTEST, high - low);
    if (length >= MINUTE / 1000) {
      this.all();
      return;
    }
    const begin = Math.min(Math.max(low, this.oldest()), this.newest - length);
    this.part = [begin, begin + length];
    this.redraw();
  }

  all() {
    this.part = null;
    this.redraw();
  }

  zoom(factor) {
    const [low, high] = this.range();
    const [middle, half] = [(low + high) / 2, ((high - low) * factor) / 2];
    this.show(middle - half, middle + half);
  }

  pan(share) {
    const [low, high] = this.range();
    this.show(low + share * (high - low), high + share * (high - low));
  }
}

class MinutePlot {
  constructor(group, what) {
    Object.assign(this, { group, ...what });
    this.canvas = make("div", { role: "img", tabindex: "0" });
    this.legend = make("p", { class: "legend" }, ...this.curves.map((curve, at) => this.key(curve, at)));
    this.values = [...this.legend.querySelectorAll(".value")];
    this.element = make("div", { class: "plot" }, make("h3", {}, `${this.title}, ${this.unit}`), this.canvas, this.legend);
    group.host.append(this.element);
    this.uplot = new uPlot(this.options(), [[], ...this.curves.map(() => [])], this.canvas);
    listenForAxis(this.canvas, group);
  }

  // A curve's name, with its value: a click hides the curve.
  key([name], at) {
    const button = make("button", { type: "button", class: `s${at}`, "aria-pressed": "true" },
      make("span", { class: "key", "aria-hidden": "true" }, "━ "), `${name} `, make("span", { class: "value" }));
    button.addEventListener("click", () => {
      const shows = !this.uplot.series[at + 1].show;
      this.uplot.setSeries(at + 1, { show: shows });
      set(button, { "aria-pressed": String(shows) });
    });
    return button;
  }

  options() {
    const axis = { stroke: () => colour("--soft"), font: "11px system-ui, sans-serif", grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false } };
    return {
      width: 360, height: PLOT_HEIGHT, padding: [8, 8, 0, 0], legend: { show: false },
      scales: { y: { range: (_, low, high) => this.height(low, high) } },
      axes: [
        { ...axis, size: 22, gap: 2, space: 76, values: times },
        { ...axis, size: 52, gap: 3, space: 26, values: (_, splits) => splits.map(short) },
      ],
      series: [{}, ...this.curves.map((_, at) => ({ stroke: () => colour(`--c${at}`), width: 1.8, points: { show: false } }))],
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        // The pointer is in all plots, but only one of them is dragged.
        sync: { key: `minute-${this.group.name}`, filters: { pub: (kind) => kind === "mousemove" || kind === "mouseleave" } },
        bind: { dblclick: () => () => this.group.all() },
      },
      hooks: {
        drawAxes: [(uplot) => this.lines(uplot)],
        setCursor: [(uplot) => { this.tell(); this.point(uplot); }],
        setSelect: [(uplot) => this.selected(uplot)],
      },
    };
  }

  height(low, high) {
    const begin = this.fromLeast ? low ?? 0 : 0;
    const length = (high ?? begin) - begin || 1;
    return [begin, begin + length * 1.06];
  }

  draw() {
    const { group, uplot } = this;
    const width = Math.max(260, this.element.clientWidth || 360);
    if (width !== uplot.width) uplot.setSize({ width, height: PLOT_HEIGHT });
    const tables = this.curves.map(([, series]) => {
      const points = series()?.points ?? [];
      return [points.map(([at]) => at / 1000), points.map(([, value]) => value)];
    });
    // 2: a point without a value is a gap.
    uplot.setData(uPlot.join(tables, tables.map(() => [2, 2])), false);
    const [min, max] = group.range();
    uplot.setScale("x", { min, max });
    this.tell();
  }

  // The values under the pointer, or the newest.
  tell() {
    const { data, cursor } = this.uplot;
    const said = this.curves.map(([name], at) => {
      const value = short(data[at + 1][cursor.idx ?? data[0].length - 1]);
      say(this.values[at], value);
      return `${name} ${value}`;
    });
    set(this.canvas, { "aria-label": `${this.title}, ${this.unit}: ${said.join(", ")}` });
  }

  // A line for each event.
  lines({ ctx, bbox, valToPos }) {
    const [low, high] = this.group.range();
    ctx.save();
    Object.assign(ctx, { strokeStyle: colour("--bad"), lineWidth: uPlot.pxRatio });
    ctx.setLineDash([3, 3].map((length) => length * uPlot.pxRatio));
    ctx.beginPath();
    for (const { at_ms } of this.group.events) {
      if (at_ms / 1000 < low || at_ms / 1000 > high) continue;
      // In the middle of a point, so that one point across has all of the colour.
      const across = Math.round(valToPos(at_ms / 1000, "x", true)) + 0.5;
      ctx.moveTo(across, bbox.top);
      ctx.lineTo(across, bbox.top + bbox.height);
    }
    ctx.stroke();
    ctx.restore();
  }

  // The text of the event under the pointer, as a tip.
  point({ cursor, over, valToPos }) {
    const isNear = ({ at_ms }) => Math.abs(valToPos(at_ms / 1000, "x") - cursor.left) <= NEAR;
    set(over, { title: this.group.events.filter(isNear).map(({ text }) => text).join("\n") || null });
  }

  selected(uplot) {
    const { left, width } = uplot.select;
    if (!width) return;
    uplot.setSelect({ left: 0, width: 0 }, false);
    this.group.show(uplot.posToVal(left, "x"), uplot.posToVal(left + width, "x"));
  }
}
