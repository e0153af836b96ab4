/** A strategy's recipe as one line of text: "vector_width width=4". */

export function recipeText(recipe) {
  if (!recipe) return "";
  const { move, ...values } = recipe;
  return [move, ...Object.entries(values).map(([name, value]) => `${name}=${value}`)].join(" ");
}

/** The inverse; null for an empty line. Raises Error with a sentence on anything else. */
export function parseRecipe(text) {
  const [move, ...rest] = text.trim().split(/\s+/);
  if (!move) return null;
  const recipe = { move };
  for (const part of rest) {
    const [name, value] = part.split("=");
    if (!name || value === undefined || value === "") throw new Error(`Write the recipe as a move and name=value pairs; "${part}" is neither.`);
    recipe[name] = value === "true" ? true : value === "false" ? false : Number.isFinite(Number(value)) ? Number(value) : value;
  }
  return recipe;
}
