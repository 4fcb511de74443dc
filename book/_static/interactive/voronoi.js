/* Move true and fitted channels in the plane of all channels, and watch cells and losses follow. */
book.start("voronoi", (stage, data) => {
  "use strict";
  const { svg, html, axes } = book;
  const { line, reach, side, models } = data;
  const measures = { truth: structuredClone(data.truth), fit: structuredClone(data.fit) };
  let model = Object.keys(models)[0], chosen = ["fit", 0];

  const controls = html(stage, "div", { class: "controls", role: "group", "aria-label": "Model and channel" });
  const menu = (name, choices, change) => {
    const select = html(html(controls, "label", {}, name), "select");
    choices.forEach((choice) => html(select, "option", { value: choice }, choice));
    select.addEventListener("change", () => { change(select.value); draw(); });
    return select;
  };
  const names = [...measures.truth.omega[0].map((_, k) => `true ${k + 1}`), ...measures.fit.omega[0].map((_, k) => `fitted ${k + 1}`)];
  const modelMenu = menu("Model", Object.keys(models), (value) => { model = value; });
  const pointMenu = menu("Channel to move", names, (value) => {
    const [kind, number] = value.split(" ");
    chosen = [kind === "true" ? "truth" : "fit", number - 1];
  });

  const picture = html(stage, "div", { class: "panels single" });
  const canvas = html(picture, "canvas", { width: side, height: side, "aria-hidden": "true" });
  const plane = svg(picture, "svg", { viewBox: "0 0 360 380", role: "presentation" });
  const scale = axes(plane, { left: 40, top: 24, width: 310, height: 310, x: [-reach, reach], y: [-reach, reach], xLabel: "a₁", title: "a₂" });
  svg(plane, "foreignObject", { x: 40, y: 24, width: 310, height: 310 }).append(canvas);
  plane.insertBefore(plane.lastChild, plane.firstChild);

  const place = ([kind, k]) => [0, 1].map((i) => measures[kind].a[0][i][k][0]);
  const put = ([kind, k], values) => values.forEach((value, i) => {
    measures[kind].a[0][i][k][0] = book.clip(book.round(value, 0.1), -reach, reach);
  });
  const marks = names.map((name) => {
    const [kind, number] = name.split(" ");
    const key = [kind === "true" ? "truth" : "fit", number - 1];
    const mark = svg(plane, "g", { class: `mark ${kind}` });
    if (kind === "true") svg(mark, "circle", { r: 11 });
    else svg(mark, "rect", { x: -9, y: -9, width: 18, height: 18 });
    svg(mark, "text", { "text-anchor": "middle", y: 5 }, number);
    book.drag(mark, scale, (values) => { chosen = key; pointMenu.value = name; put(key, values); draw(); });
    return { key, mark, name };
  });
  const sliders = ["First vector a₁", "Second vector a₂"].map((name, i) =>
    book.slider(controls, name, { min: -reach, max: reach, step: 0.1, value: 0 }, (value) => {
      const values = place(chosen);
      values[i] = value;
      put(chosen, values);
      draw();
    }));
  const said = html(stage, "output", { class: "numbers", "aria-live": "polite" });
  const state = { measures };

  // Every pixel is a channel of one large measure, so that the map is drawn by the rule itself.
  const axis = Array.from({ length: side }, (_, n) => -reach + (2 * reach * (n + 0.5)) / side);
  const all = axis.flatMap((q) => axis.map((p) => [p, q]));
  const tints = [[143, 190, 226], [240, 180, 140], [150, 212, 180], [214, 170, 206]];
  const paint = (phi) => {
    const many = {
      omega: [all.map(() => 1)], M: measures.truth.M, a: [[0, 1].map((i) => all.map((values) => [values[i]]))],
    };
    const cells = book.cells(many, measures.truth, line, phi)[0];
    const context = canvas.getContext("2d"), image = context.createImageData(side, side);
    cells.forEach(([, k], n) => {
      const row = side - 1 - Math.floor(n / side), column = n % side;
      image.data.set([...tints[k], 255], 4 * (row * side + column));
    });
    context.putImageData(image, 0, 0);
  };

  let frame;
  const draw = () => {
    const phi = book.activation[models[model]];
    for (const { key, mark } of marks) {
      const [p, q] = place(key);
      mark.setAttribute("transform", `translate(${scale.x(p)} ${scale.y(q)})`);
    }
    sliders.forEach((input, i) => input.show(place(chosen)[i]));
    state.cells = book.cells(measures.fit, measures.truth, line, phi);
    state.losses = book.losses(measures.fit, measures.truth, line, phi);
    state.model = model;
    const homes = state.cells[0].map(([, k], j) => `fitted ${j + 1} to true ${k + 1}`).join(", ");
    said.textContent = `Nearest functions: ${homes}. L₁,₁ is ${state.losses.one.toFixed(3)}, L₂ is ${state.losses.two.toFixed(3)}.`;
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => paint(phi));
  };
  pointMenu.value = "fitted 1";
  modelMenu.value = model;
  draw();
  return state;
});
