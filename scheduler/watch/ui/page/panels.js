// The tables beside the picture.
import { bytes, el, ms, percent, rate, seconds, short } from "./format.js";
import { lower } from "./store.js";

// pools says of each sub-cluster what it has and what it needs.
export function pools(box, store, at) {
  const rows = [];
  for (const p of [...store.pools.values()].sort((a, b) => a.id - b.id)) {
    const i = store.poolAt(p, at);
    let busy = 0, here = 0;
    for (const r of p.rows) {
      if (!r.here) continue;
      here++;
      const k = lower(r.batches, at - 1e9, (b) => b.end ?? b.until);
      if (k < r.batches.length && (r.batches[k].start ?? r.batches[k].exec) <= at) busy++;
    }
    const parts = [el("span", { class: "name" }, i.name || "pool " + p.id), say(String(here), here === 1 ? "GPU" : "GPUs"), say(String(busy), "at work")];
    if (i.need !== undefined) parts.push(say(i.need.toFixed(1), "needed", i.need > here));
    if (here > busy) parts.push(say(String(here - busy), "idle for a second"));
    if (i.kept !== undefined && i.kept < here) parts.push(say(String(i.kept), "kept"));
    if (i.deferral !== undefined || i.setting || i.page) parts.push(say(percent(i.deferral || 0) + " %", "of the deferral is spent waiting"));
    if (i.ctrl) parts.push(say(ms(i.ctrl, 2), "network bound"));
    if (i.page) {
      let pages = 0, free = 0, held = 0, loads = 0, loading = 0, n = 0;
      for (const r of p.rows) {
        const m = r.here ? store.memory(r, at) : null;
        if (m) { n++; pages += m.pages; free += m.free; held += m.held; loads += m.cold + m.copies; loading += m.busy; }
      }
      if (n) parts.push(say(String(held), "models held"), say(percent(free / Math.max(1, pages)) + " %", "of pages free"), say(rate(loads), "loads/s"), say(percent(loading / n) + " %", "of the time loaders copy"));
    }
    if (i.every > 1) parts.push(el("span", { class: "warn" }, "1 batch in " + i.every + " is shown"));
    const d = el("div", { class: "pool" });
    d.append(...parts);
    rows.push(d);
  }
  box.replaceChildren(...rows);
}

function say(number, what, warn) {
  return el("span", warn ? { class: "warn" } : {}, el("b", {}, number), " " + what);
}

const rowsMost = 200;

// models is the table of models, those with most requests first.
export function models(box, store, palette, at, dark) {
  const list = [...store.models.values()].map((m) => ({ m, r: store.rates(m, at), q: store.recent(m, at), w: store.queueAt(m, at) }));
  list.sort((a, b) => b.r.came - a.r.came || a.m.id - b.m.id);
  const body = el("tbody");
  for (const { m, r, q, w } of list.slice(0, rowsMost)) {
    const answered = r.served + r.late + r.dropped, bad = answered ? (r.late + r.dropped) / answered : 0;
    const swatch = el("i", { class: "swatch", background: palette.of(m.id, dark) });
    const slo = m.info.slo || 0;
    const name = el("td", { class: "name", title: m.name + (slo ? ", SLO " + ms(slo) : "") + ", largest batch " + (m.info.max_batch || "?") }, swatch, short(m.name, 16));
    const badCell = el("td", { class: bad > 0.01 ? "bad" : "", title: r.reasons.map(([k, v]) => k + " " + rate(v) + "/s").join(", ") || "none" }, percent(bad));
    body.append(el("tr", { "data-model": m.id }, name, el("td", {}, rate(r.came)), el("td", { class: "wide" }, rate(r.served)), badCell,
      latency(q, slo), el("td", {}, q ? q.size.toFixed(1) : ""), queue(w, at)));
  }
  const heads = [["model", ""], ["offered", "requests/s"], ["good", "requests/s within their SLO", "wide"], ["bad", "share in % that was dropped or late, of what was answered"],
    ["p99 ms / SLO", "latency in ms up to the end of the batch, against the SLO"], ["batch", "mean size"], ["waiting", "requests that wait, and how many of them are the next batch"]];
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads.map(([h, t, c]) => el("th", { title: t, scope: "col", class: c || "" }, h)))), body);
  const more = list.length > rowsMost ? [el("p", { class: "faint" }, "and " + (list.length - rowsMost) + " more models")] : [];
  box.replaceChildren(table, ...more);
}

function latency(q, slo) {
  if (!q) return el("td", {}, "");
  const share = slo ? q.p99 / slo : 0;
  const bar = el("span", { class: share > 1 ? "bar over" : "bar" }, el("i", { width: Math.min(100, 100 * share) + "%" }));
  return el("td", { title: "p50 " + ms(q.p50) + ", p99 " + ms(q.p99) + ", SLO " + ms(slo) }, (q.p99 / 1e6).toFixed(1) + " ", bar);
}

// queue is what waits, and of it the candidate: the batch that would start next.
function queue(w, at) {
  if (!w || at - w.t > 1e9 || (!w.size && !w.queued)) return el("td", { class: "faint" }, "0");
  const from = (t) => Math.max(0, Math.round((t - at) / 1e6));
  return el("td", { title: w.size ? "the next batch: " + w.size + ", to start in " + from(w.exec) + " to " + from(w.until) + " ms" : "" },
    String(w.queued), w.size ? el("span", { class: "faint wide" }, " (" + w.size + ")") : "");
}

// memory has what GPUs of paged pools hold and load, and which models are where.
export function memory(box, store, at) {
  const out = [], cell = (text, title) => el("td", title ? { title } : {}, text);
  for (const p of [...store.pools.values()].sort((a, b) => a.id - b.id)) {
    if (!p.info.page) continue;
    const body = el("tbody");
    for (const r of p.rows.slice(0, rowsMost)) {
      const m = r.here ? store.memory(r, at) : null;
      if (!m) continue;
      const used = 1 - m.free / Math.max(1, m.pages);
      const bar = el("span", { class: "bar" }, el("i", { width: 100 * used + "%" }));
      body.append(el("tr", {}, el("td", { class: "name", title: r.name }, "GPU " + r.gpu), el("td", { title: "of " + m.pages + ", and " + m.free + " are free" }, String(m.pages - m.free) + " ", bar),
        cell(String(m.held), m.loading + " of them on their way"), cell(rate(m.cold) + " + " + rate(m.copies), m.failed ? rate(m.failed) + " failed a second" : ""),
        cell(rate(m.room) + " + " + rate(m.removed + m.stray), "to make room; with their model: " + rate(m.removed) + ", nobody counted on them: " + rate(m.stray)),
        cell(percent(m.busy) + " %"), cell(m.idle === null ? "\u2013" : seconds(m.idle))));
    }
    const more = p.rows.length > rowsMost ? [el("p", { class: "faint" }, "and " + (p.rows.length - rowsMost) + " more GPUs")] : [];
    out.push(el("h3", {}, p.info.name || "pool " + p.id), el("p", { class: "faint" }, "pages of " + bytes(p.info.page)), grid([["GPU", ""], ["pages in use", "and their share of all"], ["models", "whose weights are there or on their way"],
      ["loads/s", "of models that no GPU held + further copies"], ["evicted/s", "to make room for a load + for other reasons"], ["loader", "share of the time that it copies"],
      ["oldest", "how long ago the copy was used that is the next to go"]], body), ...more);
  }
  const all = [];
  for (const m of store.models.values()) {
    const p = store.pools.get(m.pool);
    if (!p || !p.info.page) continue;
    const w = store.weights(m, at);
    if (w) all.push({ m, w, came: store.rates(m, at).came });
  }
  all.sort((a, b) => b.w.unmet - a.w.unmet || b.came - a.came || b.w.loads - a.w.loads || a.m.id - b.m.id);
  const body = el("tbody");
  for (const { m, w, came } of all.slice(0, rowsMost)) {
    body.append(el("tr", { "data-model": m.id }, el("td", { class: "name", title: m.name }, short(m.name, 16)), cell(rate(came)), cell(String(w.held)), cell(w.hits === null ? "\u2013" : percent(w.hits) + " %"),
      cell(String(w.loads), lastGone(m, store, at)), cell(w.unmet ? ms(w.unmet) : "0")));
  }
  if (all.length) {
    out.push(el("h3", {}, "Models"), grid([["model", ""], ["offered", "requests/s"], ["held", "GPUs that have its weights or are loading them"], ["hits", "share of its requests that left in batches which found the weights there, over ten seconds, or ever"],
      ["loads", "of its weights, since it is served"], ["unmet", "work that waits for it and that its holders cannot do in time: p of the Clockwork paper"]], body));
    if (all.length > rowsMost) out.push(el("p", { class: "faint" }, "and " + (all.length - rowsMost) + " more models"));
  }
  box.replaceChildren(...(out.length ? out : [el("p", { class: "faint" }, "All models are on all GPUs: no pool is paged.")]));
}

// lastGone says why a model's weights went last.
function lastGone(m, store, at) {
  const g = m.gone;
  if (!g || g.t > at) return "";
  const who = g.why === "room" ? "to make room for " + (store.models.get(g.for) || { name: "model " + g.for }).name : g.why;
  return "went from GPU " + g.gpu + " " + seconds(at - g.t) + " ago: " + who;
}

function grid(heads, body) {
  return el("table", {}, el("thead", {}, el("tr", {}, ...heads.map(([h, t]) => el("th", { title: t, scope: "col" }, h)))), body);
}

// lost lists requests that were dropped or late up to an instant, the newest first.
export function lost(box, store, at, pick) {
  const all = [];
  for (let i = lower(store.drops, at, (d) => d.t) - 1; i >= 0 && all.length < 60; i--) {
    const d = store.drops[i];
    all.push({ t: d.t, key: d.request, model: d.model, what: d.reason });
  }
  for (let i = lower(store.late, at, (d) => d.t) - 1; i >= 0 && all.length < 120; i--) {
    const b = store.late[i].batch;
    for (let k = 0; k + 2 < b.requests.length; k += 3) {
      if (b.end > b.requests[k + 2]) all.push({ t: b.end, key: b.requests[k], model: b.model, what: "late by " + ms(b.end - b.requests[k + 2]) });
    }
  }
  all.sort((a, b) => b.t - a.t);
  const name = (id) => (store.models.get(id) || { name: "model " + id }).name;
  box.replaceChildren(...(all.length ? all.slice(0, 60).map((l) => el("button", { type: "button", onclick: () => pick(l.key, l.t) },
    el("span", { class: "faint" }, seconds(Math.max(0, at - l.t)) + " ago"), el("span", {}, name(l.model) + ": " + l.what), el("code", {}, l.key)))
    : [el("p", { class: "faint" }, "Nothing was dropped or late in the last minute.")]));
  return all.length;
}

// links lists links by their delay.
export function links(box, store) {
  const body = el("tbody");
  for (const l of [...store.links.values()].sort((a, b) => (b.delay || 0) - (a.delay || 0))) {
    body.append(el("tr", {}, el("td", { class: "name", title: l.name }, l.name), el("td", {}, ms(l.delay || 0, 2)), el("td", {}, ms(l.rtt || 0, 2))));
  }
  box.replaceChildren(store.links.size ? el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "link"), el("th", { title: "high percentile of the one-way delay" }, "bound"), el("th", {}, "round trip"))), body)
    : el("p", { class: "faint" }, "No link is told of."));
}

// texts are the plan, roll-outs and advice in words.
export function texts(box, store) {
  const out = [];
  for (const t of store.texts.values()) out.push(el("h3", {}, t.name), el("pre", {}, (t.lines || []).join("\n")));
  box.replaceChildren(...(out.length ? out : [el("p", { class: "faint" }, "No control plane tells this scheduler of a plan. symphony plan show and symphony advice ask it.")]));
}
