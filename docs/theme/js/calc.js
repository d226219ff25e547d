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

  // The focus stays where the reader is: on the node itself, on what says the same, or on the heading.
  const keepFocus = (region, change) => {
    const held = region.contains(document.activeElement) ? document.activeElement : null;
    const text = held?.firstElementChild?.textContent;
    change();
    if (!held || region.contains(document.activeElement)) return;
    const same = text && [...region.querySelectorAll("a, button")]
      .find((one) => one.firstElementChild?.textContent === text);
    const target = same || region.querySelector("h1, h2") || region.closest("tm-calc").querySelector("h1, output");
    if (target && target !== same) target.tabIndex = -1;
    target?.focus({ preventScroll: true });
  };

  const settings = (query) => new Map(new URLSearchParams(query));

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
    #good = ""; // query of the result that is shown, or of the link that is being read
    #edits = new Map(); // what was typed since, by key
    #chips = ""; // query of the run that the links in the results start from
    #notice = []; // what was wrong with the link: [key, sentence]
    #sent = new Map(); // texts of the regions, as they were last put into the page
    #texts = {}; // what the boxes say once they are left
    #next = null; // the request that waits; only the latest one does
    #turn = 0; // counts links: an answer to an earlier one is of no use
    #read = true; // the link was answered
    #answered = false; // the numbers on the page are ours, not those of the build
    #running = false;
    #dirty = false; // the address is behind
    #push = false;
    #sort = ""; // the column by which a table of layouts is sorted
    #halted = false; // whether the reader has stopped a search
    #timers = {};
    #stop = null;

    connectedCallback() {
      this.#stop = new AbortController();
      const { signal } = this.#stop;
      this.place = location.pathname;
      this.#good = this.#chips = this.dataset.query;
      this.addEventListener("input", (event) => this.#input(event), { signal });
      this.addEventListener("change", (event) => this.#change(event), { signal });
      this.addEventListener("click", (event) => this.#click(event), { signal });
      this.addEventListener("submit", (event) => event.preventDefault(), { signal });
      this.#open();
    }

    disconnectedCallback() {
      this.#stop.abort();
      this.#next = null;
      for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    }

    // The address

    // What the page shows, or will in a moment; a wrong entry is not part of it.
    get query() { return this.hasAttribute("data-stale") ? this.#good : this.#asked(this.#edits); }

    #open() {
      const embedded = tmAddress.embedded();
      document.documentElement.toggleAttribute("data-tm-embed", embedded);
      for (const link of this.querySelectorAll(".tm-open a")) if (embedded) Object.assign(link, { target: "_blank", rel: "noopener" });
      const query = tmAddress.settingsOf(this);
      if (query) this.#show(query);
      for (const [key, value] of this.#typedBefore()) this.#edit(key, value);
      if (!this.#next && !this.#running) (self.requestIdleCallback ?? setTimeout)(() => self.tmKernel?.start().catch(() => {}));
    }

    // Back, Forward, or a link into this page.
    moved() {
      const query = tmAddress.settingsOf(this) || this.dataset.query;
      if (query !== this.#good || this.#edits.size) this.#show(query);
    }

    // Bring the address up to what was typed, before the reader goes.
    flush() {
      if (this.#dirty) this.#write();
    }

    #write() {
      const push = this.#push;
      this.#dirty = this.#push = false;
      if (tmAddress.embedded()) return;
      tmAddress.write(tmAddress.of(this, this.query), push);
    }

    // What was typed before this script ran.
    #typedBefore() {
      return [...this.querySelectorAll(".tm-field [name]")].filter((control) => {
        if (control.options) return !control.selectedOptions[0]?.defaultSelected;
        if (control.type === "radio") return control.checked && !control.defaultChecked;
        return control.value !== control.defaultValue;
      }).map((control) => [control.name, control.value]);
    }

    // Questions to Python

    #show(query, { push = false, edits = new Map() } = {}) {
      this.#halted = false;
      if (push) tmAddress.flush(); // a step begins where everything was
      this.#edits = edits;
      this.#good = query;
      this.#turn += 1;
      this.#read = false;
      this.#dirty ||= push;
      this.#push ||= push;
      this.#wait();
      this.#ask({ edited: "", turn: this.#turn });
    }

    #edit(key, value, push = false) {
      this.#halted = false;
      if (push) tmAddress.flush(); // a step begins where everything was
      this.#edits.set(key, value);
      this.#dirty = true;
      this.#push ||= push;
      this.#ask({ edited: key, stage: "first", turn: this.#turn });
    }

    // The numbers of the build are not those of the link: better none until it is read.
    #wait() {
      const other = !this.#answered && tmAddress.asks(this.#good) && this.#good !== this.dataset.query;
      this.toggleAttribute("data-loading", other);
    }

    // The next slice of a search, or the same results in another order.
    #go(stage) {
      this.#ask({ stage, edited: "", turn: this.#turn });
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
        if (!this.#read) Object.assign(request, { edited: "", stage: "" }); // a link is read whole
        const edits = new Map(this.#edits);
        try {
          const reply = JSON.parse(await this.#call(this.#request(request, edits)));
          if (!this.isConnected) break;
          // What was typed meanwhile is newer; but a link must be read before it can be edited.
          const current = request.turn === this.#turn;
          if (current && !(this.#next && request.edited)) this.#apply(reply, request, edits);
        } catch (error) {
          if (!this.#next) this.#fail(error, request);
        }
      }
      this.#running = false;
    }

    async #call(request) {
      const busy = () => this.setAttribute("aria-busy", "true");
      if (this.hasAttribute("data-loading")) busy();
      else this.#timers.busy = setTimeout(busy, BUSY_AFTER);
      try {
        return await self.tmKernel.call("respond", JSON.stringify(request));
      } finally {
        clearTimeout(this.#timers.busy);
        this.removeAttribute("aria-busy");
      }
    }

    #asked(edits) {
      if (!edits.size) return this.#good;
      const query = new URLSearchParams(this.#good);
      for (const [key, value] of edits) query.set(key, value);
      return query.toString();
    }

    #request({ edited = "", stage = "" }, edits) {
      const { page, language, base, repository } = this.dataset;
      if (edited) this.#notice = this.#notice.filter(([key]) => !edits.has(key));
      return {
        page, language, base, repository, edited, stage,
        address: this.#place(),
        default: this.dataset.default,
        identity: this.id,
        notice: this.#notice.map(([, sentence]) => sentence),
        pending: [...edits.keys()].filter((key) => key !== edited),
        query: this.#asked(edits),
        sort: this.#sort,
        halted: this.#halted,
      };
    }

    // Answers

    #apply(reply, request, edits) {
      this.querySelector(".tm-failed")?.remove();
      this.removeAttribute("data-loading");
      this.toggleAttribute("data-stale", reply.stale);
      for (const [name, html] of Object.entries(reply.parts)) this.#put(name, html);
      this.#errors(reply.stale ? reply.problems : []);
      this.#say(reply.say);
      if (reply.stale) return this.flush();
      this.#good = reply.query;
      this.#read = this.#answered = true;
      if (!request.edited) this.#notice = reply.problems;
      for (const [key, value] of edits) {
        if (this.#edits.get(key) === value) this.#edits.delete(key);
      }
      if (request.stage !== "first") this.#chips = reply.query;
      // A search is carried on slice by slice, behind whatever the reader has asked for meanwhile.
      if (reply.more && request.stage !== "first" && !this.#next) this.#go("more");
      if (["rest", "more", "sort"].includes(request.stage)) return;
      if (reply.title) document.title = reply.title;
      this.#fill(reply, request.edited, edits);
      if (request.stage !== "first") return this.flush();
      this.#timers.rest = setTimeout(() => {
        this.flush();
        this.#ask({ edited: request.edited, stage: "rest", turn: this.#turn });
      }, REST_AFTER);
    }

    #put(name, html) {
      if (this.#sent.get(name) === html) return;
      this.#sent.set(name, html);
      const region = this.querySelector(`[data-region="${name}"]`);
      const fresh = document.createElement("template");
      fresh.innerHTML = html; // made by our own Python, which escapes every text
      if (region) keepFocus(region, () => morph(region, fresh.content));
    }

    // What the controls show. What the reader has typed and Python has not answered stays, and so does
    // the box that is being typed into, until it is left.
    #fill({ form, hints }, edited, sent) {
      for (const field of this.querySelectorAll(".tm-field")) {
        const { key } = field.dataset;
        const text = form.changed[key] ?? field.dataset.default;
        const unit = form.units[key] ?? "";
        this.#texts[key] = text;
        field.toggleAttribute("data-changed", key in form.changed);
        if (!edited && key in form.changed) field.closest("details")?.setAttribute("open", "");
        for (const control of field.querySelectorAll("[name]")) {
          const answered = edited === key || sent.has(key);
          const typed = this.#edits.has(key) || (answered && control === document.activeElement);
          if (control.type === "radio") control.checked = control.value === (this.#edits.get(key) ?? text);
          else if (!typed) this.#set(control, text);
          if (key in hints) control.placeholder = hints[key];
        }
        if (unit) field.querySelector(".tm-unit").textContent = unit;
        const slider = field.querySelector(".tm-slider");
        if (!slider) continue;
        if (slider !== document.activeElement) slider.value = form.sliders[key];
        slider.setAttribute("aria-valuetext", `${text} ${unit}`.trim());
      }
    }

    // A box whose text is selected whole, ready to be typed over, stays so.
    #set(control, text) {
      if (control.value === text) return;
      const over = control === document.activeElement && control.selectionStart === 0
        && control.selectionEnd === control.value.length;
      control.value = text;
      if (over) control.select();
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

    // The numbers that stand here are shown again, with a sentence that says whose they are.
    #fail(error, request) {
      console.error(error);
      this.removeAttribute("data-loading");
      this.querySelector(".tm-failed")?.remove();
      const line = document.createElement("p");
      line.className = "tm-failed";
      line.setAttribute("role", "alert");
      line.textContent = `${this.#answered ? this.dataset.stopped : this.dataset.failed} `;
      const again = document.createElement("button");
      again.type = "button";
      again.className = "tm-button";
      again.textContent = this.dataset.retry;
      again.addEventListener("click", () => {
        line.remove();
        this.#wait();
        this.#ask({ ...request, turn: this.#turn });
      });
      line.append(again);
      (this.querySelector('[data-region="stale"]') ?? this.querySelector('[data-region="verdict"]')).after(line);
    }

    // The reader

    #input({ target }) {
      if (target.matches(".tm-cross-input")) return this.#cross(target);
      const field = target.closest(".tm-field");
      if (!field) return;
      const { key } = field.dataset;
      if (!target.matches(".tm-slider")) {
        // A choice is a step that Back undoes; what is typed or slid is on its way.
        if (target.name) this.#edit(key, target.value, target.matches("select, [type=radio]"));
        return;
      }
      const box = field.querySelector("[name]");
      box.value = target.dataset.steps.split(" ")[target.value];
      this.#edit(key, box.value);
    }

    // Reads a curve off: the line moves, and the sentence of that place is shown.
    #cross(slider) {
      const place = slider.dataset.places.split(" ")[slider.value];
      const reading = slider.dataset.readings.split("\n")[slider.value];
      const line = slider.parentElement.querySelector(".tm-cross");
      for (const end of ["x1", "x2"]) line.setAttribute(end, place);
      slider.parentElement.parentElement.querySelector(".tm-reading").textContent = reading;
      slider.setAttribute("aria-valuetext", reading);
    }

    // A box that is left shows its value as we write it: 8k becomes 8,192.
    #change({ target }) {
      const key = target.closest(".tm-field")?.dataset.key;
      const settled = !this.#edits.has(key) && key in this.#texts;
      if (settled && target.matches("input[type=text]")) target.value = this.#texts[key];
    }

    #click(event) {
      const at = (selector) => event.target.closest(selector);
      const hunt = at("[data-hunt]");
      if (hunt) {
        this.#halted = hunt.dataset.hunt === "stop";
        return this.#go(this.#halted ? "sort" : "more");
      }
      if (at("[data-sort]")) {
        this.#sort = at("[data-sort]").dataset.sort;
        return this.#go("sort");
      }
      const chip = at("a[data-query]");
      if (chip && !event.button && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)) {
        event.preventDefault();
        event.stopPropagation();
        return this.#step(chip.dataset.query);
      }
      const field = at(".tm-field");
      if (at(".tm-reset")) return this.#reset(field);
      if (at(".tm-help")) return this.#help(at(".tm-help"), field);
      if (at("[data-copy]")) this.#copy(at("[data-copy]"));
    }

    // What a link in the results changes is done to the run as it is now, and what was typed since the
    // link was made stays.
    #step(target) {
      const [from, to, query] = [settings(this.#chips), settings(target), new URLSearchParams(this.#good)];
      const edits = this.hasAttribute("data-stale") ? new Map() : new Map(this.#edits);
      for (const key of new Set([...from.keys(), ...to.keys()])) {
        if (from.get(key) === to.get(key)) continue;
        edits.delete(key);
        if (to.has(key)) query.set(key, to.get(key));
        else query.delete(key);
      }
      this.#show(this.#chips === this.#good ? target : query.toString(), { push: true, edits });
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

    // The address of this page without its query, as it is published: a folder of the reader's is
    // nobody else's.
    #place() {
      const url = new URL(location.protocol === "file:" ? this.dataset.address : location.href);
      url.search = url.hash = "";
      return url.href.replace(/index\.html$/, "");
    }

    async #textOf({ copy: kind, text }) {
      if (kind === "link") return tmAddress.of(this, this.#good, this.#place()).href;
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
