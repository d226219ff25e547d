// The page's Python: one interpreter in one worker for the life of the document, so it survives
// instant navigation. tmKernel.call("respond", text) returns a promise of the reply. Every failure
// rejects with an Error in a sentence and a `code`: "download", "crash" or "python"; after the first
// two the next call starts afresh.
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
  async function open() {
    const Worker = window.tmWorker ?? window.Worker;
    if (location.protocol !== "file:") return [new Worker(`${home}worker.js`), {}];
    const [code, ...bytes] = await Promise.all(["worker.js", ...FILES].map(unpack));
    const script = new Blob([await inflate(code).arrayBuffer()], { type: "text/javascript" });
    const files = Object.fromEntries(FILES.map((name, i) => [name, bytes[i].buffer]));
    return [new Worker(URL.createObjectURL(script)), files];
  }

  let starting = null; // promise of { post }, one for the document
  let last = 0;
  const waiting = new Map(); // request number -> { resolve, reject }

  function fail(error) {
    starting = null;
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  }

  async function boot() {
    const [worker, files] = await open();
    const started = performance.now();
    await new Promise((resolve, reject) => {
      const stop = (error) => {
        worker.terminate();
        reject(error);
        fail(error);
      };
      worker.onerror = (event) => {
        event.preventDefault?.();
        stop(event.message
          ? new KernelError("crash", `Python stopped: ${event.message}`)
          : new KernelError("download", `The file ${home}worker.js cannot be loaded.`));
      };
      worker.onmessage = ({ data: { number, value, error, code } }) => {
        if (code === "download" || code === "crash") return stop(new KernelError(code, error));
        if (number === 0) return resolve();
        const request = waiting.get(number);
        waiting.delete(number);
        if (error) request?.reject(new KernelError(code, error));
        else request?.resolve(value);
      };
      worker.postMessage({ number: 0, home, files }, Object.values(files));
    });
    kernel.milliseconds = performance.now() - started;
    return worker;
  }

  const kernel = {
    milliseconds: null, // how long the last start took, for the benchmark

    // Start Python if it is not started: at idle on a page with a calculator, or at the first call.
    start() {
      starting ??= boot().catch((error) => {
        starting = null;
        throw error;
      });
      return starting;
    },

    async call(name, ...args) {
      const worker = await kernel.start();
      const number = ++last;
      return new Promise((resolve, reject) => {
        waiting.set(number, { resolve, reject });
        worker.postMessage({ number, name, args });
      });
    },
  };
  window.tmKernel = kernel;

  // An address with a query needs Python for what it shows: begin while the page is still read.
  // (The theme's search adds ?h=, which asks for nothing.)
  const keys = [...new URLSearchParams(location.search).keys()];
  if (keys.some((key) => key !== "h")) kernel.start().catch(() => {});
})();
