/* x-chart:KIND="data": draws anew when the data or the width changes. A kind is fetched when it is first drawn. */
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
    element.replaceChildren(...(picture && data && width ? [picture(data, width)] : []));
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
  KINDS[value]().then((kind) => {
    picture = kind[value];
    draw();
  });
}
