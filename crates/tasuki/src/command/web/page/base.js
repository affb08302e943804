// The parts of this script draw what the server tells. No markup is made of text: names go into the
// page as text nodes and attributes only. Colours are the style sheet's. Curves over time are drawn
// by uPlot (plot.js), all else by these parts.
//
// base.js: elements, numbers, faults.
const SVG = "http://www.w3.org/2000/svg";
const SVG_NAMES = new Set(["svg", "g", "path", "text", "rect", "circle", "clipPath", "title", "line"]);
const faults = [];
window.addEventListener("error", (event) => faults.push(event.message));
window.addEventListener("unhandledrejection", (event) => faults.push(String(event.reason)));

const byId = (id) => document.getElementById(id);

function make(name, attributes, ...children) {
  const element = SVG_NAMES.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  set(element, attributes || {});
  element.append(...children);
  return element;
}

// Attributes that stay the same are not touched: a running animation would begin anew.
function set(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null) element.removeAttribute(key);
    else if (element.getAttribute(key) !== String(value)) element.setAttribute(key, value);
  }
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Keys on an element zoom and pan its time axis, which has `zoom`, `pan` and `all`. With Ctrl, Meta
// or Alt they are the browser's, which zooms the page.
function listenForAxis(element, axis) {
  const actions = {
    "+": () => axis.zoom(0.5), "=": () => axis.zoom(0.5), "-": () => axis.zoom(2), 0: () => axis.all(),
    ArrowLeft: () => axis.pan(-0.1), ArrowRight: () => axis.pan(0.1),
  };
  element.addEventListener("keydown", (event) => {
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
}

// Three digits, with a letter for thousands.
function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return `${digits(value / unit)}${name}`;
  }
  return size >= 1 || size === 0 ? digits(value) : value.toPrecision(2);
}

function digits(value) {
  const size = Math.abs(value);
  const text = value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

// Microseconds.
function time(us) {
  if (!us) return "–";
  if (us >= 1e6) return `${digits(us / 1e6)} s`;
  return us >= 1000 ? `${digits(us / 1000)} ms` : `${digits(us)} µs`;
}

const clock = (ms) => {
  const at = new Date(ms);
  return `${at.toLocaleTimeString("en-GB")}.${String(at.getMilliseconds()).padStart(3, "0").slice(0, 1)}`;
};

function ticks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((it) => it >= rough) || rough;
  const found = [];
  for (let at = Math.ceil(low / step); at <= Math.floor(high / step) && found.length < 50; at++) found.push(at * step);
  return found;
}

// What a viewer has set is kept where the browser allows it.
const kept = {
  get(key) { try { return localStorage.getItem(`tasuki-web-${key}`); } catch { return null; } },
  set(key, value) { try { localStorage.setItem(`tasuki-web-${key}`, value); } catch { /* for this page only */ } },
};
