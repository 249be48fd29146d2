/* x-chart:KIND="data": draws anew when the data or the width changes. A kind is fetched when it is first drawn. */
import { h } from "../lib/dom.js";
import { hideTip } from "./tip.js";

const KINDS = {
  bars: () => import("./bars.js"),
  heat: () => import("./heat.js"),
  line: () => import("./line.js"),
  pairs: () => import("./pairs.js"),
  phases: () => import("./phases.js"),
  pieces: () => import("./pieces.js"),
  spark: () => import("./line.js"),
  tiles: () => import("./tiles.js"),
  timeline: () => import("./timeline.js"),
  week: () => import("./week.js"),
};

export function chart(element, { value, expression }, { evaluateLater, effect, cleanup }) {
  const read = evaluateLater(expression);
  let data = null;
  let width = 0;
  let picture = null;

  const draw = () => {
    hideTip();
    if (picture) element.replaceChildren(...(data && width ? [picture(data, width)] : []));
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
    read((found) => {
      data = found;
      width = element.clientWidth;
      draw();
    }),
  );
  fetched(value, element).then((found) => {
    picture = found;
    if (picture) draw();
  });
}

async function fetched(value, element) {
  try {
    return (await KINDS[value]())[value];
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    element.replaceChildren(h("p", { class: "note" }, "This picture could not be fetched; load the page again."));
    return null;
  }
}
