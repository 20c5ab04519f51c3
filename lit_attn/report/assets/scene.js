// What can be pointed at in a sample? Words and steps as buttons, boxes and cells on the picture; all take shades of weight.

// Draws the items of a sample into a pane. Gives, by stream, a list of { group, edge?, halo?, box? }, and a layer for tags.
function drawScene(sample, picture, svg, texts, listen) {
  const [width, height] = sample.size;
  const found = new Map();
  const onPicture = sample.streams.filter((stream) => stream.kind !== "text");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.parentElement.hidden = !onPicture.length && !picture;
  const stacked = [];
  for (const stream of onPicture) {
    const items = stream.boxes.map(([x1, y1, x2, y2], index) => {
      const place = { x: x1 * width, y: y1 * height, width: (x2 - x1) * width, height: (y2 - y1) * height };
      const halo = element("rect", { class: "halo", ...place });
      const edge = element("rect", { class: "edge", ...place });
      const label = `${stream.name} ${index}: ${stream.items[index]}`;
      const group = element("g", { class: `box ${stream.kind}`, role: "button", tabindex: index ? "-1" : "0", "aria-label": label, "data-stream": stream.name, "data-index": index }, halo, edge);
      listen(group, stream.name, index);
      stacked.push({ group, area: place.width * place.height });
      return { group, halo, edge };
    });
    found.set(stream.name, items);
  }
  // Small boxes lie on top, so that the pointer can reach them.
  stacked.sort((one, two) => two.area - one.area);
  const tags = element("g", { class: "tags" });
  const ground = picture ? [element("image", { href: readBlock(picture), width, height })] : [];
  svg.replaceChildren(...ground, ...stacked.map(({ group }) => group), tags);
  const reading = sample.streams.filter((stream) => stream.kind === "text");
  const linked = new Set(sample.links.filter((link) => link[3].length).flatMap(([source, items]) => items.map((item) => `${source} ${item}`)));
  texts.replaceChildren(
    ...reading.map((stream) => {
      const chips = stream.items.map((item, index) => {
        const named = stream.name === "words" && linked.has(`${stream.name} ${index}`);
        const group = element("button", { type: "button", "data-stream": stream.name, "data-index": index, tabindex: index ? "-1" : "0", class: named ? "linked" : "" }, item);
        listen(group, stream.name, index);
        return { group };
      });
      found.set(stream.name, chips);
      const title = reading.length > 1 ? [element("h4", {}, stream.name)] : [];
      const row = element("p", { class: "words", role: "group", "aria-label": stream.name, "data-words": stream.name }, ...chips.map(({ group }) => group));
      return element("div", { class: "stream" }, ...title, row);
    }),
  );
  return { items: found, tags };
}

// Shades items by weight, relative to `top`; without weights, all as they were.
function shade(items, weights, top) {
  items.forEach((item, index) => {
    const share = weights ? (top > 0 ? Math.abs(weights[index]) / top : 0) : null;
    const { group, edge, halo } = item;
    group.classList.toggle("against", share !== null && weights[index] < 0);
    group.dataset.weight = share === null ? "" : weights[index];
    if (!edge) {
      group.style.setProperty("--share", share === null ? 0 : share.toFixed(4));
    } else if (group.classList.contains("cells")) {
      edge.style.fillOpacity = share === null ? 0 : (0.8 * share).toFixed(4);
      group.style.opacity = 1;
    } else {
      group.style.opacity = share === null ? 0.7 : (0.1 + 0.9 * share).toFixed(4);
      edge.style.fillOpacity = share === null ? 0 : (0.3 * share).toFixed(4);
      edge.style.strokeWidth = share === null ? "" : (1 + 4 * share).toFixed(2);
      halo.style.strokeWidth = share === null ? "3" : (3 + 4 * share).toFixed(2);
    }
  });
}

// Writes the names of the strongest boxes on the picture, where they do not hide each other.
function tagBoxes(sample, tags, lit, format) {
  const [width, height] = sample.size;
  const size = Math.max(width, height) / 38;
  const all = lit.filter(({ target }) => streamOf(sample, target).kind === "boxes");
  const boxes = all.flatMap(({ target, weights }) => weights.map((weight, index) => ({ weight, name: streamOf(sample, target).items[index], box: streamOf(sample, target).boxes[index] })));
  boxes.sort((one, two) => Math.abs(two.weight) - Math.abs(one.weight));
  const placed = [];
  const tagged = [];
  for (const { weight, name, box } of boxes) {
    if (tagged.length === 3 || Math.abs(weight) < 0.25 * Math.abs(boxes[0].weight) || weight === 0) break;
    if (tagged.some((other) => overlap(box, other) > 0.3)) continue;
    tagged.push(box);
    const left = Math.min(box[0] * width + size * 0.3, width * 0.8);
    let bottom = Math.max(size * 1.1, box[1] * height + size * 1.1);
    while (placed.some(([otherLeft, otherBottom]) => Math.abs(otherLeft - left) < width * 0.2 && Math.abs(otherBottom - bottom) < size)) bottom += size;
    placed.push([left, bottom]);
    tags.append(element("text", { x: left, y: Math.min(bottom, height - size * 0.3), "font-size": size, "stroke-width": size / 5 }, `${name} ${format(weight)}`));
  }
}
