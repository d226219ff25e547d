// The address of a page with calculators: which part of it is settings, whose they are, and that it
// is right before the reader leaves. Runs in the head: what a link will show must be known before the
// first paint, because until Python answers the numbers on the page are those of another run.
(() => {
  // What the site's own search and other sites append to links.
  const FOREIGN = /^(h|ref|ref_src|utm_.*|[a-z]*clk?id|[gw]braid|mc_[ce]id|igshid?|mkt_tok|_gl|_ga|_hs.*)$/i;
  const YES = { "": true, 1: true, true: true, on: true, 0: false, false: false, off: false };
  const html = document.documentElement;

  const nameOf = (pair) => [...new URLSearchParams(pair).keys()][0]?.trim() ?? "";
  const pairsOf = (search) => search.replace(/^\?/, "").split("&")
    .filter((pair) => pair && !FOREIGN.test(nameOf(pair)));
  const calculators = () => [...document.querySelectorAll("tm-calc")];
  const samePlace = (path) => path.replace(/index\.html$/, "") === location.pathname.replace(/index\.html$/, "");

  // The calculator that a fragment names.
  const named = (hash) => {
    const found = hash.length > 1 && document.getElementById(hash.slice(1));
    return found?.localName === "tm-calc" ? found : null;
  };

  // The address has room for one calculator: what the others showed beside it is kept here.
  const memory = new Map();

  const address = {
    // The settings of an address, as they stand in it.
    settings: (search) => pairsOf(search).join("&"),

    // Whether an address asks for a run of its own.
    asks: (search) => pairsOf(search).some((pair) => nameOf(pair) !== "embed"),

    // `embed` as Python reads a flag: the first value that is one.
    embedded() {
      const given = new URLSearchParams(location.search).getAll("embed");
      return given.map((value) => YES[value.trim().toLowerCase()]).find((value) => value !== undefined) ?? false;
    },

    // Settings belong to the calculator that the fragment names, else to the first.
    settingsOf(calculator) {
      const kept = memory.get(location.href)?.[calculator.id];
      if (kept !== undefined) return kept;
      const owner = named(location.hash) ?? calculators()[0];
      return owner === calculator ? address.settings(location.search) : "";
    },

    // The address of a page on which this calculator shows this query.
    of(calculator, query, place = location.href) {
      const url = new URL(place);
      url.search = query;
      if (calculators()[0] !== calculator) url.hash = calculator.id;
      else if (named(url.hash)) url.hash = "";
      return url;
    },

    write(url, push) {
      if (url.href === location.href) return address.remember();
      history[push ? "pushState" : "replaceState"](history.state, "", url);
      address.remember();
    },

    // Everything that was typed is in the address before the reader goes.
    flush: () => calculators().forEach((calculator) => calculator.flush?.()),

    remember(place = location.href) {
      memory.set(place, Object.fromEntries(calculators().map((one) => [one.id, one.query])));
    },
  };
  window.tmAddress = address;
  addEventListener("pagehide", address.flush);
  addEventListener("beforeunload", address.flush);

  // A link into the page itself is followed here: the theme would read the page anew, without settings.
  addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    const [first] = calculators();
    if (!link || !first?.flush) return;
    address.flush();
    const url = new URL(link.href);
    const plain = !event.button && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
    const here = url.origin === location.origin && samePlace(url.pathname);
    if (!plain || !here || link.dataset.query || link.hreflang || !/^(_self)?$/.test(link.target)) return;
    const asks = address.asks(url.search);
    if (!asks && !url.hash && !url.search) return; // the page itself, as the menu names it
    link.target = "_self"; // which the theme leaves alone
    if (!asks && !url.hash) { // a word that was searched, on this page
      event.preventDefault();
      scrollTo(0, 0);
      return;
    }
    if (!asks && !named(location.hash)) {
      const target = new URL(location.href);
      target.hash = url.hash;
      address.remember();
      address.remember(target.href);
      link.setAttribute("href", url.hash); // followed by the browser, which keeps the query
      return;
    }
    event.preventDefault();
    if (!asks) {
      url.search = first.query === first.dataset.query ? "" : first.query;
      address.remember(url.href);
    }
    history.pushState(null, "", url);
    if (asks) calculators().forEach((calculator) => calculator.moved());
    document.getElementById(url.hash.slice(1))?.scrollIntoView();
  }, true);

  // Back and Forward within a page change its calculators and nothing else.
  addEventListener("popstate", (event) => {
    const all = calculators();
    if (!all[0]?.moved || !samePlace(all[0].place)) return; // another page: the theme fetches it
    event.stopImmediatePropagation();
    all.forEach((calculator) => calculator.moved());
    if (history.scrollRestoration === "manual" && history.state?.y >= 0) scrollTo(0, history.state.y);
  }, true);

  // Hides the numbers of the build where the address asks for others; the calculator then takes over.
  if (address.asks(location.search)) {
    html.dataset.tmAsked = "";
    addEventListener("load", () => delete html.dataset.tmAsked);
  }
})();
