/* Loading state for screens: a status, and the problem if a request failed. */
export const loading = () => ({
  status: "loading",
  problem: null,

  /* Runs `work` and shows an error on the screen. Later calls keep the current content until they finish. */
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
