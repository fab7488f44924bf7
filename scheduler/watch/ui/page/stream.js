// The stream: a document's lines, live or of a file.

const silence = 4000; // ms without a chunk: the scheduler is gone, or the way to it

// follow reads the scheduler's stream into a store for good: what breaks off is begun again.
export function follow(store, tell) {
  let heard = performance.now();
  let source;
  const begin = () => {
    source = new EventSource("events");
    source.onmessage = (m) => {
      heard = performance.now();
      try {
        store.take(m.data);
        tell("");
      } catch (err) {
        tell("what the scheduler tells cannot be read: " + err.message);
      }
    };
    source.addEventListener("end", () => {
      source.close();
      source = undefined;
      store.still = true;
      tell("");
    });
    source.onerror = () => {
      if (!source) return;
      tell("no connection to the scheduler: trying again");
      if (source.readyState === EventSource.CLOSED) { // an answer that is no stream, as too many viewers
        source = undefined;
        setTimeout(begin, 3000);
      }
    };
  };
  begin();
  setInterval(() => {
    if (source && performance.now() - heard > silence) tell("nothing comes from the scheduler");
  }, 1000);
  return () => source && source.close();
}

// readFile takes a saved document into a store.
export async function readFile(file, store) {
  const text = await file.text();
  const end = text.indexOf("\n");
  let head;
  try {
    head = JSON.parse(text.slice(0, end < 0 ? undefined : end));
  } catch {
    head = {};
  }
  if (head.symphony !== "schedule") throw new Error(file.name + " is no saved schedule");
  if (head.version !== 1) throw new Error(file.name + " is of version " + head.version + ", this page reads version 1");
  store.take(text);
  store.still = true;
}
