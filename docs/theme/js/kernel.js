// The page's Python: one interpreter in one worker for the life of the document, so it survives
// instant navigation. tmKernel.call("respond", text) returns a promise of the reply. Every failure
// rejects with an Error in a sentence and a `code`: "download", "crash" or "python"; after the first
// two the next call starts afresh. So does one that was never answered: a worker can be gone without
// a word, and a download can stop without an end.
(() => {
  const home = new URL("../py/", document.currentScript.src).href;
  const FILES = ["pyodide.asm.wasm", "stdlib.zip", "trainmem.zip"];

  class KernelError extends Error {
    constructor(code, message) {
      super(message);
      this.name = "KernelError";
      this.code = code;
    }
  }

  // file:// may not fetch, but may load scripts: each pack hands over one file as base64 of gzip.
  const packs = new Map();
  window.tmPack = (name, text) => packs.get(name)?.(text);

  const bytesOf = (text) => {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const letters = atob(text);
    const bytes = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
    return bytes;
  };

  const unpack = (name) => new Promise((resolve, reject) => {
    const script = document.createElement("script");
    packs.set(name, (text) => resolve(bytesOf(text)));
    script.src = `${home}pack/${name}.js`;
    script.onload = () => script.remove();
    script.onerror = () => {
      script.remove();
      reject(new KernelError("download", `The file ${script.src} cannot be read.`));
    };
    document.head.append(script);
  });

  const inflate = (bytes) => {
    const stream = new DecompressionStream("gzip");
    const writer = stream.writable.getWriter();
    writer.write(bytes).catch(() => {});
    writer.close().catch(() => {});
    return new Response(stream.readable);
  };

  // The one place where http and file:// differ: where the worker and its files come from.
  async function open(again) {
    const Worker = window.tmWorker ?? window.Worker;
    if (location.protocol !== "file:") {
      if (again) await fetch(`${home}worker.js`, { cache: "reload" }).catch(() => {});
      return [new Worker(`${home}worker.js`), {}];
    }
    const [code, ...bytes] = await Promise.all(["worker.js", ...FILES].map(unpack));
    const script = new Blob([await inflate(code).arrayBuffer()], { type: "text/javascript" });
    const files = Object.fromEntries(FILES.map((name, i) => [name, bytes[i].buffer]));
    return [new Worker(URL.createObjectURL(script)), files];
  }

  let starting = null; // promise of the worker, one for the document
  let stop = null; // ends that worker with an error
  let failed = false; // the last start did: what the browser has stored may be what was wrong
  let last = 0;
  const waiting = new Map(); // request number -> { resolve, reject }

  // Seconds are counted one by one: a page asleep, or in the background, is not a page that waits.
  function patience(seconds, give) {
    let left = seconds;
    const timer = setInterval(() => {
      if (--left > 0) return;
      clearInterval(timer);
      give();
    }, kernel.second);
    return { more: () => { left = seconds; }, enough: () => clearInterval(timer) };
  }

  async function boot() {
    const limit = patience(kernel.patience.start, () => stop?.(
      new KernelError("download", `${home} did not send what the page needs; the connection may be lost.`),
    ));
    const started = performance.now();
    try {
      return await new Promise((resolve, reject) => {
        let worker = null;
        const end = (error) => {
          worker?.terminate();
          if (stop === end) {
            starting = stop = null;
            failed = true;
            for (const request of waiting.values()) request.reject(error);
            waiting.clear();
          }
          reject(error);
        };
        stop = end;
        open(failed).then(([found, files]) => {
          worker = found;
          if (stop !== end) return worker.terminate();
          listen(worker, { ...limit, ready: () => resolve(worker), end });
          worker.postMessage({ number: 0, home, files, fresh: failed }, Object.values(files));
        }).catch(end);
      });
    } finally {
      limit.enough();
      kernel.milliseconds = performance.now() - started;
    }
  }

  function listen(worker, { more, ready, end }) {
    worker.onerror = (event) => {
      event.preventDefault?.();
      end(event.message
        ? new KernelError("crash", `Python stopped: ${event.message}`)
        : new KernelError("download", `The file ${home}worker.js cannot be loaded.`));
    };
    worker.onmessage = ({ data: { number, value, error, code, alive } }) => {
      if (alive) return more();
      if (code === "download" || code === "crash") return end(new KernelError(code, error));
      if (number === 0) {
        failed = false;
        return ready();
      }
      const request = waiting.get(number);
      waiting.delete(number);
      if (error) request?.reject(new KernelError(code, error));
      else request?.resolve(value);
    };
  }

  const kernel = {
    milliseconds: null, // how long the last start took, for the benchmark
    second: 1000, // ms
    patience: { start: 60, call: 30 }, // seconds without a sign of life

    // Start Python if it is not started: at idle on a page with a calculator, or at the first call.
    start() {
      starting ??= boot();
      return starting;
    },

    async call(name, ...args) {
      const worker = await kernel.start();
      const number = ++last;
      const limit = patience(kernel.patience.call, () => stop?.(
        new KernelError("crash", "Python gave no answer, and was stopped."),
      ));
      try {
        return await new Promise((resolve, reject) => {
          waiting.set(number, { resolve, reject });
          worker.postMessage({ number, name, args });
        });
      } finally {
        limit.enough();
      }
    },
  };
  window.tmKernel = kernel;

  // An address with settings needs Python for what it shows: begin while the page is still read.
  if (tmAddress.settings(location.search)) kernel.start().catch(() => {});
})();
