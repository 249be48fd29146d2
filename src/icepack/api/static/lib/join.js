/* Several parts as one component; getters stay getters, which spreading would not keep. */
export function join(...parts) {
  const whole = {};
  for (const part of parts) Object.defineProperties(whole, Object.getOwnPropertyDescriptors(part));
  return whole;
}
