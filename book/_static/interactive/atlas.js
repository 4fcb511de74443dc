/* Choose a gate and an expert, and read what the atlas says of the pair. */
book.start("atlas", (stage, data) => {
  "use strict";
  const { html } = book;
  const chosen = { gate: data.gates[0], expert: data.experts[0] };
  const controls = html(stage, "div", { class: "controls", role: "group", "aria-label": "Gate and expert" });
  const menu = (label, key, names) => {
    const select = html(html(controls, "label", {}, label), "select");
    names.forEach((name) => html(select, "option", { value: name }, name));
    select.addEventListener("change", () => { chosen[key] = select.value; draw(); });
  };
  menu("Gate", "gate", data.gates);
  menu("Expert", "expert", data.experts);
  const said = html(stage, "output", { class: "numbers", "aria-live": "polite" });
  const table = html(stage, "dl", { class: "verdict" });
  const state = { chosen };

  const draw = () => {
    const cell = data.cells[chosen.gate]?.[chosen.expert];
    state.cell = cell ?? null;
    table.replaceChildren();
    if (!cell) {
      said.textContent = `${chosen.gate} with ${chosen.expert}: not in the atlas.`;
      return;
    }
    said.textContent = `${chosen.gate} with ${chosen.expert}: ${cell.word}.`;
    const row = (name, fill) => {
      html(table, "dt", {}, name);
      fill(html(table, "dd"));
    };
    const text = (value) => (place) => { place.textContent = value; };
    row("Order of the split", text(cell.order === "inf" ? "infinite: no sample size sees it" : String(cell.order)));
    row("Numerator u", (place) => html(place, "code", {}, cell.u));
    row("Relations", (place) => {
      if (!cell.relations.length) place.textContent = "none among the functions of a second-order expansion";
      for (const { html: formula, harm } of cell.relations) {
        const line = html(place, "div", { class: harm ? "harm" : "" });
        line.innerHTML = formula; // written by the library, letters with subscripts
        if (!harm) html(line, "small", {}, " (harmless)");
      }
    });
    row("Independent", text(`${cell.rank} of ${cell.functions} functions`));
    row("Proof", text(cell.exact ? "exact" : "numerical"));
    row("Whose", text(cell.source));
    if (cell.repair) row("Repair", text(cell.repair));
    if (cell.notes.length) row("Notes", text(cell.notes.join("; ")));
  };
  draw();
  return state;
});
