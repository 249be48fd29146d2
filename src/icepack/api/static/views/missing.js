/* An address that leads nowhere. */
export default () => ({});
