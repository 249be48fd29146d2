/* x-chart:KIND="data": draws anew when the data or the width changes. */
import { bars } from "./bars.js";
import { heat } from "./heat.js";
import { line, spark } from "./line.js";
import { pairs } from "./pairs.js";
import { phases } from "./phases.js";
import { pieces } from "./pieces.js";
import { tiles } from "./tiles.js";
import { timeline } from "./timeline.js";
import { hideTip } from "./tip.js";
import { week } from "./week.js";

const KINDS = { bars, heat, line, pairs, phases, pieces, spark, tiles, timeline, week };

export function chart(element, { value, expression }, { evaluateLater, effect, cleanup }) {
  const read = evaluateLater(expression);
  let data = null;
  let width = 0;

  const draw = () => {
    hideTip();
    element.replaceChildren(...(data && width ? [KINDS[value](data, width)] : []));
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
}
