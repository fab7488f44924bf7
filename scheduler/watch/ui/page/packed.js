// Packed events, as scheduler/watch/packed.go writes them: numbers in digits of five bits, most of them as what they are more
// than one that is known by then.

const kinds = [null, "abnnttpn", "abnnttnn", "ainnntttn", "annntpt", "alnnnntp", "alnnntp", "annnnt"], ofRequest = "intp"; // the layouts of batch, done, drop, queue, load, loaded, evict
const reasons = "none deadline shed full unavailable unknown_model backend_lost execution input expired cancelled draining late cold memory infeasible unsent isolated".split(" ");
const whys = ",cold,copy,arrived,failed,room,removed,stray".split(",");
const digits = new Int8Array(128).fill(-1);
[..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].forEach((c, i) => { digits[c.charCodeAt(0)] = i; });

const wrap = (v) => (v >= 2 ** 63 ? v - 2 ** 64 : v < -(2 ** 63) ? v + 2 ** 64 : v); // two's complement

class Packed {
  constructor(text) {
    this.text = text;
    this.i = 0;
    this.at = 0;
    this.batch = this.id = 0n; // numbers have 53 bits
  }

  digit() {
    const d = digits[this.text.charCodeAt(this.i++)];
    if (d >= 0) return d;
    throw new Error("packed events " + (this.i > this.text.length ? "end within one" : "have a sign that is no digit"));
  }

  more(scale) {
    if (scale >= 2 ** 65) throw new Error("packed events have a number of more than 64 bits");
    return this.digit();
  }

  count() {
    let d = this.digit(), v = d & 31;
    for (let scale = 32; d > 31; scale *= 32) v += ((d = this.more(scale)) & 31) * scale;
    return v;
  }

  number() { // its lowest bit is the sign
    let d = this.digit();
    const negative = d & 1;
    let v = (d & 31) >> 1;
    for (let scale = 16; d > 31; scale *= 32) v += ((d = this.more(2 * scale)) & 31) * scale;
    return negative ? -v - 1 : v;
  }

  long(before) {
    const from = this.i, v = this.number();
    if (Number.isSafeInteger(v)) return BigInt.asUintN(64, before + BigInt(v));
    let u = 0n;
    for (let k = this.i - 1; k >= from; k--) u = (u << 5n) | BigInt(digits[this.text.charCodeAt(k)] & 31);
    return BigInt.asUintN(64, before + ((u >> 1n) ^ -(u & 1n)));
  }

  words(layout) {
    const all = [];
    let w = 0;
    for (const c of layout) {
      switch (c) {
        case "a": w = this.at = wrap(this.at + this.number()); break;
        case "b": w = this.batch = this.long(this.batch); break;
        case "i": w = this.id = this.long(this.id); break;
        case "l": w = this.long(0n); break; // n in Go
        case "t": w = wrap(this.at + this.number()); break;
        case "p": w = wrap(w + this.number()); break;
        default: w = this.number();
      }
      all.push(w);
    }
    return all;
  }

  // event is the next one, as its line in a document would be.
  event() {
    const head = this.count(), kind = head % 8, pool = Math.floor(head / 8);
    if (!kinds[kind]) throw new Error("packed events have one of kind " + kind + ", which this page does not know");
    const n = kind === 1 ? this.count() : 0, w = this.words(kinds[kind]);
    switch (kind) {
      case 1: {
        const e = { e: "batch", t: w[0], pool, batch: w[1].toString(16), model: w[2], gpu: w[3], due: w[4], exec: w[5], until: w[6], size: w[7] };
        if (n) e.requests = [];
        for (let i = 0; i < n; i++) {
          const [id, frontend, arrival, deadline] = this.words(ofRequest);
          e.requests.push(frontend + "-" + id.toString(16), arrival, deadline);
        }
        return e;
      }
      case 2: return { e: "done", t: w[0], pool, batch: w[1].toString(16), model: w[2], gpu: w[3], exec: w[4], until: w[5], size: w[7], fetch: w[6] };
      case 3: return { e: "drop", t: w[0], pool, model: w[3], request: w[2] + "-" + w[1].toString(16), reason: reasons[w[4]] || "none", arrival: w[5], came: w[6], deadline: w[7], margin: w[8] };
      case 5: return { e: "load", t: w[0], pool, load: w[1].toString(16), model: w[2], gpu: w[3], why: whys[w[4]] || "", size: w[5], exec: w[6], until: w[7] };
      case 6: return { e: "loaded", t: w[0], pool, load: w[1].toString(16), model: w[2], gpu: w[3], why: whys[w[4]] || "", exec: w[5], until: w[6] };
      case 7: return { e: "evict", t: w[0], pool, model: w[1], gpu: w[2], why: whys[w[3]] || "", for: w[4], until: w[5] };
    }
    return { e: "queue", t: w[0], pool, model: w[1], queued: w[2], size: w[3], exec: w[4], until: w[5], due: w[6] };
  }
}

// unpack hands over the events of a text.
export function unpack(text, take) {
  for (const p = new Packed(text || ""); p.i < p.text.length;) take(p.event());
}
