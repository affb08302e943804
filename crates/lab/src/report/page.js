// Draws the plots of a report out of the data in the page. No library, no network, no markup made
// of text: names go into the page as text nodes and attributes only. Colours are the style sheet's,
// so a change of theme draws nothing again.
//
// One Plot is one figure: controls, canvas (SVG), a line that reads the point under the pointer,
// and a legend that hides series. `view` is what the canvas shows, in the axes' own units (powers
// of ten where an axis is logarithmic). Figures that are no lines are classes of their own, in the
// files before this one.
//
// With #selftest in its address the page works all controls of all plots and writes what it found
// into an element of that name.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const COLOURS = 6;
  const DASHES = ["", "7 4", "2 3", "9 3 2 3"];
  const SHAPES = ["m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", "m-3.5 -3.5h7v7h-7z", "m0 -5l4.6 8h-9.2z", "m0 -5l5 5l-5 5l-5 -5z"];
  const faults = [];
  window.addEventListener("error", (event) => faults.push(event.message));

  function make(name, attributes, ...children) {
    const isSvg = ["svg", "g", "path", "text", "rect", "clipPath", "title"].includes(name);
    const element = isSvg ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  // The same rules as number.rs.
  function short(value) {
    const size = Math.abs(value);
    if (size >= 1e7 || (size < 1e-4 && size > 0)) return value.toExponential(2).replace("e+", "e");
    const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 0.1 ? 3 : 6;
    const text = value.toFixed(digits);
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  }

  function place(value, unit) {
    if (unit === "B") {
      for (const [size, name] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
        if (value >= size && value % size === 0) return `${short(value / size)} ${name}`;
      }
    }
    return unit ? `${short(value)} ${unit}` : short(value);
  }

  function linearTicks(low, high, about) {
    const rough = (high - low) / about;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((it) => it >= rough) || rough;
    const ticks = [];
    for (let at = Math.ceil(low / step); at <= Math.floor(high / step) && ticks.length < 50; at++) ticks.push(at * step);
    return ticks;
  }

  function logTicks(low, high, about) {
    if (high - low < 0.7) return linearTicks(10 ** low, 10 ** high, about).filter((value) => value > 0);
    const of = (factors) => {
      const ticks = [];
      for (let power = Math.floor(low); power <= Math.ceil(high) && ticks.length < 200; power++) {
        for (const factor of factors) {
          const value = factor * 10 ** power;
          if (Math.log10(value) >= low && Math.log10(value) <= high) ticks.push(value);
        }
      }
      return ticks;
    };
    const fine = of([1, 2, 5]);
    if (fine.length <= about + 2) return fine;
    const coarse = of([1]);
    const step = Math.max(1, Math.ceil(coarse.length / about));
    return coarse.filter((_, at) => at % step === 0);
  }

  const picture = pictureOf({ make });

  class Plot {
    constructor(host, figure) {
      this.figure = figure;
      this.host = host;
      this.bySeries = figure.places.length === 1 && figure.kind !== "histogram";
      this.log = { x: figure.x_log && !this.bySeries, y: false };
      this.ratios = false;
      this.hidden = new Set();
      this.reading = make("p", { class: "reading", "aria-live": "polite" });
      this.canvas = make("svg", { class: "canvas", tabindex: "0", role: "img" });
      this.canvas.setAttribute("aria-label", `Plot: ${figure.title}. Keys: plus, minus, arrows, 0 for all, n and p for points. The table has all values.`);
      const controls = this.controls();
      controls.append(this.button("PNG", () => this.save()));
      host.append(controls, this.canvas, this.reading, this.legend());
      this.listen();
      this.reset();
      new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
    }

    button(text, action, pressed) {
      const button = make("button", { type: "button" }, text);
      if (pressed !== undefined) button.setAttribute("aria-pressed", String(pressed));
      button.addEventListener("click", () => action(button));
      return button;
    }

    controls() {
      const axis = (name) => (button) => {
        this.log[name] = !this.log[name];
        button.setAttribute("aria-pressed", String(this.log[name]));
        this.reset();
      };
      const bar = make("div", { class: "controls", role: "toolbar", "aria-label": "Plot" });
      bar.append(this.button("+", () => this.zoom(0.7)), this.button("−", () => this.zoom(1 / 0.7)), this.button("All", () => this.reset()));
      bar.children[0].setAttribute("aria-label", "Zoom in");
      bar.children[1].setAttribute("aria-label", "Zoom out");
      if (!this.bySeries) bar.append(this.button("log x", axis("x"), this.log.x));
      bar.append(this.button("log y", axis("y"), this.log.y));
      if (this.figure.base && this.figure.series.some((series) => series.ratios.length)) {
        bar.append(this.button(`ratio to ${this.figure.base}`, (button) => {
          this.ratios = !this.ratios;
          button.setAttribute("aria-pressed", String(this.ratios));
          this.reset();
        }, false));
      }
      return bar;
    }

    // Saves what is shown as a picture.
    async save() {
      make("a", { download: `${this.figure.id}.png`, href: await picture(this) }).click();
    }

    // What the legend of a picture says.
    names() {
      const shown = this.keys.map((key, at) => ({ key, at })).filter(({ at }) => !this.hidden.has(at));
      const names = shown.map(({ key, at }) => ({ colour: getComputedStyle(key.querySelector(".curve")).stroke, text: this.figure.series[at].name }));
      return this.canvas.querySelector(".noisy") ? [...names, { text: "hollow: noisy" }] : names;
    }

    legend() {
      const bar = make("div", { class: "legend", role: "group", "aria-label": "Series" });
      this.keys = this.figure.series.map((series, at) => {
        const button = this.button("", () => {
          if (!this.hidden.delete(at)) this.hidden.add(at);
          this.reset();
        }, true);
        const key = make("svg", { width: "30", height: "12", class: `series ${this.colour(at)}`, "aria-hidden": "true" });
        key.append(this.curve("M1 6h28", at), this.dot(15, 6, at));
        button.append(key, make("span", {}, series.name));
        return button;
      });
      const all = this.button("all", () => { this.hidden.clear(); this.reset(); });
      const none = this.button("none", () => { this.keys.forEach((_, at) => this.hidden.add(at)); this.reset(); });
      bar.append(...this.keys, all, none);
      return bar;
    }

    colour(at) {
      return this.figure.series[at].is_base ? "sb" : `s${at % COLOURS}`;
    }

    curve(path, at) {
      const series = this.figure.series[at];
      const dash = series.is_reference ? "2 5" : series.is_base ? "" : DASHES[Math.floor(at / COLOURS) % DASHES.length];
      return make("path", { class: "curve", d: path, "stroke-dasharray": dash });
    }

    // A noisy point's is hollow.
    dot(x, y, at, noisy) {
      const shape = this.figure.series[at].is_base ? SHAPES[0] : SHAPES[at % SHAPES.length];
      return make("path", { class: noisy ? "dot noisy" : "dot", d: `M${x.toFixed(1)} ${y.toFixed(1)}${shape}` });
    }

    // All points that can be drawn: place and values in the axes' own units.
    points() {
      const points = [];
      this.figure.series.forEach((series, at) => {
        if (this.hidden.has(at)) return;
        const isOne = this.ratios && series.is_base;
        const raw = this.ratios && !isOne ? series.ratios : series.values;
        for (const [x, middle, low, high, rounds, , noisy] of raw) {
          const [m, l, h] = isOne ? [1, 1, 1] : [middle, low, high];
          if ((this.log.x && x <= 0) || (this.log.y && l <= 0)) continue;
          const own = (value) => (this.log.y ? Math.log10(value) : value);
          points.push({ at, raw: [x, m, l, h, rounds, noisy], x: this.bySeries ? at : this.log.x ? Math.log10(x) : x, middle: own(m), low: own(l), high: own(h) });
        }
      });
      return points;
    }

    // Shows everything that is not hidden.
    reset() {
      this.keys?.forEach((key, at) => key.setAttribute("aria-pressed", String(!this.hidden.has(at))));
      const points = this.points();
      const range = (low, high) => {
        const room = high > low ? (high - low) * 0.05 : Math.abs(high) * 0.1 || 0.5;
        return [low - room, high + room];
      };
      const least = (values, or) => (values.length ? Math.min(...values) : or);
      const most = (values, or) => (values.length ? Math.max(...values) : or);
      const isHistogram = this.figure.kind === "histogram";
      const places = points.flatMap((point) => (isHistogram ? [point.x, this.classEnd(point)] : [point.x]));
      const floor = this.log.y || this.ratios ? Infinity : 0;
      this.view = {
        x: this.bySeries ? [-0.5, this.figure.series.length - 0.5] : range(least(places, 0), most(places, 1)),
        y: range(Math.min(least(points.map((point) => point.low), 0), floor), most(points.map((point) => point.high), 1)),
      };
      this.draw();
    }

    zoom(factor, across = 0.5, down = 0.5) {
      for (const [axis, part] of [["x", across], ["y", 1 - down]]) {
        const [low, high] = this.view[axis];
        const still = low + (high - low) * part;
        const wide = (high - low) * factor;
        if (wide < 1e-9 * Math.max(1e-9, Math.abs(still)) || wide > 1e12) return;
        this.view[axis] = [still - wide * part, still + wide * (1 - part)];
      }
      this.draw();
    }

    // By parts of what is shown.
    pan(across, down) {
      for (const [axis, part] of [["x", -across], ["y", down]]) {
        const [low, high] = this.view[axis];
        this.view[axis] = [low + (high - low) * part, high + (high - low) * part];
      }
      this.draw();
    }

    draw() {
      const width = Math.max(280, this.canvas.parentElement.clientWidth || 760);
      const height = width < 500 ? 300 : 400;
      this.box = { left: 62, right: width - 14, top: 24, bottom: height - (this.bySeries ? 110 : 48), width, height };
      const { left, right, top, bottom } = this.box;
      this.across = (value) => left + ((value - this.view.x[0]) / (this.view.x[1] - this.view.x[0])) * (right - left);
      this.up = (value) => bottom - ((value - this.view.y[0]) / (this.view.y[1] - this.view.y[0])) * (bottom - top);
      const clip = `clip-${this.figure.id}`;
      this.canvas.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.canvas.setAttribute("height", height);
      this.canvas.replaceChildren(
        make("clipPath", { id: clip }, make("rect", { x: left, y: top, width: right - left, height: bottom - top })),
        ...this.axes(),
        make("g", { "clip-path": `url(#${clip})` }, ...this.curves()),
      );
    }

    curves() {
      const groups = new Map();
      for (const point of this.points()) {
        const group = groups.get(point.at) || { path: "", bars: "", dots: [] };
        groups.set(point.at, group);
        if (this.figure.kind === "histogram") {
          group.path += this.step(point);
          continue;
        }
        const [x, y] = [this.across(point.x), this.up(point.middle)];
        group.path += `${group.path ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
        group.bars += `M${x.toFixed(1)} ${this.up(point.low).toFixed(1)}V${this.up(point.high).toFixed(1)}`;
        group.dots.push(this.dot(x, y, point.at, point.raw[5]));
      }
      return [...groups].map(([at, group]) =>
        make("g", { class: `series ${this.colour(at)}`, "data-series": at }, make("title", {}, this.figure.series[at].name), this.curve(group.path, at), make("path", { class: "bar", d: group.bars }), ...group.dots),
      );
    }

    // Where a class of a histogram ends: where the next one can begin.
    classEnd(point) {
      const places = this.figure.places;
      const ratio = Math.min(...places.slice(1).map((place, at) => place / places[at]), 1.2);
      return this.log.x ? point.x + Math.log10(ratio) : point.x * ratio;
    }

    // The column of a class, without noise of its own: no mark, no interval.
    step(point) {
      const ground = this.log.y ? this.box.bottom : this.up(0);
      const [from, to] = [this.across(point.x), this.across(this.classEnd(point))];
      return `M${from.toFixed(1)} ${ground.toFixed(1)}V${this.up(point.middle).toFixed(1)}H${to.toFixed(1)}V${ground.toFixed(1)}`;
    }

    axes() {
      const { left, right, top, bottom, width, height } = this.box;
      const parts = [];
      const [low, high] = this.view.y;
      const unit = this.ratios ? `times ${this.figure.base}` : this.figure.unit;
      for (const value of this.log.y ? logTicks(low, high, 6) : linearTicks(low, high, 6)) {
        const y = this.up(this.log.y ? Math.log10(value) : value).toFixed(1);
        parts.push(make("path", { class: "grid", d: `M${left} ${y}H${right}` }), make("text", { x: left - 6, y: Number(y) + 4, "text-anchor": "end" }, short(value)));
      }
      parts.push(make("path", { class: "frame", d: `M${left} ${top}V${bottom}H${right}` }), make("text", { x: 4, y: 14 }, unit));
      if (this.bySeries) {
        this.figure.series.forEach((series, at) => {
          const x = this.across(at);
          if (x < left || x > right || this.hidden.has(at)) return;
          parts.push(make("text", { transform: `translate(${x.toFixed(1)} ${bottom + 14}) rotate(-40)`, "text-anchor": "end" }, series.name.length > 18 ? `${series.name.slice(0, 17)}…` : series.name));
        });
        return parts;
      }
      let free = -Infinity;
      for (const value of this.placeTicks()) {
        const x = this.across(this.log.x ? Math.log10(value) : value);
        const text = place(value, this.figure.x_unit);
        const half = text.length * 3.6;
        if (x < left - 1 || x > right + 1 || x - half < free) continue;
        free = x + half;
        parts.push(make("text", { x: Math.min(x, width - half).toFixed(1), y: bottom + 16, "text-anchor": "middle" }, text));
      }
      parts.push(make("text", { x: (left + right) / 2, y: height - 8, "text-anchor": "middle" }, this.figure.x_title));
      return parts;
    }

    // The measured places if they are few and at least two are in sight, round numbers otherwise.
    placeTicks() {
      const [low, high] = this.view.x;
      const own = (value) => (this.log.x ? Math.log10(value) : value);
      const inSight = this.figure.places.filter((value) => own(value) >= low && own(value) <= high);
      if (this.figure.places.length <= 12 && inSight.length >= 2) return inSight;
      return this.log.x ? logTicks(low, high, 6) : linearTicks(low, high, 6);
    }

    say(point) {
      const series = this.figure.series[point.at];
      const [x, middle, low, high, rounds, noisy] = point.raw;
      const unit = this.ratios ? `times ${this.figure.base}` : this.figure.unit;
      const how = series.is_reference ? "not measured here" : `${short(low)} to ${short(high)}, ${rounds} rounds${noisy ? ", noisy" : ""}`;
      this.reading.textContent = `${series.name}, ${place(x, this.figure.x_unit)}: ${short(middle)} ${unit} (${how})`;
    }

    // The pointer's place on the canvas.
    pointer(event) {
      const box = this.canvas.getBoundingClientRect();
      const scale = this.box.width / box.width;
      return { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale };
    }

    nearest(where) {
      let [found, least] = [null, 30];
      for (const point of this.points()) {
        const away = Math.hypot(this.across(point.x) - where.x, this.up(point.middle) - where.y);
        if (away < least) [found, least] = [point, away];
      }
      return found;
    }

    parts(where) {
      const { left, right, top, bottom } = this.box;
      return [(where.x - left) / (right - left), (where.y - top) / (bottom - top)];
    }

    listen() {
      const pressed = new Map();
      const distance = () => {
        const [a, b] = [...pressed.values()];
        return Math.hypot(a.x - b.x, a.y - b.y);
      };
      this.canvas.addEventListener("pointerdown", (event) => {
        pressed.set(event.pointerId, this.pointer(event));
        this.canvas.setPointerCapture?.(event.pointerId);
      });
      this.canvas.addEventListener("pointermove", (event) => {
        const now = this.pointer(event);
        const before = pressed.get(event.pointerId);
        if (!before) {
          const point = this.nearest(now);
          if (point) this.say(point);
          return;
        }
        const wide = pressed.size === 2 ? distance() : 0;
        pressed.set(event.pointerId, now);
        if (pressed.size === 2) {
          this.zoom(wide / Math.max(1, distance()), ...this.parts(now));
        } else {
          const { left, right, top, bottom } = this.box;
          this.pan((now.x - before.x) / (right - left), (now.y - before.y) / (bottom - top));
        }
      });
      for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) {
        this.canvas.addEventListener(name, (event) => pressed.delete(event.pointerId));
      }
      // The wheel scrolls the page, unless this plot was chosen or the control key is held.
      this.canvas.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && document.activeElement !== this.canvas) return;
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, ...this.parts(this.pointer(event)));
      }, { passive: false });
      this.canvas.addEventListener("dblclick", () => this.reset());
      this.canvas.addEventListener("keydown", (event) => this.key(event));
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const action = this.actions()[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    }

    // Keys that all kinds have which zoom and pan.
    moves() {
      return {
        "+": () => this.zoom(0.7), "=": () => this.zoom(0.7), "-": () => this.zoom(1 / 0.7), 0: () => this.reset(), Home: () => this.reset(),
        ArrowLeft: () => this.pan(0.1, 0), ArrowRight: () => this.pan(-0.1, 0),
      };
    }

    // What each key does.
    actions() {
      const step = (by) => {
        const points = this.points();
        if (!points.length) return;
        this.chosen = ((this.chosen ?? (by > 0 ? -1 : 0)) + by + points.length) % points.length;
        this.say(points[this.chosen]);
      };
      return {
        ...this.moves(), ArrowUp: () => this.pan(0, 0.1), ArrowDown: () => this.pan(0, -0.1), n: () => step(1), p: () => step(-1),
      };
    }
  }

  function themes() {
    const root = document.documentElement;
    const button = document.getElementById("theme");
    const names = { "": "as the system", dark: "dark", light: "light" };
    const set = (theme) => {
      if (theme) root.dataset.theme = theme;
      else delete root.dataset.theme;
      button.textContent = `Theme: ${names[theme]}`;
    };
    button.hidden = false;
    let theme = "";
    // A page from a file may not be allowed to keep anything.
    try { theme = localStorage.getItem("tasuki-lab-theme") || ""; } catch { theme = ""; }
    set(theme in names ? theme : "");
    button.addEventListener("click", () => {
      const order = Object.keys(names);
      theme = order[(order.indexOf(root.dataset.theme || "") + 1) % order.length];
      set(theme);
      try { localStorage.setItem("tasuki-lab-theme", theme); } catch { /* it is for this page only */ }
    });
  }

  // The controls of lines and columns.
  function testLines(plot, check, key) {
    const click = (root, text) => [...root.querySelectorAll("button")].find((button) => button.textContent === text || button.ariaLabel === text).click();
    const ticks = (plot) => [...plot.canvas.querySelectorAll("text")].map((text) => text.textContent).join("|");
    const name = plot.figure.id;
    const drawn = () => plot.canvas.querySelectorAll("g.series").length;
    const path = () => plot.canvas.querySelector(".curve").getAttribute("d");
    const all = plot.figure.series.filter((series) => series.values.length).length;
    check(`${name}: draws every series`, drawn() === all && all > 0);
    const box = plot.canvas.getBoundingClientRect();
    plot.keys[0].click();
    check(`${name}: a click on the legend hides a series`, drawn() === all - 1 && plot.keys[0].getAttribute("aria-pressed") === "false");
    plot.keys[0].click();
    check(`${name}: another click shows it`, drawn() === all);
    click(plot.host, "none");
    check(`${name}: all can be hidden`, drawn() === 0);
    click(plot.host, "all");
    const [before, path0] = [ticks(plot), path()];
    click(plot.host, "Zoom in");
    check(`${name}: zoom changes curve and ticks`, path() !== path0 && ticks(plot) !== before);
    const zoomed = path();
    key("ArrowLeft");
    check(`${name}: a key pans`, path() !== zoomed);
    key("0");
    check(`${name}: a key shows all again`, path() === path0 && ticks(plot) === before);
    const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, cancelable: true };
    plot.canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: -100 }));
    check(`${name}: the wheel alone scrolls the page`, path() === path0);
    plot.canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: -100, ctrlKey: true }));
    check(`${name}: the wheel with the control key zooms`, path() !== path0);
    click(plot.host, "All");
    click(plot.host, "log y");
    check(`${name}: a logarithmic axis`, path() !== path0 && drawn() > 0 && !plot.canvas.outerHTML.includes("NaN"));
    click(plot.host, "log y");
    check(`${name}: and a linear one again`, path() === path0);
    const ratio = [...plot.host.querySelectorAll("button")].find((button) => button.textContent.startsWith("ratio to"));
    if (ratio) {
      ratio.click();
      check(`${name}: ratios`, (path() !== path0 || ticks(plot) !== before) && !plot.canvas.outerHTML.includes("NaN"));
      ratio.click();
    }
    key("n");
    check(`${name}: a key reads a point`, plot.reading.textContent.includes("rounds"));
    const hollow = [...plot.canvas.querySelectorAll(".dot.noisy")];
    const noisy = plot.points().filter((point) => point.raw[5]).length;
    const paper = getComputedStyle(document.body).backgroundColor;
    check(`${name}: noisy points are hollow: ${noisy}`, hollow.length === noisy && hollow.every((dot) => getComputedStyle(dot).fill === paper));
    if (plot.figure.kind === "histogram") testColumns(plot, check);
  }

  // A column for each class, side by side, as high as its value; no marks and no intervals.
  function testColumns(plot, check) {
    const name = plot.figure.id;
    plot.figure.series.forEach((series, at) => {
      const group = plot.canvas.querySelector(`g.series[data-series="${at}"]`);
      const path = group.querySelector(".curve").getAttribute("d");
      const columns = path.split("M").slice(1).map((column) => column.split(/[ VH]/).map(Number));
      check(`${name}: ${series.name} has a column for each class: ${columns.length}`, columns.length === series.values.length);
      const inOrder = columns.every(([from, , , to], next) => from < to && to <= (columns[next + 1]?.[0] ?? plot.box.right) + 0.2);
      check(`${name}: columns of ${series.name} stand beside each other`, inOrder);
      const heights = columns.map(([, ground, top]) => ground - top);
      const parts = (values) => values.map((value) => value / Math.max(...values));
      const expected = parts(series.values.map((value) => value[1]));
      check(`${name}: columns of ${series.name} are as high as their values`, parts(heights).every((part, of) => Math.abs(part - expected[of]) < 0.01));
      check(`${name}: ${series.name} has no marks`, !group.querySelector(".dot") && !group.querySelector(".bar").getAttribute("d"));
    });
  }

  // Times in units of the machine, and absolute again.
  function testUnits(plots, check, select) {
    const choose = (value) => {
      select.value = value;
      select.dispatchEvent(new Event("change"));
    };
    const looks = () => plots.map((plot) => plot.canvas.innerHTML);
    plots.forEach((plot) => plot.reset());
    const before = looks();
    choose("0");
    check("units of the machine change plots of times", looks().some((look, at) => look !== before[at]) && !looks().join("").includes("NaN"));
    check("and no others", looks().every((look, at) => look === before[at] || plots[at].figure.unit.startsWith("times ")));
    choose("");
    check("absolute times again", looks().every((look, at) => look === before[at]));
  }

  // Works all controls and gives a list of [what, whether it held].
  async function selftest(plots, units) {
    const held = [];
    const check = (what, is) => held.push([what, Boolean(is)]);
    for (const plot of plots) {
      const name = plot.figure.id;
      const box = plot.canvas.getBoundingClientRect();
      check(`${name}: has a size within the window`, box.height > 100 && box.width > 250 && box.right <= innerWidth);
      check(`${name}: has no undefined number`, !plot.canvas.outerHTML.includes("NaN") && !plot.canvas.outerHTML.includes("Infinity"));
      const press = (key) => plot.canvas.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }));
      if (plot.test) plot.test(check, press);
      else testLines(plot, check, press);
      const png = await picture(plot);
      const isNoisy = plot.figure.series.some((series) => series.values.some((value) => value[6]));
      check(`${name}: a sentence about noisy points where it has one`, Boolean(plot.host.parentElement.querySelector(".noise")) === isNoisy);
      check(`${name}: a picture of it`, png.startsWith("data:image/png;base64,") && png.length > 3000);
    }
    if (units) testUnits(plots, check, units);
    const paper = () => getComputedStyle(document.body).backgroundColor;
    const theme = document.getElementById("theme");
    const colours = [0, 1, 2].map(() => { const colour = paper(); theme.click(); return colour; });
    check("the theme's button changes the page", new Set(colours).size === 2);
    check("the page is as wide as the window", document.documentElement.scrollWidth <= innerWidth);
    const lines = plots.find((plot) => !plot.test);
    const themed = [...(lines?.canvas.querySelectorAll(".curve") ?? [])].map((curve) => getComputedStyle(curve).stroke);
    check("curves differ by colour or dash", themed.length > 6 || new Set(themed).size === themed.length);
    check("something was found", document.querySelectorAll("#findings li").length > 0);
    check("no error", faults.length === 0);
    return held;
  }

  themes();
  const { figures, units } = JSON.parse(document.getElementById("data").textContent);
  const tools = { make, short, place, linearTicks };
  const kinds = { "heat map": heatMaps(Plot, tools), "stacked bars": stackedBars(Plot, tools), timeline: timelines(Plot, tools) };
  const plots = figures.map((figure) => new (kinds[figure.kind] ?? Plot)(document.querySelector(`[data-figure="${figure.id}"]`), figure));
  const chooser = machineUnits(tools)(plots, units);
  if (location.hash === "#selftest") selfTested(plots, chooser);

  // Writes what the test found into the page.
  async function selfTested(plots, chooser) {
    const colour = getComputedStyle(document.body).backgroundColor;
    const held = await selftest(plots, chooser).catch((fault) => [[String(fault), false]]);
    const isGood = held.every(([, is]) => is);
    const lines = held.map(([what, is]) => `${is ? "held" : "FAILED"}: ${what}`);
    const said = make("pre", { id: "selftest-result", "data-result": isGood ? "good" : "failed", "data-checks": held.length, "data-paper": colour, "data-width": innerWidth }, lines.concat(faults).join("\n"));
    document.querySelector("main").append(said);
  }
})();
