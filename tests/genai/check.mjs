// Generates greedily with transformers.js. Arguments: a folder with node_modules, and JSON:
// {"folder": ..., "dtypes": [...], "ids": [[...], ...], "mask": [[...], ...], "count": ...}.
// Prints the sequences of each dtype.

import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(path.join(process.argv[2], "package.json"));
const { AutoModelForCausalLM, Tensor, env } = require("@huggingface/transformers");
const given = JSON.parse(process.argv[3]);
env.allowRemoteModels = false;
env.localModelPath = path.dirname(given.folder) + "/";

const tensor = (rows) =>
  new Tensor("int64", BigInt64Array.from(rows.flat(), BigInt), [rows.length, rows[0].length]);

const found = [];
for (const dtype of given.dtypes) {
  const model = await AutoModelForCausalLM.from_pretrained(path.basename(given.folder), { dtype });
  const options = { max_new_tokens: given.count, do_sample: false };
  const inputs = { inputs: tensor(given.ids), attention_mask: tensor(given.mask) };
  const rows = await model.generate({ ...inputs, ...options });
  found.push(rows.tolist().map((row) => row.map(Number)));
}
console.log(JSON.stringify(found));
