/* Formulas, without holding up the page: MathJax is fetched when the text has been painted, sets what is
   on the screen first, and the rest in slices so short that the page answers in between. */
(() => {
  "use strict";

  const GROUP = 40; // formulas that are put into the page together
  const SLICE = 8; // milliseconds; a phone is four times slower than what one writes on
  // One file would be a single long task.
  const COMPONENTS = [
    "startup", "core", "input/tex", "output/chtml", "output/chtml/fonts/tex", "a11y/assistive-mml",
  ];
  const folder = new URL("mathjax/", document.currentScript.src).href;
  const config = (window.MathJax ??= {});

  const pause = () => globalThis.scheduler?.yield?.() ?? new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = resolve;
    port2.postMessage(null);
  });

  // A macro may ask for an extension that has to be fetched; then the formula is tried again.
  const retried = async (act) => {
    for (;;) {
      try {
        return act();
      } catch (error) {
        if (!error.retry) throw error;
        await error.retry;
      }
    }
  };

  const inSlices = async (formulas, act) => {
    let end = performance.now() + SLICE;
    for (const formula of formulas) {
      await retried(() => act(formula));
      if (performance.now() > end) {
        await pause();
        end = performance.now() + SLICE;
      }
    }
  };

  // What a document of MathJax does in one go, render(), with the same steps for these formulas. They
  // are drawn apart from the page and put into it at once, so that it is laid out once.
  const set = async (page, formulas) => {
    page.math = new page.math.constructor(...formulas);
    await inSlices(formulas, (formula) => page.compileMath(formula));
    page.outputJax.getMetrics(page);
    await inSlices(formulas, (formula) => {
      formula.typeset(page);
      formula.assistiveMml(page);
    });
    page.addStyleSheet();
    for (const formula of formulas) formula.updateDocument(page);
  };

  const isSeen = (formula) => {
    const box = formula.start.node.parentElement.getBoundingClientRect();
    return box.bottom > 0 && box.top < innerHeight;
  };

  const setAll = async () => {
    const page = MathJax.startup.document;
    page.findMath();
    const all = [...page.math];
    const seen = new Set(all.filter(isSeen));
    await set(page, [...seen]);
    const rest = all.filter((formula) => !seen.has(formula));
    for (let k = 0; k < rest.length; k += GROUP) await set(page, rest.slice(k, k + GROUP));
    page.addPageElements();
    page.math = new page.math.constructor(...all);
    document.dispatchEvent(new Event("formulas-set"));
  };

  // MathJax starts with its first component, and is ready with its last.
  config.startup = { ...config.startup, ready: () => {}, pageReady: setAll };

  const start = () => {
    MathJax.loader.preLoad("loader", ...COMPONENTS);
    MathJax.startup.defaultReady();
  };

  const fetchMathJax = () => {
    for (const name of COMPONENTS) {
      const script = document.createElement("script");
      script.src = `${folder}${name}.js`;
      script.async = false; // in this order
      if (name === COMPONENTS.at(-1)) script.onload = start;
      document.head.append(script);
    }
  };
  // A page in the background paints nothing and would wait for ever.
  if (document.hidden) fetchMathJax();
  else requestAnimationFrame(() => setTimeout(fetchMathJax));
})();
