// What the events so far say, for as long as the page looks back.
import { unpack } from "./packed.js";

export const keep = 60e9; // ns
const binSpan = 200e6;
const latencies = 2e9; // the span that quantiles are of

// lower is the first index in a list, ordered by of(x), that is not below v.
export function lower(list, v, of) {
  let a = 0, b = list.length;
  while (a < b) {
    const m = (a + b) >> 1;
    if (of(list[m]) < v) a = m + 1; else b = m;
  }
  return a;
}

export class Store {
  constructor() {
    this.clear();
  }

  clear() {
    this.head = null;
    this.models = new Map();
    this.pools = new Map();
    this.links = new Map();
    this.texts = new Map();
    this.batches = new Map();
    this.drops = []; // by instant
    this.late = []; // likewise: {t, batch, requests}
    this.bins = new Map(); // of binSpan: {busy, bad}
    this.chunks = []; // {t, text}: for saving
    this.fixed = new Map(); // lines of the surroundings: likewise
    this.from = Infinity;
    this.to = 0;
    this.missed = 0;
    this.events = 0;
    this.still = false; // a file: nothing more comes
    this.offset = undefined; // performance.now() in ns less the events' clock, at the least
    this.trimmed = 0;
  }

  // take reads lines of a document. It throws what is wrong with packed ones.
  take(text) {
    for (const line of text.split("\n")) {
      if (!line) continue;
      let e;
      try {
        e = JSON.parse(line);
      } catch {
        continue; // a line that was cut off, at a file's end
      }
      if (e.symphony) {
        this.clear();
        this.head = e;
        continue;
      }
      if (e.e === "packed") unpack(e.records, (x) => this.apply(x)); else this.apply(e, line);
    }
    this.chunks.push({ t: this.to, text });
    this.trim();
  }

  apply(e, line) {
    this.events++;
    if (e.t > this.to) this.to = e.t;
    switch (e.e) {
      case "batch": this.batch(e); break;
      case "done": this.done(e); break;
      case "drop":
        this.drops.push(e);
        this.bin(e.t).bad++;
        break;
      case "queue": this.model(e).queue.push(e); break;
      case "load": this.load(e); break;
      case "loaded": this.loaded(e); break;
      case "evict": this.model(e).gone = e; break;
      case "memory": this.row(e.pool, e.gpu).memory.push({ t: e.t, ...(e.info || {}).memory }); break;
      case "counts": this.counts(e); break;
      case "missed": this.missed += e.size; break;
      case "now": this.clock(e.t); break;
      default: this.surroundings(e, line);
    }
    if (e.e !== "model" && e.e !== "pool" && e.e !== "gpu" && e.e !== "memory" && e.t < this.from) this.from = e.t;
  }

  // clock learns how far the events' clock is from ours. Chunks come late, never early: the
  // least difference of the last while is the best.
  clock(t) {
    const seen = performance.now() * 1e6 - t;
    if (this.offset === undefined || seen < this.offset) this.offset = seen;
    else this.offset += 0.01 * (seen - this.offset);
  }

  // now is the events' clock; of a file its end.
  now() {
    return this.still || this.offset === undefined ? this.to : performance.now() * 1e6 - this.offset;
  }

  model(e) {
    let m = this.models.get(e.model);
    if (!m) {
      m = { id: e.model, pool: e.pool, name: "model " + e.model, queue: [], counts: [], latency: [], busy: 0, info: {} };
      this.models.set(e.model, m);
    }
    return m;
  }

  pool(id) {
    let p = this.pools.get(id);
    if (!p) {
      p = { id, info: { name: "pool " + id }, history: [], rows: [] };
      this.pools.set(id, p);
    }
    return p;
  }

  row(pool, gpu) {
    const rows = this.pool(pool).rows;
    while (rows.length <= gpu) rows.push({ gpu: rows.length, name: "", here: false, batches: [], last: 0, loads: [], memory: [] });
    return rows[gpu];
  }

  surroundings(e, line) {
    const info = e.info || {};
    const key = e.e + ":" + (e.e === "model" ? e.model : e.e === "gpu" ? e.pool + "/" + e.gpu : e.e === "pool" ? e.pool : info.name);
    if (info.gone) this.fixed.delete(key); else this.fixed.set(key, line);
    const table = e.e === "link" ? this.links : e.e === "text" ? this.texts : null;
    if (table) {
      if (info.gone) table.delete(info.name); else table.set(info.name, info);
    } else if (e.e === "model") {
      if (info.gone) { this.models.delete(e.model); return; }
      const m = this.model(e);
      m.info = info; m.name = info.name; m.pool = e.pool;
    } else if (e.e === "pool") {
      if (info.gone) { this.pools.delete(e.pool); return; }
      const p = this.pool(e.pool);
      p.info = info;
      p.history.push({ t: e.t, info });
    } else if (e.e === "gpu") {
      const r = this.row(e.pool, e.gpu);
      r.here = !info.gone;
      r.name = info.name || "";
      if (info.gone) { this.cut(r, e.t); r.memory = []; }
    }
  }

  // cut ends what ran on a GPU that went.
  cut(row, t) {
    for (const b of row.batches) {
      if (b.end === undefined && b.until > t) b.until = Math.max(b.exec, t);
    }
  }

  batch(e) {
    const b = { id: e.batch, pool: e.pool, gpu: e.gpu, model: e.model, size: e.size, sent: e.t, due: e.due, exec: e.exec, until: e.until, requests: e.requests || [], late: 0 };
    this.batches.set(e.batch, b);
    const list = this.row(e.pool, e.gpu).batches;
    list.push(b);
    for (let i = list.length - 1; i > 0 && list[i - 1].exec > b.exec; i--) [list[i - 1], list[i]] = [list[i], list[i - 1]];
  }

  done(e) {
    const b = this.batches.get(e.batch);
    const row = this.row(e.pool, e.gpu);
    row.last = Math.max(row.last, e.until);
    this.spread(e.exec, e.until);
    const m = this.model(e);
    m.busy = m.busy * 0.999 + (e.until - e.exec);
    if (!b) return;
    b.start = e.exec; b.end = e.until; b.fetch = e.fetch;
    const r = b.requests;
    for (let i = 0; i + 2 < r.length; i += 3) {
      m.latency.push({ t: e.until, v: e.until - r[i + 1], size: b.size });
      if (e.until > r[i + 2]) b.late++;
    }
    if (b.late) {
      this.late.push({ t: e.until, batch: b });
      this.bin(e.until).bad += b.late;
    }
  }

  // load is a copy of weights on its way, by plan; loaded says how it was. They take turns on a GPU.
  load(e) {
    const list = this.row(e.pool, e.gpu).loads;
    list.push({ id: e.load, model: e.model, why: e.why, from: e.exec, to: e.until, sent: e.t, done: false });
  }

  loaded(e) {
    const list = this.row(e.pool, e.gpu).loads;
    for (let i = list.length - 1; i >= 0 && i > list.length - 9; i--) {
      if (list[i].id === e.load) { Object.assign(list[i], { from: e.exec, to: e.until, done: true, failed: e.why === "failed" }); return; }
    }
  }

  // memory is what a GPU holds at an instant, with what its loader does a second: it is told of once a second, if anything changed.
  memory(row, at) {
    const i = lower(row.memory, at + 1, (m) => m.t) - 1;
    if (i < 0) return null;
    const m = row.memory[i], before = row.memory[i - 1], still = !before || at - m.t > 2e9;
    const passed = before ? Math.min(1, (m.t - before.t) / 1e9) : 1;
    const per = (name) => (still ? 0 : Math.max(0, ((m[name] || 0) - (before[name] || 0)) / passed));
    return { pages: m.pages, free: m.free, held: m.held, loading: m.loading || 0, idle: m.oldest ? Math.max(0, at - m.oldest) : null, cold: per("cold"), copies: per("copies"), failed: per("failed"),
      room: per("room"), removed: per("removed"), stray: per("stray"), busy: Math.min(1, per("busy") / 1e9) };
  }

  // weights are how a model of a paged pool stands at an instant.
  weights(m, at) {
    const i = lower(m.counts, at + 1, (c) => c.t) - 1;
    if (i < 0) return null;
    const c = m.counts[i], k = Math.max(0, Math.min(i - 1, lower(m.counts, at - 1e10, (x) => x.t) - 1)), a = m.counts[k] || {};
    const warm = (c.warm || 0) - (k < i ? a.warm || 0 : 0), cold = (c.cold || 0) - (k < i ? a.cold || 0 : 0), all = warm + cold;
    const ever = (c.warm || 0) + (c.cold || 0);
    return { held: c.held || 0, loads: c.loads || 0, unmet: c.unmet || 0, hits: all > 0 ? warm / all : ever > 0 ? (c.warm || 0) / ever : null };
  }

  paged() {
    for (const p of this.pools.values()) if (p.info.page) return true;
    return false;
  }

  bin(t) {
    const k = Math.floor(t / binSpan);
    let b = this.bins.get(k);
    if (!b) this.bins.set(k, b = { busy: 0, bad: 0 });
    return b;
  }

  // spread counts a batch's time in the bins that it ran in.
  spread(from, to) {
    for (let t = from; t < to;) {
      const end = Math.min(to, (Math.floor(t / binSpan) + 1) * binSpan);
      this.bin(t).busy += (end - t) / binSpan;
      t = end;
    }
  }

  counts(e) {
    const m = this.model(e);
    m.counts.push({ t: e.t, ...e.info });
  }

  // trim forgets what is older than the page looks back. Of a file nothing.
  trim() {
    if (this.still || this.to - this.trimmed < 1e9) return;
    this.trimmed = this.to;
    const least = this.to - keep;
    if (this.from < least) this.from = least;
    const cut = (list, of) => {
      const n = lower(list, least, of);
      if (n) list.splice(0, n);
    };
    cut(this.drops, (x) => x.t);
    cut(this.late, (x) => x.t);
    cut(this.chunks, (x) => x.t);
    for (const m of this.models.values()) {
      cut(m.queue, (x) => x.t);
      cut(m.latency, (x) => x.t);
      if (m.counts.length > 2) cut(m.counts, (x) => x.t + 5e9);
    }
    for (const p of this.pools.values()) {
      if (p.history.length > 1) p.history.splice(0, Math.max(0, lower(p.history, least, (x) => x.t) - 1));
      for (const r of p.rows) {
        cut(r.batches, (b) => b.end ?? b.until);
        cut(r.loads, (l) => l.to);
        if (r.memory.length > 2) r.memory.splice(0, Math.max(0, lower(r.memory, least, (m) => m.t) - 2));
      }
    }
    for (const [id, b] of this.batches) {
      if ((b.end ?? b.until) >= least) break; // in the order of their coming, about
      this.batches.delete(id);
    }
    const first = Math.floor(least / binSpan);
    for (const k of this.bins.keys()) if (k < first) this.bins.delete(k);
  }

  // rates of a model at an instant, per second, over the two seconds before it.
  rates(m, at) {
    const i = lower(m.counts, at + 1, (c) => c.t) - 1;
    const k = Math.max(0, Math.min(i - 1, lower(m.counts, at - 2e9, (c) => c.t) - 1));
    if (i < 1) return { came: 0, served: 0, late: 0, dropped: 0, reasons: [] };
    const a = m.counts[k], b = m.counts[i];
    // A model of which nothing was told for long had nothing: counts come when they change.
    const passed = Math.max(b.t - a.t, at - a.t > 3e9 ? at - a.t : 0) / 1e9;
    const per = (x, y) => Math.max(0, ((y || 0) - (x || 0)) / passed);
    const reasons = [];
    let dropped = 0;
    for (const [reason, n] of Object.entries(b.dropped || {})) {
      const v = per((a.dropped || {})[reason], n);
      if (v > 0) { reasons.push([reason, v]); dropped += v; }
    }
    const late = per(a.late, b.late);
    if (late > 0) reasons.push(["late", late]);
    return { came: per(a.came, b.came), served: per(a.served, b.served), late, dropped, reasons };
  }

  // recent are quantiles of latencies up to the batch's end, and the mean batch size.
  recent(m, at) {
    const from = lower(m.latency, at - latencies, (x) => x.t), to = lower(m.latency, at, (x) => x.t);
    const n = to - from;
    if (n < 1) return null;
    const all = new Float64Array(n);
    let batches = 0;
    for (let i = 0; i < n; i++) {
      all[i] = m.latency[from + i].v;
      batches += 1 / Math.max(1, m.latency[from + i].size);
    }
    all.sort();
    const q = (p) => all[Math.min(n - 1, Math.floor(p * n))];
    return { p50: q(0.5), p99: q(0.99), size: n / batches };
  }

  queueAt(m, at) { return m.queue[lower(m.queue, at + 1, (x) => x.t) - 1]; }

  poolAt(p, at) {
    const i = lower(p.history, at + 1, (x) => x.t) - 1;
    return (p.history[Math.max(0, i)] || p).info;
  }

  // document is what is kept as a file: the surroundings first, which its events name. In files each event is a line.
  document() {
    const head = { ...(this.head || { symphony: "schedule", version: 1 }), source: "file" };
    const parts = [JSON.stringify(head), ...this.fixed.values()];
    for (const c of this.chunks) {
      for (const line of c.text.split("\n")) {
        if (line.startsWith('{"e":"packed"')) unpack(JSON.parse(line).records, (x) => parts.push(JSON.stringify(x)));
        else if (line && !line.startsWith('{"symphony"')) parts.push(line);
      }
    }
    return parts.join("\n") + "\n";
  }
}
