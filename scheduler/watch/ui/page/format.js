// Numbers as people read them.

export function ms(ns, digits = 1) {
  if (ns === undefined || !isFinite(ns)) return "";
  const v = ns / 1e6;
  return Math.abs(v) < 1 && v !== 0 ? Math.round(ns / 1e3) + " us" : v.toFixed(v >= 100 ? 0 : digits) + " ms";
}

export function signed(ns) { return (ns > -5e4 ? "+" : "\u2212") + (Math.abs(ns) / 1e6).toFixed(1) + " ms"; }

export function rate(v) {
  if (v >= 100000) return (v / 1000).toFixed(0) + "k";
  if (v >= 10000) return (v / 1000).toFixed(1) + "k";
  return v >= 100 || v === 0 ? v.toFixed(0) : v.toFixed(1);
}

export function percent(share) {
  const v = 100 * share;
  return v === 0 ? "0" : v < 0.095 ? "<0.1" : v < 9.95 ? v.toFixed(1) : v.toFixed(0);
}

export function seconds(ns) {
  const v = ns / 1e9;
  return v >= 1 ? (v >= 10 ? v.toFixed(0) : +v.toFixed(2)) + " s" : Math.round(v * 1000) + " ms";
}

export function bytes(n) {
  const v = n / 2 ** 20;
  return v >= 1 ? +v.toFixed(1) + " MiB" : Math.round(n / 1024) + " KiB";
}

// short is a name of at most so many signs: names of one family differ at their ends.
export function short(name, most) {
  const tail = Math.floor(most / 2) - 1;
  return name.length <= most ? name : name.slice(0, most - 1 - tail) + "\u2026" + name.slice(-tail);
}

// el makes an element: texts are never markup, whatever a model is called.
export function el(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props)) {
    if (k === "class") e.className = v;
    else if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (k === "width") e.style.width = v;
    else if (k === "background") e.style.background = v;
    else e.setAttribute(k, v);
  }
  e.append(...children);
  return e;
}
