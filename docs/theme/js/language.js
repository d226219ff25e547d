// Language links keep the page and its query, and load in full: writing direction and language are
// attributes of the document, which instant navigation leaves as they were.
(() => {
  const root = new URL("../", document.currentScript.src).href;

  const inLanguage = (language) => {
    const page = new URL(location.href);
    page.hash = page.search = "";
    const path = page.href.startsWith(root) ? page.href.slice(root.length) : "index.html";
    const plain = path.replace(/^(ur|bn)(\/|$)/, "");
    return new URL((language === "en" ? "" : `${language}/`) + plain, root);
  };

  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[hreflang]");
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    const target = inLanguage(link.hreflang);
    if (location.protocol === "file:" && target.pathname.endsWith("/")) target.pathname += "index.html";
    target.search = location.search;
    target.hash = location.hash; // it may say which calculator the query is for
    location.assign(target);
  }, true);
})();
