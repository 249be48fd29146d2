/* Dialogs: a question before something is done, and the keyboard's help. */
let self = null;

export const dialogs = {
  ask: { title: "", text: "", action: "", danger: false },

  attach(store) {
    self = store;
  },
};

/* Resolves to whether the answer was yes; Escape is a no. */
export function confirm({ title, text, action, danger = false }) {
  Object.assign(self, { title, text, action, danger });
  const dialog = document.getElementById("ask");
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

export const openHelp = () => document.getElementById("help").showModal();
