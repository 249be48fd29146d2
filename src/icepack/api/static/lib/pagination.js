/* A long list that is fetched page by page with cursors. */
export class PagedList {
  /* fetchPage(cursor, signal) → {items, next, total}; onChange(list) is called after every page or error. */
  constructor(fetchPage, onChange) {
    this.fetchPage = fetchPage;
    this.onChange = onChange;
    this.aborter = new AbortController();
    this.items = [];
    this.total = null;
    this.next = undefined;
    this.busy = false;
    this.lastNeeded = 0;
    this.problem = null;
  }

  /* Fetches pages until the item at this index is loaded. */
  async need(index) {
    this.lastNeeded = Math.max(this.lastNeeded, index);
    if (this.busy || this.problem) return;
    this.busy = true;
    try {
      while (this.next !== null && this.items.length <= this.lastNeeded) await this.loadNext();
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.problem = problem;
      this.onChange(this);
    } finally {
      this.busy = false;
    }
  }

  async loadNext() {
    const { items, next, total } = await this.fetchPage(this.next, this.aborter.signal);
    this.items.push(...items);
    this.next = next ?? null;
    this.total = this.next === null ? this.items.length : total;
    this.onChange(this);
  }

  abort() {
    this.aborter.abort();
  }
}
