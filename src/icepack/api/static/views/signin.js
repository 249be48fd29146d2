/* Exchanges an API key for a session. The URL still holds the screen that the user wanted to open. */
export default () => ({
  key: "",
  error: "",
  busy: false,

  async signIn() {
    this.busy = true;
    this.error = "";
    try {
      await this.$store.session.signIn(this.key.trim());
    } catch (problem) {
      this.error = problem.status === 401 ? "This key is unknown, expired or revoked." : problem.message;
    }
    this.key = "";
    this.busy = false;
  },
});
