/* What the moving figures share: the models and losses of the book for small measures, and points
   that can be dragged. Classic scripts, because browsers refuse modules to a page opened from a file.
   tests/browser compares every number with the library's. */
window.book = (() => {
  "use strict";
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const dot = (a, x) => sum(a.map((value, i) => value * x[i]));

  /** Activations by their name in the library, bias included. */
  const activation = {
    identity: (t) => t,
    "sigmoid, bias 1": (t) => 1 / (1 + Math.exp(-t - 1)),
  };

  /** Softmax weights of one head at x; M holds a matrix for each expert, the last one zero. */
  const gate = (M, x) => {
    const scores = M.map((matrix) => dot(matrix.map((row) => dot(row, x)), x));
    const top = Math.max(...scores);
    const powers = scores.map((score) => Math.exp(score - top));
    return powers.map((power) => power / sum(powers));
  };

  /** Channel functions [head][channel][point]; a is [head][expert][channel][coordinate]. */
  const components = (G, X, phi) => G.M.map((M, h) => {
    const weights = X.map((x) => gate(M, x));
    return G.omega[h].map((_, k) => X.map((x, n) =>
      sum(M.map((_, i) => weights[n][i] * phi(dot(G.a[h][i][k], x))))));
  });

  const predict = (G, X, phi) => {
    const parts = components(G, X, phi);
    return X.map((_, n) => sum(G.omega.map((row, h) => sum(row.map((w, k) => w * parts[h][k][n])))));
  };

  const distance = (f, g) => Math.sqrt(sum(f.map((value, n) => (value - g[n]) ** 2)) / f.length);

  /** The true channel [head, channel] of every fitted one; ties go to the first. */
  const cells = (G, truth, X, phi) => {
    const fitted = components(G, X, phi), true_ = components(truth, X, phi);
    return fitted.map((row) => row.map((f) => {
      let best = Infinity, place;
      true_.forEach((others, h) => others.forEach((g, k) => {
        const gap = distance(f, g);
        if (gap < best) [best, place] = [gap, [h, k]];
      }));
      return place;
    }));
  };

  const norm = (u, v) => Math.sqrt(sum(u.map((value, i) => (value - v[i]) ** 2)));

  /** The losses L_{1,1} and L_2. */
  const losses = (G, truth, X, phi) => {
    const home = cells(G, truth, X, phi);
    const mass = truth.omega.map((row) => row.map(() => 0)), members = structuredClone(mass);
    home.forEach((row, g) => row.forEach(([h, k], j) => { mass[h][k] += G.omega[g][j]; members[h][k] += 1; }));
    const weight = sum(mass.map((row, h) => sum(row.map((value, k) => Math.abs(value - truth.omega[h][k])))));
    let one = weight, two = weight;
    home.forEach((row, g) => row.forEach(([h, k], j) => G.M[g].forEach((_, i) => {
      const M = norm(G.M[g][i].flat(), truth.M[h][i].flat()), a = norm(G.a[g][i][j], truth.a[h][i][k]);
      const power = members[h][k] > 1 ? 2 : 1;
      one += G.omega[g][j] * (M + a);
      two += G.omega[g][j] * (M ** power + a ** power);
    })));
    return { one, two };
  };

  // ---- Drawing ----

  const NS = "http://www.w3.org/2000/svg";
  const svg = (parent, tag, attributes = {}, text) => {
    const node = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };
  const html = (parent, tag, attributes = {}, text) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };

  /** Square or wide axes in an SVG: x and y give pixels, and `at` gives values back. */
  const axes = (svgNode, { left, top, width, height, x: [x0, x1], y: [y0, y1], xLabel, yLabel, title, ticks = 4 }) => {
    const area = svg(svgNode, "g", { class: "axes" });
    const x = (value) => left + ((value - x0) / (x1 - x0)) * width;
    const y = (value) => top + height - ((value - y0) / (y1 - y0)) * height;
    svg(area, "rect", { x: left, y: top, width, height, class: "frame" });
    for (let t = 0; t <= ticks; t++) {
      const u = x0 + ((x1 - x0) * t) / ticks, v = y0 + ((y1 - y0) * t) / ticks;
      svg(area, "text", { x: x(u), y: top + height + 15, class: "tick", "text-anchor": "middle" }, +u.toFixed(2));
      svg(area, "text", { x: left - 5, y: y(v) + 4, class: "tick", "text-anchor": "end" }, +v.toFixed(2));
    }
    svg(area, "text", { x: left + width / 2, y: top + height + 32, class: "label", "text-anchor": "middle" }, xLabel);
    svg(area, "text", { x: left, y: top - 8, class: "label" }, title ?? yLabel);
    const at = (event) => {
      const matrix = svgNode.getScreenCTM().inverse();
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
      return [x0 + ((point.x - left) / width) * (x1 - x0), y0 + ((top + height - point.y) / height) * (y1 - y0)];
    };
    return { x, y, at, area };
  };

  const path = (scale, xs, ys) =>
    xs.map((value, n) => `${n ? "L" : "M"}${scale.x(value).toFixed(2)} ${scale.y(ys[n]).toFixed(2)}`).join("");

  /** Let a mark be dragged; sliders do the same for the keyboard and for screen readers. */
  const drag = (mark, scale, move) => {
    mark.classList.add("handle");
    mark.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      mark.setPointerCapture(event.pointerId);
      const follow = (step) => move(scale.at(step));
      mark.addEventListener("pointermove", follow);
      const stop = () => mark.removeEventListener("pointermove", follow);
      mark.addEventListener("pointerup", stop, { once: true });
      mark.addEventListener("pointercancel", stop, { once: true });
    });
  };

  /** A labelled slider; returns its input. */
  const slider = (parent, name, { min, max, step, value }, change) => {
    const label = html(parent, "label", {}, name);
    const input = html(label, "input", { type: "range", min, max, step, value });
    const shown = html(label, "output", {}, value);
    input.addEventListener("input", () => change(+input.value));
    input.show = (v) => { input.value = v; shown.textContent = (+input.value).toFixed(1); };
    input.show(value);
    return input;
  };

  const clip = (value, low, high) => Math.min(high, Math.max(low, value));
  const round = (value, step) => Math.round(value / step) * step;

  /** Start a figure: its stage, its data, and the place where its numbers are said. */
  const start = (name, build) => {
    for (const figure of document.querySelectorAll(`[data-figure="${name}"]`)) {
      const data = JSON.parse(figure.querySelector("script.data").textContent);
      const stage = figure.querySelector(".stage");
      stage.hidden = false;
      figure.classList.add("alive");
      figure.state = build(stage, data, figure);
    }
  };

  return { activation, components, predict, distance, cells, losses, svg, html, axes, path, drag, slider, clip, round, start };
})();
