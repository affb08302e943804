// selftest.js: with #selftest in its address the page works all controls, while an instance has
// traffic, and writes what it found into an element of that name.
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(what, check) {
  for (let round = 0; round < 200; round++) {
    if (what()) return true;
    await pause(50);
  }
  check(`in time: ${what}`, false);
  return false;
}

async function visit(name) {
  location.hash = name;
  await until(() => view.current === name, () => {});
  show();
}

// Whether a plot has points of a colour of the style sheet.
function isDrawn({ uplot: { ctx: { canvas } } }, name) {
  const { width, height } = canvas;
  const copy = make("canvas", { width, height }).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const wanted = colour(name).slice(1).match(/../g).map((two) => parseInt(two, 16));
  const { data } = copy.getImageData(0, 0, width, height);
  let found = 0;
  for (let i = 0; i < data.length; i += 4) {
    found += wanted.every((value, part) => Math.abs(value - data[i + part]) < 30) && data[i + 3] > 127;
  }
  return found > 3;
}

const isAnyDrawn = (plot) => plot.curves.some((_, at) => isDrawn(plot, `--c${at}`));

// Zoom and curves of a group of plots. Of curves at one place the last is seen.
async function testPlots(group, check) {
  const [first] = group.plots;
  const after = async (action, what, is) => {
    action();
    await pause(50);
    check(`${group.name}: ${what}`, is());
  };
  const press = (key) => () => first.canvas.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }));
  const { over } = first.uplot;
  const mouse = (kind, share, target = over) => {
    const { left, top, width } = over.getBoundingClientRect();
    target.dispatchEvent(new MouseEvent(kind, { clientX: left + share * width, clientY: top + 20, movementX: 1, button: 0 }));
  };
  const drag = () => {
    mouse("mouseenter", 0.5);
    mouse("mousedown", 0.5);
    mouse("mousemove", 0.75);
    mouse("mouseup", 0.75, document);
  };
  const lasts = (length) => () => group.plots.every(({ uplot: { scales: { x } } }) => Math.abs(x.max - x.min - length) < 2);
  await after(press("0"), "a minute is shown", lasts(60));
  await after(press("+"), "a key zooms all plots", lasts(30));
  await after(press("0"), "a key shows all", lasts(60));
  await after(drag, "a drag zooms all plots", lasts(15));
  await after(() => mouse("dblclick", 0.5), "a double click shows all", lasts(60));
  mouse("mouseleave", 0.5);
  const last = first.curves.length - 1;
  const button = first.legend.children[last];
  const curve = `--c${last}`;
  const hide = () => button.click();
  check(`${group.name}: a curve`, isDrawn(first, curve));
  await after(hide, "its name hides it", () => button.ariaPressed === "false" && !isDrawn(first, curve));
  await after(hide, "its name shows it", () => button.ariaPressed === "true" && isDrawn(first, curve));
  // The next snapshot brings the real events back. It can come only when this has ended.
  group.events = [{ at_ms: (group.newest - 30) * 1000, text: "a test" }];
  group.redraw();
  await null;
  check(`${group.name}: an event is a line`, group.plots.every((plot) => isDrawn(plot, "--bad")));
  mouse("mouseenter", 0.5);
  mouse("mousemove", 0.5);
  check(`${group.name}: a line tells its event`, over.title === "a test");
  mouse("mouseleave", 0.5);
  check(`${group.name}: its value is told`, /\d/.test(button.querySelector(".value").textContent));
}

async function testOverview(check) {
  await visit("overview");
  const texts = () => [...byId("drawing").querySelectorAll("text")].map((text) => text.textContent).join("|");
  check("the drawing has server, driver and device", ["inet server", "driver", "device"].every((word) => texts().includes(word)));
  check("the drawing has a program", /process \d+, \d+ sockets?/.test(texts()));
  check("the drawing moves", byId("drawing").querySelectorAll(".flow:not(.idle)").length >= 2);
  check("the drawing has bars", byId("drawing").querySelectorAll(".level").length >= 4);
  const before = texts();
  await until(() => texts() !== before, check);
  check("the drawing changes", texts() !== before);
  const { plots } = overview.rates;
  await until(() => plots.every(isAnyDrawn), check);
  check("every plot has a curve", plots.length === 5 && plots.every(isAnyDrawn));
  await testPlots(overview.rates, check);
  check("events are listed", byId("events").children.length > 0);
}

async function testConnections(check) {
  await visit("connections");
  const body = byId("sockets").tBodies[0];
  const column = (at) => [...body.rows].map((row) => row.cells[at].textContent);
  check("sockets are listed", body.rows.length >= 2);
  const head = (at) => byId("sockets").tHead.rows[0].cells[at];
  head(2).querySelector("button").click();
  const ascending = column(2);
  check("a click sorts", head(2).ariaSort === "ascending" && ascending.length === body.rows.length);
  head(2).querySelector("button").click();
  check("another click sorts the other way", head(2).ariaSort === "descending" && column(2)[0] === ascending.at(-1));
  const search = (text) => { byId("socket-search").value = text; byId("socket-search").dispatchEvent(new Event("input")); };
  const all = body.rows.length;
  search("LISTEN");
  check("the search finds", body.rows.length > 0 && body.rows.length < all && column(1).every((state) => state === "LISTEN"));
  search("nothing has this name");
  check("the search finds nothing", body.rows.length === 0 && byId("socket-count").textContent.startsWith("0 of"));
  search("");
  byId("socket-kind").value = "open";
  byId("socket-kind").dispatchEvent(new Event("input"));
  check("the filter shows connections only", body.rows.length > 0 && column(1).every((state) => state !== "LISTEN"));
  const busiest = COLUMNS.findIndex(([name]) => name === "Out B/s");
  head(busiest).querySelector("button").click();
  body.rows[0].dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", cancelable: true }));
  await until(() => !byId("connection").hidden, check);
  const { plots } = connection.plots;
  await until(() => plots.every(isAnyDrawn), check);
  check("a connection has six plots", plots.length === 6 && plots.every(isAnyDrawn));
  await testPlots(connection.plots, check);
  check("TCP_INFO is listed", byId("connection-info").children.length > 40);
  byId("socket-kind").value = "all";
  byId("socket-kind").dispatchEvent(new Event("input"));
}

async function testCounters(check) {
  await visit("counters");
  await until(() => counters.layers.length > 0, check);
  counters.draw();
  const shown = () => [...byId("counter-table").tBodies[0].rows].filter((row) => !row.hidden && !row.classList.contains("layer"));
  const some = shown().length;
  check("counters are listed", some > 20);
  check("a rate is above nothing", shown().some((row) => row.cells[0].textContent === "tcp.segments-in" && !["–", "0"].includes(row.cells[2].textContent)));
  byId("counter-zeros").click();
  check("zeros can be shown", shown().length > some);
  byId("counter-search").value = "tcp.";
  byId("counter-search").dispatchEvent(new Event("input"));
  check("the search of counters", shown().length > 5 && shown().every((row) => row.cells[0].textContent.includes("tcp.")));
}

async function testRecording(check) {
  await visit("packets");
  byId("record-seconds").value = "0.3";
  byId("record-form").requestSubmit();
  await until(() => recording.recording, check);
  const { frames, marks } = recording.recording ?? { frames: [], marks: [] };
  check("frames were recorded", frames.some((frame) => frame.sent && frame.protocol === "tcp") && frames.some((frame) => !frame.sent));
  check("marks of all processes", ["program", "inet", "driver"].every((process) => marks.some((mark) => mark.process === process)));
  const strokes = () => recording.canvas.querySelector(".packet")?.getAttribute("d");
  const before = strokes();
  recording.bar.querySelector("button").click();
  check("zoom", strokes() !== before);
  recording.canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "0", cancelable: true }));
  check("all again", strokes() === before);
  check("frames are in the table", byId("record-frames").tBodies[0].rows.length > 0);
  check("stages are in tables", byId("record-stages").querySelectorAll("tr").length > 20);
}

async function selftest() {
  const colour = getComputedStyle(document.body).backgroundColor;
  const held = [];
  const check = (what, is) => held.push([what, Boolean(is)]);
  await until(() => view.seen >= 4 && view.snapshot?.status && minute.rates.get("nic.tx-packets") > 0, check);
  for (const test of [testOverview, testConnections, testCounters, testRecording]) {
    try { await test(check); } catch (error) { check(`${test.name}: ${error}`, false); }
    check(`${test.name}: as wide as the window`, document.documentElement.scrollWidth <= innerWidth);
    check(`${test.name}: no undefined number`, !/NaN|Infinity|undefined/.test(document.querySelector("main").textContent + byId("drawing").outerHTML));
  }
  const paper = () => getComputedStyle(document.body).backgroundColor;
  const colours = [0, 1, 2].map(() => { const one = paper(); byId("theme").click(); return one; });
  check("the theme's button changes the page", new Set(colours).size === 2);
  byId("pause").click();
  const paused = view.snapshot;
  await pause(1200);
  check("a paused page stands still", view.snapshot === paused);
  byId("pause").click();
  check("no error", faults.length === 0);
  const lines = held.map(([what, is]) => `${is ? "held" : "FAILED"}: ${what}`);
  const result = held.every(([, is]) => is) ? "good" : "failed";
  document.querySelector("main").append(make("pre", { id: "selftest-result", "data-result": result, "data-checks": held.length, "data-paper": colour, "data-width": innerWidth }, lines.concat(faults).join("\n")));
}

if (location.hash === "#selftest") selftest();
