/* A long list that comes page after page, each asked for by the end of the one before. */
export class Pages {
  /* fetch(cursor, signal) → {items, next, total} */
  constructor(fetch, changed) {
    this.fetch = fetch;
    this.changed = changed;
    this.aborter = new AbortController();
    this.items = [];
    this.total = null;
    this.next = undefined;
    this.busy = false;
    this.wanted = 0;
    this.problem = null;
  }

  /* Sees to it that the item of this number comes, and all before it. */
  async need(number) {
    this.wanted = Math.max(this.wanted, number);
    if (this.busy || this.problem) return;
    this.busy = true;
    try {
      while (this.next !== null && this.items.length <= this.wanted) await this.more();
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.problem = problem;
      this.changed(this);
    } finally {
      this.busy = false;
    }
  }

  async more() {
    const { items, next, total } = await this.fetch(this.next, this.aborter.signal);
    this.items.push(...items);
    this.next = next ?? null;
    this.total = this.next === null ? this.items.length : total;
    this.changed(this);
  }

  end() {
    this.aborter.abort();
  }
}
