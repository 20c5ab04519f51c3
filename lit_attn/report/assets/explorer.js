// Where did the model look? Choose a sample, a site and a head; point at a word or a region to see its weights.

function startExplorer() {
  const view = {
    strip: byId("strip"), svg: byId("picture"), words: byId("words"), site: byId("site-choice"), heads: byId("heads-choice"),
    run: byId("run-choice"), reading: byId("reading"), strongest: byId("strongest"), gold: byId("gold-reading"),
    canvas: byId("map"), rows: byId("map-rows"), columns: byId("map-columns"), mapReading: byId("map-reading"),
  };
  const thumbs = [...view.strip.children];
  const samples = new Map();
  const state = { sample: null, map: null, head: "mean", held: null, shown: null, boxes: [], chips: [], tags: null };

  const load = (number) => {
    if (!samples.has(number)) samples.set(number, readBlock(`sample-${number}`));
    return samples.get(number);
  };
  const decode = (sample, index) => {
    sample.decoded = sample.decoded || [];
    sample.decoded[index] = sample.decoded[index] || new AttentionMap(sample.maps[index]);
    return sample.decoded[index];
  };
  const visible = () => thumbs.filter((thumb) => !thumb.hidden);
  // A region carries its number, and so does a word that occurs more than once.
  const name = (stream, index) => {
    const names = stream === "words" ? state.sample.words : state.sample.labels;
    const alone = stream === "words" && names.indexOf(names[index]) === names.lastIndexOf(names[index]);
    return alone ? names[index] : `${names[index]} (${index})`;
  };

  // What the map says about one word or region: the weights it gives, or, if it only is looked at, the weights it gets.
  function distribution(stream, index) {
    const map = state.map;
    if (!map) return null;
    if (map.query === stream) return { target: map.keys, weights: map.row(state.head, index), gives: true };
    if (map.keys === stream) return { target: map.query, weights: map.column(state.head, index), gives: false };
    return null;
  }

  function goldFor(stream, index, target) {
    const linked = new Set();
    if (stream === target) return linked;
    for (const [words, regions] of state.sample.gold) {
      const [from, to] = stream === "words" ? [words, regions] : [regions, words];
      if (from.includes(index)) to.forEach((item) => linked.add(item));
    }
    return linked;
  }

  function shade(items, weights, top) {
    items.forEach((item, index) => {
      const share = weights ? (top > 0 ? weights[index] / top : 0) : null;
      if (item.edge) {
        item.group.style.opacity = share === null ? 0.7 : (0.1 + 0.9 * share).toFixed(4);
        item.edge.style.fillOpacity = share === null ? 0 : (0.3 * share).toFixed(4);
        item.edge.style.strokeWidth = share === null ? "" : (1 + 4 * share).toFixed(2);
        item.halo.style.strokeWidth = share === null ? "3" : (3 + 4 * share).toFixed(2);
      } else {
        item.group.style.background = share === null ? "" : `rgba(230, 159, 0, ${(0.75 * share).toFixed(4)})`;
      }
      item.group.dataset.weight = share === null ? "" : weights[index];
    });
  }

  function emphasise(box) {
    box.group.style.opacity = 1;
    box.edge.style.strokeWidth = 3;
    box.halo.style.strokeWidth = 6;
  }

  function clear() {
    state.shown = null;
    view.svg.classList.remove("busy");
    shade(state.boxes, null);
    shade(state.chips, null);
    [...state.boxes, ...state.chips].forEach((item) => item.group.classList.remove("active", "gold"));
    if (state.tags) state.tags.replaceChildren();
    view.reading.textContent = state.map ? "Choose a word or a region." : "This sample has no attention maps.";
    view.strongest.replaceChildren();
    view.gold.textContent = "";
  }

  function show(stream, index) {
    clear();
    const items = stream === "words" ? state.chips : state.boxes;
    items[index].group.classList.add("active");
    state.shown = { stream, index };
    const found = distribution(stream, index);
    if (!found) {
      view.reading.textContent = `This site has no ${stream}. Choose another site.`;
      return;
    }
    const { target, weights, gives } = found;
    const targets = target === "words" ? state.chips : state.boxes;
    if (weights.some(Number.isNaN)) {
      view.reading.textContent = `${name(stream, index)}: the weights are not numbers here.`;
      return;
    }
    const top = Math.max(...weights);
    const linked = goldFor(stream, index, target);
    if (target === "regions") view.svg.classList.add("busy");
    shade(targets, weights, top);
    linked.forEach((item) => targets[item].group.classList.add("gold"));
    if (stream === "regions") {
      if (target === "words") items.forEach((item) => (item.group.style.opacity = 0.2));
      emphasise(items[index]);
    }
    const who = element("strong", {}, name(stream, index));
    view.reading.replaceChildren(who, gives ? ` attends to these ${target}:` : ` is attended to by these ${target}:`);
    list(target, weights, top, linked);
    if (target === "regions") tagBoxes(weights);
    if (gives && linked.size) {
      const mass = [...linked].reduce((sum, item) => sum + weights[item], 0);
      const even = linked.size / weights.length;
      const named = linked.size === 1 ? `named ${target.slice(0, -1)}` : `${linked.size} named ${target}`;
      view.gold.textContent = `${percent(mass)} of the weight is on the ${named}; spread evenly it would be ${percent(even)}.`;
    }
  }

  function list(target, weights, top, linked) {
    const order = weights.map((_, index) => index).sort((one, two) => weights[two] - weights[one]);
    view.strongest.replaceChildren(
      ...order.slice(0, 6).map((index) => {
        const bar = element("span", { class: "bar" });
        bar.style.width = `${top > 0 ? (100 * weights[index]) / top : 0}%`;
        const label = element("span", linked.has(index) ? { class: "named", title: "named in the gold annotation" } : {}, name(target, index));
        return element("li", {}, label, element("span", {}, bar), element("output", {}, percent(weights[index])));
      }),
    );
  }

  function tagBoxes(weights) {
    const [width, height] = state.sample.size;
    const size = Math.max(width, height) / 38;
    const order = weights.map((_, index) => index).sort((one, two) => weights[two] - weights[one]);
    const placed = [];
    const tagged = [];
    for (const index of order) {
      const box = state.sample.boxes[index];
      if (tagged.length === 3 || weights[index] < 0.25 * weights[order[0]]) break;
      if (tagged.some((other) => overlap(box, other) > 0.3)) continue;
      tagged.push(box);
      const [x, y] = box;
      const left = Math.min(x * width + size * 0.3, width * 0.8);
      let bottom = Math.max(size * 1.1, y * height + size * 1.1);
      while (placed.some(([otherLeft, otherBottom]) => Math.abs(otherLeft - left) < width * 0.2 && Math.abs(otherBottom - bottom) < size)) bottom += size;
      placed.push([left, bottom]);
      const text = `${state.sample.labels[index]} ${percent(weights[index])}`;
      state.tags.append(element("text", { x: left, y: Math.min(bottom, height - size * 0.3), "font-size": size, "stroke-width": size / 5 }, text));
    }
  }

  const refresh = () => {
    const target = state.shown || state.held;
    if (target) show(target.stream, target.index);
    else clear();
    drawMap();
  };
  const leave = () => (state.held ? show(state.held.stream, state.held.index) : clear());
  const hold = (stream, index) => {
    const same = state.held && state.held.stream === stream && state.held.index === index;
    state.held = same ? null : { stream, index };
    show(stream, index);
  };

  function listen(group, stream, index) {
    group.addEventListener("mouseenter", () => show(stream, index));
    group.addEventListener("mouseleave", leave);
    group.addEventListener("focus", () => show(stream, index));
    group.addEventListener("blur", leave);
    group.addEventListener("click", () => hold(stream, index));
    group.addEventListener("keydown", (event) => {
      const items = stream === "words" ? state.chips : state.boxes;
      const next = rove(items, index, event.key);
      if (next !== null) {
        event.preventDefault();
        if (stream === "regions") items.forEach((item, place) => item.group.setAttribute("tabindex", place === next ? "0" : "-1"));
        items[next].group.focus();
      } else if (event.key === "Escape") {
        state.held = null;
        clear();
      } else if (stream === "regions" && (event.key === "Enter" || event.key === " ")) {
        event.preventDefault();
        hold(stream, index);
      }
    });
  }

  function drawSample(thumb) {
    const sample = state.sample;
    const [width, height] = sample.size;
    view.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const picture = thumb.querySelector("img");
    const layers = picture ? [element("image", { href: picture.src, width, height })] : [];
    state.boxes = sample.boxes.map(([x1, y1, x2, y2], index) => {
      const place = { x: x1 * width, y: y1 * height, width: (x2 - x1) * width, height: (y2 - y1) * height };
      const halo = element("rect", { class: "halo", ...place });
      const edge = element("rect", { class: "edge", ...place });
      const label = `Region ${index}: ${sample.labels[index]}`;
      const group = element("g", { class: "box", role: "button", tabindex: index ? "-1" : "0", "aria-label": label, "data-region": index }, halo, edge);
      listen(group, "regions", index);
      return { group, halo, edge, area: place.width * place.height };
    });
    // Small boxes lie on top, so that the pointer can reach them.
    const stacked = [...state.boxes].sort((one, two) => two.area - one.area).map((box) => box.group);
    state.tags = element("g", { class: "tags" });
    view.svg.replaceChildren(...layers, ...stacked, state.tags);
    const named = new Set(sample.gold.filter(([, regions]) => regions.length).flatMap(([words]) => words));
    state.chips = sample.words.map((word, index) => {
      const group = element("button", { type: "button", "data-word": index, class: named.has(index) ? "linked" : "" }, word);
      listen(group, "words", index);
      return { group };
    });
    view.words.replaceChildren(...state.chips.map((chip) => chip.group));
    byId("sample-title").textContent = sample.title && sample.title !== sample.words.join(" ") ? sample.title : sample.id;
    byId("sample-facts").replaceChildren(
      ...sample.facts.map(([key, value]) => element("div", {}, element("dt", {}, key), element("dd", {}, value))),
    );
  }

  function offerSites() {
    const before = view.site.selectedOptions[0]?.textContent;
    const several = new Set(state.sample.maps.map((map) => map.call)).size > 1;
    const options = state.sample.maps.map((map, index) => {
      const call = several ? `, call ${map.call}` : "";
      return element("option", { value: index }, `${map.site}${call} (${map.query} → ${map.keys})`);
    });
    view.site.replaceChildren(...options);
    const same = options.findIndex((option) => option.textContent === before);
    const between = state.sample.maps.findIndex((map) => map.query !== map.keys);
    view.site.selectedIndex = options.length ? Math.max(0, same >= 0 ? same : between) : -1;
    chooseSite();
  }

  function chooseSite() {
    state.map = state.sample.maps.length ? decode(state.sample, view.site.selectedIndex) : null;
    const count = state.map ? state.map.heads : 0;
    if (state.head !== "mean" && state.head >= count) state.head = "mean";
    const choices = count > 1 ? ["mean", ...Array.from({ length: count }, (_, head) => head)] : count ? [0] : [];
    if (count === 1) state.head = 0;
    view.heads.replaceChildren(
      ...choices.map((head) => {
        const input = element("input", { type: "radio", name: "head", value: head, "aria-label": head === "mean" ? "mean of heads" : `head ${head}` });
        input.checked = head === state.head;
        input.addEventListener("change", () => {
          state.head = head;
          refresh();
        });
        return element("label", {}, input, element("span", {}, head));
      }),
    );
    refresh();
  }

  function choose(thumb, focus) {
    for (const other of thumbs) {
      const chosen = other === thumb;
      other.setAttribute("aria-selected", chosen);
      other.setAttribute("tabindex", chosen ? "0" : "-1");
    }
    state.sample = load(thumb.dataset.sample);
    state.held = state.shown = null;
    drawSample(thumb);
    offerSites();
    const example = state.chips.findIndex((chip) => chip.group.classList.contains("linked"));
    if (example >= 0) show("words", example);
    if (focus) thumb.focus();
    view.strip.scrollLeft = thumb.offsetLeft - view.strip.offsetLeft - view.strip.clientWidth / 2 + thumb.clientWidth / 2;
  }

  function chooseRun(run) {
    const before = state.sample && state.sample.id;
    const held = state.held;
    for (const thumb of thumbs) thumb.hidden = thumb.dataset.run !== run;
    const same = visible().find((thumb) => thumb.dataset.id === before);
    choose(same || visible()[0], false);
    const kept = same && held && (held.stream === "words" ? state.chips : state.boxes)[held.index];
    if (kept) hold(held.stream, held.index);
  }

  const drawMap = startMap(view, state, name);

  thumbs.forEach((thumb) => {
    thumb.addEventListener("click", () => choose(thumb, true));
    thumb.addEventListener("keydown", (event) => {
      const shown = visible();
      const next = rove(shown, shown.indexOf(thumb), event.key);
      if (next === null) return;
      event.preventDefault();
      choose(shown[next], true);
    });
  });
  view.site.addEventListener("change", chooseSite);
  view.run.addEventListener("change", () => chooseRun(view.run.value));
  view.run.selectedIndex = 0;
  chooseRun(view.run.value);
}

if (byId("strip")) startExplorer();
