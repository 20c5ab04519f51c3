// What does a whole map look like? Rows are queries, columns keys; colours run from 0 to the largest weight.
let mapColors = null;
function colorOf(value, top, signed) {
  if (Number.isNaN(value)) return [128, 128, 128];
  if (signed) {
    const share = Math.min(1, Math.abs(value) / top);
    const end = value < 0 ? [0, 90, 160] : [230, 159, 0];
    return end.map((channel) => Math.round(245 + (channel - 245) * share));
  }
  mapColors = mapColors || readBlock("palette").map((color) => [1, 3, 5].map((start) => parseInt(color.slice(start, start + 2), 16)));
  return mapColors[Math.round(Math.min(1, value / top) * (mapColors.length - 1))];
}

// Draws a view into a canvas, one pixel per weight, and gives the largest size.
function paintView(canvas, view) {
  const rows = Array.from({ length: view.queries }, (_, query) => view.row(query));
  const top = rows.flat().reduce((most, value) => (Number.isNaN(value) ? most : Math.max(most, Math.abs(value))), 1e-12);
  canvas.width = view.width;
  canvas.height = view.queries;
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(view.width, view.queries);
  rows.flat().forEach((value, place) => pixels.data.set([...colorOf(value, top, view.signed), 255], 4 * place));
  context.putImageData(pixels, 0, 0);
  return top;
}

// One view with the names of its rows and columns; `read` is told what the pointer is on.
function wholeMap(sample, view, format, read) {
  const cell = Math.max(9, Math.min(24, Math.floor(1000 / view.width), Math.floor(620 / view.queries)));
  const names = (stream, side) => {
    const line = element("div", { class: side === "width" ? "map-columns" : "map-rows" });
    line.style.fontSize = `${Math.min(13, cell - 1)}px`;
    line.append(
      ...streamOf(sample, stream).items.map((item) => {
        const label = element("span", {}, item);
        label.style[side] = label.style.lineHeight = `${cell}px`;
        return label;
      }),
    );
    return line;
  };
  const canvas = element("canvas", { class: "map", role: "img", "aria-label": `Map from ${view.query} to ${view.keys}` });
  const top = paintView(canvas, view);
  canvas.style.width = `${view.width * cell}px`;
  canvas.style.height = `${view.queries * cell}px`;
  canvas.addEventListener("mousemove", (event) => {
    const query = Math.min(view.queries - 1, Math.floor((event.offsetY / canvas.clientHeight) * view.queries));
    const key = Math.min(view.width - 1, Math.floor((event.offsetX / canvas.clientWidth) * view.width));
    read(`${itemName(sample, view.query, query)} → ${itemName(sample, view.keys, key)}: ${format(view.at(query, key))}`);
  });
  const caption = `Rows: ${view.query}. Columns: ${view.keys}. Strongest cell: ${format(top)}.`;
  return element("figure", {}, element("figcaption", { class: "note" }, caption), element("div", { class: "whole-map" }, names(view.keys, "width"), names(view.query, "height"), canvas));
}
