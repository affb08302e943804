// Times in units of the machine: a choice above the figures divides all plots of times by what a
// simple thing took on this machine. Ratios, tables and sentences stay what they are.
const machineUnits = ({ make }) => {
  // The same as in units.rs.
  const TIMES = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 };

  function show(plot, unit) {
    const { figure } = plot;
    figure.own ??= { unit: figure.unit, values: figure.series.map((series) => series.values) };
    const factor = unit ? TIMES[figure.own.unit] / unit.nanos : 1;
    figure.unit = unit ? `times ${unit.name}` : figure.own.unit;
    figure.series.forEach((series, at) => {
      series.values = figure.own.values[at].map(([x, middle, low, high, ...rest]) => [x, middle * factor, low * factor, high * factor, ...rest]);
    });
    plot.reading.textContent = "";
    plot.reset();
  }

  return function chooser(plots, units) {
    const timed = plots.filter((plot) => plot.figure.unit in TIMES);
    if (!timed.length || !units.length) return null;
    const select = make("select", { id: "machine-unit" }, make("option", { value: "" }, "absolute"));
    units.forEach((unit, at) => select.append(make("option", { value: String(at) }, `in units of ${unit.name}`)));
    select.addEventListener("change", () => {
      const unit = select.value === "" ? null : units[Number(select.value)];
      timed.forEach((plot) => show(plot, unit));
    });
    const label = make("label", { for: "machine-unit" }, "Times in the plots: ");
    document.querySelector("nav").after(make("p", { class: "controls" }, label, select));
    return select;
  };
};
