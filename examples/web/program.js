// A translated JAX function in onnxruntime-web.

// onnxruntime-web for a provider. Both files load their WebAssembly from the same folder.
export async function loadRuntime(provider, threads) {
  const ort = await import(`./ort/ort.${provider}.bundle.min.mjs`);
  ort.env.wasm.numThreads = threads; // more than 1 needs a page that is cross-origin isolated
  return ort;
}

export class Program {
  // `states` says which input takes the value of an output in the next step.
  constructor(ort, session, states) {
    Object.assign(this, { ort, session, states, state: {} });
    this.inputs = Object.fromEntries(session.inputMetadata.map((input) => [input.name, input]));
  }

  static async load(ort, { url, states }, provider) {
    const options = { executionProviders: [provider], logSeverityLevel: 3 }; // errors
    if (provider === "webgpu") { // states stay in the memory of the GPU
      const kept = Object.keys(states).map((name) => [name, "gpu-buffer"]);
      options.preferredOutputLocation = Object.fromEntries(kept);
    }
    return new Program(ort, await ort.InferenceSession.create(url, options), states);
  }

  // A tensor of the type and shape of an input. Without numbers it is full of zeros.
  tensor(name, numbers) {
    const { type, shape } = this.inputs[name];
    const size = shape.reduce((product, extent) => product * extent, 1);
    return new this.ort.Tensor(type, numbers ?? new Array(size).fill(0), shape);
  }

  // Replace the states by numbers, or by zeros.
  reset(numbers = {}) {
    for (const input of Object.values(this.states)) this.keep(input, this.tensor(input, numbers[input]));
  }

  keep(input, tensor) {
    this.state[input]?.dispose(); // frees memory of the GPU
    this.state[input] = tensor;
  }

  // One call: numbers for the inputs in, tensors of the outputs out. States go to the next step.
  async step(numbers) {
    const feeds = { ...this.state };
    for (const name in numbers) feeds[name] = this.tensor(name, numbers[name]);
    const outputs = await this.session.run(feeds);
    for (const output in this.states) {
      this.keep(this.states[output], outputs[output]);
      delete outputs[output];
    }
    return outputs;
  }
}
