/* The confirmation dialog and the keyboard shortcuts dialog. */
let self = null;

export const dialogs = {
  confirmation: { title: "", text: "", action: "", dismiss: "", danger: false },

  attach(store) {
    self = store;
  },
};

/* Resolves to whether the user confirmed; Escape counts as no. */
export function confirm({ title, text, action, dismiss = "Cancel", danger = false }) {
  Object.assign(self, { title, text, action, dismiss, danger });
  const dialog = document.getElementById("confirm");
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

export const openHelp = () => document.getElementById("help").showModal();
