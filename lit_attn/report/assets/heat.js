// What did the heads do? The slider under a heat map goes back through the validations; arrow keys walk over its cells.

function inkOn(color) {
  const linear = [1, 3, 5].map((start) => {
    const channel = parseInt(color.slice(start, start + 2), 16) / 255;
    return channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.179 ? "#000000" : "#ffffff";
}

function shortNumber(value) {
  return Math.abs(value) < 10 ? value.toFixed(2) : String(Number(value.toPrecision(3)));
}

function showValidation(table, data, colors, place) {
  const { low, high } = data;
  table.querySelectorAll("tbody td").forEach((cell, index) => {
    const value = data.frames[place][index];
    const known = value !== null;
    const position = high > low ? Math.min(1, Math.max(0, (value - low) / (high - low))) : 0.5;
    const color = known ? colors[Math.round(position * (colors.length - 1))] : "";
    (cell.querySelector("a") || cell).textContent = known ? shortNumber(value) : "–";
    cell.classList.toggle("empty", !known);
    cell.style.background = color;
    cell.style.color = known ? inkOn(color) : "";
    cell.title = `${cell.title.split(": ").slice(0, -1).join(": ")}: ${known ? value : "–"} (n = ${data.counts[place][index] ?? "unknown"})`;
  });
  table.querySelector("output").textContent = data.steps[place];
}

function startSliders() {
  const sliders = document.querySelectorAll("input[data-heat]");
  const colors = sliders.length ? readBlock("palette") : [];
  sliders.forEach((slider) => {
    let data = null;
    slider.value = slider.max;
    slider.addEventListener("input", () => {
      data = data || readBlock(`${slider.dataset.heat}-data`);
      showValidation(byId(slider.dataset.heat), data, colors, Number(slider.value));
    });
  });
}

// One cell of each table can be reached with Tab; arrows go on from there.
function startCells() {
  document.querySelectorAll("table.heat").forEach((table) => {
    const rows = [...table.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td a")]).filter((row) => row.length);
    table.addEventListener("keydown", (event) => {
      const y = rows.findIndex((row) => row.includes(event.target));
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (y < 0 || !move) return;
      event.preventDefault();
      const row = rows[Math.min(rows.length - 1, Math.max(0, y + move[0]))];
      const next = row[Math.min(row.length - 1, Math.max(0, rows[y].indexOf(event.target) + move[1]))];
      event.target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  });
}

startSliders();
startCells();
