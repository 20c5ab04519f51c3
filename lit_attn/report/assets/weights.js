// How are attention weights read from the page? As bytes, each row scaled by its largest size; see payload.py.

// One map, decoded when it is first shown.
class AttentionMap {
  constructor(stored) {
    [this.heads, this.queries, this.width] = stored.shape;
    const data = bytes(stored.codes);
    this.data = stored.signed ? new Int8Array(data.buffer) : data;
    this.steps = stored.signed ? 127 : 255;
    this.signed = stored.signed;
    this.maxima = new Float32Array(bytes(stored.scales).buffer);
  }
  at(head, query, key) {
    const row = head * this.queries + query;
    return (this.data[row * this.width + key] * this.maxima[row]) / this.steps;
  }
}

// What is shown from one stream to another: one head of one map, or the mean of heads, of layers, or of both.
class AttentionView {
  constructor(stored, maps, head) {
    Object.assign(this, { query: stored.query, keys: stored.keys, site: stored.site, shared: stored.shared || false });
    this.queries = maps[0].queries;
    this.width = maps[0].width;
    this.signed = maps.some((map) => map.signed);
    this.sources = maps.flatMap((map) => (head === "mean" ? Array.from({ length: map.heads }, (_, one) => [map, one]) : [[map, Math.min(head, map.heads - 1)]]));
  }
  at(query, key) {
    let sum = 0;
    for (const [map, head] of this.sources) sum += map.at(head, query, key);
    return sum / this.sources.length;
  }
  row(query) {
    return Array.from({ length: this.width }, (_, key) => this.at(query, key));
  }
  column(key) {
    return Array.from({ length: this.queries }, (_, query) => this.at(query, key));
  }
}

// Samples are read and their maps decoded when first asked for.
const samples = new Map();
function loadSample(number) {
  if (!samples.has(number)) samples.set(number, { ...readBlock(`sample-${number}`), decoded: new Map() });
  return samples.get(number);
}
function decoded(sample, stored) {
  if (!sample.decoded.has(stored)) sample.decoded.set(stored, new AttentionMap(stored));
  return sample.decoded.get(stored);
}
const streamOf = (sample, name) => sample.streams.find((stream) => stream.name === name);

// Items that lie on the picture carry their number, and so do words that occur more than once.
function itemName(sample, stream, index) {
  const { items, kind } = streamOf(sample, stream);
  if (kind === "cells") return items[index];
  const alone = kind === "text" && items.indexOf(items[index]) === items.lastIndexOf(items[index]);
  return alone ? items[index] : `${items[index]} (${index})`;
}

// Intersection over union of two boxes.
function overlap(one, two) {
  const area = ([x1, y1, x2, y2]) => Math.max(0, x2 - x1) * Math.max(0, y2 - y1);
  const shared = area([Math.max(one[0], two[0]), Math.max(one[1], two[1]), Math.min(one[2], two[2]), Math.min(one[3], two[3])]);
  const total = area(one) + area(two) - shared;
  return total > 0 ? shared / total : 0;
}
