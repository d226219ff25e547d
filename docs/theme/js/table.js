// <tm-table> holds a table of the prose and scrolls it. While the table is wider than the page it can be
// reached with the keyboard, has a name, and says that there is more to the side.
(() => {
  class Table extends HTMLElement {
    #watch = new ResizeObserver(() => this.#look());

    connectedCallback() {
      this.#watch.observe(this);
      this.#watch.observe(this.firstElementChild);
    }

    disconnectedCallback() { this.#watch.disconnect(); }

    #look() {
      const wide = this.firstElementChild.scrollWidth > this.clientWidth + 1;
      this.toggleAttribute("data-wide", wide);
      const state = { tabindex: "0", role: "group", "aria-label": this.dataset.label };
      for (const [name, value] of Object.entries(state)) {
        if (wide) this.setAttribute(name, value);
        else this.removeAttribute(name);
      }
    }
  }

  if (!customElements.get("tm-table")) customElements.define("tm-table", Table);
})();
