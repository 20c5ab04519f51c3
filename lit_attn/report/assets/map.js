// What does a whole map look like? Rows are queries, columns keys; colours run from 0 to the largest weight.
function startMap(view, state, name) {
  function labelMap(line, stream, count, side, cell) {
    const labels = Array.from({ length: count }, (_, index) => {
      const label = element("span", {}, (stream === "words" ? state.sample.words : state.sample.labels)[index]);
      label.style[side] = label.style.lineHeight = `${cell}px`;
      return label;
    });
    line.style.fontSize = `${Math.min(13, cell - 1)}px`;
    line.replaceChildren(...labels);
  }

  let colors = null;
  function drawMap() {
    const map = state.map;
    view.mapReading.textContent = "";
    if (!map) [view.rows, view.columns].forEach((line) => line.replaceChildren());
    view.canvas.hidden = !map;
    if (!map || !byId("map-fold").open) return;
    colors = colors || readBlock("palette").map((color) => [1, 3, 5].map((start) => parseInt(color.slice(start, start + 2), 16)));
    view.canvas.width = map.width;
    view.canvas.height = map.queries;
    const cell = Math.max(9, Math.min(24, Math.floor(1000 / map.width), Math.floor(620 / map.queries)));
    view.canvas.style.width = `${map.width * cell}px`;
    view.canvas.style.height = `${map.queries * cell}px`;
    labelMap(view.rows, map.query, map.queries, "height", cell);
    labelMap(view.columns, map.keys, map.width, "width", cell);
    const rows = Array.from({ length: map.queries }, (_, query) => map.row(state.head, query));
    const top = Math.max(...rows.flat().filter((weight) => !Number.isNaN(weight)), 1e-12);
    const context = view.canvas.getContext("2d");
    const pixels = context.createImageData(map.width, map.queries);
    rows.flat().forEach((weight, place) => {
      const color = Number.isNaN(weight) ? [128, 128, 128] : colors[Math.round((weight / top) * (colors.length - 1))];
      pixels.data.set([...color, 255], 4 * place);
    });
    context.putImageData(pixels, 0, 0);
    view.mapReading.textContent = `Rows: ${map.query}. Columns: ${map.keys}. Brightest cell: ${percent(top)}.`;
  }
  byId("map-fold").addEventListener("toggle", drawMap);
  view.canvas.addEventListener("mousemove", (event) => {
    const map = state.map;
    if (!map) return;
    const query = Math.min(map.queries - 1, Math.floor((event.offsetY / view.canvas.clientHeight) * map.queries));
    const key = Math.min(map.width - 1, Math.floor((event.offsetX / view.canvas.clientWidth) * map.width));
    view.mapReading.textContent = `${name(map.query, query)} → ${name(map.keys, key)}: ${percent(map.at(state.head, query, key))}`;
  });
  return drawMap;
}
