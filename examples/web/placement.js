// Which execution provider computes how many nodes of a model. Only the log of a session says so.
// onnxruntime-web keeps the function that it logs with: import this file before it.

const { error } = console;
let counts = null; // of the session that is being made

console.error = (...texts) => {
  if (counts === null) return error.apply(console, texts);
  const found = /placed on \[(\w+)ExecutionProvider\]\. Number of nodes: (\d+)/.exec(texts[0]);
  if (found) counts[found[1]] = (counts[found[1]] ?? 0) + Number(found[2]);
};

// For example { WebGpu: 281, CPU: 19 }. This makes a session for it, and drops it again.
export async function placement(ort, url, provider) {
  const found = counts = {};
  try {
    const options = { executionProviders: [provider], logSeverityLevel: 0 };
    await (await ort.InferenceSession.create(url, options)).release();
  } finally {
    counts = null;
  }
  return found;
}
