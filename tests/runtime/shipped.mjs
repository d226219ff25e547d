// node shipped.mjs SITE SCRIPT [FOLDER=PLACE ...]: starts the Python that the site ships, as its
// worker does, and runs SCRIPT in it. Folders are mounted at the given places.
import { readFileSync } from "node:fs";
import { loadPyodide } from "../../node_modules/pyodide/pyodide.mjs";

const [site, script, ...mounts] = process.argv.slice(2);
const home = new URL("../../node_modules/pyodide/", import.meta.url).pathname;
const lock = JSON.parse(readFileSync(`${home}pyodide-lock.json`));
const python = await loadPyodide({
  indexURL: home,
  stdLibURL: `${site}/py/stdlib.zip`,
  lockFileContents: { info: lock.info, packages: {} },
});
const packages = { extractDir: "/lib/python3.14/site-packages" };
python.unpackArchive(new Uint8Array(readFileSync(`${site}/py/trainmem.zip`)).buffer, "zip", packages);
for (const mount of mounts) {
  const [folder, place] = mount.split("=");
  python.FS.mkdirTree(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root: folder }, place);
}
try {
  process.exitCode = python.runPython(readFileSync(script, "utf8"), { filename: script }) ?? 0;
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
