/* A virtual list: only the rows in view exist in the DOM, so ten thousand rows are as fast as ten. */
import { h } from "./dom.js";

const OVERSCAN = 8;

export class VirtualList {
  /* grid: the scrollable, focusable element whose first child is a sticky header. options: {height(), total(), at(index),
     need(index), draw(item, index), open(item)} */
  constructor(grid, options) {
    Object.assign(this, { grid, ...options, rows: new Map(), active: -1, frame: null, rowHeight: 0 });
    this.header = grid.firstElementChild;
    this.space = h("div", { class: "rows-space", role: "rowgroup" });
    grid.append(this.space);
    grid.addEventListener("scroll", () => this.scheduleRender(), { passive: true });
    grid.addEventListener("keydown", (event) => this.onKey(event));
    this.observer = new ResizeObserver(() => this.scheduleRender());
    this.observer.observe(grid);
  }

  destroy() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /* Clears everything, because the list has changed. */
  reset() {
    this.space.replaceChildren();
    this.rows.clear();
    this.active = -1;
    this.grid.scrollTop = 0;
    this.scheduleRender();
  }

  viewportHeight() {
    return this.grid.clientHeight - this.header.offsetHeight;
  }

  /* The row height depends on the window width. When it changes, all rows are redrawn and the first visible row stays in place. */
  resize(rowHeight) {
    const first = this.rowHeight ? this.grid.scrollTop / this.rowHeight : 0;
    this.space.replaceChildren();
    this.rows.clear();
    this.space.style.height = `${this.total() * rowHeight}px`;
    this.grid.scrollTop = first * rowHeight;
    this.rowHeight = rowHeight;
  }

  scheduleRender() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.render();
    });
  }

  render() {
    const total = this.total();
    const rowHeight = this.height();
    if (rowHeight !== this.rowHeight) this.resize(rowHeight);
    this.space.style.height = `${total * rowHeight}px`;
    const first = Math.max(Math.floor(this.grid.scrollTop / rowHeight) - OVERSCAN, 0);
    const last = Math.min(Math.ceil((this.grid.scrollTop + this.viewportHeight()) / rowHeight) + OVERSCAN, total);
    for (const [index, row] of this.rows) {
      if (index < first || index >= last || (row.isEmpty && this.at(index))) {
        row.element.remove();
        this.rows.delete(index);
      }
    }
    for (let index = first; index < last; index += 1) if (!this.rows.has(index)) this.addRow(index, rowHeight);
    if (last > 0 && !this.at(last - 1)) this.need(last);
  }

  addRow(index, rowHeight) {
    const item = this.at(index);
    const element = item ? this.draw(item, index) : h("div", { class: "row is-empty", role: "row" }, h("span", { role: "gridcell" }, "…"));
    element.id = `row-${index}`;
    element.setAttribute("aria-rowindex", index + 2);
    element.style.transform = `translateY(${index * rowHeight}px)`;
    if (index === this.active) element.classList.add("is-active");
    this.space.append(element);
    this.rows.set(index, { element, isEmpty: !item });
  }

  onKey(event) {
    const page = Math.max(Math.floor(this.viewportHeight() / this.height()) - 1, 1);
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page };
    if (event.key in steps) this.activate(this.active + steps[event.key]);
    else if (event.key === "Home") this.activate(0);
    else if (event.key === "End") this.activate(this.total() - 1);
    else if (event.key === "Enter" && this.at(this.active)) this.open(this.at(this.active));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  activate(index) {
    const wanted = Math.min(Math.max(index, 0), this.total() - 1);
    this.rows.get(this.active)?.element.classList.remove("is-active");
    this.active = wanted;
    const rowHeight = this.height();
    const top = wanted * rowHeight;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    if (top + rowHeight > this.grid.scrollTop + this.viewportHeight()) this.grid.scrollTop = top + rowHeight - this.viewportHeight();
    this.render();
    this.rows.get(wanted)?.element.classList.add("is-active");
    this.grid.setAttribute("aria-activedescendant", `row-${wanted}`);
  }
}
