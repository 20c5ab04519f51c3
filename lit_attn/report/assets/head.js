// What does one head do? A page of its own: its metrics over time, its maps on all samples, and what it looks at most.
// Its address is #head=<run>/<site>/<head>, so the browser's back button leads back to the heat map.

const MOST_MAPS = 12;

function startHeads() {
  const page = byId("head");
  let cards = null;
  let back = null;
  const heatCards = () => {
    cards = cards || [...document.querySelectorAll('script[id^="heat-"][id$="-data"]')].map((block) => JSON.parse(block.textContent));
    return cards;
  };
  const address = (run, site, head) => `#head=${run}/${encodeURIComponent(site)}/${head}`;
  const wanted = () => {
    const found = /^#head=(\d+)\/([^/]+)\/(\d+)$/.exec(location.hash);
    return found && { run: Number(found[1]), site: decodeURIComponent(found[2]), head: Number(found[3]) };
  };

  function sparkline(values, low, high) {
    const known = values.map((value, place) => [place, value]).filter(([, value]) => value !== null);
    if (known.length < 2) return "";
    const x = (place) => 2 + (116 * place) / (values.length - 1);
    const y = (value) => (high > low ? 26 - (24 * (value - low)) / (high - low) : 14);
    const last = known[known.length - 1];
    return element("svg", { viewBox: "0 0 120 28", class: "spark", "aria-hidden": "true" },
      element("polyline", { points: known.map(([place, value]) => `${x(place)},${y(value)}`).join(" ") }),
      element("circle", { cx: x(last[0]), cy: y(last[1]), r: 2.5 }));
  }

  function metricsTable({ run, site, head }) {
    const rows = heatCards().filter((card) => card.run === run && card.sites.includes(site)).map((card) => {
      const place = card.sites.indexOf(site) * card.heads + head;
      const values = card.frames.map((frame) => frame[place]);
      const last = card.frames[card.frames.length - 1];
      const value = head < card.heads ? values[values.length - 1] : null;
      if (value === null || value === undefined) return null;
      const others = last.filter((other) => other !== null);
      const rank = 1 + others.filter((other) => other > value).length;
      const cells = [shortScore(value), `${rank} of ${others.length}`, `${shortScore(Math.min(...others))} – ${shortScore(Math.max(...others))}`];
      const trend = element("td", {}, sparkline(values, card.low, card.high));
      return element("tr", {}, element("th", { scope: "row" }, `${card.metric.replaceAll("_", " ")}${card.stage === "val" ? "" : `, ${card.stage}`}`), ...cells.map((text) => element("td", { class: "number" }, text)), trend);
    }).filter(Boolean);
    if (!rows.length) return "";
    const titles = ["metric", "this head", "place from the top", "all heads", "over the validations"];
    const top = element("thead", {}, element("tr", {}, ...titles.map((title) => element("th", { scope: "col" }, title))));
    return element("div", { class: "scroll", tabindex: "0" }, element("table", {}, top, element("tbody", {}, ...rows)));
  }

  // Maps of this head on the samples of its run; a click opens the sample in the explorer.
  function sampleMaps({ run, site, head }, from, pairs) {
    const entries = explorer ? explorer.entriesOf(run) : [];
    const made = [];
    let place = from;
    for (; place < entries.length && made.length < MOST_MAPS; place += 1) {
      const sample = loadSample(entries[place].number);
      const entry = entries[place];
      for (const stored of sample.maps.filter((map) => map.site === site && head < map.shape[0])) {
        const view = new AttentionView(stored, [decoded(sample, stored)], head);
        count(sample, view, pairs);
        const canvas = element("canvas", { class: "map", "aria-hidden": "true" });
        paintView(canvas, view);
        const text = entry.text.length > 70 ? `${entry.text.slice(0, 68)}…` : entry.text;
        const into = stored.shared || stored.call ? ` (${stored.shared ? stored.keys : `call ${stored.call}`})` : "";
        const button = element("button", { type: "button", class: "head-map", title: entry.id }, canvas, element("span", {}, text + into));
        button.addEventListener("click", () => {
          history.pushState(null, "", "#gallery");
          route();
          explorer.open(entry, stored, head);
        });
        made.push(button);
      }
    }
    return { made, next: place };
  }

  // Sums the weights of every pair of names, for the list of strongest pairs.
  function count(sample, view, pairs) {
    const [queries, keys] = [view.query, view.keys].map((stream) => streamOf(sample, stream));
    for (let query = 0; query < view.queries; query += 1) {
      const given = new Map();
      view.row(query).forEach((weight, key) => given.set(keys.items[key], (given.get(keys.items[key]) || 0) + weight));
      for (const [key, weight] of given) {
        if (Number.isNaN(weight)) continue;
        const name = `${queries.items[query]} → ${key}`;
        const [sum, times] = pairs.get(name) || [0, 0];
        pairs.set(name, [sum + weight, times + 1]);
      }
    }
  }

  function pairList(pairs) {
    const best = [...pairs].map(([name, [sum, times]]) => ({ name, mean: sum / times, times })).filter(({ times }) => times > 1);
    best.sort((one, two) => two.mean - one.mean);
    if (!best.length) return [];
    const rows = best.slice(0, 8).map(({ name, mean, times }) => {
      const bar = element("span", { class: "bar" });
      bar.style.width = `${100 * mean}%`;
      return element("li", {}, element("span", {}, name), element("span", {}, bar), element("output", {}, `${percent(mean)} of ${times}`));
    });
    const note = "Mean weight from a word or step to all items of one name, over the samples below; pairs that occur twice or more.";
    return [element("h3", {}, "Strongest pairs"), element("p", { class: "note" }, note), element("ol", { class: "strongest" }, ...rows)];
  }

  function draw(target) {
    const { run, site, head } = target;
    const card = heatCards().find((one) => one.run === run && one.sites.includes(site));
    const link = (text, other, label) => element("a", { href: address(run, other.site, other.head), "aria-label": label, class: "quiet" }, text);
    const moves = [];
    if (head > 0) moves.push(link("◀ head", { site, head: head - 1 }, "Previous head"));
    if (card && head < card.heads - 1) moves.push(link("head ▶", { site, head: head + 1 }, "Next head"));
    const at = card ? card.sites.indexOf(site) : -1;
    if (at > 0) moves.push(link(`▲ ${card.places[at - 1]}`, { site: card.sites[at - 1], head }, "Site above"));
    if (card && at < card.sites.length - 1) moves.push(link(`▼ ${card.places[at + 1]}`, { site: card.sites[at + 1], head }, "Site below"));
    const name = (explorer && explorer.runs[run]?.name) || card?.name || "";
    const title = element("h2", { tabindex: "-1" }, `${card ? card.places[at] : site}, head ${head + 1}`);
    const named = `${site}:${head} in files, where layers and heads count from 0`;
    const pairs = new Map();
    const grid = element("div", { class: "head-maps" });
    const listed = element("div", {});
    const more = element("button", { type: "button", class: "quiet" }, "More samples");
    let next = 0;
    const add = () => {
      const found = sampleMaps(target, next, pairs);
      next = found.next;
      grid.append(...found.made);
      listed.replaceChildren(...pairList(pairs));
      more.hidden = !explorer || next >= explorer.entriesOf(run).length;
    };
    more.addEventListener("click", add);
    add();
    const maps = grid.children.length ? [listed, element("h3", {}, "Its maps"), element("p", { class: "note" }, "Rows are queries, columns keys, each map on a scale of its own. A click opens the sample above."), grid, more] : [element("p", { class: "note" }, "No sample of this run keeps the maps of this site.")];
    page.replaceChildren(element("p", {}, element("a", { href: "#heads", class: "quiet" }, "← All heads")), title, element("p", { class: "note" }, name ? `${name}; ${named}` : named), element("p", { class: "controls" }, ...moves), metricsTable(target), ...maps);
    title.focus({ preventScroll: true });
  }

  function route() {
    const target = wanted();
    document.body.classList.toggle("one-head", Boolean(target));
    page.hidden = !target;
    if (target) {
      back = back ?? scrollY;
      draw(target);
      scrollTo(0, 0);
    } else if (back !== null) {
      if (location.hash === "#heads") scrollTo(0, back);
      back = null;
    }
  }
  document.querySelectorAll("table.heat a").forEach((link) => link.addEventListener("click", () => (back = scrollY)));
  addEventListener("hashchange", route);
  addEventListener("popstate", route);
  route();
}

if (byId("head")) startHeads();
