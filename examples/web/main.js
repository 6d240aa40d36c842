// The page: runs one program, a step a frame. The address says which, and on which provider.

import { DEMOS } from "./demos.js";
import { placement } from "./placement.js";
import { Program, loadRuntime } from "./program.js";

const find = (id) => document.getElementById(id);
const settings = new URLSearchParams(location.search);
const name = Object.hasOwn(DEMOS, settings.get("program")) ? settings.get("program") : "fluid";
const provider = settings.get("provider") === "webgpu" ? "webgpu" : "wasm";
const most = globalThis.crossOriginIsolated ? Math.min(navigator.hardwareConcurrency, 8) : 1;
const threads = Math.min(Number(settings.get("threads")) || 1, most);
const demo = DEMOS[name];
const canvas = find("canvas");
const context = canvas.getContext("2d");
const pointer = { x: 0, y: 0, dx: 0, dy: 0, isDown: false, isActive: false };
let isPaused = false;
let time = 0; // seconds of frames, without pauses
let rest; // the timer of a pointer that does not move

function go(changes) {
  for (const key in changes) settings.set(key, changes[key]);
  location.search = settings;
}

function fillPage() {
  for (const key in DEMOS) {
    const link = document.createElement("a");
    link.textContent = DEMOS[key].title;
    link.href = `?${new URLSearchParams({ ...Object.fromEntries(settings), program: key })}`;
    if (key === name) link.ariaCurrent = "page";
    find("demos").append(link);
  }
  find("about").textContent = demo.about;
  find("seed-label").hidden = name !== "faces";
  canvas.classList.toggle("sharp", Boolean(demo.isSharp));
  canvas.classList.toggle("still", Boolean(demo.isStill));
  for (let count = 1; count <= most; count *= 2) find("threads").add(new Option(count));
  find("threads").value = threads;
  find("provider").value = provider;
  if (!navigator.gpu) {
    const option = find("provider").options[1];
    Object.assign(option, { disabled: true, text: "WebGPU (not in this browser)" });
  }
  find("provider").onchange = (event) => go({ provider: event.target.value });
  find("threads").onchange = (event) => go({ threads: event.target.value });
}

function followPointer() {
  canvas.onpointerenter = follow;
  canvas.onpointermove = follow;
  canvas.onpointerdown = (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointer.isDown = true;
    follow(event);
  };
  canvas.onpointerup = canvas.onpointercancel = () => { pointer.isDown = false; };
}

function follow(event) {
  const box = canvas.getBoundingClientRect();
  const x = (event.clientX - box.left) / box.width;
  const y = (event.clientY - box.top) / box.height;
  if (event.type === "pointermove") {
    pointer.dx += x - pointer.x;
    pointer.dy += y - pointer.y;
  }
  Object.assign(pointer, { x, y, isActive: true });
  clearTimeout(rest);
  rest = setTimeout(() => { pointer.isActive = false; }, 2000);
}

function draw(pixels) {
  const [height, width] = pixels.dims;
  const { buffer, byteOffset, byteLength } = pixels.data;
  canvas.width = width;
  canvas.height = height;
  const bytes = new Uint8ClampedArray(buffer, byteOffset, byteLength);
  context.putImageData(new ImageData(bytes, width, height), 0, 0);
}

const megabytes = (bytes) => `${(bytes / 1e6).toFixed(2)} MB`;

async function open() {
  const model = (await (await fetch("models/models.json")).json())[provider][name];
  const began = performance.now();
  const ort = await loadRuntime(provider, threads);
  const program = await Program.load(ort, model, provider);
  const milliseconds = Math.round(performance.now() - began);
  find("model").textContent = `${megabytes(model.bytes)}, ${model.nodes} nodes`;
  find("loading").textContent = `${milliseconds} ms, runtime and model`;
  find("runtime").textContent = `onnxruntime-web ${ort.env.versions.web}`;
  find("runs-on").textContent = await description(ort, model);
  return program;
}

// What really runs the model: onnxruntime-web computes on the CPU what the GPU has no kernel for.
async function description(ort, model) {
  if (provider === "wasm") return `WebAssembly, ${threads} ${threads === 1 ? "thread" : "threads"}`;
  const { WebGpu = 0, CPU = 0 } = await placement(ort, model.url, provider);
  const { vendor, architecture } = (await ort.env.webgpu.device).adapterInfo;
  const adapter = [vendor, architecture].filter(Boolean).join(" ");
  return `WebGPU (${adapter}): ${WebGpu} of ${WebGpu + CPU} nodes, the rest in WebAssembly`;
}

function run(program) {
  let last = performance.now();
  let since = last;
  let frames = 0;
  let stepTime = 0;
  let isNew = true; // the next frame is the first one
  find("restart").onclick = find("seed").onchange = () => { isNew = true; };
  find("pause").onclick = () => {
    isPaused = !isPaused;
    find("pause").textContent = isPaused ? "Continue" : "Pause";
  };

  async function step() {
    if (isNew) {
      program.reset(demo.start());
      time = 0;
      isNew = false;
    }
    const inputs = demo.inputs({ pointer, time, seed: Number(find("seed").value) });
    Object.assign(pointer, { dx: 0, dy: 0 });
    const began = performance.now();
    const [pixels] = Object.values(await program.step(inputs));
    stepTime += performance.now() - began;
    frames += 1;
    draw(pixels);
    document.body.dataset.frames = Number(document.body.dataset.frames ?? 0) + 1;
  }

  function showSpeed(now) {
    if (now - since < 500) return;
    find("rate").textContent = (frames * 1000 / (now - since)).toFixed(0);
    if (frames) find("step").textContent = (stepTime / frames).toFixed(1);
    frames = stepTime = 0;
    since = now;
  }

  async function frame(now) {
    if (!isPaused) time += Math.min(Math.max(now - last, 0), 100) / 1000;
    last = now;
    if (isNew || !isPaused) await step();
    showSpeed(now);
    requestAnimationFrame((next) => frame(next).catch(complain));
  }

  frame(last).catch(complain);
}

function complain(error) {
  console.error(error);
  find("message").classList.add("problem");
  find("message").textContent = String(error?.message ?? error);
}

fillPage();
followPointer();
fetch(demo.source).then(async (file) => { find("source").textContent = await file.text(); });
try {
  const program = await open();
  find("message").textContent = "";
  run(program);
} catch (error) {
  complain(error);
}
