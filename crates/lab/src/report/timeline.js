"use strict";
// Timelines: panels below each other with one axis of time, lanes within them. A span that takes no
// time, such as a packet, is a line as high as its lane. Zoom and pan go along the axis only; n and
// p go from span to span in order of time; the legend hides lanes of one name in all panels.
const timelines = (Plot, { make, short, linearTicks }) => {
  // As in timeline.rs.
  const [TOP, HEAD, ROW, BAND] = [8, 24, 34, 16];
  const COLOURS = 6;
  const [LEFT, MARGIN, THIN, NEAR] = [12, 12, 1.2, 8];

  return class Timeline extends Plot {
    controls() {
      this.laneNames = [...new Set(this.figure.lanes.map((lane) => lane.name))];
      this.panels = [...new Set(this.figure.lanes.map((lane) => lane.panel))];
      this.read = null;
      this.canvas.setAttribute("aria-label", `Timeline: ${this.figure.title}. Keys: plus, minus, left, right, 0 for all, n and p for what happened. The table has all of it.`);
      const bar = make("div", { class: "controls", role: "toolbar", "aria-label": "Time" });
      bar.append(this.button("+", () => this.zoom(0.7)), this.button("−", () => this.zoom(1 / 0.7)), this.button("All", () => this.reset()));
      bar.children[0].setAttribute("aria-label", "Zoom in");
      bar.children[1].setAttribute("aria-label", "Zoom out");
      return bar;
    }

    names() {
      const shown = this.keys.map((key, at) => ({ key, at })).filter(({ at }) => !this.hidden.has(at));
      return shown.map(({ key, at }) => ({ colour: getComputedStyle(key.querySelector(".span")).fill, text: this.laneNames[at] }));
    }

    legend() {
      const bar = make("div", { class: "legend", role: "group", "aria-label": "Lanes" });
      this.keys = this.laneNames.map((name, at) => {
        const button = this.button("", () => {
          if (!this.hidden.delete(at)) this.hidden.add(at);
          button.setAttribute("aria-pressed", String(!this.hidden.has(at)));
          this.draw();
        }, true);
        const key = make("svg", { width: "14", height: "12", class: this.colour(at), "aria-hidden": "true" });
        key.append(make("rect", { class: "span", x: 2, y: 1, width: 10, height: 10 }));
        button.append(key, make("span", {}, name));
        return button;
      });
      bar.append(...this.keys);
      return bar;
    }

    colour(at) {
      return `s${at % COLOURS}`;
    }

    // Lanes in sight from the top, each with the place of its spans.
    rows() {
      let top = TOP;
      const rows = [];
      for (const panel of this.panels) {
        rows.push({ panel, top, height: HEAD });
        top += HEAD;
        for (const lane of this.figure.lanes.filter((it) => it.panel === panel && !this.hidden.has(this.laneNames.indexOf(it.name)))) {
          rows.push({ panel, lane, top, band: top + 14 });
          top += ROW;
        }
      }
      return { rows, bottom: top };
    }

    // All spans in sight, in order of time.
    spans() {
      const all = this.rows().rows.filter((row) => row.lane).flatMap((row) => row.lane.spans.map((span) => ({ row, span })));
      return all.sort((a, b) => a.span.from - b.span.from);
    }

    reset() {
      const ends = this.figure.lanes.flatMap((lane) => lane.spans.map((span) => span.until));
      const most = Math.max(...ends, 1e-9);
      this.view = { x: [-0.02 * most, 1.02 * most] };
      this.draw();
    }

    zoom(factor, across = 0.5) {
      const [low, high] = this.view.x;
      const [still, wide] = [low + (high - low) * across, (high - low) * factor];
      if (wide < 1e-6 || wide > 1e12) return;
      this.view.x = [still - wide * across, still + wide * (1 - across)];
      this.draw();
    }

    pan(across) {
      const [low, high] = this.view.x;
      const by = (high - low) * across;
      this.view.x = [low - by, high - by];
      this.draw();
    }

    draw() {
      const width = Math.max(280, this.canvas.parentElement.clientWidth || 760);
      const { rows, bottom } = this.rows();
      const [left, right, height] = [LEFT, width - MARGIN, bottom + 44];
      this.box = { left, right, top: TOP, bottom, width, height };
      this.across = (value) => left + ((value - this.view.x[0]) / (this.view.x[1] - this.view.x[0])) * (right - left);
      this.canvas.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.canvas.setAttribute("height", height);
      const clip = `clip-${this.figure.id}`;
      const ticks = linearTicks(...this.view.x, Math.max(3, Math.round(width / 110))).filter((value) => value >= 0);
      const grid = ticks.map((value) => make("path", { class: "grid", d: `M${this.across(value).toFixed(1)} ${TOP}V${bottom}` }));
      const labels = ticks.filter((value) => this.across(value) < right - 8).map((value) => make("text", { x: this.across(value).toFixed(1), y: bottom + 16, "text-anchor": "middle" }, short(value)));
      this.canvas.replaceChildren(
        make("clipPath", { id: clip }, make("rect", { x: left, y: TOP, width: right - left, height: Math.max(1, bottom - TOP) })),
        ...grid, ...labels,
        make("path", { class: "frame", d: `M${left} ${bottom}H${right}` }),
        make("text", { x: (left + right) / 2, y: height - 8, "text-anchor": "middle" }, `${this.figure.x_title}, ${this.figure.x_unit}`),
        ...rows.flatMap((row) => this.row(row, clip)),
        ...this.marker(clip),
      );
    }

    row(row, clip) {
      const { left, right } = this.box;
      if (!row.lane) return [make("text", { class: "panel", x: left, y: row.top + 17 }, row.panel)];
      let path = "";
      for (const span of row.lane.spans) {
        if (span.until < this.view.x[0] || span.from > this.view.x[1]) continue;
        const from = this.across(span.from);
        const wide = Math.max(THIN, this.across(span.until) - from).toFixed(1);
        path += `M${from.toFixed(1)} ${row.band}h${wide}v${BAND}h-${wide}z`;
      }
      const at = this.laneNames.indexOf(row.lane.name);
      return [
        make("g", { class: `lane ${this.colour(at)}` },
          make("title", {}, `${row.panel}: ${row.lane.name}`),
          make("path", { class: "ground", d: `M${left} ${row.band + BAND}H${right}` }),
          make("path", { class: "span", "clip-path": `url(#${clip})`, d: path || "M0 0" }),
          make("text", { class: "lane-name", x: left, y: row.top + 10 }, row.lane.name)),
      ];
    }

    // A line at what is read.
    marker(clip) {
      if (!this.read || !this.rows().rows.some((row) => row.lane === this.read.row.lane)) return [];
      const x = this.across(this.read.span.from).toFixed(1);
      return [make("path", { class: "marker", "clip-path": `url(#${clip})`, d: `M${x} ${this.read.row.top}v${ROW}` })];
    }

    say(found) {
      const { row, span } = found;
      const unit = this.figure.x_unit;
      const when = span.until > span.from ? `${short(span.from)} to ${short(span.until)} ${unit}, ${short(span.until - span.from)} ${unit} long` : `at ${short(span.from)} ${unit}`;
      this.read = found;
      this.reading.textContent = `${row.panel}, ${row.lane.name}: ${when}${span.bytes ? `, ${span.bytes} B` : ""}`;
      this.draw();
    }

    // The span of the pointer's lane that is nearest to it.
    nearest(where) {
      const row = this.rows().rows.find((it) => it.lane && where.y >= it.top && where.y < it.top + ROW);
      let [found, least] = [null, NEAR];
      for (const span of row?.lane.spans ?? []) {
        const [from, until] = [this.across(span.from), this.across(span.until)];
        const away = Math.max(from - where.x, where.x - Math.max(until, from + THIN), 0);
        if (away < least) [found, least] = [{ row, span }, away];
      }
      return found;
    }

    actions() {
      const step = (by) => {
        const spans = this.spans();
        if (!spans.length) return;
        const now = spans.findIndex((it) => it.span === this.read?.span);
        const next = spans[now < 0 ? (by > 0 ? 0 : spans.length - 1) : (now + by + spans.length) % spans.length];
        const wide = this.view.x[1] - this.view.x[0];
        if (next.span.from < this.view.x[0] || next.span.from > this.view.x[1]) this.view.x = [next.span.from - wide / 2, next.span.from + wide / 2];
        this.say(next);
      };
      return { ...this.moves(), n: () => step(1), p: () => step(-1) };
    }

    test(check, press) {
      const name = this.figure.id;
      const lanes = () => this.canvas.querySelectorAll("g.lane").length;
      const path = () => [...this.canvas.querySelectorAll("path.span")].map((it) => it.getAttribute("d")).join("|");
      const all = this.figure.lanes.length;
      check(`${name}: draws every lane`, lanes() === all && all > 0);
      check(`${name}: draws every panel`, this.canvas.querySelectorAll("text.panel").length === this.panels.length);
      const drawn = (path().match(/z/g) ?? []).length;
      check(`${name}: draws everything that happened`, drawn === this.figure.lanes.reduce((sum, lane) => sum + lane.spans.length, 0));
      const inside = [...this.canvas.querySelectorAll("text")].every((text) => text.getBBox().x >= 0 && text.getBBox().x + text.getBBox().width <= this.box.width);
      check(`${name}: names fit into the picture`, inside);
      this.keys[0].click();
      check(`${name}: a click on the legend hides lanes`, lanes() < all && this.keys[0].getAttribute("aria-pressed") === "false");
      this.keys[0].click();
      check(`${name}: another click shows them`, lanes() === all);
      const before = path();
      press("+");
      const zoomed = path();
      check(`${name}: a key zooms`, zoomed !== before);
      press("ArrowRight");
      check(`${name}: a key pans`, path() !== zoomed);
      press("0");
      check(`${name}: a key shows all again`, path() === before);
      const box = this.canvas.getBoundingClientRect();
      const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, cancelable: true };
      this.canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: -100 }));
      check(`${name}: the wheel alone scrolls the page`, path() === before);
      this.canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: -100, ctrlKey: true }));
      check(`${name}: the wheel with the control key zooms`, path() !== before);
      press("Home");
      press("n");
      check(`${name}: a key reads what happened`, this.reading.textContent.includes(this.figure.x_unit) && this.canvas.querySelector(".marker"));
      const first = this.reading.textContent;
      press("n");
      press("p");
      check(`${name}: another key goes back`, this.reading.textContent === first);
      const { row, span } = this.spans()[0];
      const scale = box.width / this.box.width;
      this.reading.textContent = "";
      this.canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + this.across(span.from) * scale, clientY: box.top + (row.band + BAND / 2) * scale }));
      check(`${name}: the pointer reads what happened`, this.reading.textContent.includes(row.lane.name));
    }
  };
};
