// Draws the charts of what is visible, and shows the load that is chosen.
(() => {
  "use strict";
  const specs = JSON.parse(document.getElementById("chart-specs").textContent);
  const config = JSON.parse(document.getElementById("chart-config").textContent);
  const options = {
    actions: false,
    ast: true, // expressions are interpreted: the page forbids making code from text
    config,
    defaultStyle: false,
    mode: "vega-lite",
    renderer: "svg",
    tooltip: { disableDefaultStyle: true },
  };
  const drawn = new Set();
  const lines = []; // charts over loads, whose lines can be picked

  async function draw(root) {
    for (const place of root.querySelectorAll(".plot")) {
      if (drawn.has(place.id) || place.closest("[hidden]")) continue;
      drawn.add(place.id);
      try {
        const { view } = await vegaEmbed(place, specs[place.id], options);
        if (specs[place.id].params) lines.push(view);
      } catch (error) {
        place.textContent = "This chart could not be drawn; its numbers are in the tables.";
        console.error(place.id, error);
      }
    }
  }

  const picker = document.getElementById("load-picker");
  function choose() {
    const chosen = picker.querySelector("input:checked").value;
    for (const article of document.querySelectorAll("article")) {
      article.hidden = article.id !== chosen;
    }
    draw(document.getElementById(chosen));
  }
  if (picker) {
    picker.addEventListener("change", choose);
    choose(); // a reloaded page may remember another choice
  }

  // An entry of a key brings its line forward in all charts over loads; again: all lines.
  const buttons = document.querySelectorAll("[data-pick]");
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      for (const one of buttons) one.setAttribute("aria-pressed", on && one === button);
      for (const view of lines) view.signal("picked", on ? button.dataset.pick : "").runAsync();
    });
  }

  draw(document);
})();
