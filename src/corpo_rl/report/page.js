// Draws the figures in colours looked up from the page's style sheet, again whenever light or dark changes.
(function () {
  "use strict";
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("figures").textContent);
  const touch = matchMedia("(pointer: coarse)").matches;
  const config = { displayModeBar: false, displaylogo: false, responsive: true, scrollZoom: false };
  const hidden = new Set();

  // a copy with every colour "var(--name)" replaced by its value; other text is left alone
  function themed(node, key, css) {
    if (Array.isArray(node)) return node.map((item) => themed(item, key, css));
    if (node && typeof node === "object") {
      return Object.fromEntries(Object.entries(node).map(([name, item]) => [name, themed(item, name, css)]));
    }
    const named = typeof node === "string" && /color$/.test(key) && /^var\((--[\w-]+)\)$/.exec(node);
    return named ? css.getPropertyValue(named[1]).trim() : node;
  }

  function draw(width) {
    const css = getComputedStyle(root);
    for (const { id, figure } of charts) {
      const place = document.getElementById(id);
      const { data, layout } = themed(figure, "", css);
      for (const trace of data) trace.visible = !hidden.has(trace.legendgroup);
      layout.dragmode = touch ? false : "zoom";
      Object.assign(layout, width ? { width, autosize: false } : { autosize: true });
      Plotly.react(place, data, layout, config);
    }
  }

  // Plotly keeps the width it was last given until told to look at the page again
  function fit() {
    for (const { id } of charts) Plotly.Plots.resize(document.getElementById(id));
  }

  for (const button of document.querySelectorAll("button[data-slot]")) {
    button.disabled = false;
    button.addEventListener("click", () => {
      const slot = button.dataset.slot;
      if (!hidden.delete(slot)) hidden.add(slot);
      for (const twin of document.querySelectorAll("button[data-slot]")) {
        twin.setAttribute("aria-pressed", String(!hidden.has(twin.dataset.slot)));
      }
      draw();
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
  addEventListener("beforeprint", () => { root.classList.add("print"); draw(620); });
  addEventListener("afterprint", () => { root.classList.remove("print"); draw(); fit(); });
  draw();
  root.classList.add("drawn");
})();
