/* A grid of which only the rows in sight exist: ten thousand are as quick as ten. */
import { h } from "./dom.js";

const BEYOND = 8;

export class Rows {
  /* grid: scrolled and focused, with a head that stays; options: {height(), total(), at(number), need(number),
     draw(item, number), open(item)} */
  constructor(grid, options) {
    Object.assign(this, { body: grid, ...options, drawn: new Map(), marked: -1, frame: null, step: 0 });
    this.head = grid.firstElementChild;
    this.space = h("div", { class: "rows-space", role: "rowgroup" });
    grid.append(this.space);
    const body = grid;
    this.onScroll = () => this.plan();
    this.onKey = (event) => this.key(event);
    body.addEventListener("scroll", this.onScroll, { passive: true });
    body.addEventListener("keydown", this.onKey);
    this.observer = new ResizeObserver(() => this.plan());
    this.observer.observe(body);
  }

  end() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /* Everything anew: the list is another one now. */
  reset() {
    this.space.replaceChildren();
    this.drawn.clear();
    this.marked = -1;
    this.body.scrollTop = 0;
    this.plan();
  }

  /* How much of the rows is to be seen at once. */
  sight() {
    return this.body.clientHeight - this.head.offsetHeight;
  }

  /* Rows are as high as the window's width asks for: what was drawn stands elsewhere now, and the first one stays. */
  resize(step) {
    const first = this.step ? this.body.scrollTop / this.step : 0;
    this.space.replaceChildren();
    this.drawn.clear();
    this.space.style.height = `${this.total() * step}px`;
    this.body.scrollTop = first * step;
    this.step = step;
  }

  plan() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.show();
    });
  }

  show() {
    const total = this.total();
    const step = this.height();
    if (step !== this.step) this.resize(step);
    this.space.style.height = `${total * step}px`;
    const first = Math.max(Math.floor(this.body.scrollTop / step) - BEYOND, 0);
    const last = Math.min(Math.ceil((this.body.scrollTop + this.sight()) / step) + BEYOND, total);
    for (const [number, row] of this.drawn) {
      if (number < first || number >= last || (row.isEmpty && this.at(number))) {
        row.element.remove();
        this.drawn.delete(number);
      }
    }
    for (let number = first; number < last; number += 1) if (!this.drawn.has(number)) this.add(number, step);
    if (last > 0 && !this.at(last - 1)) this.need(last);
  }

  add(number, step) {
    const item = this.at(number);
    const element = item ? this.draw(item, number) : h("div", { class: "row is-empty", role: "row" }, h("span", { role: "gridcell" }, "…"));
    element.id = `row-${number}`;
    element.setAttribute("aria-rowindex", number + 2);
    element.style.transform = `translateY(${number * step}px)`;
    if (number === this.marked) element.classList.add("is-marked");
    this.space.append(element);
    this.drawn.set(number, { element, isEmpty: !item });
  }

  key(event) {
    const page = Math.max(Math.floor(this.sight() / this.height()) - 1, 1);
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page };
    if (event.key in steps) this.mark(this.marked + steps[event.key]);
    else if (event.key === "Home") this.mark(0);
    else if (event.key === "End") this.mark(this.total() - 1);
    else if (event.key === "Enter" && this.at(this.marked)) this.open(this.at(this.marked));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  mark(number) {
    const wanted = Math.min(Math.max(number, 0), this.total() - 1);
    this.drawn.get(this.marked)?.element.classList.remove("is-marked");
    this.marked = wanted;
    const step = this.height();
    const top = wanted * step;
    if (top < this.body.scrollTop) this.body.scrollTop = top;
    if (top + step > this.body.scrollTop + this.sight()) this.body.scrollTop = top + step - this.sight();
    this.show();
    this.drawn.get(wanted)?.element.classList.add("is-marked");
    this.body.setAttribute("aria-activedescendant", `row-${wanted}`);
  }
}
