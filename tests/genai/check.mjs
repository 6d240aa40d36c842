// Generates with transformers.js in Node. Arguments: a folder with node_modules, and the JSON of
// generate.mjs. Prints the sequences of each dtype.

import { createRequire } from "node:module";
import path from "node:path";

import { generate } from "./generate.mjs";

const require = createRequire(path.join(process.argv[2], "package.json"));
const library = require("@huggingface/transformers");
console.log(JSON.stringify(await generate(library, JSON.parse(process.argv[3]))));
