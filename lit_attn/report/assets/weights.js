// How are attention weights read from the page? As bytes, each row scaled by its largest weight; see payload.py.

// One map, decoded when it is first shown. `row` and `column` give weights for one head, or their mean for head "mean".
class AttentionMap {
  constructor(stored) {
    Object.assign(this, stored);
    [this.heads, this.queries, this.width] = stored.shape;
    this.data = bytes(stored.codes);
    this.maxima = new Float32Array(bytes(stored.scales).buffer);
  }
  at(head, query, key) {
    if (head === "mean") {
      let sum = 0;
      for (let one = 0; one < this.heads; one += 1) sum += this.at(one, query, key);
      return sum / this.heads;
    }
    const row = head * this.queries + query;
    return (this.data[row * this.width + key] * this.maxima[row]) / 255;
  }
  row(head, query) {
    return Array.from({ length: this.width }, (_, key) => this.at(head, query, key));
  }
  column(head, key) {
    return Array.from({ length: this.queries }, (_, query) => this.at(head, query, key));
  }
}

// Intersection over union of two boxes.
function overlap(one, two) {
  const area = ([x1, y1, x2, y2]) => Math.max(0, x2 - x1) * Math.max(0, y2 - y1);
  const shared = area([Math.max(one[0], two[0]), Math.max(one[1], two[1]), Math.min(one[2], two[2]), Math.min(one[3], two[3])]);
  const total = area(one) + area(two) - shared;
  return total > 0 ? shared / total : 0;
}
