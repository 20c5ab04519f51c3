// What do all parts of the page's script share? The parts are joined into one script in which these names are private.
const byId = (name) => document.getElementById(name);
const readBlock = (name) => JSON.parse(byId(name).textContent);
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const percent = (weight) => (100 * weight).toFixed(weight >= 0.0995 ? 0 : 1) + " %";
const distinct = (items) => [...new Set(items)];

const SVG = ["g", "rect", "text", "image", "svg", "polyline", "circle", "line", "title"];
function element(name, attributes = {}, ...children) {
  const made = SVG.includes(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// The place in a row of elements that a key leads to, of which only one can be reached with Tab; null for other keys.
function rove(items, current, key) {
  const last = items.length - 1;
  const next = { ArrowRight: current + 1, ArrowDown: current + 1, ArrowLeft: current - 1, ArrowUp: current - 1, Home: 0, End: last }[key];
  return next === undefined ? null : Math.min(last, Math.max(0, next));
}

// A number of any size in few letters.
function shortScore(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 0.001 && size < 1e4 ? String(Number(value.toPrecision(3))) : value.toExponential(1);
}
