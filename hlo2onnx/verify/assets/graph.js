// Draws the graph, and answers clicks, keys, the search and the buttons.
"use strict";

(function () {
  const graph = readGraph(JSON.parse(document.getElementById("graph-data").textContent));
  const svg = document.getElementById("canvas"), view = document.getElementById("view");
  const open = new Set([graph.count]);
  const MOST = 1500, SMALL = 40, FIRST = 18, FEW = 5, CROWD = 120;
  const LEGIBLE = 0.5, COMFORTABLE = 0.72, LARGEST = 1.15, MARGIN = 8; // scales, and pixels
  let mode = "operator", picked = null, elements = new Map();

  const isOpen = (id) => open.has(id);
  const layout = makeLayout(graph, isOpen, labelsOf);
  let isMoved = false; // by the user
  const zoom = d3.zoom().scaleExtent([0.02, 4]).on("zoom", (event) => {
    isMoved = isMoved || event.sourceEvent;
    view.setAttribute("transform", event.transform);
    showBeyond(event.transform);
  });
  d3.select(svg).call(zoom).on("dblclick.zoom", null);

  function labelsOf(id) {
    if (graph.isGroup(id)) {
      const { nodes, time } = graph.sums[graph.groupOf(id)];
      const part = graph.total && time ? ` · ${percent(time / graph.total)}` : "";
      return [graph.nameOf(id), `${nodes} node${nodes === 1 ? "" : "s"}${part}`];
    }
    const node = graph.nodes[id];
    const isPort = node[OP] === "input" || node[OP] === "output";
    return [isPort ? node[NAME] : node[OP], node[TYPES].map(graph.text).join(", ")];
  }

  function make(tag, parent, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  function draw() {
    const active = document.activeElement && document.activeElement.dataset
      ? document.activeElement.dataset.id : undefined;
    view.replaceChildren();
    elements = new Map();
    drawGroup(0, view, 0, 0);
    svg.dataset.boxes = elements.size;
    mark();
    if (active !== undefined && elements.has(Number(active))) elements.get(Number(active)).focus();
  }

  function drawGroup(group, parent, left, top) {
    const found = layout.layoutOf(group);
    const inner = make("g", parent, { transform: `translate(${left},${top})` });
    for (const line of found.lines) {
      const edge = make("path", inner, {
        class: `edge ${line.kind}`, d: line.path || curve(line.points), "marker-end": "url(#arrow)",
        "data-ends": line.ends.join(","),
      });
      if (line.count > 1) make("title", edge, {}, `${line.count} values`);
    }
    for (const box of found.boxes) drawBox(box, inner);
  }

  function drawBox(box, parent) {
    const { id, x, y, width, height } = box;
    const isGroup = graph.isGroup(id), isWide = isGroup && isOpen(id);
    const kind = isGroup ? graph.groups[graph.groupOf(id)][2] : "";
    const element = make("g", parent, {
      class: `box ${isGroup ? `group ${kind}` : "node"}${isWide ? " open" : ""}`,
      transform: `translate(${x},${y})`, "data-id": id, tabindex: 0, role: "button",
    });
    elements.set(id, element);
    const [first, second] = labelsOf(id);
    make("title", element, {}, `${graph.nameOf(id)}\n${second}`);
    const fill = isWide ? {} : { fill: colourOf(graph, id, mode) };
    make("rect", element, { width, height, rx: isGroup ? 7 : 3, ...fill });
    if (isGroup) {
      const toggle = make("g", element, { class: "toggle" });
      make("rect", toggle, {
        x: 7, y: isWide ? 6 : 5, width: 14, height: 14, rx: 3, fill: "#fff", stroke: "#66788a",
      });
      make("text", toggle, { x: 14, y: isWide ? 17 : 16, "text-anchor": "middle" }, isWide ? "−" : "+");
      toggle.addEventListener("click", (event) => {
        event.stopPropagation();
        toggleGroup(id);
      });
    }
    const room = width - (isGroup ? 34 : 14);
    if (isWide) {
      make("text", element, { x: 27, y: 18 }, clipped(first, room, 12));
      drawGroup(graph.groupOf(id), element, Math.max((width - layout.layoutOf(graph.groupOf(id)).width) / 2, 0), HEADER);
    } else {
      make("text", element, { x: isGroup ? 27 : 10, y: 16 }, clipped(first, room, 12));
      make("text", element, { x: isGroup ? 27 : 10, y: 30, class: "small" }, clipped(second, room, 10));
    }
    element.addEventListener("click", (event) => {
      event.stopPropagation();
      pick(id);
    });
    element.addEventListener("dblclick", (event) => {
      event.stopPropagation();
      if (isGroup) toggleGroup(id);
    });
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      event.stopPropagation();
      if (isGroup) toggleGroup(id); else pick(id);
    });
  }

  function curve(points) {
    let path = `M${points[0].x},${points[0].y}`;
    for (let i = 1; i < points.length - 1; i += 1) {
      const here = points[i], next = points[i + 1];
      const end = i === points.length - 2 ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
      path += `Q${here.x},${here.y} ${end.x},${end.y}`;
    }
    const last = points[points.length - 1];
    return points.length === 2 ? `${path}L${last.x},${last.y}` : path;
  }

  function toggleGroup(id) {
    const before = placeOf(id);
    if (isOpen(id)) open.delete(id); else open.add(id);
    layout.forget(id);
    picked = id;
    draw();
    showDetails(graph, picked, actions);
    const after = placeOf(id);
    if (before && after) { // the box stays where it was
      const { k, x, y } = d3.zoomTransform(svg);
      const moved = d3.zoomIdentity.translate(x + before.x - after.x, y + before.y - after.y).scale(k);
      d3.select(svg).call(zoom.transform, moved);
    }
  }

  function placeOf(id) {
    const element = elements.get(id);
    return element ? element.getBoundingClientRect() : null;
  }

  function pick(id) {
    picked = id;
    mark();
    showDetails(graph, id, actions);
  }

  function mark() {
    for (const element of view.querySelectorAll(".picked")) element.classList.remove("picked");
    if (picked === null || !elements.has(picked)) return;
    elements.get(picked).classList.add("picked");
    for (const edge of view.querySelectorAll(".edge")) {
      if (edge.dataset.ends.split(",").includes(String(picked))) edge.classList.add("picked");
    }
  }

  function reveal(id) {
    for (const group of graph.pathOf(id)) open.add(graph.count + group);
    layout.forgetAll();
    draw();
    pick(id);
    const box = placeOf(id), frame = svg.getBoundingClientRect();
    const { k, x, y } = d3.zoomTransform(svg);
    const dx = frame.x + frame.width / 2 - (box.x + box.width / 2);
    const dy = frame.y + frame.height / 2 - (box.y + box.height / 2);
    d3.select(svg).call(zoom.transform, d3.zoomIdentity.translate(x + dx, y + dy).scale(k));
    if (k < 0.6) d3.select(svg).call(zoom.scaleTo, 0.9);
  }

  /** Shows everything. If that is too small to read: the upper part, or the upper left one. */
  function fit(isWhole) {
    const { width, height, boxes } = layout.layoutOf(0), frame = svg.getBoundingClientRect();
    const across = Math.min(frame.width / width, LARGEST) * 0.97;
    const whole = Math.min(across, (frame.height / height) * 0.97);
    let scale = whole;
    if (!isWhole && whole < LEGIBLE) scale = across < LEGIBLE ? COMFORTABLE : Math.min(across, COMFORTABLE);
    let x = (frame.width - width * scale) / 2, y = (frame.height - height * scale) / 2;
    if (y < 0) y = MARGIN;
    if (x < 0) { // from the left, where there are boxes
      const lefts = boxes.filter((box) => box.y * scale + y < frame.height).map((box) => box.x);
      x = MARGIN - Math.min(...lefts) * scale;
    }
    d3.select(svg).call(zoom.transform, d3.zoomIdentity.translate(x, y).scale(scale));
  }

  /** Names the sides at which the frame cuts the graph off. */
  function showBeyond({ k, x, y }) {
    const { width, height } = layout.layoutOf(0), frame = svg.getBoundingClientRect();
    const border = PADDING * k; // empty
    const sides = [
      [x + border < -1, "left"], [x + width * k - border > frame.width + 1, "right"],
      [y + border < -1, "above"], [y + height * k - border > frame.height + 1, "below"],
    ].filter(([isCut]) => isCut).map(([, side]) => side);
    document.getElementById("beyond").textContent =
      sides.length ? `The graph goes on: ${sides.join(", ")}. Drag, or press Fit.` : "";
  }

  /** Opens groups, the outer ones first, while the boxes are not too many. */
  function openAll(limit) {
    let boxes = graph.children[0].length;
    const waiting = graph.children[0].filter(graph.isGroup);
    while (waiting.length) {
      const id = waiting.shift(), within = graph.children[graph.groupOf(id)];
      if (boxes + within.length > limit) continue;
      open.add(id);
      boxes += within.length;
      waiting.push(...within.filter(graph.isGroup));
    }
  }

  function collapse() {
    open.clear();
    open.add(graph.count);
    if (graph.nodes.length <= SMALL) openAll(SMALL * 2);
    let boxes = graph.children[0].length, waiting = graph.children[0].filter(isScope);
    while (waiting.length) { // the largest scopes first, while the view stays small
      waiting.sort((one, two) => sizeOf(two) - sizeOf(one));
      const id = waiting.shift(), within = graph.children[graph.groupOf(id)];
      if (boxes + within.length > FIRST && (boxes > FEW || within.length > CROWD)) break;
      open.add(id);
      boxes += within.length;
      waiting.push(...within.filter(isScope));
    }
  }

  const isScope = (id) => graph.isGroup(id) && graph.groups[graph.groupOf(id)][2] === "scope";
  const sizeOf = (id) => graph.sums[graph.groupOf(id)].nodes;

  function redraw() {
    layout.forgetAll();
    draw();
    fit(false);
  }

  const actions = { isOpen, toggle: toggleGroup, reveal };
  const on = (name, event, action) => document.getElementById(name).addEventListener(event, action);
  on("expand", "click", () => { openAll(MOST); redraw(); });
  on("collapse", "click", () => { collapse(); redraw(); });
  on("fit", "click", () => fit(true));
  on("colour", "change", (event) => { mode = event.target.value; drawLegend(mode); draw(); });
  svg.addEventListener("click", () => { picked = null; mark(); showDetails(graph, null, actions); });

  let matches = [], place = 0;
  on("search", "input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    const holds = (node) => [node[NAME], node[OP], graph.text(node[SOURCE]), graph.text(node[SCOPE])]
      .some((each) => each.toLowerCase().includes(wanted));
    matches = wanted ? graph.nodes.flatMap((node, id) => (holds(node) ? [id] : [])) : [];
    place = 0;
    document.getElementById("found").textContent = wanted ? `${matches.length} found; Enter shows the next` : "";
  });
  on("search", "keydown", (event) => {
    if (event.key !== "Enter" || !matches.length) return;
    reveal(matches[place % matches.length]);
    place += 1;
    document.getElementById("found").textContent = `${((place - 1) % matches.length) + 1} of ${matches.length}`;
  });

  const modes = document.getElementById("colour").options;
  for (const option of modes) {
    if (option.value === "time") option.disabled = !graph.total;
    if (option.value === "error") option.disabled = !graph.hasErrors;
  }
  document.getElementById("drawing").hidden = false;
  drawLegend(mode);
  showDetails(graph, null, actions);
  collapse();
  redraw();
  new ResizeObserver(() => { if (!isMoved && picked === null) fit(false); }).observe(svg);
})();
