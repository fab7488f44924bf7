// The page: what is shown when, and what keys and buttons do.
import { Gantt, describe, overview } from "./gantt.js";
import { Palette } from "./palette.js";
import { Store, keep } from "./store.js";
import { el, rate, seconds } from "./format.js";
import { follow, readFile } from "./stream.js";
import * as panels from "./panels.js";
import * as stories from "./story.js";

const $ = (id) => document.getElementById(id);
const store = new Store(), palette = new Palette(), gantt = new Gantt($("gantt"), store, palette);
const spans = [50e6, 100e6, 200e6, 500e6, 1e9, 2e9, 5e9, 10e9];
const behind = 1.05e9; // events come in chunks, each 0.8 s: what is shown as now is a little ago
const view = { span: window.innerWidth < 700 ? 2 : 3, at: 0, paused: false, tab: "models", trouble: "", dark: false, fresh: true };
let unfollow = () => {};

// at is the instant at the picture's right edge.
function at() {
  if (view.paused) return view.at;
  return store.still ? store.to : store.now() - behind;
}

function pause(on) {
  if (on && !view.paused) view.at = at();
  view.paused = on;
  $("pause").setAttribute("aria-pressed", on);
  $("pause").textContent = on ? "Go on" : "Pause";
  view.fresh = true;
}

// go shows an instant; one of now goes on.
function go(t) {
  const end = store.still ? store.to : store.now() - behind;
  pause(true);
  view.at = Math.max(store.from + spans[view.span], Math.min(end, t));
  if (t >= end && !store.still) pause(false);
}

function zoom(by) {
  const mid = at() - spans[view.span] / 2, was = view.paused;
  view.span = Math.max(0, Math.min(spans.length - 1, view.span + by));
  if (was) go(mid + spans[view.span] / 2);
  $("span").textContent = seconds(spans[view.span]);
  view.fresh = true;
}

function theme(dark) {
  view.dark = gantt.dark = dark;
  document.documentElement.classList.toggle("dark", dark);
  view.fresh = true;
}

function tab(name) {
  view.tab = name;
  for (const b of document.querySelectorAll("[data-tab]")) {
    b.setAttribute("aria-selected", b.dataset.tab === name);
    $(b.dataset.tab).hidden = b.dataset.tab !== name;
  }
  tables();
}

function closeStory() {
  $("story").hidden = true;
  gantt.focus = null;
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  view.fresh = true;
}

// explain shows a request's story, and its time in the picture.
async function explain(key) {
  try {
    const s = await stories.ask(key);
    stories.show($("story"), s, closeStory);
    gantt.focus = { arrival: s.arrival, first: s.first, last: s.last, deadline: s.deadline, ended: s.ended, outcome: s.outcome, needed: s.needed, lost: s.lost_to, own: s.own };
    const ends = [s.ended, s.deadline, s.free_at].filter(Boolean), last = Math.max(...ends), need = (last - s.arrival) * 1.5;
    view.span = Math.max(0, spans.findIndex((x) => x >= need || x === spans.at(-1)));
    $("span").textContent = seconds(spans[view.span]);
    pause(true);
    view.at = (s.arrival + last) / 2 + spans[view.span] / 2;
    history.replaceState(null, "", "#" + key);
    $("story").scrollIntoView({ block: "nearest" });
  } catch (err) {
    stories.fail($("story"), err.message, closeStory);
  }
  view.fresh = true;
}

function save() {
  const link = el("a", { href: URL.createObjectURL(new Blob([store.document()], { type: "application/jsonl" })), download: "schedule-" + new Date().toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-") + ".jsonl" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function open(file) {
  try {
    unfollow();
    store.clear();
    await readFile(file, store);
    view.trouble = "";
    pause(false);
  } catch (err) {
    view.trouble = err.message;
  }
  view.fresh = true;
}

// status is the line at the top.
function status() {
  const s = $("status");
  let came = 0, served = 0, bad = 0;
  for (const m of store.models.values()) {
    const r = store.rates(m, at());
    came += r.came; served += r.served; bad += r.late + r.dropped;
  }
  const answered = served + bad;
  const what = store.still ? (store.head?.title || store.head?.source || "a file") + ", " + seconds(store.to - store.from)
    : rate(came) + " requests/s, " + rate(served) + " good, " + (answered && rate(came) !== "0" ? (100 * bad / answered).toFixed(2) : "\u2013") + " % bad" + (store.missed ? ", " + store.missed + " events missed" : "");
  s.textContent = view.trouble || (store.events ? what : "waiting for the first events");
  s.classList.toggle("lost", view.trouble !== "");
}

function tables() {
  const now = at();
  const busiest = [...store.models.values()].sort((a, b) => b.busy - a.busy).filter((m) => m.busy > 0).map((m) => m.id);
  palette.give(busiest);
  panels.pools($("pools"), store, now);
  if (view.tab === "models") panels.models($("models"), store, palette, now, view.dark);
  if (view.tab === "lost" && !$("lost").matches(":hover, :focus-within")) panels.lost($("lost"), store, now, explain);
  $("memoryTab").hidden = !store.paged();
  if (view.tab === "memory") panels.memory($("memory"), store, now);
  if (view.tab === "links") panels.links($("links"), store);
  if (view.tab === "texts") panels.texts($("texts"), store);
  const lost = store.drops.length + store.late.length;
  $("lostCount").textContent = lost ? (lost > 999 ? "999+" : String(lost)) : "";
  status();
}

const frames = { n: 0, since: performance.now(), last: 0, tables: 0, longest: 0 };

// frame draws what changed: at most 30 times a second, and nothing while nothing moves.
function frame(time) {
  requestAnimationFrame(frame);
  if (time - frames.last < 30) return;
  if (view.paused && !view.fresh && time - frames.tables < 1000) return;
  if (store.still && !view.fresh) return;
  frames.longest = Math.max(frames.longest, frames.last ? time - frames.last : 0);
  frames.last = time;
  frames.n++;
  const end = at(), span = spans[view.span], lead = view.paused || store.still ? 0 : 0.06 * span;
  gantt.draw($("stage"), end - span + lead, end + lead, store.still ? store.to : store.now() - behind, !store.still);
  if (time - frames.tables > 250 || view.fresh) {
    frames.tables = time;
    tables();
    const to = store.still ? store.to : store.now() - behind, from = store.still ? store.from : to - keep;
    let gpus = 0;
    for (const p of store.pools.values()) gpus += p.rows.length;
    overview($("overview"), store, from, to, end - span, end, gpus, view.dark);
    if (document.activeElement !== $("scrub") || !view.paused) $("scrub").value = 1000 * (end - from) / Math.max(1, to - from);
  }
  view.fresh = false;
}

function tip(x, y) {
  const b = gantt.at(x, y), d = b ? null : gantt.dropAt(x, y), box = $("tip");
  if (b !== gantt.pointed) view.fresh = true;
  gantt.pointed = b;
  box.hidden = !b && !d;
  if (box.hidden) return;
  const rows = b ? describe(b, store) : [["dropped", d.reason], ["model", (store.models.get(d.model) || {}).name || String(d.model)], ["request", d.request], ["", "click for its story"]];
  const list = el("dl");
  for (const [k, v] of rows) list.append(el("dt", {}, k), el("dd", {}, v));
  box.replaceChildren(list);
  const w = box.offsetWidth, h = box.offsetHeight, stage = $("stage");
  box.style.left = Math.max(2, Math.min(x + 14, stage.clientWidth - w - 4)) + "px";
  box.style.top = (y + h + 18 > stage.scrollTop + stage.clientHeight ? Math.max(stage.scrollTop, y - h - 10) : y + 14) + "px";
}

function keys(e) {
  if (e.target.matches("input:not([type=range])") || e.ctrlKey || e.metaKey || e.altKey || $("helpBox").open) return;
  const step = spans[view.span] / 4;
  const act = { " ": () => pause(!view.paused), ArrowLeft: () => go(at() - step), ArrowRight: () => go(at() + step), End: () => (store.still ? go(store.to) : pause(false)),
    Home: () => go(store.from), "+": () => zoom(-1), "=": () => zoom(-1), "-": () => zoom(1), s: save, o: () => $("file").click(), t: () => theme(!view.dark),
    "?": () => $("helpBox").showModal(), "/": () => $("request").focus(), Escape: closeStory }[e.key];
  if (!act || e.key === " " && e.target.matches("button, a")) return;
  e.preventDefault();
  act();
}

function wire() {
  $("pause").onclick = () => pause(!view.paused);
  $("zoomIn").onclick = () => zoom(-1);
  $("zoomOut").onclick = () => zoom(1);
  $("save").onclick = save;
  $("open").onclick = () => $("file").click();
  $("file").onchange = (e) => { if (e.target.files[0]) open(e.target.files[0]); e.target.value = ""; };
  $("theme").onclick = () => theme(!view.dark);
  $("help").onclick = () => $("helpBox").showModal();
  $("scrub").oninput = (e) => {
    const to = store.still ? store.to : store.now() - behind, from = store.still ? store.from : to - keep;
    go(from + e.target.value / 1000 * (to - from));
  };
  $("ask").onsubmit = (e) => { e.preventDefault(); explain($("request").value.trim()); };
  for (const b of document.querySelectorAll("[data-tab]")) b.onclick = () => tab(b.dataset.tab);
  const canvas = $("gantt");
  canvas.onpointermove = (e) => tip(e.offsetX, e.offsetY);
  canvas.onpointerleave = () => { $("tip").hidden = true; gantt.pointed = null; view.fresh = true; };
  canvas.onclick = (e) => {
    const d = gantt.dropAt(e.offsetX, e.offsetY), b = gantt.at(e.offsetX, e.offsetY);
    if (d) explain(d.request);
    else if (b && b.requests.length) explain(b.late ? b.requests[3 * Math.max(0, lateOf(b))] : b.requests[0]);
  };
  document.addEventListener("keydown", keys);
  window.addEventListener("resize", () => { view.fresh = true; });
  for (const table of [$("models"), $("memory")]) {
    table.onpointerover = (e) => alone(e.target.closest("tr[data-model]"));
    table.onpointerleave = () => alone(null);
  }
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => theme(dark.matches));
  theme(dark.matches);
  zoom(0);
}

// alone shows the bars of the model whose row is pointed at.
function alone(row) {
  gantt.only = row ? Number(row.dataset.model) : null;
  view.fresh = true;
}

// lateOf is the place of the first request of a batch that was late.
function lateOf(b) {
  for (let i = 0; i + 2 < b.requests.length; i += 3) if (b.end > b.requests[i + 2]) return i / 3;
  return 0;
}

wire();
unfollow = follow(store, (trouble) => {
  if (trouble !== view.trouble || store.still) view.fresh = true;
  view.trouble = trouble;
});
if (location.hash.length > 1) setTimeout(() => explain(decodeURIComponent(location.hash.slice(1))), 800);
requestAnimationFrame(frame);
// For tests, and for people at the console: what the page knows of itself.
window.symphony = { store, gantt, view, frames, explain, theme, go };
