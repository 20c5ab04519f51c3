// What does one view of a sample show? Its own choice of run, method, part, layer and head; `board` tells the other view.

function makePane(number, board) {
  const root = byId("pane").content.firstElementChild.cloneNode(true);
  root.dataset.pane = number;
  const role = (name) => root.querySelector(`[data-role="${name}"]`);
  const choice = { method: ATTENTION, part: null, call: 0, layer: null, head: "mean" };
  const state = { entry: null, sample: null, views: [], items: new Map(), tags: null, shown: null, held: null };
  const format = (value) => (choice.method === ATTENTION ? percent(value) : shortScore(value));
  const name = (stream, index) => itemName(state.sample, stream, index);

  // What the views say about one item: the weights it gives, or, if it only is looked at, the weights it gets.
  function distribution(stream, index) {
    const giving = state.views.filter((view) => view.query === stream);
    const lit = giving.length
      ? giving.map((view) => ({ target: view.keys, weights: view.row(index), shared: view.shared }))
      : state.views.filter((view) => view.keys === stream).map((view) => ({ target: view.query, weights: view.column(index), shared: false }));
    const size = ({ weights }) => Math.max(0, ...weights.map(Math.abs));
    const together = Math.max(0, ...lit.filter((one) => one.shared).map(size));
    lit.forEach((one) => (one.top = one.shared ? together : size(one)));
    return { lit, gives: giving.length > 0 };
  }

  function goldFor(stream, index, target) {
    const linked = new Set();
    if (stream === target) return linked;
    for (const [source, items, other, targets] of state.sample.links) {
      const [from, to] = source === stream && other === target ? [items, targets] : source === target && other === stream ? [targets, items] : [[], []];
      if (from.includes(index)) to.forEach((item) => linked.add(item));
    }
    return linked;
  }

  function clear() {
    state.shown = null;
    role("picture").classList.remove("busy");
    for (const items of state.items.values()) {
      shade(items, null);
      items.forEach((item) => item.group.classList.remove("active", "gold"));
    }
    if (state.tags) state.tags.replaceChildren();
    const ask = "Choose a word, a box, a cell or a step.";
    role("reading").textContent = state.views.length ? ask : "This sample has no attention maps.";
    role("strongest").replaceChildren();
    role("shares").textContent = role("gold").textContent = "";
    tellStep();
  }

  function show(stream, index) {
    if (!state.sample || !state.items.has(stream) || index >= state.items.get(stream).length) return;
    clear();
    const own = state.items.get(stream)[index];
    own.group.classList.add("active");
    state.shown = { stream, index };
    tellStep();
    const { lit, gives } = distribution(stream, index);
    if (!lit.length) {
      role("reading").textContent = `Nothing here attends to ${stream} or from them. Choose another part.`;
      return;
    }
    if (lit.some(({ weights }) => weights.some(Number.isNaN))) {
      role("reading").textContent = `${name(stream, index)}: there are no numbers here.`;
      return;
    }
    const targets = lit.map(({ target }) => target);
    const onPicture = targets.some((target) => streamOf(state.sample, target).kind !== "text");
    if (onPicture) role("picture").classList.add("busy");
    for (const { target, weights, top } of lit) {
      shade(state.items.get(target), weights, top);
      goldFor(stream, index, target).forEach((item) => state.items.get(target)[item].group.classList.add("gold"));
    }
    if (own.edge) emphasise(stream, own, !targets.includes(stream));
    tell(stream, index, lit, gives);
    tagBoxes(state.sample, state.tags, lit, format);
  }

  function emphasise(stream, own, alone) {
    if (alone && !own.group.classList.contains("cells")) state.items.get(stream).forEach((item) => (item.group.style.opacity = 0.2));
    own.group.style.opacity = 1;
    own.edge.style.strokeWidth = 3;
    own.halo.style.strokeWidth = 6;
  }

  // The same in words: who, the strongest six, how the weight splits over streams, and how much is where it should be.
  function tell(stream, index, lit, gives) {
    const raw = choice.method === ATTENTION;
    const target = lit.map((one) => one.target).join(" and ");
    const verb = raw ? (gives ? "attends to these" : "is attended to by these") : gives ? "is explained by these" : "explains these";
    role("reading").replaceChildren(element("strong", {}, name(stream, index)), ` ${verb} ${target}:`);
    const all = lit.flatMap((one) => one.weights.map((weight, item) => ({ weight, item, ...one })));
    all.sort((one, two) => Math.abs(two.weight) - Math.abs(one.weight));
    const top = Math.max(...lit.map((one) => one.top));
    role("strongest").replaceChildren(
      ...all.slice(0, 6).map(({ weight, item, target: of }) => {
        const bar = element("span", { class: weight < 0 ? "bar against" : "bar" });
        bar.style.width = `${top > 0 ? (100 * Math.abs(weight)) / top : 0}%`;
        const named = goldFor(stream, index, of).has(item);
        const prefix = lit.length > 1 && of !== "words" && of !== "question" ? element("small", {}, `${of} `) : "";
        const label = element("span", named ? { class: "named", title: state.sample.linked } : {}, prefix, name(of, item));
        return element("li", {}, label, element("span", {}, bar), element("output", {}, format(weight)));
      }),
    );
    const sum = (weights) => weights.reduce((total, weight) => total + weight, 0);
    if (gives && raw && lit.some((one) => one.shared)) role("shares").textContent = lit.map((one) => `${one.target} ${percent(sum(one.weights))}`).join(" · ");
    const meant = lit.map((one) => ({ ...one, linked: [...goldFor(stream, index, one.target)] })).find((one) => one.linked.length);
    if (!gives || !raw || !meant) return;
    const mass = sum(meant.linked.map((item) => meant.weights[item]));
    const { linked } = state.sample;
    const noun = meant.linked.length === 1 ? meant.target.slice(0, -1) : meant.target;
    const said = linked === "named" ? (meant.linked.length === 1 ? `named ${noun}` : `${meant.linked.length} named ${noun}`) : `${meant.linked.length} ${noun} ${linked}`;
    role("gold").textContent = `${percent(mass)} of the weight is on the ${said}; spread evenly it would be ${percent(meant.linked.length / meant.weights.length)}.`;
  }

  // Steps: the queries of the part that is shown, one after the other.
  const stepStream = () => state.views[0]?.query;
  function tellStep() {
    const stream = stepStream();
    const items = stream ? state.items.get(stream) : [];
    root.querySelector('[data-row="stepper"]').hidden = items.length < 2;
    const at = state.shown && state.shown.stream === stream ? state.shown.index : -1;
    role("step").textContent = stream ? `${stream.replace(/s$/, "")} ${at < 0 ? "–" : at + 1} of ${items.length}` : "";
    role("back").disabled = at <= 0;
    role("on").disabled = at === items.length - 1;
  }
  function stepBy(change) {
    const stream = stepStream();
    const now = state.shown || state.held;
    const at = now && now.stream === stream ? now.index + change : 0;
    if (at >= 0 && at < state.items.get(stream).length) board.hold(stream, at);
  }

  function listen(group, stream, index) {
    const leave = () => board.leave();
    group.addEventListener("mouseenter", () => board.show(stream, index));
    group.addEventListener("mouseleave", leave);
    group.addEventListener("focus", () => board.show(stream, index));
    group.addEventListener("blur", leave);
    group.addEventListener("click", () => board.toggle(stream, index));
    group.addEventListener("keydown", (event) => {
      const items = state.items.get(stream);
      const next = rove(items, index, event.key);
      if (next !== null) {
        event.preventDefault();
        items.forEach((item, place) => item.group.setAttribute("tabindex", place === next ? "0" : "-1"));
        items[next].group.focus();
      } else if (event.key === "Escape") {
        board.release();
      } else if (group.tagName === "g" && (event.key === "Enter" || event.key === " ")) {
        event.preventDefault();
        board.toggle(stream, index);
      }
    });
  }

  function drawMaps() {
    const fold = role("fold");
    fold.hidden = !state.views.length;
    role("map-reading").textContent = "";
    const read = (text) => (role("map-reading").textContent = text);
    role("maps").replaceChildren(...(fold.open ? state.views.map((view) => wholeMap(state.sample, view, format, read)) : []));
  }

  // Everything that follows from the choice; the item that was shown stays.
  function refresh() {
    const offered = offer(state.sample, choice);
    state.views = viewsOf(state.sample, choice, offered);
    fillSelect(role("method"), offered.methods.map((value) => ({ value, label: value === ATTENTION ? "attention" : value.replaceAll("_", " ") })), choice.method);
    root.querySelector('[data-row="method"]').hidden = offered.methods.length < 2;
    fillSelect(role("part"), offered.parts.map(({ key, label }) => ({ value: key, label })), choice.part);
    const change = (key) => (value) => {
      choice[key] = value;
      refresh();
    };
    fillRadios(role("call"), "call", offered.calls, choice.call, change("call"));
    const several = (key, what, list) => {
      const focused = role(key).contains(document.activeElement);
      fillRadios(role(key), what, list, choice[key], change(key));
      if (focused) role(key).querySelector("input:checked")?.focus();
    };
    several("layer", "layer", offered.layers);
    several("head", "head", offered.heads);
    role("against-key").hidden = !state.views.some((view) => view.signed);
    const item = state.shown || state.held;
    if (item) show(item.stream, item.index);
    else clear();
    drawMaps();
  }

  function setEntry(entry, runs) {
    fillSelect(role("run"), runs, entry ? entry.run : "");
    root.querySelector('[data-row="run"]').hidden = runs.length < 2;
    state.entry = entry;
    state.sample = loadSample(entry.number);
    state.shown = state.held = null;
    const { items, tags } = drawScene(state.sample, entry.picture, role("picture"), role("texts"), listen);
    state.items = items;
    state.tags = tags;
    const { title, id, facts, links, linked, streams } = state.sample;
    const reading = streams.find((stream) => stream.kind === "text");
    role("title").textContent = title && title !== reading?.items.join(" ") ? title : id;
    role("facts").replaceChildren(...facts.map(([key, value]) => element("div", {}, element("dt", {}, key), element("dd", {}, value))));
    role("gold-row").hidden = !links.length;
    role("gold-key").textContent = linked === "named" ? "named by the word in the gold annotation" : `${linked}: the answer rests on it`;
    refresh();
  }

  // An example, so that the first look shows something: a word with a gold link, or the first row that has numbers.
  function example() {
    const { sample, views } = state;
    if (!views.length) return;
    const { query } = views[0];
    const linked = sample.links.filter(([source, , , targets]) => source === query && targets.length && query === "words").flatMap(([, items]) => items);
    const rows = [...linked, ...Array.from({ length: views[0].queries }, (_, row) => row)];
    const first = rows.find((row) => views.every((view) => !view.row(row).some(Number.isNaN)));
    if (first !== undefined) show(query, first);
  }

  ["method", "part"].forEach((key) => role(key).addEventListener("change", () => {
    choice[key] = role(key).value;
    refresh();
  }));
  role("run").addEventListener("change", () => board.chooseRun(number, Number(role("run").value)));
  role("back").addEventListener("click", () => stepBy(-1));
  role("on").addEventListener("click", () => stepBy(1));
  role("fold").addEventListener("toggle", drawMaps);
  return { root, state, choice, show, clear, refresh, setEntry, example };
}
