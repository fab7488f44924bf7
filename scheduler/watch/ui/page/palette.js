// The colours of Okabe and Ito, which colour-blind people tell apart, in the order of the
// project's plots. Models beyond them are grey: bars have numbers, and pointing names them.
const table = ["#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#F0E442"];
const grey = { light: "#9aa0a8", dark: "#6b7280" };

// Palette gives models colours for good, those that use GPUs most first.
export class Palette {
  constructor() {
    this.given = new Map(); // model id -> index
  }

  // give has the ids of models, those with the most GPU time first.
  give(ids) {
    for (const id of ids) {
      if (this.given.size >= table.length) return;
      if (!this.given.has(id)) this.given.set(id, this.given.size);
    }
  }

  has(id) { return this.given.has(id); }

  of(id, dark) {
    const i = this.given.get(id);
    return i === undefined ? (dark ? grey.dark : grey.light) : table[i];
  }
}

// onTop is the text colour that can be read on a colour.
export function onTop(colour) {
  const v = parseInt(colour.slice(1), 16);
  const light = 299 * (v >> 16) + 587 * (v >> 8 & 255) + 114 * (v & 255);
  return light > 120000 ? "#16191d" : "#ffffff";
}
