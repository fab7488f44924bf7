// A request's own story, by the scheduler that keeps the events.
import { el, signed } from "./format.js";

export async function ask(key) {
  const reply = await fetch("story?request=" + encodeURIComponent(key));
  const doc = await reply.json().catch(() => ({ error: "the answer cannot be read" }));
  if (!reply.ok) throw new Error(doc.error || "status " + reply.status);
  return doc;
}

// show writes a story into its box.
export function show(box, s, close) {
  const steps = s.steps.map((x) => el("li", {}, el("time", {}, signed(x.at - s.arrival)), el("span", {}, x.text)));
  const saved = (s.saved || []).length ? [el("h3", {}, "What would have saved it"), el("ul", {}, ...s.saved.map((x) => el("li", {}, x)))] : [];
  for (const li of saved[1] ? saved[1].children : []) li.style.display = "list-item";
  const gaps = s.gaps ? [el("p", { class: "faint" }, "Not all events of that time are here: a batch may be missing.")] : [];
  box.replaceChildren(el("h2", {}, el("span", {}, s.model + " ", el("code", {}, s.request)), el("button", { type: "button", "aria-label": "Close", onclick: close }, "\u00d7")),
    el("p", { class: "headline" }, s.headline), el("ol", {}, ...steps), ...saved, ...gaps);
  box.className = "story";
  box.hidden = false;
}

// fail says why there is none.
export function fail(box, text, close) {
  box.replaceChildren(el("h2", {}, el("span", {}, "No story"), el("button", { type: "button", "aria-label": "Close", onclick: close }, "\u00d7")), el("p", {}, text));
  box.className = "story";
  box.hidden = false;
}
