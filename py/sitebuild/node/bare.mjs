// What the benchmark compares a calculator's first live result with: Pyodide started in a worker, with
// the library that the page's address names, and nothing done in it but one sum.
import { loadPyodide } from "pyodide";
import createPyodideModule from "pyodide/pyodide.asm.mjs";

const home = new URL("./", self.location.href).href;
const library = new URLSearchParams(self.location.search).get("library");
loadPyodide({
  createPyodideModule,
  indexURL: home,
  stdLibURL: `${home}${library}`,
  lockFileContents: { info: LOCK_INFO, packages: {} },
  packageBaseUrl: home,
}).then((python) => postMessage(python.runPython("1 + 1")));
