/* A key is traded for a session; where the reader wanted to go is still in the address. */
export default () => ({
  key: "",
  wrong: "",
  busy: false,

  async enter() {
    this.busy = true;
    this.wrong = "";
    try {
      await this.$store.session.enter(this.key.trim());
    } catch (problem) {
      this.wrong = problem.status === 401 ? "That key is not known, or no longer good." : problem.message;
    }
    this.key = "";
    this.busy = false;
  },
});
