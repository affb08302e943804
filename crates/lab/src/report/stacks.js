// Stacked bars: at each place a bar for each series, made of parts. Bars lie, so that their names
// can be read. A part has the number in it that the legend gives its name. The legend hides parts
// and bars; `shares` draws all bars with one length.
const stackedBars = (Plot, { make, short, place, linearTicks }) => {
  const [ROW, HEAD, TOP] = [20, 26, 8];
  const COLOURS = 6;
  // The same as in stacks.rs: colours repeat, paler.
  const STRENGTH = [1, 0.6, 0.35, 0.2];

  return class StackedBars extends Plot {
    controls() {
      this.hiddenBars = new Set();
      this.shares = false;
      this.chosen = null;
      this.canvas.setAttribute("aria-label", `Stacked bars: ${this.figure.title}. Keys: plus, minus, left, right, 0 for all, n and p for parts. The table has all values.`);
      const bar = make("div", { class: "controls", role: "toolbar", "aria-label": "Bars" });
      bar.append(this.button("+", () => this.zoom(0.7)), this.button("−", () => this.zoom(1 / 0.7)), this.button("All", () => this.reset()));
      bar.children[0].setAttribute("aria-label", "Zoom in");
      bar.children[1].setAttribute("aria-label", "Zoom out");
      bar.append(this.button("shares", (button) => {
        this.shares = !this.shares;
        button.setAttribute("aria-pressed", String(this.shares));
        this.reset();
      }, false));
      return bar;
    }

    legend() {
      const toggle = (of, at) => () => {
        if (!this[of].delete(at)) this[of].add(at);
        this.reset();
      };
      this.keys = this.figure.second.names.map((name, at) => {
        const button = this.button("", toggle("hidden", at), true);
        const key = make("svg", { width: "18", height: "12", class: `s${at % COLOURS}`, "aria-hidden": "true" });
        key.append(make("rect", { class: "part", x: 0, y: 0, width: 18, height: 12, "fill-opacity": this.strength(at) }));
        button.append(key, make("span", {}, `${at + 1} ${name}`));
        return button;
      });
      this.barKeys = this.figure.series.map((series, at) => this.button(series.name, toggle("hiddenBars", at), true));
      const group = (label, keys) => make("div", { class: "legend", role: "group", "aria-label": label }, ...keys);
      return make("div", {}, group("Parts", this.keys), group("Bars", this.barKeys));
    }

    names() {
      const shown = this.keys.map((key, at) => ({ key, at })).filter(({ at }) => !this.hidden.has(at));
      const colour = (key) => getComputedStyle(key.querySelector(".part")).fill;
      const names = shown.map(({ key, at }) => ({ colour: colour(key), strength: this.strength(at), text: key.textContent }));
      return this.canvas.querySelector(".noisy") ? [...names, { text: "~: noisy" }] : names;
    }

    strength(part) {
      return STRENGTH[Math.min(Math.floor(part / COLOURS), STRENGTH.length - 1)];
    }

    // Groups of bars, each bar with its parts that are not hidden.
    groups() {
      return this.figure.places.map((x) => {
        const bars = [];
        this.figure.series.forEach((series, at) => {
          const raw = series.values.filter((value) => value[0] === x && !this.hidden.has(value[5]));
          if (!raw.length || this.hiddenBars.has(at)) return;
          const total = raw.reduce((sum, value) => sum + value[1], 0);
          const factor = this.shares && total > 0 ? 100 / total : 1;
          let from = 0;
          const parts = raw.map(([, middle, low, high, rounds, part, noisy]) => {
            const begin = from;
            from += middle * factor;
            return { at, x, part, begin, end: from, middle, low, high, rounds, noisy, share: total > 0 ? (100 * middle) / total : 0 };
          });
          bars.push({ at, parts, total, end: from });
        });
        return { x, bars };
      });
    }

    reset() {
      this.keys?.forEach((key, at) => key.setAttribute("aria-pressed", String(!this.hidden.has(at))));
      this.barKeys?.forEach((key, at) => key.setAttribute("aria-pressed", String(!this.hiddenBars.has(at))));
      const ends = this.groups().flatMap((group) => group.bars.map((bar) => bar.end));
      this.view = { x: [0, Math.max(...ends, 0) * 1.03 || 1] };
      this.draw();
    }

    zoom(factor, across = 0) {
      const [low, high] = this.view.x;
      const still = low + (high - low) * across;
      const wide = (high - low) * factor;
      if (wide < 1e-9 || wide > 1e12) return;
      this.view.x = [still - wide * across, still + wide * (1 - across)];
      this.draw();
    }

    pan(across) {
      const [low, high] = this.view.x;
      const by = -(high - low) * across;
      this.view.x = [low + by, high + by];
      this.draw();
    }

    draw() {
      const width = Math.max(280, this.canvas.parentElement.clientWidth || 760);
      const groups = this.groups();
      const bottom = TOP + groups.reduce((sum, group) => sum + HEAD + ROW * group.bars.length, 0);
      const narrow = width < 500;
      this.box = { left: narrow ? 116 : 190, right: width - 14, top: TOP, bottom, width, height: bottom + 44 };
      const { left, right, height } = this.box;
      const [low, high] = this.view.x;
      this.across = (value) => left + ((value - low) / (high - low)) * (right - left);
      this.canvas.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.canvas.setAttribute("height", height);
      const clip = `clip-${this.figure.id}`;
      const labels = [];
      const bars = [];
      let top = TOP;
      for (const { x, bars: all } of groups) {
        labels.push(make("text", { class: "place", x: 4, y: top + 18 }, place(x, this.figure.x_unit)));
        top += HEAD;
        for (const bar of all) {
          const name = this.figure.series[bar.at].name;
          // The mark stands beside the name, since the bar's end may be out of sight.
          const noisy = bar.parts.some((part) => part.noisy);
          const most = (narrow ? 15 : 30) - (noisy ? 2 : 0);
          const label = name.length > most ? `${name.slice(0, most - 1)}…` : name;
          labels.push(make("text", { class: noisy ? "noisy" : "", x: left - 6, y: top + 14, "text-anchor": "end" }, noisy ? `${label} ~` : label));
          bars.push(this.bar(bar, top));
          top += ROW;
        }
      }
      this.canvas.replaceChildren(
        make("clipPath", { id: clip }, make("rect", { x: left, y: TOP, width: right - left, height: bottom - TOP })),
        ...this.ticks(), ...labels, make("g", { "clip-path": `url(#${clip})` }, ...bars),
      );
    }

    ticks() {
      const { left, right, top, bottom, height } = this.box;
      const parts = [];
      for (const value of linearTicks(...this.view.x, (right - left) / 90)) {
        const x = this.across(value).toFixed(1);
        parts.push(make("path", { class: "grid", d: `M${x} ${top}V${bottom}` }), make("text", { x, y: bottom + 16, "text-anchor": "middle" }, short(value)));
      }
      parts.push(make("text", { x: (left + right) / 2, y: height - 8, "text-anchor": "middle" }, this.shares ? "% of the bar" : this.figure.unit));
      return parts;
    }

    bar(bar, top) {
      const series = this.figure.series[bar.at];
      const group = make("g", { class: "stack", "data-series": bar.at });
      for (const part of bar.parts) {
        const [from, to] = [this.across(part.begin), this.across(part.end)];
        const rect = make("rect", { class: "part", x: from.toFixed(1), y: top, width: Math.max(0, to - from).toFixed(1), height: ROW - 3, "fill-opacity": this.strength(part.part) });
        const isChosen = this.chosen && this.chosen.at === part.at && this.chosen.part === part.part && this.chosen.x === part.x;
        const own = make("g", { class: `s${part.part % COLOURS}${isChosen ? " chosen" : ""}` }, make("title", {}, this.said(part)), rect);
        own.addEventListener("pointerenter", () => { this.reading.textContent = this.said(part); });
        if (to - from > 14) {
          own.append(make("text", { class: part.part < COLOURS ? "on-part" : "on-pale", x: ((from + to) / 2).toFixed(1), y: top + 13, "text-anchor": "middle" }, this.number(part, to - from)));
        }
        group.append(own);
      }
      const end = this.across(bar.end);
      const total = this.shares ? "" : short(bar.total);
      if (end + 8 * total.length < this.box.right) group.append(make("text", { class: "total", x: (end + 4).toFixed(1), y: top + 13 }, total));
      group.setAttribute("aria-label", `${series.name}: ${short(bar.total)} ${this.figure.unit}`);
      return group;
    }

    // Of a noisy part with its mark, where both have room.
    number(part, room) {
      return part.noisy && room > 26 ? `${part.part + 1}~` : String(part.part + 1);
    }

    said(part) {
      const series = this.figure.series[part.at];
      const how = series.is_reference ? "not measured here" : `${short(part.low)} to ${short(part.high)}, ${part.rounds} rounds${part.noisy ? ", noisy" : ""}`;
      return `${series.name}, ${place(part.x, this.figure.x_unit)}, ${this.figure.second.names[part.part]}: ${short(part.middle)} ${this.figure.unit}, ${short(part.share)} % of the bar (${how})`;
    }

    listen() {
      this.canvas.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && document.activeElement !== this.canvas) return;
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, this.parts(this.pointer(event))[0]);
      }, { passive: false });
      let before = null;
      this.canvas.addEventListener("pointerdown", (event) => { before = this.pointer(event).x; });
      this.canvas.addEventListener("pointermove", (event) => {
        if (before === null || !event.buttons) return;
        const now = this.pointer(event).x;
        this.pan((now - before) / (this.box.right - this.box.left));
        before = now;
      });
      this.canvas.addEventListener("pointerup", () => { before = null; });
      this.canvas.addEventListener("dblclick", () => this.reset());
      this.canvas.addEventListener("keydown", (event) => this.key(event));
    }

    actions() {
      const step = (by) => {
        const all = this.groups().flatMap((group) => group.bars.flatMap((bar) => bar.parts));
        if (!all.length) return;
        const is = (part) => this.chosen && part.at === this.chosen.at && part.part === this.chosen.part && part.x === this.chosen.x;
        const now = all.findIndex(is);
        this.chosen = all[now < 0 ? (by > 0 ? 0 : all.length - 1) : (now + by + all.length) % all.length];
        this.reading.textContent = this.said(this.chosen);
        this.draw();
      };
      return { ...this.moves(), n: () => step(1), p: () => step(-1) };
    }

    test(check, press) {
      const name = this.figure.id;
      const parts = () => this.canvas.querySelectorAll("rect.part").length;
      const bars = () => this.canvas.querySelectorAll(".stack").length;
      const look = () => this.canvas.innerHTML;
      const all = [parts(), bars()];
      const points = this.figure.series.reduce((sum, series) => sum + series.values.length, 0);
      check(`${name}: draws every part`, parts() === points && points > 0);
      const marked = [...this.canvas.querySelectorAll("text.noisy")].filter((text) => text.textContent.endsWith(" ~")).length;
      const noisy = this.groups().flatMap((group) => group.bars).filter((bar) => bar.parts.some((part) => part.noisy)).length;
      check(`${name}: noisy bars are marked: ${noisy}`, marked === noisy);
      this.keys[0].click();
      check(`${name}: the legend hides a part`, parts() < all[0] && this.keys[0].getAttribute("aria-pressed") === "false");
      this.keys[0].click();
      this.barKeys[0].click();
      check(`${name}: and a bar`, bars() < all[1]);
      this.barKeys[0].click();
      check(`${name}: and shows them again`, parts() === all[0] && bars() === all[1]);
      const home = look();
      press("+");
      check(`${name}: a key zooms`, look() !== home);
      const zoomed = look();
      press("ArrowRight");
      check(`${name}: a key pans`, look() !== zoomed);
      press("0");
      check(`${name}: a key shows all again`, look() === home);
      const shares = [...this.host.querySelectorAll("button")].find((button) => button.textContent === "shares");
      shares.click();
      check(`${name}: shares`, look() !== home && !look().includes("NaN"));
      shares.click();
      press("n");
      check(`${name}: a key reads a part`, this.reading.textContent.includes("% of the bar"));
    }
  };
};
