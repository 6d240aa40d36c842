// Folds a tall layout into columns, so that long chains of layers fit on a screen.
"use strict";

const TALL = 1400, COLUMN_GAP = 44;

/** Ranges of y that boxes cover, without gaps between ranks of one range. */
function ranges(boxes) {
  const found = [];
  for (const { y, height } of [...boxes].sort((one, two) => one.y - two.y)) {
    const last = found[found.length - 1];
    if (last && y < last.bottom) last.bottom = Math.max(last.bottom, y + height);
    else found.push({ top: y, bottom: y + height });
  }
  return found;
}

/** The places at which columns begin: each is about as tall as the limit. */
function columnStarts(boxes, limit) {
  const starts = [];
  for (const { top, bottom } of ranges(boxes)) {
    const start = starts[starts.length - 1];
    if (start === undefined || (bottom - start > limit && top > start)) starts.push(top);
  }
  return starts;
}

function extentOf(boxes, lines) {
  const xs = boxes.flatMap(({ x, width }) => [x, x + width])
    .concat(lines.flatMap(({ points }) => points.map(({ x }) => x)));
  return { left: xs.reduce((a, b) => Math.min(a, b)), right: xs.reduce((a, b) => Math.max(a, b)) };
}

function folded({ boxes, lines, width, height }, padding) {
  if (height < TALL || height < 3 * width) return { lines, width, height };
  const count = Math.ceil(Math.sqrt(height / (1.5 * (width + COLUMN_GAP))));
  const starts = columnStarts(boxes, height / count);
  const columnOf = (y) => starts.findLastIndex((start) => y >= start - 0.01);
  const place = new Map(boxes.map((box) => [box.id, columnOf(box.y)]));
  const isInner = ({ ends }) => place.get(ends[0]) === place.get(ends[1]);

  let left = padding, tallest = 0;
  const columns = starts.map((start, index) => {
    const own = boxes.filter(({ id }) => place.get(id) === index);
    const extent = extentOf(own, lines.filter((line) => isInner(line) && place.get(line.ends[0]) === index));
    const shift = { x: left - extent.left, y: padding - start, gap: left - COLUMN_GAP / 2 };
    left += extent.right - extent.left + COLUMN_GAP;
    tallest = Math.max(tallest, ...own.map((box) => box.y + box.height + shift.y));
    return shift;
  });
  for (const box of boxes) {
    const shift = columns[place.get(box.id)];
    box.x += shift.x;
    box.y += shift.y;
  }
  const byId = new Map(boxes.map((box) => [box.id, box]));
  for (const line of lines) {
    if (isInner(line)) {
      const shift = columns[place.get(line.ends[0])];
      line.points = line.points.map(({ x, y }) => ({ x: x + shift.x, y: y + shift.y }));
    } else {
      const [from, to] = line.ends.map((id) => byId.get(id));
      line.path = acrossColumns(from, to, columns[place.get(line.ends[1])].gap);
    }
  }
  return { lines, width: left - COLUMN_GAP + padding, height: tallest + padding };
}

/** From the bottom of a box to the top of one in another column, through the gap before this. */
function acrossColumns(from, to, gap) {
  const x = from.x + from.width / 2, y = from.y + from.height, low = y + 9;
  const endX = to.x + to.width / 2, endY = to.y, high = endY - 9;
  const way = gap > x ? 8 : -8;
  return `M${x},${y}Q${x},${low} ${x + way},${low}L${gap - way},${low}Q${gap},${low} ${gap},${low - 8}` +
    `L${gap},${high + 8}Q${gap},${high} ${gap + 8},${high}L${endX - 8},${high}Q${endX},${high} ${endX},${endY}`;
}
