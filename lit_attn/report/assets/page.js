// What do all parts of the page's script share? The parts are joined into one script in which these names are private.
const byId = (name) => document.getElementById(name);
const readBlock = (name) => JSON.parse(byId(name).textContent);
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const percent = (weight) => (100 * weight).toFixed(weight >= 0.0995 ? 0 : 1) + " %";

function element(name, attributes = {}, ...children) {
  const svg = ["g", "rect", "text", "image"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Moves the focus along a row of elements of which only one can be reached with Tab.
function rove(items, current, key) {
  const last = items.length - 1;
  const next = { ArrowRight: current + 1, ArrowDown: current + 1, ArrowLeft: current - 1, ArrowUp: current - 1, Home: 0, End: last }[key];
  return next === undefined ? null : Math.min(last, Math.max(0, next));
}
