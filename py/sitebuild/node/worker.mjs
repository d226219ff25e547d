// The worker: Pyodide, our trimmed standard library, trainmem, and one message for each call.
// Bundled by bundle.mjs into one classic script, which is all that every browser runs on file://.
import { loadPyodide } from "pyodide";
import createPyodideModule from "pyodide/pyodide.asm.mjs";

const PACKAGES = "/lib/python3.14/site-packages";
const TYPES = { wasm: "application/wasm" };
const network = self.fetch.bind(self);

class DownloadError extends Error {}

const inflate = (bytes) => {
  const stream = new DecompressionStream("gzip");
  const writer = stream.writable.getWriter();
  writer.write(bytes).catch(() => {});
  writer.close().catch(() => {});
  return stream.readable;
};

// A file handed over by the page is inflated; any other comes from the server, or says why not.
async function open(name, home, files) {
  if (name in files) {
    const type = TYPES[name.split(".").pop()] ?? "application/octet-stream";
    return new Response(inflate(files[name]), { headers: { "content-type": type } });
  }
  let reply;
  try {
    reply = await network(home + name);
  } catch (error) {
    throw new DownloadError(`${home}${name} cannot be loaded: ${error.message}`);
  }
  if (!reply.ok) throw new DownloadError(`${home}${name} cannot be loaded: the server answered ${reply.status}.`);
  return reply;
}

async function boot(home, files) {
  const names = ["pyodide.asm.wasm", "stdlib.zip", "trainmem.zip"];
  const opened = new Map(names.map((name) => [name, open(name, home, files)]));
  for (const reply of opened.values()) reply.catch(() => {}); // each is awaited below
  self.fetch = (request, options) => {
    const name = String(request.url ?? request).split("/").pop();
    return opened.get(name) ?? network(request, options);
  };
  await Promise.all(opened.values()); // a failed download ends here, in our words
  const python = await loadPyodide({
    createPyodideModule,
    indexURL: home,
    stdLibURL: `${home}stdlib.zip`,
    lockFileContents: { info: LOCK_INFO, packages: {} },
    packageBaseUrl: home,
  });
  const archive = await (await opened.get("trainmem.zip")).arrayBuffer();
  python.unpackArchive(archive, "zip", { extractDir: PACKAGES });
  self.fetch = network;
  return { respond: python.pyimport("trainmem.view").respond };
}

let functions = null;

function call(name, args) {
  if (!Object.hasOwn(functions, name)) throw new Error(`Python has no function ${name} for the page.`);
  return functions[name](...args);
}

// A Python exception leaves the interpreter usable; anything else that is thrown does not.
const lastLine = (error) => String(error.message ?? error).trim().split("\n").pop();
const kindOf = (error) => error.name === "PythonError" || error.constructor === Error ? "python" : "crash";

self.onmessage = async ({ data: { number, name, args, home, files } }) => {
  if (number === 0) {
    try {
      functions = await boot(home, files);
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
