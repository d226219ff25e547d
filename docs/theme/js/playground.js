// <tm-playground> holds a cell and its output from the build. On a web server PyScript's editor takes
// its place; only a page with a cell loads it. From a folder a browser loads no modules, so there the
// cell stays as it was built. What stands beside the cell for that case has the class tm-cell-note.
(() => {
  const home = new URL("../py/", document.currentScript.src).href;
  const config = {
    interpreter: `${home}pyodide.mjs`,
    files: { [`${home}trainmem-source.zip`]: "./*" },
    packages_cache: "never",
  };

  function style() {
    const sheet = document.createElement("link");
    sheet.rel = "stylesheet";
    sheet.href = `${home}editor/core.css`;
    document.head.append(sheet);
  }

  let editor = null;
  function load() {
    if (!editor) style();
    editor ??= import(`${home}editor/core.js`);
    return editor;
  }

  // PyScript finds the script, builds its editor after it and gives the script a `code` property.
  function cell(source) {
    const script = document.createElement("script");
    script.type = "py-editor";
    script.setAttribute("env", "trainmem");
    script.setAttribute("config", JSON.stringify(config));
    script.textContent = source;
    return script;
  }

  class Playground extends HTMLElement {
    async connectedCallback() {
      const source = this.querySelector(".tm-cell__code")?.textContent;
      if (location.protocol === "file:" || !source) return;
      try {
        await load();
      } catch {
        return; // the cell as built stays, with its note
      }
      const script = cell(source);
      this.querySelector(".tm-cell__code").closest("pre").replaceWith(script);
      this.append(this.#reset(script, source));
      for (const note of document.querySelectorAll(".tm-cell-note")) note.hidden = true;
    }

    #reset(script, source) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "tm-button tm-cell__reset";
      button.textContent = this.dataset.reset ?? "Reset the cell";
      button.addEventListener("click", () => { script.code = source; });
      return button;
    }
  }

  customElements.get("tm-playground") ?? customElements.define("tm-playground", Playground);
})();
