// Colours of boxes by kind of operator, time or error, and their legend.
"use strict";

const KINDS = [
  ["input or output", "#fde9a9", /^(input|output)$/],
  ["matrix product, convolution", "#f6b48f",
    /(MatMul|Gemm|Conv|Einsum|Attention|LSTM|GRU|RNN|Det|DFT)/],
  ["normalization, activation", "#b9dfb5",
    /(Norm|Softmax|Relu|Elu|Selu|Gelu|Sigmoid|Tanh|Softplus|Swish|Mish|Dropout|Erf)/],
  ["control flow", "#eeaab9", /^(Loop|If|Scan)$/],
  ["reduction, sort, pooling", "#d3c3ea", /(Reduce|ArgM|TopK|CumSum|Pool|Unique|NonZero|Compress)/],
  ["data movement", "#dfe4e9",
    /^(Reshape|Transpose|Slice|Concat|Gather|Scatter|Split|Squeeze|Unsqueeze|Expand|Pad|Tile|Cast|Identity|Constant|Shape|Resize|Range|DepthToSpace|SpaceToDepth|Flatten|Reverse)/],
  ["arithmetic and other", "#bcd6ee", /./],
];
const UNKNOWN = "#eceff2";

function ramp(stops, part) {
  const place = Math.min(Math.max(part, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  const mix = stops[low].map((value, i) => Math.round(value + (stops[low + 1][i] - value) * (place - low)));
  return `rgb(${mix.join(",")})`;
}

const HEAT = [[255, 255, 255], [253, 224, 154], [244, 148, 83], [214, 62, 48]];
const RISK = [[202, 232, 203], [252, 243, 178], [246, 170, 98], [205, 55, 60]];
const LOWEST = -9, HIGHEST = 0;

const riskOf = (error) => (error > 0 ? (Math.log10(error) - LOWEST) / (HIGHEST - LOWEST) : 0);
const kindOf = (operator) => KINDS.find(([, , test]) => test.test(operator.split(".").pop()));

function colourOf(graph, id, mode) {
  if (mode === "time") {
    const time = graph.timeOf(id);
    return time === null || !graph.total ? UNKNOWN : ramp(HEAT, Math.sqrt(time / graph.total));
  }
  if (mode === "error") {
    const error = graph.errorOf(id);
    return error === null ? UNKNOWN : ramp(RISK, riskOf(error));
  }
  return graph.isGroup(id) ? "#ffffff" : kindOf(graph.nodes[id][OP])[1];
}

function drawLegend(mode) {
  const legend = document.getElementById("legend");
  legend.replaceChildren();
  const key = (colour, label, className) => {
    const span = document.createElement("span"), box = document.createElement("i");
    span.className = "key";
    box.className = className || "";
    box.style.background = colour;
    span.append(box, label);
    legend.append(span);
  };
  const gradient = (stops) => {
    const parts = Array.from({ length: 9 }, (_, i) => ramp(stops, i / 8));
    return `linear-gradient(90deg, ${parts.join(", ")})`;
  };
  if (mode === "time") {
    key(gradient(HEAT), "0\u00a0% to 100\u00a0% of the time of all nodes (square root scale)", "ramp");
  } else if (mode === "error") {
    key(gradient(RISK), `1e${LOWEST} to 1e${HIGHEST}, error relative to the largest magnitude`, "ramp");
  } else {
    for (const [label, colour] of KINDS) key(colour, label);
    key("#ffffff", "scope: click + to expand");
  }
  if (mode !== "operator") key(UNKNOWN, "not measured");
}
