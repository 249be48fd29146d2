/* What every screen that asks for something has: a state, and the problem if there is one. */
export const loading = () => ({
  status: "loading",
  problem: null,

  /* Runs `work`; an error becomes the screen's own. Later calls keep what is shown until they are done. */
  async load(work) {
    try {
      await work();
      this.status = "ready";
      this.problem = null;
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.problem = { text: problem.message, remedy: problem.remedy ?? "", status: problem.status };
      this.status = "error";
    }
  },
});
