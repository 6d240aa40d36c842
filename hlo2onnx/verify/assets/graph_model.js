// The data of the graph: groups, nodes, the edges at each level, and sums over groups.
"use strict";

const GROUP = 0, OP = 1, NAME = 2, MAKERS = 3, TYPES = 4, OTHERS = 5, ATTRIBUTES = 6, SOURCE = 7,
  STACK = 8, SCOPE = 9, TIME = 10, ERROR = 11;

/** Reads the data. Nodes have the ids 0 to N - 1, and group g has the id N + g. */
function readGraph(data) {
  const { texts, groups, nodes } = data;
  const count = nodes.length;
  const text = (place) => texts[place];
  const isGroup = (id) => id >= count;
  const groupOf = (id) => id - count;
  const parentOf = (id) => (isGroup(id) ? groups[groupOf(id)][1] : nodes[id][GROUP]);

  // The groups around each id, the whole graph first.
  const around = new Map();
  function pathOf(id) {
    if (!around.has(id)) {
      const parent = parentOf(id);
      around.set(id, parent < 0 ? [] : [...pathOf(count + parent), parent]);
    }
    return around.get(id);
  }

  const children = groups.map(() => []);
  const edges = groups.map(() => new Map());
  const readers = nodes.map(() => []);
  const sums = groups.map(() => ({ nodes: 0, time: 0, error: null, operators: new Map() }));

  const listed = new Set([count]);
  function list(id) {
    if (listed.has(id)) return;
    listed.add(id);
    const parent = parentOf(id);
    list(count + parent);
    children[parent].push(id);
  }

  /** The two ids that stand for the ends of an edge in the innermost group around both. */
  function addEdge(from, to, kind) {
    const one = [...pathOf(from), from], two = [...pathOf(to), to];
    let level = 0;
    while (level + 1 < Math.min(pathOf(from).length, pathOf(to).length) &&
      one[level + 1] === two[level + 1]) level += 1;
    const end = (path, id, place) =>
      place + 1 < pathOf(id).length ? count + path[place + 1] : id;
    const ends = [end(one, from, level), end(two, to, level)];
    if (ends[0] !== ends[1]) {
      const key = ends.join(",");
      const known = edges[one[level]].get(key);
      edges[one[level]].set(key, { ends, kind, count: (known ? known.count : 0) + 1 });
    }
  }

  nodes.forEach((node, id) => {
    list(id);
    for (const maker of node[MAKERS]) {
      readers[maker].push(id);
      addEdge(maker, id, "data");
    }
    for (const group of pathOf(id)) {
      const sum = sums[group];
      sum.nodes += 1;
      sum.operators.set(node[OP], (sum.operators.get(node[OP]) || 0) + 1);
      if (node[TIME]) sum.time += node[TIME][0];
      if (node[ERROR] !== null) sum.error = Math.max(sum.error === null ? 0 : sum.error, node[ERROR]);
    }
  });
  groups.forEach(([, , kind, owner], group) => {
    if (kind === "body" && owner >= 0) addEdge(owner, count + group, "owner");
  });

  return {
    groups, nodes, text, count, isGroup, groupOf, parentOf, pathOf, children, edges, readers, sums,
    total: sums[0].time,
    hasErrors: sums[0].error !== null,
    timeOf: (id) => (isGroup(id) ? sums[groupOf(id)].time : (nodes[id][TIME] || [null])[0]),
    errorOf: (id) => (isGroup(id) ? sums[groupOf(id)].error : nodes[id][ERROR]),
    nameOf: (id) => (isGroup(id) ? groups[groupOf(id)][0] : nodes[id][NAME]),
  };
}
