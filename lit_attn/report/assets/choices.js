// Which maps of a sample are shown? A method, a part of the network, a call, a layer and a head, kept from sample to sample.

const ATTENTION = "attention";

// What can be chosen, given what was chosen before; changes `choice` where it does not fit this sample.
function offer(sample, choice) {
  const methods = [...(sample.maps.length ? [ATTENTION] : []), ...distinct(sample.attributions.map((one) => one.method))];
  if (!methods.includes(choice.method)) choice.method = methods[0] || ATTENTION;
  const raw = choice.method === ATTENTION;
  const stored = raw ? sample.maps : sample.attributions.filter((one) => one.method === choice.method);
  const partOf = (one) => (raw ? `${one.part}|${one.query}` : `|${one.query}`);
  const parts = distinct(stored.map(partOf)).map((key) => {
    const own = stored.filter((one) => partOf(one) === key);
    const arrow = `${own[0].query} → ${distinct(own.map((one) => one.keys)).join(", ")}`;
    return { key, own, crosses: own.some((one) => one.query !== one.keys), label: raw ? `${own[0].part} (${arrow})` : arrow };
  });
  const wanted = parts.find((part) => part.key === choice.part) || parts.find((part) => part.crosses && !part.label.includes("raw capture")) || parts.find((part) => part.crosses) || parts[0];
  if (!wanted) return { methods, parts, calls: [], layers: [], heads: [] };
  choice.part = wanted.key;
  const calls = distinct(wanted.own.map((one) => one.call ?? 0));
  if (!calls.includes(choice.call)) choice.call = calls[0];
  const ofCall = wanted.own.filter((one) => (one.call ?? 0) === choice.call);
  const numbers = distinct(ofCall.map((one) => one.layer)).filter((layer) => layer !== null && layer !== undefined);
  const layers = numbers.length > 1 ? ["mean", ...numbers] : numbers;
  if (numbers.length && !layers.includes(choice.layer)) choice.layer = numbers[numbers.length - 1];
  const count = Math.max(...ofCall.map((one) => one.shape[0]));
  const heads = count > 1 ? ["mean", ...Array.from({ length: count }, (_, head) => head)] : [];
  if (count === 1) choice.head = "mean";
  else if (choice.head !== "mean" && choice.head >= count) choice.head = "mean";
  return { methods, parts, calls: calls.length > 1 ? calls : [], layers, heads, chosen: ofCall };
}

// The views of a choice, one per stream that is looked at.
function viewsOf(sample, choice, offered) {
  if (!offered.chosen) return [];
  const own = offered.chosen.filter((one) => !offered.layers.length || choice.layer === "mean" || one.layer === choice.layer);
  return distinct(own.map((one) => one.keys)).map((keys) => {
    const maps = own.filter((one) => one.keys === keys);
    return new AttentionView(maps[0], maps.map((one) => decoded(sample, one)), choice.head);
  });
}

function fillSelect(select, options, chosen) {
  select.replaceChildren(...options.map(({ value, label, off }) => {
    const made = element("option", { value }, label);
    made.disabled = Boolean(off);
    return made;
  }));
  select.value = chosen;
}

// Layers and heads count from 0 in data and from 1 where people read; calls are as they are named.
const told = (what, choice) => (choice === "mean" || what === "call" ? choice : choice + 1);

let radioGroups = 0;
function fillRadios(box, what, choices, chosen, change) {
  box.parentElement.hidden = choices.length < 2;
  radioGroups += 1;
  const group = `choice-${radioGroups}`;
  box.replaceChildren(
    ...choices.map((choice) => {
      const label = choice === "mean" ? `mean of ${what}s` : `${what} ${told(what, choice)}`;
      const input = element("input", { type: "radio", name: group, value: choice, "aria-label": label });
      input.checked = choice === chosen;
      input.addEventListener("change", () => change(choice));
      return element("label", {}, input, element("span", {}, told(what, choice)));
    }),
  );
}
