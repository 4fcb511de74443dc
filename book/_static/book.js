/* Two helps for readers, without which every page reads as well: boxes that scroll can be reached with
   the keyboard, and a link to a theorem, a definition or a formula shows it when pointed at. */
(() => {
  "use strict";

  // A box wider than the column scrolls; a reader without a mouse has to get into it.
  const reachable = () => {
    // A formula in a line that is wider than its column gets a box of its own, which scrolls.
    const edge = document.querySelector(".bd-article")?.getBoundingClientRect().right;
    for (const formula of document.querySelectorAll(".bd-article mjx-container:not([display='true'])")) {
      const end = formula.getBoundingClientRect().left + (formula.querySelector("mjx-math")?.offsetWidth ?? 0);
      formula.classList.toggle("wide", end > edge && !formula.closest("table"));
    }
    const boxes = "div.math, mjx-container, pre, table, .cell_output, .pst-scrollable-table-container, .sig";
    for (const box of document.querySelectorAll(boxes)) {
      const wide = box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX !== "visible";
      if (wide && !box.hasAttribute("tabindex")) box.tabIndex = 0;
    }
  };

  // On the map of the book: what the chapter under the pointer needs.
  const map = document.querySelector(".book-map");
  const mark = (event) => {
    const needs = (event.target.closest?.("a")?.dataset.needs ?? "").split(" ");
    for (const stop of map.querySelectorAll("a")) {
      stop.parentElement.classList.toggle("needed", needs.includes(stop.dataset.page));
    }
  };
  for (const type of map ? ["mouseover", "focusin"] : []) map.addEventListener(type, mark);

  const root = new URL(document.documentElement.dataset.content_root, location.href).href;
  let box, link, timer, loading;

  const load = () => loading ??= new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = `${root}_static/previews.js`;
    script.onload = () => resolve(window.bookPreviews);
    script.onerror = () => resolve({});
    document.head.append(script);
  });

  const hide = () => {
    clearTimeout(timer);
    box?.remove();
    box = link = undefined;
  };

  const show = async (target) => {
    const previews = await load();
    const text = target === link && previews[decodeURI(target.href.slice(root.length))];
    if (!text) return;
    box?.remove();
    box = document.createElement("div");
    box.className = "preview bd-article";
    box.setAttribute("aria-hidden", "true");
    box.innerHTML = text;
    document.body.append(box);
    if (window.MathJax?.typesetPromise) await MathJax.typesetPromise([box]);
    if (!box) return;
    const at = target.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - box.offsetWidth - 8));
    const below = at.bottom + box.offsetHeight + 8 < innerHeight || at.top < box.offsetHeight + 8;
    box.style.left = `${left + scrollX}px`;
    box.style.top = `${scrollY + (below ? at.bottom + 4 : at.top - box.offsetHeight - 4)}px`;
    box.addEventListener("mouseenter", () => clearTimeout(timer));
    box.addEventListener("mouseleave", later);
  };

  const later = () => { clearTimeout(timer); timer = setTimeout(hide, 250); };

  const start = (event) => {
    const target = event.target.closest?.(".bd-article a.reference.internal[href*='#'], .bd-article a.internal[href*='#']");
    if (!target || target.closest(".preview")) return;
    hide();
    link = target;
    timer = setTimeout(() => show(target), event.type === "focusin" ? 0 : 300);
  };

  document.addEventListener("mouseover", start);
  document.addEventListener("focusin", start);
  document.addEventListener("mouseout", (event) => { if (event.target.closest?.("a") === link && link) later(); });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  addEventListener("load", reachable);
  document.addEventListener("formulas-set", reachable);
  addEventListener("resize", reachable);
})();
