// The page of run_webgpu.mjs.

import * as ort from "/ort/ort.webgpu.min.mjs";
import { answered } from "/web_answer.mjs";

ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = "/ort/";
ort.env.logLevel = "fatal";

let isLost = false;

/** Answers the request of the server; says whether the page can go on. */
window.work = async () => {
  const response = await fetch("/request");
  const request = new Uint8Array(await response.arrayBuffer());
  const answer = await answered(ort, "webgpu", request);
  await fetch("/answer", { method: "POST", body: answer });
  return !isLost;
};

const adapter = await navigator.gpu?.requestAdapter();
window.isReady = adapter ? "" : "there is no adapter of WebGPU";
