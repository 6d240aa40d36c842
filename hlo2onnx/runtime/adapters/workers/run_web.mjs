// Runs models in onnxruntime-web (WebAssembly) in Node.
//
//     node run_web.mjs FOLDER        FOLDER/node_modules holds onnxruntime-web

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

import { serve } from "./frames.mjs";
import { answered, hello } from "./web_answer.mjs";

const require = createRequire(path.join(path.resolve(process.argv[2]), "index.js"));
const ort = require("onnxruntime-web");
const { version } = JSON.parse(
  fs.readFileSync(path.join(process.argv[2], "node_modules/onnxruntime-web/package.json")));
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "fatal";

await serve(hello(version, true), (request) => answered(ort, "wasm", request));
process.exit(0);
