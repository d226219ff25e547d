// node bundle.mjs OUT [SOURCE]: the worker (or SOURCE), Pyodide's loader and its glue code, as one classic script.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const pyodide = "../../../node_modules/pyodide/";
const lock = JSON.parse(readFileSync(here(`${pyodide}pyodide-lock.json`)));

await build({
  entryPoints: [here(process.argv[3] ?? "worker.mjs")],
  outfile: process.argv[2],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  logLevel: "error",
  // Pyodide asks whether importScripts works to tell classic workers, which it refuses, from module
  // workers. It needs nothing of a module worker once its glue code is handed to it.
  banner: { js: "globalThis.importScripts=undefined;" },
  define: { LOCK_INFO: JSON.stringify(lock.info), "import.meta.url": "self.location.href" },
  alias: {
    "pyodide/pyodide.asm.mjs": here(`${pyodide}pyodide.asm.mjs`),
    pyodide: here(`${pyodide}pyodide.mjs`),
  },
  external: ["node:*", "ws", "fs", "path", "url", "crypto", "child_process", "module"],
});
