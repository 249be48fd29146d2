/* x-chart:KIND="data" draws an SVG chart, again whenever the data or the width changes. Each kind is loaded on first use. */
import { h } from "../lib/dom.js";
import { hideTooltip } from "./tooltip.js";

const KINDS = {
  bars: async () => (await import("./bars.js")).bars,
  "before-after": async () => (await import("./before-after.js")).beforeAfter,
  calendar: async () => (await import("./calendar.js")).calendar,
  "grouped-bars": async () => (await import("./grouped-bars.js")).groupedBars,
  heatmap: async () => (await import("./heatmap.js")).heatmap,
  line: async () => (await import("./line.js")).line,
  "phase-timeline": async () => (await import("./phase-timeline.js")).phaseTimeline,
  "snapshot-timeline": async () => (await import("./snapshot-timeline.js")).snapshotTimeline,
  sparkline: async () => (await import("./line.js")).sparkline,
  tiles: async () => (await import("./tiles.js")).tiles,
};

export function chart(element, { value: kind, expression }, { evaluateLater, effect, cleanup }) {
  const evaluate = evaluateLater(expression);
  let data = null;
  let width = 0;
  let render = null;

  const draw = () => {
    hideTooltip();
    if (render) element.replaceChildren(...(data && width ? [render(data, width)] : []));
  };
  const observer = new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    draw();
  });
  element.classList.add("chart");
  observer.observe(element);
  cleanup(() => observer.disconnect());
  effect(() =>
    evaluate((newData) => {
      data = newData;
      width = element.clientWidth;
      draw();
    }),
  );
  loadRenderer(kind, element).then((loaded) => {
    render = loaded;
    if (render) draw();
  });
}

async function loadRenderer(kind, element) {
  try {
    return await KINDS[kind]();
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    element.replaceChildren(h("p", { class: "note" }, "This chart could not be loaded. Reload the page."));
    return null;
  }
}
