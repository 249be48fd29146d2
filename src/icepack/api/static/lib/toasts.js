/* Short messages in a corner. Errors stay until they are dismissed. */
const SHOWN_MS = 6000;
let self = null;
let lastId = 0;

export const toasts = {
  list: [],

  attach(store) {
    self = store;
  },

  dismiss(id) {
    this.list = this.list.filter((toast) => toast.id !== id);
  },
};

function show(toast) {
  const id = ++lastId;
  self.list = [...self.list.slice(-3), { id, remedy: "", href: "", link: "", ...toast }];
  if (toast.kind !== "bad") setTimeout(() => self.dismiss(id), SHOWN_MS);
}

export const notify = (text, more = {}) => show({ kind: "good", text, ...more });

export const notifyProblem = (problem) => show({ kind: "bad", text: problem.message, remedy: problem.remedy ?? "" });
