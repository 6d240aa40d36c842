// Runs models in onnxruntime-web (WebAssembly) in Node.
//
//     node run_web.mjs FOLDER        FOLDER/node_modules holds onnxruntime-web
//
// See frames.py for the messages.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(path.join(path.resolve(process.argv[2]), "index.js"));
for (const name of ["log", "info", "warn", "debug"]) console[name] = console.error;
const ort = require("onnxruntime-web");
const { version } = JSON.parse(
  fs.readFileSync(path.join(process.argv[2], "node_modules/onnxruntime-web/package.json")));
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "fatal";

// ONNX's number of an element type -> its name in JavaScript, and the array that holds it.
const TYPES = {
  1: ["float32", Float32Array], 2: ["uint8", Uint8Array], 3: ["int8", Int8Array],
  4: ["uint16", Uint16Array], 5: ["int16", Int16Array], 6: ["int32", Int32Array],
  7: ["int64", BigInt64Array], 9: ["bool", Uint8Array], 10: ["float16", Uint16Array],
  11: ["float64", Float64Array], 12: ["uint32", Uint32Array], 13: ["uint64", BigUint64Array],
};
const NUMBERS = Object.fromEntries(Object.entries(TYPES).map(([n, [name]]) => [name, Number(n)]));
const HEAD = 16;

function read(size) {
  const bytes = Buffer.alloc(size);
  let at = 0;
  while (at < size) {
    const count = fs.readSync(0, bytes, at, size - at, null);
    if (!count) process.exit(0);
    at += count;
  }
  return bytes;
}

function write(header, parts = []) {
  const text = Buffer.from(JSON.stringify(header));
  const head = Buffer.alloc(HEAD);
  head.writeBigUInt64LE(BigInt(text.length), 0);
  head.writeBigUInt64LE(BigInt(parts.reduce((sum, part) => sum + part.length, 0)), 8);
  const all = Buffer.concat([head, text, ...parts]);
  for (let at = 0; at < all.length; ) at += fs.writeSync(1, all, at);
}

function tensor(item, bytes) {
  const [name, array] = TYPES[item.type];
  const own = new Uint8Array(bytes).buffer; // a copy, aligned
  return new ort.Tensor(name, new array(own), item.shape);
}

function contents(output) {
  const data = output.data;
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
}

async function answer(header, body) {
  let at = header.model;
  const feeds = {};
  for (const item of header.inputs) {
    feeds[item.name] = tensor(item, body.subarray(at, at + item.size));
    at += item.size;
  }
  const session = await ort.InferenceSession.create(new Uint8Array(body.subarray(0, header.model)), {
    executionProviders: ["wasm"],
    graphOptimizationLevel: header.optimize ? "all" : "disabled",
    logSeverityLevel: 4,
  });
  try {
    const results = await session.run(feeds);
    const outputs = session.outputNames.map((name) => results[name]);
    const parts = outputs.map(contents);
    const described = outputs.map((output, index) => ({
      type: NUMBERS[output.type], shape: output.dims, size: parts[index].length }));
    write({ outputs: described, graph: 0 }, parts);
  } finally {
    await session.release();
  }
}

const numbers = Object.keys(TYPES).map(Number);
write({ version, takes: numbers, gives: numbers });
for (;;) {
  const head = read(HEAD);
  const header = JSON.parse(read(Number(head.readBigUInt64LE(0))).toString());
  if (!Object.keys(header).length) break;
  const body = read(Number(head.readBigUInt64LE(8)));
  try {
    await answer(header, body);
  } catch (error) {
    write({ error: String(error?.message ?? error) });
  }
}
process.exit(0);
