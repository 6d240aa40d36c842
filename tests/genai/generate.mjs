// Greedy tokens by transformers.js, in Node and in a page. Its models are in /FOLDERS/NAME:
// {"folders": ..., "name": ..., "dtypes": [...], "ids": [[...], ...], "mask": [[...], ...],
// "count": ...}. Returns the sequences of each dtype.

export async function generate({ AutoModelForCausalLM, Tensor, env }, given) {
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.localModelPath = given.folders;
  const tensor = (rows) =>
    new Tensor("int64", BigInt64Array.from(rows.flat(), BigInt), [rows.length, rows[0].length]);
  const found = [];
  for (const dtype of given.dtypes) {
    const model = await AutoModelForCausalLM.from_pretrained(given.name, { dtype });
    const options = { max_new_tokens: given.count, do_sample: false };
    const inputs = { inputs: tensor(given.ids), attention_mask: tensor(given.mask) };
    const rows = await model.generate({ ...inputs, ...options });
    found.push(rows.tolist().map((row) => row.map(Number)));
  }
  return found;
}
