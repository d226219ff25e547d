// Runs before the theme. First: on file:// the theme replaces the browser's Worker by a stand-in
// that runs its search only, so the kernel needs the real one kept. Second: where a reader blocks
// storage, asking for it throws and would stop the theme's script; a page's own memory does as well.
(() => {
  window.tmWorker = window.Worker;

  class Memory {
    #items = new Map();
    get length() { return this.#items.size; }
    key(index) { return [...this.#items.keys()][index] ?? null; }
    getItem(name) { return this.#items.get(String(name)) ?? null; }
    setItem(name, value) { this.#items.set(String(name), String(value)); }
    removeItem(name) { this.#items.delete(String(name)); }
    clear() { this.#items.clear(); }
  }

  for (const name of ["localStorage", "sessionStorage"]) {
    try {
      void window[name].length;
    } catch {
      Object.defineProperty(window, name, { value: new Memory(), configurable: true });
    }
  }
})();
