// The worker: Pyodide, our trimmed standard library, trainmem, and one message for each call.
// Bundled by bundle.mjs into one classic script, which is all that every browser runs on file://.
import { loadPyodide } from "pyodide";
import createPyodideModule from "pyodide/pyodide.asm.mjs";

const PACKAGES = "/lib/python3.14/site-packages";
const TYPES = { wasm: "application/wasm", zip: "application/zip" };
const FIRST_BYTES = { wasm: [0, 0x61, 0x73, 0x6d], zip: [0x50, 0x4b, 3, 4] };
const ZIP_END = [0x50, 0x4b, 5, 6]; // begins the last 22 bytes
const QUIET = 500; // ms between two signs of life
const network = self.fetch.bind(self);

class DownloadError extends Error {}

const inflate = (bytes) => {
  const stream = new DecompressionStream("gzip");
  const writer = stream.writable.getWriter();
  writer.write(bytes).catch(() => {});
  writer.close().catch(() => {});
  return stream.readable;
};

// Tells the page now and then that something still arrives, so that it can tell slow from never.
let told = 0;
function alive() {
  if (performance.now() - told < QUIET) return;
  told = performance.now();
  postMessage({ number: 0, alive: true });
}

const begins = (bytes, wanted) => wanted.every((byte, i) => i >= bytes.length || bytes[i] === byte);

// A body that is checked while it passes: what a host, a proxy or a login page put in the file's place
// must never reach Pyodide, which waits for ever for a file that it cannot read.
function checked(body, name, stop) {
  const kind = name.split(".").pop();
  const reader = body.getReader();
  let begun = false;
  let tail = [];
  const wrong = (reason) => {
    const error = new DownloadError(`${name} cannot be loaded: ${reason}`);
    stop(error);
    throw error;
  };
  return new ReadableStream({
    async pull(out) {
      const { done, value } = await reader.read().catch((error) => wrong(error.message));
      if (done && !begun) wrong("it is empty.");
      if (done && kind === "zip" && !begins(tail, ZIP_END)) wrong("its end is missing.");
      if (done) return out.close();
      if (!begun && !begins(value, FIRST_BYTES[kind])) wrong("the server sent something else in its place.");
      begun = true;
      if (kind === "zip") tail = [...tail, ...value.slice(-22)].slice(-22);
      alive();
      out.enqueue(value);
    },
  });
}

// A file handed over by the page is inflated; any other comes from the server, or says why not. Its
// type is ours: few hosts know that of WebAssembly.
async function open(name, { home, files, fresh }, stop) {
  const headers = { "content-type": TYPES[name.split(".").pop()] };
  if (name in files) return new Response(checked(inflate(files[name]), name, stop), { headers });
  let reply;
  try {
    reply = await network(home + name, fresh ? { cache: "reload" } : {});
  } catch (error) {
    throw new DownloadError(`${home}${name} cannot be loaded: ${error.message}`);
  }
  if (!reply.ok) throw new DownloadError(`${home}${name} cannot be loaded: the server answered ${reply.status}.`);
  return new Response(checked(reply.body, name, stop), { headers });
}

// Pyodide says nothing when the interpreter's code cannot be compiled: this does.
function watchCompiler(stop) {
  const compile = WebAssembly.instantiateStreaming;
  WebAssembly.instantiateStreaming = (source, imports) => compile(source, imports).catch((error) => {
    const unreadable = error instanceof WebAssembly.CompileError || error instanceof TypeError;
    stop(unreadable ? new DownloadError(`pyodide.asm.wasm cannot be read: ${error.message}`) : error);
    return new Promise(() => {});
  });
}

async function start(asked, stop) {
  const names = ["pyodide.asm.wasm", "stdlib.zip", "trainmem.zip"];
  const opened = new Map(names.map((name) => [name, open(name, asked, stop)]));
  for (const reply of opened.values()) reply.catch(() => {}); // each is awaited below
  self.fetch = (request, options) => {
    const name = String(request.url ?? request).split("/").pop();
    return opened.get(name) ?? network(request, options);
  };
  watchCompiler(stop);
  await Promise.all(opened.values()); // a failed download ends here, in our words
  const python = await loadPyodide({
    createPyodideModule,
    indexURL: asked.home,
    stdLibURL: `${asked.home}stdlib.zip`,
    lockFileContents: { info: LOCK_INFO, packages: {} },
    packageBaseUrl: asked.home,
  });
  const archive = await (await opened.get("trainmem.zip")).arrayBuffer();
  python.unpackArchive(archive, "zip", { extractDir: PACKAGES });
  self.fetch = network;
  return { respond: python.pyimport("trainmem.view").respond };
}

// Ends with the first thing that goes wrong, also where Pyodide would wait on.
const boot = (asked) => new Promise((resolve, reject) => start(asked, reject).then(resolve, reject));

let functions = null;

function call(name, args) {
  if (!Object.hasOwn(functions, name)) throw new Error(`Python has no function ${name} for the page.`);
  return functions[name](...args);
}

// A Python exception leaves the interpreter usable; anything else that is thrown does not.
const lastLine = (error) => String(error.message ?? error).trim().split("\n").pop();
const kindOf = (error) => error.name === "PythonError" || error.constructor === Error ? "python" : "crash";

self.onmessage = async ({ data: { number, name, args, ...asked } }) => {
  if (number === 0) {
    try {
      functions = await boot(asked);
      postMessage({ number });
    } catch (error) {
      postMessage({ number, error: lastLine(error), code: error instanceof DownloadError ? "download" : "crash" });
    }
    return;
  }
  try {
    postMessage({ number, value: call(name, args) });
  } catch (error) {
    postMessage({ number, error: lastLine(error), code: kindOf(error) });
  }
};
