// counters.js: all counters by layer, with their rates and meanings.
class Counters {
  constructor() {
    this.rows = new Map();
    this.layers = [];
    for (const id of ["counter-search", "counter-zeros"]) byId(id).addEventListener("input", () => this.draw());
    byId("counter-filter").addEventListener("submit", (event) => event.preventDefault());
  }

  // The list of all, with meanings.
  async load() {
    const answer = await fetch("api/counters");
    if (!answer.ok) return;
    const body = byId("counter-table").tBodies[0];
    for (const { title, counters } of await answer.json()) {
      const head = make("tr", { class: "layer" }, make("th", { colspan: "4", scope: "colgroup" }, title));
      body.append(head);
      const rows = counters.map(({ name, meaning, gauge }) => {
        const cells = [make("td", {}, name), make("td", { class: "number" }), make("td", { class: "number" }), make("td", {}, meaning)];
        const row = make("tr", {}, ...cells);
        body.append(row);
        const one = { name, gauge, row, cells };
        this.rows.set(name, one);
        return one;
      });
      this.layers.push({ head, rows });
    }
    this.draw();
  }

  take(snapshot, minute) {
    Object.assign(this, { values: snapshot.status?.counters ?? {}, rates: minute.rates });
    this.draw();
  }

  draw() {
    const words = byId("counter-search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const zeros = byId("counter-zeros").checked;
    for (const { head, rows } of this.layers) {
      let shown = 0;
      for (const { name, gauge, row, cells } of rows) {
        const value = this.values?.[name];
        const fits = value !== undefined && (zeros || value > 0) && words.every((word) => name.includes(word));
        row.hidden = !fits;
        if (!fits) continue;
        shown += 1;
        say(cells[1], value.toLocaleString("en-US"));
        const rate = gauge ? null : this.rates?.get(name);
        say(cells[2], gauge ? "" : rate === undefined ? "–" : short(rate));
      }
      head.hidden = shown === 0;
    }
  }
}
