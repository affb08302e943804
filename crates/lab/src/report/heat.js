"use strict";
// Heat maps: one map is shown at a time, and the legend chooses it. A cell has its value in it, so
// nobody depends on the colours, which are those of heat.rs. All maps of a figure have one scale.
// Arrows go from cell to cell, n and p from map to map; the line under the map reads the cell.
const heatMaps = (Plot, { make, short, place }) => {
  // Cividis, as in heat.rs.
  const STOPS = [[0, 34, 78], [62, 76, 110], [110, 113, 120], [155, 148, 118], [205, 189, 98], [254, 232, 56]];
  const LIGHT = 0.5;
  const ROW = 34;

  function colour(part) {
    const at = Math.min(1, Math.max(0, part)) * (STOPS.length - 1);
    const below = Math.min(Math.floor(at), STOPS.length - 2);
    const mixed = STOPS[below].map((from, which) => Math.round(from + (STOPS[below + 1][which] - from) * (at - below)));
    return `rgb(${mixed.join(",")})`;
  }

  return class HeatMap extends Plot {
    controls() {
      const measured = this.figure.series.findIndex((series) => !series.is_base && !series.is_reference);
      this.layer = Math.max(0, measured);
      this.chosen = [0, 0];
      this.logColours = true;
      this.canvas.setAttribute("aria-label", `Heat map: ${this.figure.title}. Keys: arrows for cells, n and p for maps. The table has all values.`);
      const bar = make("div", { class: "controls", role: "toolbar", "aria-label": "Map" });
      const toggle = (name) => (button) => {
        this[name] = !this[name];
        button.setAttribute("aria-pressed", String(this[name]));
        this.draw();
      };
      bar.append(this.button("log colours", toggle("logColours"), true));
      if (this.figure.base && this.figure.series.some((series) => series.ratios.length)) {
        bar.append(this.button(`ratio to ${this.figure.base}`, toggle("ratios"), false));
      }
      return bar;
    }

    legend() {
      const bar = make("div", { class: "legend maps", role: "group", "aria-label": "Maps" });
      this.keys = this.figure.series.map((series, at) => this.button(series.name, () => this.show(at), at === this.layer));
      bar.append(...this.keys);
      return bar;
    }

    show(layer) {
      this.layer = layer;
      this.keys.forEach((key, at) => key.setAttribute("aria-pressed", String(at === layer)));
      this.draw();
    }

    reset() {
      this.draw();
    }

    names() {
      const names = [{ text: this.figure.series[this.layer].name }];
      return this.cells(this.layer).some((cell) => cell.noisy) ? [...names, { text: "~: noisy" }] : names;
    }

    // Cells of a map: column, row, and what was measured.
    cells(layer) {
      const { places, second_places: rows } = this.figure;
      const series = this.figure.series[layer];
      const isOne = this.ratios && series.is_base;
      const raw = this.ratios && !isOne ? series.ratios : series.values;
      return raw.map(([x, middle, low, high, rounds, y, noisy]) => {
        const [m, l, h] = isOne ? [1, 1, 1] : [middle, low, high];
        return { x, y, middle: m, low: l, high: h, rounds, noisy, column: places.indexOf(x), row: rows.indexOf(y) };
      });
    }

    scale() {
      const all = this.figure.series.flatMap((_, at) => this.cells(at)).map((cell) => cell.middle);
      const isLog = this.logColours && Math.min(...all) > 0;
      const own = (value) => (isLog ? Math.log(value) : value);
      const [least, most] = [own(Math.min(...all)), own(Math.max(...all))];
      return (value) => (most > least ? (own(value) - least) / (most - least) : 1);
    }

    draw() {
      const { places, second_places: rows, second } = this.figure;
      const width = Math.max(280, this.canvas.parentElement.clientWidth || 760);
      const [left, top] = [58, 22];
      const bottom = top + ROW * rows.length;
      const [right, height] = [width - 8, bottom + 46];
      const wide = (right - left) / places.length;
      this.box = { left, right, top, bottom, width, height, wide };
      this.canvas.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.canvas.setAttribute("height", height);
      const parts = [make("text", { x: 4, y: 14 }, `${this.unit()} · down: ${second.title}`)];
      rows.forEach((y, row) => {
        parts.push(make("text", { x: left - 6, y: top + ROW * (row + 0.5) + 4, "text-anchor": "end" }, place(y, second.unit || "")));
      });
      places.forEach((x, column) => {
        parts.push(make("text", { x: left + wide * (column + 0.5), y: bottom + 16, "text-anchor": "middle" }, place(x, this.figure.x_unit)));
      });
      parts.push(make("text", { x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle" }, this.figure.x_title));
      const scale = this.scale();
      const cells = this.cells(this.layer).map((cell) => this.cell(cell, scale));
      this.canvas.replaceChildren(...parts, make("g", { class: "cells" }, ...cells));
    }

    cell(cell, scale) {
      const { left, top, wide } = this.box;
      const part = scale(cell.middle);
      const [x, y] = [left + wide * cell.column, top + ROW * cell.row];
      const isChosen = cell.column === this.chosen[0] && cell.row === this.chosen[1];
      const value = wide < 40 ? cell.middle.toPrecision(2).replace(/\.0$/, "") : short(cell.middle);
      const text = cell.noisy ? `${value}~` : value;
      return make("g", { class: isChosen ? "cell chosen" : "cell" },
        make("title", {}, this.said(cell)),
        make("rect", { x: (x + 1).toFixed(1), y: y + 1, width: Math.max(1, wide - 2).toFixed(1), height: ROW - 2, fill: colour(part) }),
        make("text", { class: part < LIGHT ? "on-dark" : "on-light", x: (x + wide / 2).toFixed(1), y: y + ROW / 2 + 4, "text-anchor": "middle" }, text));
    }

    unit() {
      return this.ratios ? `times ${this.figure.base}` : this.figure.unit;
    }

    said(cell) {
      const series = this.figure.series[this.layer];
      const at = `${place(cell.x, this.figure.x_unit)} × ${place(cell.y, this.figure.second.unit || "")}`;
      const how = series.is_reference ? "not measured here" : `${short(cell.low)} to ${short(cell.high)}, ${cell.rounds} rounds${cell.noisy ? ", noisy" : ""}`;
      return `${series.name}, ${at}: ${short(cell.middle)} ${this.unit()} (${how})`;
    }

    choose(column, row) {
      const within = (value, count) => Math.min(Math.max(value, 0), count - 1);
      this.chosen = [within(column, this.figure.places.length), within(row, this.figure.second_places.length)];
      const cell = this.cells(this.layer).find((it) => it.column === this.chosen[0] && it.row === this.chosen[1]);
      this.reading.textContent = cell ? this.said(cell) : "Nothing was measured there.";
      this.draw();
    }

    listen() {
      const at = (event) => {
        const { left, right, top, bottom, wide } = this.box;
        const { x, y } = this.pointer(event);
        if (x >= left && x < right && y >= top && y < bottom) this.choose(Math.floor((x - left) / wide), Math.floor((y - top) / ROW));
      };
      this.canvas.addEventListener("pointermove", at);
      this.canvas.addEventListener("pointerdown", at);
      this.canvas.addEventListener("keydown", (event) => this.key(event));
    }

    actions() {
      const [column, row] = this.chosen;
      const count = this.figure.series.length;
      return {
        ArrowLeft: () => this.choose(column - 1, row), ArrowRight: () => this.choose(column + 1, row),
        ArrowUp: () => this.choose(column, row - 1), ArrowDown: () => this.choose(column, row + 1), Home: () => this.choose(0, 0),
        n: () => this.show((this.layer + 1) % count), p: () => this.show((this.layer + count - 1) % count),
      };
    }

    test(check, press) {
      const name = this.figure.id;
      const drawn = () => [...this.canvas.querySelectorAll(".cell")];
      const look = () => this.canvas.outerHTML;
      check(`${name}: a cell for each point`, drawn().length === this.cells(this.layer).length && drawn().length > 0);
      check(`${name}: each cell has its value`, drawn().every((cell) => /\d/.test(cell.querySelector("text").textContent)));
      check(`${name}: values fit into their cells`, drawn().every((cell) => cell.querySelector("text").getBBox().width <= cell.querySelector("rect").getBBox().width));
      const marked = drawn().filter((cell) => cell.querySelector("text").textContent.endsWith("~")).length;
      const noisy = this.cells(this.layer).filter((cell) => cell.noisy).length;
      check(`${name}: noisy cells are marked: ${noisy}`, marked === noisy);
      const before = look();
      press("ArrowRight");
      check(`${name}: a key goes to another cell and reads it`, this.reading.textContent.length > 10 && (look() !== before || drawn().length < 2));
      press("Home");
      const layer = this.layer;
      press("n");
      check(`${name}: a key shows another map`, this.figure.series.length < 2 || (this.layer !== layer && look() !== before));
      this.keys[layer].click();
      check(`${name}: the legend shows the first one again`, this.layer === layer && this.keys[layer].getAttribute("aria-pressed") === "true");
      for (const button of this.host.querySelectorAll(".controls button[aria-pressed]")) {
        const home = look();
        button.click();
        check(`${name}: ${button.textContent} changes the map`, look() !== home && !look().includes("NaN"));
        button.click();
        check(`${name}: ${button.textContent} changes it back`, look() === home);
      }
    }
  };
};
