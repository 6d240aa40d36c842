// Places boxes: dagre lays out each open group alone, the innermost first. Boxes never overlap.
"use strict";

const HEADER = 26, PADDING = 12, LINE = 38, GAP = 16, WIDEST = 230;

const measure = (() => {
  const context = document.createElement("canvas").getContext("2d");
  return (text, size) => {
    context.font = `${size}px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif`;
    return context.measureText(text).width;
  };
})();

/** A text that fits: the end is cut off. */
function clipped(text, width, size) {
  if (measure(text, size) <= width) return text;
  let kept = text.length;
  while (kept > 1 && measure(text.slice(0, kept) + "…", size) > width) kept -= 1;
  return text.slice(0, kept) + "…";
}

/** The layout of a group: its size, and the boxes and edges in it, from its own corner. */
function makeLayout(graph, isOpen, labelsOf) {
  const known = new Map();

  function sizeOf(id) {
    if (graph.isGroup(id) && isOpen(id)) {
      const inner = layoutOf(graph.groupOf(id));
      const title = measure(graph.nameOf(id), 12) + 46;
      return { width: Math.max(inner.width, Math.min(title, WIDEST)), height: inner.height + HEADER };
    }
    const [first, second] = labelsOf(id);
    const text = Math.max(measure(first, 12), measure(second, 10));
    return { width: Math.min(text, WIDEST) + (graph.isGroup(id) ? 40 : 22), height: LINE };
  }

  /** Boxes without edges, in rows below each other. */
  function placeLoose(boxes, top) {
    const area = boxes.reduce((sum, box) => sum + (box.width + GAP) * (box.height + GAP), 0);
    const limit = Math.max(500, 1.6 * Math.sqrt(area));
    let x = PADDING, y = top, tallest = 0, width = 0;
    for (const box of boxes) {
      if (x > PADDING && x + box.width > limit) {
        x = PADDING;
        y += tallest + GAP;
        tallest = 0;
      }
      Object.assign(box, { x, y });
      x += box.width + GAP;
      tallest = Math.max(tallest, box.height);
      width = Math.max(width, x - GAP + PADDING);
    }
    return { width, height: boxes.length ? y + tallest + PADDING : top };
  }

  function placeJoined(boxes, edges) {
    const layered = new dagre.graphlib.Graph();
    const ranker = boxes.length > 150 ? "longest-path" : "network-simplex";
    layered.setGraph({
      rankdir: "TB", nodesep: GAP, ranksep: 24, edgesep: 8, marginx: PADDING, marginy: PADDING, ranker,
    });
    layered.setDefaultEdgeLabel(() => ({}));
    for (const box of boxes) layered.setNode(String(box.id), { width: box.width, height: box.height });
    for (const { ends } of edges) layered.setEdge(String(ends[0]), String(ends[1]));
    dagre.layout(layered);
    for (const box of boxes) {
      const { x, y } = layered.node(String(box.id));
      Object.assign(box, { x: x - box.width / 2, y: y - box.height / 2 });
    }
    const lines = edges.map(({ ends, kind, count }) => ({
      ends, kind, count, points: layered.edge(String(ends[0]), String(ends[1])).points,
    }));
    const { width, height } = layered.graph();
    return folded({ boxes, lines, width, height }, PADDING);
  }

  function layoutOf(group) {
    if (known.has(group)) return known.get(group);
    const boxes = graph.children[group].map((id) => ({ id, ...sizeOf(id) }));
    const edges = [...graph.edges[group].values()];
    const joined = new Set(edges.flatMap(({ ends }) => ends));
    const loose = boxes.filter(({ id }) => !joined.has(id));
    const others = boxes.filter(({ id }) => joined.has(id));
    const drawn = others.length ? placeJoined(others, edges) : { width: 0, height: 0, lines: [] };
    const below = placeLoose(loose, others.length ? drawn.height : PADDING);
    const found = {
      boxes, lines: drawn.lines,
      width: Math.max(drawn.width, below.width, 60),
      height: Math.max(drawn.height, below.height),
    };
    known.set(group, found);
    return found;
  }

  return {
    layoutOf,
    /** Forgets the layout of a group and of those around it. */
    forget(id) {
      known.delete(graph.groupOf(id));
      for (const group of graph.pathOf(id)) known.delete(group);
    },
    forgetAll: () => known.clear(),
  };
}
