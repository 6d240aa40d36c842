// Runs a model in onnxruntime-web, in Node or on a page. See frames.py for the messages.

// ONNX's number of an element type -> its name in JavaScript, and the array that holds it.
const TYPES = {
  1: ["float32", Float32Array], 2: ["uint8", Uint8Array], 3: ["int8", Int8Array],
  4: ["uint16", Uint16Array], 5: ["int16", Int16Array], 6: ["int32", Int32Array],
  7: ["int64", BigInt64Array], 9: ["bool", Uint8Array], 10: ["float16", Uint16Array],
  11: ["float64", Float64Array], 12: ["uint32", Uint32Array], 13: ["uint64", BigUint64Array],
};
const NUMBERS = Object.fromEntries(Object.entries(TYPES).map(([n, [name]]) => [name, Number(n)]));
export const HEAD = 16;

/** The first message of a worker. */
export function hello(version, keeps = false) {
  const numbers = Object.keys(TYPES).map(Number);
  return encoded({ version, takes: numbers, gives: numbers, keeps });
}

/** A message as bytes. */
export function encoded(header, parts = []) {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  const bytes = new Uint8Array(HEAD + text.length + size);
  const lengths = new DataView(bytes.buffer);
  lengths.setBigUint64(0, BigInt(text.length), true);
  lengths.setBigUint64(8, BigInt(size), true);
  let at = HEAD;
  for (const part of [text, ...parts]) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** The lengths of the header and of the body. */
export function lengths(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  return [0, 8].map((at) => Number(view.getBigUint64(at, true)));
}

/** The answer to a request: both are messages. */
export async function answered(ort, provider, request) {
  const [size] = lengths(request);
  const header = JSON.parse(new TextDecoder().decode(request.subarray(HEAD, HEAD + size)));
  try {
    return await outputs(ort, provider, header, request.subarray(HEAD + size));
  } catch (error) {
    return encoded({ error: String(error?.message ?? error) });
  }
}

const kept = new Map(); // sessions that stay for further requests, by their keys

async function sessionOf(ort, provider, header, body) {
  for (const key of header.unused ?? []) await release(key);
  const { key } = header;
  if (!header.model) return kept.get(key);
  await release(key);
  const session = await ort.InferenceSession.create(body.slice(0, header.model), {
    executionProviders: [provider],
    graphOptimizationLevel: header.optimize ? "all" : "disabled",
    logSeverityLevel: 4,
  });
  if (key !== undefined) kept.set(key, session);
  return session;
}

async function release(key) {
  await kept.get(key)?.release();
  kept.delete(key);
}

async function outputs(ort, provider, header, body) {
  let at = header.model;
  const feeds = {};
  for (const item of header.inputs) {
    feeds[item.name] = tensor(ort, item, body.slice(at, at + item.size)); // a copy, aligned
    at += item.size;
  }
  const session = await sessionOf(ort, provider, header, body);
  try {
    const results = await session.run(feeds);
    const found = session.outputNames.map((name) => results[name]);
    const parts = found.map(contents);
    const described = found.map((output, index) => ({
      type: NUMBERS[output.type], shape: output.dims, size: parts[index].length }));
    return encoded({ outputs: described }, parts);
  } finally {
    if (header.key === undefined) await session.release();
  }
}

function tensor(ort, item, bytes) {
  const [name, array] = TYPES[item.type];
  return new ort.Tensor(name, new array(bytes.buffer), item.shape);
}

function contents(output) {
  const data = output.data;
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}
