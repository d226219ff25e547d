// node library.mjs OUT ROOT SCRIPT: starts Pyodide as it comes from npm, mounts ROOT at /project and
// OUT at /out, and runs the Python SCRIPT in it. The browser's libraries are compiled there, by the
// very interpreter that will load them, without the column of each instruction: nobody sees those
// there, and they are a quarter of what would be downloaded.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { loadPyodide } from "pyodide";

const [out, root, script] = process.argv.slice(2);
const home = fileURLToPath(new URL("../../../node_modules/pyodide/", import.meta.url));
const lock = JSON.parse(readFileSync(`${home}pyodide-lock.json`));
const python = await loadPyodide({
  indexURL: home,
  lockFileContents: { info: lock.info, packages: {} },
  env: { HOME: "/home/pyodide", PYTHONNODEBUGRANGES: "1" },
});
for (const [place, folder] of [["/project", root], ["/out", out]]) {
  python.FS.mkdirTree(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root: folder }, place);
}
try {
  python.runPython(readFileSync(script, "utf8"), { filename: script });
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
