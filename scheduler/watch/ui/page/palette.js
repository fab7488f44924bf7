// The colours of Okabe and Ito, which colour-blind people tell apart, in the order of the
// project's plots; then each once more, pale (or deep, on dark paper). Models beyond them are grey: bars
// have numbers, pointing names them, and a row of the table that is pointed at shows its model alone.
const table = ["#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#F0E442"];
const second = { light: table.map((c) => mix(c, "#ffffff", 0.55)), dark: table.map((c) => mix(c, "#14171c", 0.5)) };
const grey = { light: "#9aa0a8", dark: "#6b7280" };

// mix is one colour with so much of another.
function mix(a, b, share) {
  const of = (c, i) => parseInt(c.slice(1 + 2 * i, 3 + 2 * i), 16);
  return "#" + [0, 1, 2].map((i) => Math.round(of(a, i) * (1 - share) + of(b, i) * share).toString(16).padStart(2, "0")).join("");
}

// Palette gives models colours for good, those that use GPUs most first.
export class Palette {
  constructor() {
    this.given = new Map(); // model id -> index
  }

  // give has the ids of models, those with the most GPU time first.
  give(ids) {
    for (const id of ids) {
      if (this.given.size >= 2 * table.length) return;
      if (!this.given.has(id)) this.given.set(id, this.given.size);
    }
  }

  has(id) { return this.given.has(id); }

  of(id, dark) {
    const i = this.given.get(id);
    if (i === undefined) return dark ? grey.dark : grey.light;
    return i < table.length ? table[i] : (dark ? second.dark : second.light)[i - table.length];
  }
}

// onTop is the text colour that can be read on a colour.
export function onTop(colour) {
  const v = parseInt(colour.slice(1), 16);
  const light = 299 * (v >> 16) + 587 * (v >> 8 & 255) + 114 * (v & 255);
  return light > 120000 ? "#16191d" : "#ffffff";
}
