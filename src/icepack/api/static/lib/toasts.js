/* Short messages in a corner; what went wrong stays until it is dismissed. */
const SHOWN_MS = 6000;
let self = null;
let number = 0;

export const toasts = {
  list: [],

  attach(store) {
    self = store;
  },

  drop(id) {
    this.list = this.list.filter((toast) => toast.id !== id);
  },
};

function show(toast) {
  const id = ++number;
  self.list = [...self.list.slice(-3), { id, remedy: "", href: "", link: "", ...toast }];
  if (toast.kind !== "bad") setTimeout(() => self.drop(id), SHOWN_MS);
}

export const tell = (text, more = {}) => show({ kind: "good", text, ...more });

export const complain = (problem) => show({ kind: "bad", text: problem.message, remedy: problem.remedy ?? "" });
