// Where did the model look? Choose a sample, then what to show of it, in one view or in two side by side that follow each other.

function startExplorer() {
  const { runs, samples: entries } = readBlock("samples");
  const strip = byId("strip");
  const panes = [];
  let held = null;
  let chosen = null;
  let thumbs = [];

  const each = (action) => panes.filter((pane) => !pane.root.hidden).forEach(action);
  const board = {
    show: (stream, index) => each((pane) => pane.show(stream, index)),
    leave: () => each((pane) => (held ? pane.show(held.stream, held.index) : pane.clear())),
    hold(stream, index) {
      held = { stream, index };
      each((pane) => {
        pane.state.held = held;
        pane.show(stream, index);
      });
    },
    toggle(stream, index) {
      if (held && held.stream === stream && held.index === index) {
        held = null;
        each((pane) => (pane.state.held = null));
      } else board.hold(stream, index);
    },
    release() {
      held = null;
      each((pane) => {
        pane.state.held = null;
        pane.clear();
      });
    },
    chooseRun(number, run) {
      if (number === 0) drawStrip(run, chosen.id);
      else panes[1].setEntry(sameSample(run), runOptions(1));
      restore();
    },
  };

  const sameSample = (run) => entries.find((entry) => entry.run === run && entry.id === chosen.id);
  const shownRuns = distinct(entries.map((entry) => entry.run));
  const runOptions = (number) => shownRuns.map((run) => ({ value: run, label: runs[run].name, off: number === 1 && !sameSample(run) }));

  function restore() {
    if (held) board.hold(held.stream, held.index);
    else each((pane) => pane.example());
  }

  // Only the thumbnails of one run exist at a time, and their pictures come when they are in view.
  function drawStrip(run, id) {
    const own = entries.filter((entry) => entry.run === run);
    thumbs = own.map((entry) => {
      const image = entry.picture ? lateImage(entry.picture, { alt: "" }) : element("span", { class: "no-picture" });
      const thumb = element("button", { type: "button", role: "option", title: entry.id, "data-id": entry.id, "data-sample": entry.number }, image, element("span", {}, entry.text));
      thumb.addEventListener("click", () => choose(entry, true));
      thumb.addEventListener("keydown", (event) => {
        const next = rove(thumbs, thumbs.indexOf(thumb), event.key);
        if (next === null) return;
        event.preventDefault();
        choose(own[next], true);
      });
      return thumb;
    });
    strip.replaceChildren(...thumbs);
    choose(own.find((entry) => entry.id === id) || own[0], false, held);
  }

  function choose(entry, focus, keep = null) {
    chosen = entry;
    thumbs.forEach((thumb) => {
      const own = Number(thumb.dataset.sample) === entry.number;
      thumb.setAttribute("aria-selected", own);
      thumb.setAttribute("tabindex", own ? "0" : "-1");
      if (!own) return;
      if (focus) thumb.focus();
      strip.scrollLeft = thumb.offsetLeft - strip.offsetLeft - strip.clientWidth / 2 + thumb.clientWidth / 2;
    });
    held = keep;
    panes[0].setEntry(entry, runOptions(0));
    if (panes[1]) setSecond(panes[1].state.entry.run);
    restore();
  }

  function setSecond(run) {
    panes[1].setEntry(sameSample(run) || chosen, runOptions(1));
  }

  function compare(on) {
    byId("compare").setAttribute("aria-pressed", on);
    byId("panes").classList.toggle("two", on);
    if (on && !panes[1]) {
      panes[1] = makePane(1, board);
      byId("panes").append(panes[1].root);
      Object.assign(panes[1].choice, panes[0].choice);
      const other = shownRuns.find((run) => run !== chosen.run && sameSample(run));
      setSecond(other ?? chosen.run);
      const methods = distinct(panes[1].state.sample.attributions.map((one) => one.method));
      if (other === undefined && methods.length) {
        panes[1].choice.method = methods[0];
        panes[1].refresh();
      }
    }
    if (panes[1]) panes[1].root.hidden = !on;
    const now = panes[0].state.shown;
    if (on && now) panes[1].show(now.stream, now.index);
  }

  panes[0] = makePane(0, board);
  byId("panes").append(panes[0].root);
  byId("compare").addEventListener("click", () => compare(byId("compare").getAttribute("aria-pressed") !== "true"));
  drawStrip(shownRuns[0], null);

  // What the pages of single heads need: samples of a run, and a way to open one here.
  return {
    runs,
    entriesOf: (run) => entries.filter((entry) => entry.run === run),
    open(entry, stored, head) {
      if (chosen.run !== entry.run) drawStrip(entry.run, entry.id);
      Object.assign(panes[0].choice, { method: ATTENTION, part: `${stored.part}|${stored.query}`, call: stored.call, layer: stored.layer, head });
      choose(entry, false);
      byId("gallery").scrollIntoView();
    },
  };
}

const explorer = byId("strip") ? startExplorer() : null;
