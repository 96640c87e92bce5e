// The page can be read without this script: tables stand in it, and pictures where the writer of the page could draw them.
// The script adds tabs, tool tips and the theme.
(() => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = read("specs");
  const configs = read("configs");
  const font = getComputedStyle(document.body).fontFamily;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const theme = () => root.dataset.theme || (system.matches ? "dark" : "light");
  const drawn = new Map(); // plot name -> {view, theme}

  async function draw(figure) {
    const name = figure.dataset.plot;
    const now = theme();
    if (!specs[name] || !window.vegaEmbed || drawn.get(name)?.theme === now) return;
    const before = drawn.get(name);
    drawn.set(name, { theme: now });
    const place = document.createElement("div");
    try {
      const config = { ...configs[now], font };
      const result = await window.vegaEmbed(place, specs[name], {
        mode: "vega-lite", renderer: "svg", config, ast: false, tooltip: { theme: "custom" },
        actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
        downloadFileName: name, scaleFactor: { png: 2 },
      });
      if (drawn.get(name)?.theme !== now) { result.finalize(); return; }
      before?.result?.finalize();
      const plot = figure.querySelector(".plot");
      plot.querySelector(".vega-embed")?.remove();
      const still = plot.querySelector(":scope > svg, :scope > .waiting");
      if (still) still.style.display = "none";
      plot.append(place);
      place.querySelector("svg")?.setAttribute("aria-hidden", "true");
      drawn.set(name, { theme: now, result });
    } catch (error) {
      drawn.delete(name);
      console.error(`plot ${name}:`, error);
    }
  }

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
  }, { rootMargin: "300px" });

  for (const deck of document.querySelectorAll(".deck")) {
    const tabs = [...deck.querySelectorAll("[role=tab]")];
    const figures = [...deck.querySelectorAll("figure")];
    const show = (index, focus) => {
      tabs.forEach((tab, at) => {
        tab.setAttribute("aria-selected", String(at === index));
        tab.tabIndex = at === index ? 0 : -1;
      });
      figures.forEach((figure, at) => { figure.hidden = at !== index; });
      if (focus) tabs[index].focus();
    };
    tabs.forEach((tab, at) => {
      tab.addEventListener("click", () => show(at));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step) { event.preventDefault(); show((at + step + tabs.length) % tabs.length, true); }
      });
    });
    if (figures.length) {
      const asked = figures.findIndex((figure) => `#${figure.id}` === location.hash);
      show(Math.max(0, asked), false);
    }
    figures.forEach((figure) => near.observe(figure));
    deck.addEventListener("reveal", (event) => show(figures.indexOf(event.target), false));
  }

  function reveal() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.matches(".deck figure")) target.dispatchEvent(new CustomEvent("reveal", { bubbles: true }));
    const closed = target.closest("details");
    if (closed) closed.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", reveal);
  reveal();

  const button = document.querySelector("button.theme");
  const label = () => { button.textContent = theme() === "dark" ? "Light" : "Dark"; button.setAttribute("aria-label", `Switch to the ${theme() === "dark" ? "light" : "dark"} theme`); };
  const redraw = () => {
    label();
    for (const figure of document.querySelectorAll(".deck figure:not([hidden])")) if (drawn.has(figure.dataset.plot)) draw(figure);
  };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = theme() === "dark" ? "light" : "dark"; redraw(); });
  system.addEventListener("change", redraw);
  label();

  const links = new Map([...document.querySelectorAll("nav.contents a")].map((a) => [a.hash.slice(1), a]));
  const inView = new Set();
  const spy = new IntersectionObserver((entries) => {
    for (const entry of entries) (entry.isIntersecting ? inView.add(entry.target.id) : inView.delete(entry.target.id));
    const first = [...links.keys()].find((id) => inView.has(id));
    links.forEach((a, id) => (id === first ? a.setAttribute("aria-current", "true") : a.removeAttribute("aria-current")));
  }, { rootMargin: "-10% 0px -60% 0px" });
  links.forEach((_, id) => { const section = document.getElementById(id); if (section) spy.observe(section); });
})();
