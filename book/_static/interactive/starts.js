/* Choose how fast the start approaches the truth, and see how fast the fit does: stored runs. */
book.start("starts", (stage, data) => {
  "use strict";
  const { svg, html, axes } = book;
  const label = (panel) => `distance ${panel.constant} n^-${panel.exponent}`;
  const designs = [...new Set(data.panels.map(label))];
  const settings = [...new Set(data.panels.map((panel) => panel.setting))];
  const chosen = { design: designs[1] ?? designs[0] };

  const controls = html(stage, "div", { class: "controls", role: "group", "aria-label": "Start" });
  const select = html(html(controls, "label", {}, "Start"), "select");
  designs.forEach((name) => html(select, "option", { value: name }, name));
  select.value = chosen.design;
  select.addEventListener("change", () => { chosen.design = select.value; draw(); });

  const log = Math.log10;
  const all = data.panels.flatMap((panel) => [...panel.fit.median, ...panel.start.median]).map(log);
  const range = [Math.floor(Math.min(...all) * 2) / 2, Math.ceil(Math.max(...all) * 2) / 2];
  const sizes = data.panels[0].n.map(log);
  const picture = html(stage, "div", { class: "panels" });
  const drawings = settings.map((setting) => {
    const drawing = svg(picture, "svg", { viewBox: "0 0 260 270", role: "presentation" });
    const scale = axes(drawing, {
      left: 36, top: 26, width: 212, height: 200, x: [sizes[0], sizes.at(-1)], y: range,
      xLabel: "log₁₀ n", title: `${setting}: log₁₀ loss`,
    });
    return { setting, scale, marks: svg(drawing, "g") };
  });
  const said = html(stage, "output", { class: "numbers", "aria-live": "polite" });
  const state = { chosen, shown: [] };

  const series = (marks, scale, panel, key, css) => {
    const xs = panel.n.map(log);
    const ends = [xs[0], xs.at(-1)].map(scale.x), line = panel[key].line.map((value) => scale.y(log(value)));
    svg(marks, "path", { class: `curve ${css}`, d: `M${ends[0]} ${line[0]}L${ends[1]} ${line[1]}` });
    panel[key].median.forEach((value, n) => svg(marks, "circle", { class: `dot ${key} ${css}`, r: 3.5, cx: scale.x(xs[n]), cy: scale.y(log(value)) }));
  };
  const words = ([value, low, high]) => `${value.toFixed(2)} [${low.toFixed(2)}, ${high.toFixed(2)}]`.replaceAll("-", "−");

  const draw = () => {
    state.shown = data.panels.filter((panel) => label(panel) === chosen.design);
    for (const { setting, scale, marks } of drawings) {
      marks.replaceChildren();
      const panel = state.shown.find((one) => one.setting === setting);
      if (!panel) continue;
      series(marks, scale, panel, "start", "true");
      series(marks, scale, panel, "fit", panel.colour);
    }
    said.textContent = state.shown.map((panel) =>
      `${panel.setting}: slope of the start ${words(panel.start.slope)}, of the fit ${words(panel.fit.slope)}`).join(". ") + ".";
  };
  draw();
  return state;
});
