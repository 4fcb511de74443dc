/* Drag apart the two halves of a split expert: the plain function stands still, the gated one moves. */
book.start("split", (stage, data) => {
  "use strict";
  const { svg, html, axes, path } = book;
  const { truth, points, line, reach, models } = data;
  const [home] = truth.a[0][0];
  const v = [...data.step];

  const split = () => {
    const [first, ...others] = truth.a[0];
    const halves = [+1, -1].map((sign) => first[0].map((value, j) => value + sign * v[j]));
    return {
      omega: [[truth.omega[0][0] / 2, truth.omega[0][0] / 2]],
      M: truth.M,
      a: [[halves, ...others.map((expert) => [expert[0], expert[0]])]],
    };
  };

  const picture = html(stage, "div", { class: "panels" });
  const plane = svg(picture, "svg", { viewBox: "0 0 260 270", role: "presentation" });
  const [low, high] = [home.map((value) => value - reach), home.map((value) => value + reach)];
  const scale = axes(plane, {
    left: 36, top: 26, width: 212, height: 200, x: [low[0], high[0]], y: [low[1], high[1]],
    xLabel: "first entry", title: "the two halves of expert 1",
  });
  const rod = svg(plane, "line", { class: "rod" });
  svg(plane, "path", { class: "truth", d: "M-6-6 6 6M-6 6 6-6", transform: `translate(${scale.x(home[0])} ${scale.y(home[1])})` });
  const dots = ["first", "second"].map((name) => svg(plane, "circle", { r: 10, class: `half ${name}` }));

  const xs = line.map((x) => x[0]);
  const curves = Object.entries(models).map(([name, model]) => {
    const phi = book.activation[model.activation];
    const drawing = svg(picture, "svg", { viewBox: "0 0 260 270", role: "presentation" });
    const axis = axes(drawing, {
      left: 36, top: 26, width: 212, height: 200, x: [xs[0], xs.at(-1)], y: model.range, xLabel: "x along a line", title: name,
    });
    svg(drawing, "path", { class: "curve true", d: path(axis, xs, book.predict(truth, line, phi)) });
    const moved = svg(drawing, "path", { class: `curve ${model.colour}` });
    return { name, phi, moved, axis };
  });

  const controls = html(stage, "div", { class: "controls", role: "group", "aria-label": "Step of the first half" });
  const sliders = ["Step along the first entry", "Step along the second entry"].map((name, j) =>
    book.slider(controls, name, { min: -reach, max: reach, step: 0.1, value: v[j] }, (value) => { v[j] = value; draw(); }));
  const said = html(stage, "output", { class: "numbers", "aria-live": "polite" });
  const state = { v };

  const draw = () => {
    const G = split();
    G.a[0][0].forEach(([p, q], k) => {
      dots[k].setAttribute("cx", scale.x(p));
      dots[k].setAttribute("cy", scale.y(q));
    });
    rod.setAttribute("x1", dots[0].getAttribute("cx")); rod.setAttribute("y1", dots[0].getAttribute("cy"));
    rod.setAttribute("x2", dots[1].getAttribute("cx")); rod.setAttribute("y2", dots[1].getAttribute("cy"));
    sliders.forEach((input, j) => input.show(v[j]));
    state.G = G;
    state.distance = {};
    for (const { name, phi, moved, axis } of curves) {
      moved.setAttribute("d", path(axis, xs, book.predict(G, line, phi)));
      state.distance[name] = book.distance(book.predict(G, points, phi), book.predict(truth, points, phi));
    }
    state.losses = book.losses(G, truth, points, curves[0].phi);
    const [plain, gated] = curves.map(({ name }) => state.distance[name]);
    said.textContent = `The loss L_{1,1} is ${state.losses.one.toFixed(3)} and L_2 is ${state.losses.two.toFixed(3)}. `
      .replace("L_{1,1}", "L₁,₁").replace("L_2", "L₂")
      + `The plain function has moved by ${plain.toFixed(4)}, the gated one by ${gated.toFixed(4)}.`;
  };
  dots.forEach((dot, k) => book.drag(dot, scale, (place) => {
    place.forEach((value, j) => { v[j] = book.clip(book.round((k ? -1 : 1) * (value - home[j]), 0.1), -reach, reach); });
    draw();
  }));
  draw();
  return state;
});
