// The panel beside the graph: everything about the picked node or group.
"use strict";

const milliseconds = (time) => `${time < 0.1 ? (1000 * time).toPrecision(3) + "\u00a0µs" : time.toPrecision(4) + "\u00a0ms"}`;
const percent = (part) => `${(100 * part).toFixed(part < 0.1 ? 1 : 0)}\u00a0%`;

const errorText = (error) => (error >= 1e30 ? "infinite or NaN" : error.toExponential(2));

function showDetails(graph, id, actions) {
  const panel = document.getElementById("details");
  panel.replaceChildren();
  const add = (tag, text, parent) => {
    const made = document.createElement(tag);
    made.textContent = text;
    (parent || panel).append(made);
    return made;
  };
  if (id === null) {
    add("h3", graph.nameOf(graph.count));
    add("p", "Click a box to see its details. Click + or double-click a scope to expand it. " +
      "Drag to move, scroll to zoom.");
    describeGroup(graph, 0, describer(panel, add));
    return;
  }
  add("h3", graph.isGroup(id) ? graph.nameOf(id) : graph.nodes[id][OP]);
  if (graph.isGroup(id)) {
    const group = graph.groupOf(id);
    const button = add("button", actions.isOpen(id) ? "Collapse" : "Expand");
    button.onclick = () => actions.toggle(id);
    const entry = describer(panel, add);
    entry("within", graph.pathOf(id).slice(1).map((each) => graph.groups[each][0]).join(" / "));
    describeGroup(graph, group, entry);
  } else {
    describeNode(graph, id, describer(panel, add), actions);
  }
}

function describer(panel, add) {
  const list = add("dl", "");
  /** Adds a title and its items: texts, or [text, action] for links. */
  return (title, items, tag) => {
    const wanted = [].concat(items).filter((item) => item !== "" && item !== null);
    if (!wanted.length) return;
    add("dt", title, list);
    const place = add("dd", "", list);
    for (const item of wanted) {
      if (Array.isArray(item)) {
        add("a", item[0], place).onclick = item[1];
      } else {
        add(tag || "div", item, place);
      }
    }
  };
}

function describeGroup(graph, group, entry) {
  const sum = graph.sums[group];
  entry("nodes", String(sum.nodes));
  if (graph.total) entry("time", `${milliseconds(sum.time)}, ${percent(sum.time / graph.total)}`);
  if (sum.error !== null) entry("largest error", errorText(sum.error));
  const counts = [...sum.operators].sort((one, two) => two[1] - one[1]);
  entry("operators", counts.slice(0, 30).map(([name, count]) => `${count} ${name}`));
}

function describeNode(graph, id, entry, actions) {
  const node = graph.nodes[id];
  const link = (other) => [
    `${graph.nodes[other][OP]} ${graph.nodes[other][NAME]}: ${graph.nodes[other][TYPES].map(graph.text).join(", ")}`,
    () => actions.reveal(other),
  ];
  entry("name", node[NAME]);
  entry("type", node[TYPES].map(graph.text));
  entry("scope", graph.text(node[SCOPE]));
  entry("source", graph.text(node[SOURCE]));
  if (node[TIME]) {
    const [time, trips] = node[TIME];
    entry("time", `${milliseconds(time)}, ${percent(time / (graph.total || 1))}`);
    if (trips !== 1) entry("trips", `${trips}, ${milliseconds(time / trips)} each`);
  }
  if (node[ERROR] !== null) entry("error, relative", errorText(node[ERROR]));
  entry("inputs", [...node[MAKERS].map(link), ...node[OTHERS].map(graph.text)]);
  entry("read by", graph.readers[id].slice(0, 40).map(link));
  entry("attributes", node[ATTRIBUTES].map(graph.text));
  entry("call stack", graph.text(node[STACK]), "pre");
}
