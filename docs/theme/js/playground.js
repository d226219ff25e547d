// <tm-playground> holds a cell and its output from the build. On a web server PyScript's editor takes
// the cell's place; only a page with a cell loads it. From a folder a browser loads no modules, so
// there the cell stays as it was built. What stands beside the cell for that case has the class
// tm-cell-note; what speaks of the built output has tm-cell-built and goes when the cell is run.
(() => {
  const home = new URL("../py/", document.currentScript.src).href;
  const config = {
    interpreter: `${home}pyodide.mjs`,
    files: { [`${home}trainmem-source.zip`]: "./*" },
    packages_cache: "never",
  };
  // A page may say any of these in its own words: data-run, data-stop, … on the element.
  const WORDS = {
    run: "Run",
    stop: "Stop",
    reset: "Reset the cell",
    code: "Python code",
    output: "Output",
    keys: "Shift+Enter runs. Escape, then Tab leaves the editor.",
    loading: "Python is loading; the first run takes a few seconds…",
    running: "Running…",
  };
  const ICONS = { run: "M4 2.5v11l9-5.5z", stop: "M3.5 3.5h9v9h-9z" };

  // The editor lives in a shadow tree, which only custom properties reach: its look is given here.
  // Code is ink on paper without colours, as in every other listing.
  const LOOK = `
    .cm-editor.cm-editor { background: var(--tm-sunken); color: var(--tm-ink); font-size: var(--tm-cell-size, 14px); }
    .cm-editor.cm-focused.cm-focused { outline: 2px solid var(--tm-touch); outline-offset: 1px; }
    .cm-editor .cm-scroller.cm-scroller { font-family: var(--tm-mono); line-height: 1.5; }
    .cm-editor .cm-gutters.cm-gutters { background: none; color: var(--tm-ink-2); border: 0; }
    .cm-editor .cm-content.cm-content { caret-color: var(--tm-ink); }
    .cm-editor .cm-line.cm-line span { color: inherit; }
    .cm-editor .cm-cursor.cm-cursor { border-color: var(--tm-ink); }
    .cm-editor.cm-editor :is(.cm-activeLine, .cm-activeLineGutter) { background: none; }
    .cm-editor .cm-selectionBackground.cm-selectionBackground { background: var(--tm-rule) !important; }
    .cm-editor .cm-selectionMatch.cm-selectionMatch { background: var(--tm-touch-wash); }
    .cm-editor.cm-editor :is(.cm-matchingBracket, .cm-nonmatchingBracket) {
      background: none; outline: 1px solid var(--tm-rule-strong); }
    .cm-editor :is(.cm-panels, .cm-tooltip):is(.cm-panels, .cm-tooltip) {
      background: var(--tm-raised); color: var(--tm-ink); border-color: var(--tm-field-edge); }
    .cm-editor.cm-editor .cm-tooltip li[aria-selected] { background: var(--tm-touch); color: var(--tm-paper); }
    @media (forced-colors: active) { .cm-editor.cm-editor { border: 1px solid CanvasText; } }
  `;

  function style() {
    const sheet = document.createElement("link");
    sheet.rel = "stylesheet";
    sheet.href = `${home}editor/core.css`;
    document.head.prepend(sheet); // before the site's own, which has the last word
  }

  let editor = null;
  function load() {
    if (!editor) style();
    editor ??= import(`${home}editor/core.js`);
    return editor;
  }

  const icon = (name) => `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="${ICONS[name]}"></path></svg>`;

  function element(tag, className, text = "") {
    const made = document.createElement(tag);
    made.className = className;
    made.textContent = text;
    return made;
  }

  class Playground extends HTMLElement {
    #source = "";
    #loaded = false; // whether Python has come: the first run waits for it

    async connectedCallback() {
      this.#source ||= this.querySelector(".tm-cell__code")?.textContent ?? "";
      const code = this.querySelector(".tm-cell__code");
      if (location.protocol === "file:" || !code) return;
      try {
        await load();
      } catch {
        return; // the cell as built stays, with its note
      }
      let first = true, left = null; // where the focus was when the editor took it
      this.addEventListener("focusin", (event) => { left = event.relatedTarget; });
      this.addEventListener("py-editor", (event) => {
        const shadow = this.#dress(event.target);
        if (first) this.#giveBack(shadow, left);
        first = false;
      });
      this.addEventListener("py-editor:done", () => this.#done());
      code.closest("pre").replaceWith(this.#script());
      for (const note of document.querySelectorAll(".tm-cell-note")) note.hidden = true;
    }

    #say(key) {
      return this.dataset[key] ?? WORDS[key];
    }

    // PyScript finds the script, builds its editor after it and gives the script a `code` property.
    #script() {
      const script = document.createElement("script");
      script.type = "py-editor";
      script.setAttribute("env", "trainmem");
      script.setAttribute("config", JSON.stringify(config));
      for (const name of ["run", "stop"]) {
        const word = element("span", "", this.#say(name));
        script.dataset[name] = icon(name) + word.outerHTML;
      }
      script.textContent = this.#source;
      return script;
    }

    // What PyScript builds, anew after each stop, gets our names, our row of buttons and our look.
    #dress(script) {
      const box = script.nextElementSibling.querySelector(".py-editor-box");
      const input = box.querySelector(".py-editor-input");
      const run = box.querySelector(".py-editor-run-button");
      const output = box.querySelector(".py-editor-output");
      const shadow = input.querySelector(":scope > div").shadowRoot;
      const look = document.createElement("style");
      look.textContent = LOOK;
      shadow.append(look);
      shadow.querySelector(".cm-content").setAttribute("aria-label", this.#say("code"));
      shadow.querySelector(".cm-content").setAttribute("aria-description", this.#say("keys"));
      input.removeAttribute("aria-label"); // a plain box has no name
      run.removeAttribute("aria-label"); // so that its word, Run or Stop, names it
      run.innerHTML = script.dataset.run;
      run.type = "button";
      run.className = "py-editor-run-button tm-button tm-button--first";
      output.setAttribute("role", "region");
      output.setAttribute("aria-label", this.#say("output"));
      box.insertBefore(this.#row(run, script), output);
      this.#watch(run, output);
      return shadow;
    }

    // The editor takes the focus when the page opens, which nobody asked for.
    #giveBack(shadow, left) {
      shadow.activeElement?.blur();
      left?.focus({ preventScroll: true });
    }

    #row(run, script) {
      const row = element("div", "tm-cell__row");
      const reset = element("button", "tm-button tm-cell__reset", this.#say("reset"));
      reset.type = "button";
      reset.addEventListener("click", () => { script.code = this.#source; });
      const status = element("span", "tm-cell__status");
      status.setAttribute("role", "status");
      row.append(run, reset, element("span", "tm-cell__keys", this.#say("keys")), status);
      return row;
    }

    #watch(run, output) {
      this.#loaded = false;
      const look = () => {
        const runs = run.classList.contains("running");
        const built = [this.querySelector(".tm-cell__output")?.closest("pre")];
        if (runs) {
          for (const old of [...built, ...document.querySelectorAll(".tm-cell-built")]) if (old) old.hidden = true;
          this.#loaded ||= output.textContent !== "";
        }
        output.tabIndex = output.scrollWidth > output.clientWidth ? 0 : -1; // the keyboard scrolls it, too
        this.#status(runs ? this.#say(this.#loaded ? "running" : "loading") : "");
      };
      new MutationObserver(look).observe(run, { attributes: true, attributeFilter: ["class"] });
      new MutationObserver(look).observe(output, { childList: true, characterData: true, subtree: true });
    }

    #status(text) {
      const status = this.querySelector(".tm-cell__status");
      if (status && status.textContent !== text) status.textContent = text;
      this.toggleAttribute("data-busy", text !== "");
    }

    #done() {
      this.#loaded = true;
      this.#status("");
    }
  }

  customElements.get("tm-playground") ?? customElements.define("tm-playground", Playground);
})();
