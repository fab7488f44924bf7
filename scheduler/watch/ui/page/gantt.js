// The picture: GPUs as rows, batches as bars.
import { lower } from "./store.js";
import { onTop } from "./palette.js";
import { seconds, short, signed } from "./format.js";

const strip = 22; // px below: drops
const gap = 10; // px between pools
const lane = 3; // px of a row of a paged pool: its loader

export class Gantt {
  constructor(canvas, store, palette) {
    this.canvas = canvas;
    this.ctx = canvas.getContext("2d");
    this.store = store;
    this.palette = palette;
    this.focus = null; // of a story: {first, last, arrival, deadline, needed, lost, own}
    this.pointed = null; // a batch
    this.only = null; // a model that is shown alone
    this.boxes = []; // what was drawn of rows: {row, y, h}
    this.dark = false;
  }

  // layout finds each row's place; it may make the canvas higher than its stage, which scrolls then.
  layout(stage) {
    const width = stage.clientWidth, dpr = Math.min(2, window.devicePixelRatio || 1);
    this.narrow = width < 560;
    this.head = this.focus ? 68 : 20; // px above the rows: the time axis, and names of a story's instants
    this.right = this.narrow ? 0 : 62;
    const pools = [...this.store.pools.values()].sort((a, b) => a.id - b.id);
    this.left = this.labelWidth(pools);
    let rows = 0;
    for (const p of pools) rows += Math.max(1, p.rows.length);
    const room = stage.clientHeight - this.head - strip - gap * Math.max(0, pools.length - 1);
    this.h = Math.max(this.narrow ? 5 : 6, Math.min(56, Math.floor(room / Math.max(1, rows))));
    const height = Math.max(stage.clientHeight, this.head + strip + rows * this.h + gap * Math.max(0, pools.length - 1));
    if (this.canvas.width !== Math.round(width * dpr) || this.canvas.height !== Math.round(height * dpr)) {
      this.canvas.width = Math.round(width * dpr);
      this.canvas.height = Math.round(height * dpr);
      this.canvas.style.height = height + "px";
    }
    this.ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    this.width = width;
    this.height = height;
    this.boxes = [];
    let y = this.head;
    for (const p of pools) {
      for (const r of p.rows) {
        this.boxes.push({ row: r, pool: p, y, h: this.h });
        y += this.h;
      }
      y += gap;
    }
    this.bottom = y - gap;
  }

  // label names a row: where there are several pools, with its pool's.
  label(pool, gpu) {
    const name = this.store.pools.size > 1 ? short(pool.info.name || "pool " + pool.id, this.narrow ? 6 : 14) + " " : "";
    return name + (this.narrow ? "" : "GPU ") + gpu;
  }

  // labelWidth is the room that labels take, at the left.
  labelWidth(pools) {
    let width = this.narrow ? 30 : 58;
    this.ctx.font = "11px system-ui, sans-serif";
    if (pools.length > 1) for (const p of pools) if (p.rows.length) width = Math.max(width, 10 + this.ctx.measureText(this.label(p, p.rows.at(-1).gpu)).width);
    return Math.ceil(width);
  }

  // x is where an instant is.
  x(t) { return this.left + (t - this.from) / (this.to - this.from) * (this.width - this.left - this.right); }

  t(x) { return this.from + (x - this.left) / (this.width - this.left - this.right) * (this.to - this.from); }

  draw(stage, from, to, now, live) {
    this.layout(stage);
    this.from = from;
    this.to = to;
    const c = this.ctx, dark = this.dark;
    this.colours = dark ? { paper: "#14171c", row: "#1a1e25", ink: "#e8eaee", faint: "#9aa3b0", line: "#2a303a", red: "#ff6b5e", kept: "#222834" }
      : { paper: "#ffffff", row: "#f3f5f8", ink: "#1b1e23", faint: "#5d6570", line: "#e2e6eb", red: "#cc0000", kept: "#e9edf3" };
    c.fillStyle = this.colours.paper;
    c.fillRect(0, 0, this.width, this.height);
    this.drawAxis();
    c.save();
    c.beginPath();
    c.rect(this.left, 0, this.width - this.left - this.right, this.height);
    c.clip();
    for (const b of this.boxes) this.drawRow(b, now);
    this.drawDrops();
    this.drawFocus();
    this.drawPointed();
    if (live) {
      c.fillStyle = this.colours.ink;
      c.globalAlpha = 0.5;
      c.fillRect(this.x(now), this.head, 1, this.bottom - this.head);
      c.globalAlpha = 1;
    }
    c.restore();
    this.drawLabels(now);
  }

  drawAxis() {
    const c = this.ctx, span = this.to - this.from;
    let step = 1e6;
    for (const s of [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]) {
      step = s * 1e6;
      if (span / step <= (this.narrow ? 4 : 9)) break;
    }
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.textAlign = "center";
    const off = ((this.store.head && this.store.head.began) || 0) % step; // full units of the time of day
    for (let t = Math.ceil((this.from + off) / step) * step - off; t <= this.to; t += step) {
      const x = this.x(t);
      c.fillStyle = this.colours.line;
      c.fillRect(x, 16, 1, this.bottom - 16 + strip);
      c.fillStyle = this.colours.faint;
      if (x > this.left + (this.narrow ? 20 : 34) && x < this.width - this.right - 16) c.fillText(this.tick(t, step), x, 9);
    }
  }

  // tick is the time of day, as far as it changes; of a simulation the simulated one.
  tick(t, step) {
    const began = this.store.head && this.store.head.began;
    if (!began) return (t / 1e9).toFixed(step < 1e7 ? 3 : step < 1e8 ? 2 : step < 1e9 ? 1 : 0) + " s";
    const d = new Date(Math.round((began + t) / 1e6));
    const s = d.getSeconds() + d.getMilliseconds() / 1000;
    const digits = step < 1e7 ? 3 : step < 1e8 ? 2 : step < 1e9 ? 1 : 0;
    const two = (v) => String(v).padStart(2, "0") + ":";
    return (this.narrow ? "" : two(d.getHours())) + two(d.getMinutes()) + s.toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  }

  drawRow(box, now) {
    const c = this.ctx, list = box.row.batches, h = box.h, lanes = box.pool.info.page && h > 9 ? lane + 1 : 0, bar = Math.max(2, h - (h > 9 ? 2 : 1) - lanes);
    if (box.row.here) {
      c.fillStyle = this.colours.row;
      c.fillRect(this.left, box.y, this.width, bar);
    }
    if (lanes) this.drawLoads(box, box.y + bar + 1, now);
    let i = lower(list, this.from, (b) => b.end ?? b.until);
    i = Math.max(0, i - 2); // a batch that was late may lie among those after it
    c.textAlign = "center";
    c.textBaseline = "middle";
    c.font = Math.min(12, bar - 1) + "px system-ui, sans-serif";
    for (; i < list.length; i++) {
      const b = list[i];
      const t0 = b.start ?? b.exec, t1 = b.end ?? b.until;
      if (t0 > this.to) break;
      if (t1 < this.from) continue;
      const x0 = this.x(t0), x1 = this.x(t1), w = Math.max(1, x1 - x0 - 0.6);
      const colour = this.palette.of(b.model, this.dark);
      c.globalAlpha = this.only !== null && this.only !== b.model ? 0.18 : b.end === undefined && t0 > now ? 0.45 : 1; // it is planned
      c.fillStyle = colour;
      c.fillRect(x0, box.y, w, bar);
      c.globalAlpha = 1;
      if (b.late) this.mark(x0, box.y, w, bar);
      if (bar >= 9 && w >= 12) {
        c.fillStyle = onTop(colour);
        c.fillText(b.size, Math.max(x0, this.left) / 2 + Math.min(x1, this.width - this.right) / 2, box.y + bar / 2 + 0.5);
      }
    }
  }

  // drawLoads draws a loader's copies, below the batches.
  drawLoads(box, y, now) {
    const c = this.ctx, list = box.row.loads;
    if (box.row.here) {
      c.fillStyle = this.colours.row;
      c.fillRect(this.left, y, this.width, lane);
    }
    for (let i = Math.max(0, lower(list, this.from, (l) => l.to) - 1); i < list.length; i++) {
      const l = list[i];
      if (l.from > this.to) break;
      if (l.to < this.from) continue;
      const x0 = this.x(l.from), w = Math.max(1, this.x(l.to) - x0 - 0.6);
      c.globalAlpha = this.only !== null && this.only !== l.model ? 0.18 : !l.done && l.from > now ? 0.45 : 1;
      c.fillStyle = l.failed ? this.colours.red : this.palette.of(l.model, this.dark);
      c.fillRect(x0, y, w, lane);
      c.globalAlpha = 1;
    }
  }

  // mark says that a batch was late: by a frame and a cross, not by colour alone.
  mark(x, y, w, h) {
    const c = this.ctx;
    const line = h < 7 ? 1 : 2; // of a low bar its colour is to be seen, too
    c.strokeStyle = this.colours.red;
    c.lineWidth = line;
    c.strokeRect(x + line / 2, y + line / 2, Math.max(1, w - line), Math.max(1, h - line));
    c.lineWidth = 2;
    if (h >= 6 && w >= 6) this.cross(x + w - 1, y + h / 2, Math.min(4, h / 2));
  }

  cross(x, y, r) {
    const c = this.ctx;
    c.beginPath();
    c.moveTo(x - r, y - r); c.lineTo(x + r, y + r);
    c.moveTo(x + r, y - r); c.lineTo(x - r, y + r);
    c.stroke();
  }

  drawDrops() {
    const c = this.ctx, list = this.store.drops, y = this.bottom + strip / 2;
    let i = lower(list, this.from, (d) => d.t);
    c.lineWidth = 1.6;
    let lastX = -9, n = 0;
    for (; i < list.length && list[i].t <= this.to; i++) {
      const x = this.x(list[i].t);
      if (x - lastX < 4) {
        n++;
        if (n < 3) { c.strokeStyle = this.colours.red; this.cross(lastX, y - 6 + 6 * n, 2.5); }
        continue;
      }
      lastX = x;
      n = 0;
      c.strokeStyle = this.colours.red;
      this.cross(x, y - 6, 2.5);
    }
  }

  drawFocus() {
    const f = this.focus, c = this.ctx;
    if (!f) return;
    if (f.first && f.last && f.last > f.first) {
      c.fillStyle = this.dark ? "#ffffff14" : "#0000000f";
      c.fillRect(this.x(f.first), 18, this.x(f.last) - this.x(f.first), this.bottom - 18);
    }
    const line = (t, label, dash, high) => {
      if (!t || t < this.from || t > this.to) return;
      const x = this.x(t);
      c.strokeStyle = this.colours.ink;
      c.lineWidth = 1.4;
      c.setLineDash(dash);
      c.beginPath(); c.moveTo(x, 18); c.lineTo(x, this.bottom + strip); c.stroke();
      c.setLineDash([]);
      c.font = "11px system-ui, sans-serif";
      c.textBaseline = "middle";
      const w = c.measureText(label).width + 6;
      const left = x + w > this.width - this.right;
      c.fillStyle = this.colours.ink;
      c.fillRect(left ? x - w : x, 18 + high * 12, w, 12);
      c.fillStyle = this.colours.paper;
      c.textAlign = "left";
      c.fillText(label, (left ? x - w : x) + 3, 24.5 + high * 12);
    };
    this.outline(f.lost, [4, 3]);
    this.outline(f.needed || f.own, []);
    line(f.arrival, "arrives", [], 0);
    line(f.last, "last start", [4, 3], 1);
    line(f.deadline, "deadline", [1, 2], 2);
    line(f.ended, f.outcome, [2, 2], 3);
  }

  outline(b, dash) {
    if (!b) return;
    const box = this.boxes.find((x) => x.pool.id === b.pool && x.row.gpu === b.gpu);
    if (!box) return;
    const c = this.ctx, x0 = this.x(b.start || b.exec), x1 = this.x(b.end || b.until);
    c.strokeStyle = this.colours.ink;
    c.lineWidth = 2.5;
    c.setLineDash(dash);
    c.strokeRect(x0 - 1, box.y - 1.5, x1 - x0 + 2, box.h + 1);
    c.setLineDash([]);
  }

  // drawPointed shows a batch's waits: from each request's arrival to its start, and its deadlines.
  drawPointed() {
    const b = this.pointed;
    if (!b) return;
    this.outline(b, []);
    const box = this.boxes.find((x) => x.pool.id === b.pool && x.row.gpu === b.gpu);
    if (!box) return;
    const c = this.ctx, y = box.y + box.h / 2, start = this.x(b.start ?? b.exec), r = b.requests;
    c.strokeStyle = c.fillStyle = this.colours.ink;
    c.lineWidth = 1;
    for (let i = 0; i + 2 < r.length; i += 3) {
      const x = this.x(r[i + 1]), d = this.x(r[i + 2]);
      c.beginPath(); c.moveTo(x, y); c.lineTo(start, y); c.stroke();
      c.fillRect(x - 0.5, y - 4, 1.5, 8);
      c.beginPath(); c.moveTo(d - 3, box.y - 3); c.lineTo(d + 3, box.y - 3); c.lineTo(d, box.y + 3); c.fill();
    }
  }

  drawLabels(now) {
    const c = this.ctx;
    c.font = (this.h >= 11 ? 11 : 10) + "px system-ui, sans-serif";
    c.textBaseline = "middle";
    const every = Math.ceil(12 / this.h);
    for (const b of this.boxes) {
      const mid = b.y + b.h / 2, info = b.pool.info, kept = !info.kept || b.row.gpu < info.kept;
      if (b.row.gpu % every === 0) {
        c.textAlign = "right";
        c.fillStyle = b.row.here && kept ? this.colours.ink : this.colours.faint;
        c.fillText(this.label(b.pool, b.row.gpu), this.left - 5, mid);
      }
      if (this.right) this.drawBusy(b, mid, every, now, kept);
    }
    c.textAlign = "right";
    c.fillStyle = this.colours.red;
    c.fillText(this.narrow ? "\u00d7" : "drops \u00d7", this.left - 5, this.bottom + strip / 2);
  }

  // drawBusy is a row's share of work over the span that is shown, or what an idle one is.
  drawBusy(b, mid, every, now, kept) {
    const c = this.ctx, x = this.width - this.right + 6, w = this.right - 12;
    let busy = 0;
    const to = Math.min(this.to, now), list = b.row.batches;
    for (let i = Math.max(0, lower(list, this.from, (k) => k.end ?? k.until) - 1); i < list.length; i++) {
      const k = list[i], a = Math.max(this.from, k.start ?? k.exec), z = Math.min(to, k.end ?? k.until);
      if ((k.start ?? k.exec) > to) break;
      if (z > a) busy += z - a;
    }
    const share = Math.min(1, busy / Math.max(1, to - this.from));
    c.fillStyle = this.colours.line;
    c.fillRect(x, b.y + 1, w, Math.max(2, b.h - 3));
    c.fillStyle = this.dark ? "#56b4e9" : "#0072b2";
    c.globalAlpha = 0.75;
    c.fillRect(x, b.y + 1, w * share, Math.max(2, b.h - 3));
    c.globalAlpha = 1;
    if (b.h < 11 || b.row.gpu % every !== 0) return;
    c.textAlign = "left";
    c.fillStyle = this.colours.ink;
    c.fillText(!b.row.here ? "away" : share < 0.005 ? (kept ? "idle" : "spare") : Math.round(100 * share) + " %", x + 3, mid);
  }

  // at is the batch at a place of the canvas, else null.
  at(x, y) {
    const box = this.boxes.find((b) => y >= b.y && y < b.y + b.h);
    if (!box || x < this.left || x > this.width - this.right) return null;
    const t = this.t(x), slack = this.t(x + 2) - t, list = box.row.batches;
    for (let i = Math.max(0, lower(list, t - slack, (b) => b.end ?? b.until) - 2); i < list.length; i++) {
      const b = list[i];
      if ((b.start ?? b.exec) > t + slack) break;
      if ((b.end ?? b.until) >= t - slack) return b;
    }
    return null;
  }

  // dropAt is a dropped request at a place of the lowest row, else null.
  dropAt(x, y) {
    if (y < this.bottom || y > this.bottom + strip) return null;
    const t = this.t(x), list = this.store.drops, slack = this.t(x + 5) - t;
    const i = lower(list, t - slack, (d) => d.t);
    return i < list.length && list[i].t <= t + slack ? list[i] : null;
  }
}

// overview draws the last minute: GPUs at work, and what was dropped or late.
export function overview(canvas, store, from, to, winFrom, winTo, gpus, dark) {
  const w = canvas.parentElement.clientWidth, h = 44, dpr = Math.min(2, window.devicePixelRatio || 1);
  if (canvas.width !== Math.round(w * dpr)) canvas.width = Math.round(w * dpr);
  if (canvas.height !== h * dpr) canvas.height = h * dpr;
  const c = canvas.getContext("2d"), span = Math.max(1, to - from);
  c.setTransform(dpr, 0, 0, dpr, 0, 0);
  c.fillStyle = dark ? "#1c2027" : "#f5f6f8";
  c.fillRect(0, 0, w, h);
  const x = (t) => (t - from) / span * w;
  let bad = 1;
  for (const b of store.bins.values()) bad = Math.max(bad, b.bad);
  for (const [k, b] of store.bins) {
    const x0 = x(k * 200e6), x1 = x((k + 1) * 200e6);
    if (x1 < 0 || x0 > w) continue;
    const y = Math.min(1, b.busy / Math.max(1, gpus)) * (h - 4);
    c.fillStyle = dark ? "#56b4e9" : "#0072b2";
    c.globalAlpha = 0.7;
    c.fillRect(x0, h - y, Math.max(1, x1 - x0 + 0.3), y);
    c.globalAlpha = 1;
    if (b.bad) {
      c.fillStyle = dark ? "#ff6b5e" : "#cc0000";
      c.fillRect(x0, 0, Math.max(1.5, x1 - x0), 3 + 13 * b.bad / bad);
    }
  }
  c.strokeStyle = dark ? "#e8eaee" : "#1b1e23";
  c.lineWidth = 1.5;
  c.strokeRect(Math.max(0.75, x(winFrom)), 0.75, Math.max(3, x(Math.min(winTo, to)) - Math.max(0, x(winFrom)) - 1.5), h - 1.5);
}

// describe is the text beside a batch that is pointed at.
export function describe(b, store) {
  const m = store.models.get(b.model), r = b.requests, start = b.start ?? b.exec, end = b.end ?? b.until;
  const out = [["batch", b.size + " of " + (m ? m.name : "model " + b.model)], ["GPU", b.gpu + (store.pools.size > 1 ? " of " + ((store.pools.get(b.pool) || { info: {} }).info.name || "pool " + b.pool) : "")],
    ["runs", seconds(end - start).replace(" s", " s") + (b.end === undefined ? " (planned)" : "")]];
  if (b.end !== undefined) {
    out.push(["start", signed(b.start - b.exec) + " against the plan"], ["end", signed(b.end - b.until) + " against the plan"]);
    if (b.fetch) out.push(["inputs", (b.fetch / 1e6).toFixed(2) + " ms to fetch"]);
  }
  if (r.length) {
    let first = Infinity, last = -Infinity, due = Infinity;
    for (let i = 0; i + 2 < r.length; i += 3) {
      first = Math.min(first, r[i + 1]); last = Math.max(last, r[i + 1]); due = Math.min(due, r[i + 2]);
    }
    out.push(["waited", (Math.max(0, start - last) / 1e6).toFixed(1) + " to " + (Math.max(0, start - first) / 1e6).toFixed(1) + " ms"]);
    out.push(["deadline", due >= end ? "kept by " + ((due - end) / 1e6).toFixed(1) + " ms" : "missed by " + ((end - due) / 1e6).toFixed(1) + " ms"]);
  }
  return out;
}
