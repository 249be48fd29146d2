/* Merges several mixins into one component. Unlike object spread, this keeps getters as getters. */
export function mergeMixins(...mixins) {
  const component = {};
  for (const mixin of mixins) Object.defineProperties(component, Object.getOwnPropertyDescriptors(mixin));
  return component;
}
