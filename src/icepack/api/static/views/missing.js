/* Shown when the URL matches no screen. */
export default () => ({});
