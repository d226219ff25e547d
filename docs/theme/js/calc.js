// <tm-calc>: a calculator that Python has drawn and Python redraws. This element carries strings: what
// was typed goes to Python as a query, what comes back is put into the regions of the page. Until
// Python is up, and whenever it fails, the numbers that stand there stay.
(() => {
  const BUSY_AFTER = 150; // ms without an answer until the page says that it is calculating
  const REST_AFTER = 120; // ms of quiet until the address and the slower regions follow: writing an
  // address takes longer than computing what stands behind it, and engines refuse to do it too often
  const SAY_AFTER = 400; // ms of quiet until a screen reader hears the result
  const COPIED_FOR = 2000;

  // Give `old` the children of `fresh`, keeping the nodes that are there: focus stays, widths can move.
  const morph = (old, fresh) => {
    const before = [...old.childNodes];
    const after = [...fresh.childNodes];
    const alike = before.length === after.length
      && before.every((node, i) => node.nodeName === after[i].nodeName);
    if (!alike) return old.replaceChildren(...after);
    before.forEach((node, i) => {
      if (node.nodeType !== Node.ELEMENT_NODE) {
        if (node.data !== after[i].data) node.data = after[i].data;
        return;
      }
      for (const { name } of [...node.attributes]) {
        if (!after[i].hasAttribute(name)) node.removeAttribute(name);
      }
      for (const { name, value } of after[i].attributes) {
        if (node.getAttribute(name) !== value) node.setAttribute(name, value);
      }
      morph(node, after[i]);
    });
  };

  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // no permission, or an old engine on file://
      const box = document.createElement("textarea");
      box.value = text;
      document.body.append(box);
      box.select();
      const done = document.execCommand("copy");
      box.remove();
      if (!done) throw new Error("clipboard");
    }
  };

  class Calculator extends HTMLElement {
    #good = ""; // query of the result that is shown
    #edits = new Map(); // what was typed since, by key
    #sent = new Map(); // texts of the regions, as they were last put into the page
    #texts = {}; // what the boxes say once they are left
    #next = null; // the request that waits; only the latest one does
    #running = false;
    #push = false;
    #timers = {};
    #stop = null;

    connectedCallback() {
      this.#stop = new AbortController();
      const { signal } = this.#stop;
      this.#good = this.dataset.query;
      this.addEventListener("input", (event) => this.#input(event), { signal });
      this.addEventListener("change", (event) => this.#change(event), { signal });
      this.addEventListener("click", (event) => this.#click(event), { signal });
      this.addEventListener("submit", (event) => event.preventDefault(), { signal });
      addEventListener("popstate", () => this.#address(true), { signal });
      this.#address(false);
    }

    disconnectedCallback() {
      this.#stop.abort();
      this.#next = null;
      for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    }

    // The address

    // The query in the address belongs to the calculator that the fragment names, else to the first.
    get #owns() {
      const named = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
      return (named?.localName === "tm-calc" ? named : document.querySelector("tm-calc")) === this;
    }

    get #embedded() {
      return new URLSearchParams(location.search).get("embed") === "1";
    }

    #address(moved) {
      document.documentElement.toggleAttribute("data-tm-embed", this.#embedded);
      const query = this.#owns ? location.search.slice(1) : "";
      if (query || moved) return this.#show(query || this.dataset.query);
      (self.requestIdleCallback ?? setTimeout)(() => self.tmKernel?.start().catch(() => {}));
    }

    #write() {
      if (this.#embedded) return;
      const url = new URL(location.href);
      const first = document.querySelector("tm-calc") === this;
      const named = url.hash.length > 1 && document.getElementById(url.hash.slice(1));
      url.search = this.#good;
      if (!first) url.hash = this.id;
      else if (named?.localName === "tm-calc") url.hash = "";
      const how = this.#push ? "pushState" : "replaceState";
      this.#push = false;
      if (url.href !== location.href) history[how](history.state, "", url);
    }

    // Questions to Python

    #show(query, push = false) {
      this.#edits.clear();
      this.#good = query;
      this.#push ||= push;
      this.#ask({ edited: "", write: push });
    }

    #edit(key, value, push = false) {
      this.#edits.set(key, value);
      this.#push ||= push;
      this.#ask({ edited: key, stage: "first" });
    }

    #ask(request) {
      this.#next = request;
      clearTimeout(this.#timers.rest);
      if (!this.#running) this.#run();
    }

    async #run() {
      this.#running = true;
      while (this.#next) {
        const request = this.#next;
        this.#next = null;
        const edits = new Map(this.#edits);
        try {
          const reply = JSON.parse(await this.#call(this.#request(request, edits)));
          // What was typed meanwhile is newer; but a link must be read before it can be edited.
          if (!this.isConnected) break;
          if (!this.#next || !request.edited) this.#apply(reply, request, edits);
        } catch (error) {
          if (!this.#next) this.#fail(error, request);
        }
      }
      this.#running = false;
    }

    async #call(request) {
      this.#timers.busy = setTimeout(() => this.setAttribute("aria-busy", "true"), BUSY_AFTER);
      try {
        return await self.tmKernel.call("respond", JSON.stringify(request));
      } finally {
        clearTimeout(this.#timers.busy);
        this.removeAttribute("aria-busy");
      }
    }

    #request({ edited = "", stage = "" }, edits) {
      const { page, language, base, repository } = this.dataset;
      const query = new URLSearchParams(this.#good);
      for (const [key, value] of edits) query.set(key, value);
      return {
        page, language, base, repository, edited, stage,
        address: this.#place(),
        default: this.dataset.default,
        identity: this.id,
        query: edits.size ? query.toString() : this.#good,
      };
    }

    // Answers

    #apply(reply, request, edits) {
      this.querySelector(".tm-failed")?.remove();
      this.toggleAttribute("data-stale", reply.stale);
      for (const [name, html] of Object.entries(reply.parts)) this.#put(name, html);
      this.#errors(reply.stale ? reply.problems : []);
      this.#say(reply.say);
      if (reply.stale) return;
      this.#good = reply.query;
      for (const [key, value] of edits) {
        if (this.#edits.get(key) === value) this.#edits.delete(key);
      }
      if (request.stage === "rest") return;
      if (reply.title) document.title = reply.title;
      this.#fill(reply, request.edited);
      if (request.stage !== "first") return request.write && this.#write();
      this.#timers.rest = setTimeout(() => {
        this.#write();
        this.#ask({ edited: request.edited, stage: "rest" });
      }, REST_AFTER);
    }

    #put(name, html) {
      if (this.#sent.get(name) === html) return;
      this.#sent.set(name, html);
      const region = this.querySelector(`[data-region="${name}"]`);
      const fresh = document.createElement("template");
      fresh.innerHTML = html; // made by our own Python, which escapes every text
      if (region) morph(region, fresh.content);
    }

    // What the controls show. The one that is being typed into is left alone until it is left.
    #fill({ form, hints }, edited) {
      for (const field of this.querySelectorAll(".tm-field")) {
        const { key } = field.dataset;
        const text = form.changed[key] ?? field.dataset.default;
        this.#texts[key] = text;
        field.toggleAttribute("data-changed", key in form.changed);
        if (!edited && key in form.changed) field.closest("details")?.setAttribute("open", "");
        for (const control of field.querySelectorAll("[name]")) {
          if (control.type === "radio") control.checked = control.value === text;
          else if (control !== document.activeElement || edited !== key) control.value = text;
          if (key in hints) control.placeholder = hints[key];
        }
        const slider = field.querySelector(".tm-slider");
        if (!slider) continue;
        if (slider !== document.activeElement) slider.value = form.sliders[key];
        slider.setAttribute("aria-valuetext", `${text} ${slider.dataset.unit}`.trim());
      }
    }

    #errors(problems) {
      const sentences = new Map(problems);
      for (const field of this.querySelectorAll(".tm-field")) {
        const sentence = sentences.get(field.dataset.key);
        const line = field.querySelector(".tm-error");
        field.toggleAttribute("data-error", Boolean(sentence));
        line.hidden = !sentence;
        line.textContent = sentence ?? "";
        for (const control of field.querySelectorAll("[name]")) {
          if (sentence) control.setAttribute("aria-invalid", "true");
          else control.removeAttribute("aria-invalid");
        }
      }
    }

    #say(sentence) {
      clearTimeout(this.#timers.say);
      this.#timers.say = setTimeout(() => {
        this.querySelector(".tm-say").textContent = sentence;
      }, SAY_AFTER);
    }

    #fail(error, request) {
      console.error(error);
      this.querySelector(".tm-failed")?.remove();
      const line = document.createElement("p");
      line.className = "tm-failed";
      line.setAttribute("role", "alert");
      line.textContent = `${this.dataset.failed} `;
      const again = document.createElement("button");
      again.type = "button";
      again.className = "tm-button";
      again.textContent = this.dataset.retry;
      again.addEventListener("click", () => {
        line.remove();
        this.#ask(request);
      });
      line.append(again);
      (this.querySelector('[data-region="stale"]') ?? this.querySelector('[data-region="verdict"]')).after(line);
    }

    // The reader

    #input({ target }) {
      const field = target.closest(".tm-field");
      if (!field) return;
      const { key } = field.dataset;
      if (!target.matches(".tm-slider")) {
        if (target.name) this.#edit(key, target.value, target.hasAttribute("data-preset"));
        return;
      }
      const box = field.querySelector("[name]");
      box.value = target.dataset.steps.split(" ")[target.value];
      this.#edit(key, box.value);
    }

    // A box that is left shows its value as we write it: 8k becomes 8,192.
    #change({ target }) {
      const key = target.closest(".tm-field")?.dataset.key;
      const settled = !this.#edits.has(key) && key in this.#texts;
      if (settled && target.matches("input[type=text]")) target.value = this.#texts[key];
    }

    #click(event) {
      const at = (selector) => event.target.closest(selector);
      const chip = at("a[data-query]");
      if (chip && !event.button && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)) {
        event.preventDefault();
        event.stopPropagation();
        return this.#show(chip.dataset.query, true);
      }
      const field = at(".tm-field");
      if (at(".tm-reset")) return this.#reset(field);
      if (at(".tm-help")) return this.#help(at(".tm-help"), field);
      if (at("[data-copy]")) this.#copy(at("[data-copy]"));
    }

    #reset(field) {
      const { key, default: text } = field.dataset;
      for (const control of field.querySelectorAll("[name]")) {
        if (control.type === "radio") control.checked = control.value === text;
        else control.value = text;
      }
      this.#edit(key, text, true);
      field.querySelector("input, select").focus();
    }

    #help(button, field) {
      const hint = field.querySelector(".tm-hint");
      hint.hidden = !hint.hidden;
      button.setAttribute("aria-expanded", String(!hint.hidden));
    }

    async #copy(button) {
      try {
        await copy(await this.#textOf(button.dataset));
        this.#flash(button, this.dataset.copied);
      } catch {
        this.#say(this.dataset.clipboard);
        this.#flash(button, this.dataset.clipboard);
      }
    }

    // The address of this page without its query, as it is published.
    #place() {
      const url = new URL(location.href);
      url.search = url.hash = "";
      return url.protocol === "file:" ? url.href : url.href.replace(/index\.html$/, "");
    }

    async #textOf({ copy: kind, text }) {
      if (kind === "link") return `${this.#place()}?${this.#good}`;
      if (text) return text;
      const request = { ...this.#request({}, new Map()), page: kind };
      return JSON.parse(await self.tmKernel.call("respond", JSON.stringify(request))).text;
    }

    #flash(button, word) {
      button.dataset.word ??= button.textContent;
      button.textContent = word;
      this.querySelector(".tm-say").textContent = word;
      clearTimeout(this.#timers.copied);
      this.#timers.copied = setTimeout(() => {
        button.textContent = button.dataset.word;
      }, COPIED_FOR);
    }
  }

  if (!customElements.get("tm-calc")) customElements.define("tm-calc", Calculator);
})();
