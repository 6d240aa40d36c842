// What each program is given before the first frame (`start`) and in each frame (`inputs`).

// `pointer` has x and y, parts of the picture, and the movement dx and dy since the last frame.
// `time` is in seconds.

const life = {
  title: "Game of Life",
  about: "65,536 cells on a torus, one generation a frame. Draw with the mouse or a finger.",
  source: "life.py",
  isSharp: true,
  start: () => ({ "board/cells": Array.from({ length: 256 * 256 }, () => Math.random() < 0.2) }),
  inputs: ({ pointer }) => ({ pen: pointer.isDown ? [pointer.x, pointer.y] : [-1, -1] }),
};

const fluid = {
  title: "Fluid",
  about: "An incompressible fluid. The mouse or a finger stirs it, and leaves dye.",
  source: "fluid.py",
  start: () => ({}),
  inputs({ pointer, time }) {
    const { x, y, dx, dy } = pointer.isActive ? pointer : wandering(time);
    const push = [dx, dy].map((part) => Math.max(-0.2, Math.min(0.2, part)));
    const colour = [0, 2.1, 4.2].map((phase) => 0.55 + 0.45 * Math.cos(time * 0.7 + phase));
    return { pointer: [x, y], push, colour };
  },
};

// A pointer that moves by itself while nobody uses the real one.
function wandering(time) {
  const at = (t) => [0.5 + 0.3 * Math.sin(1.7 * t), 0.5 + 0.3 * Math.sin(2.3 * t + 1)];
  const [[x, y], [oldX, oldY]] = [at(time), at(time - 1 / 60)];
  return { x, y, dx: x - oldX, dy: y - oldY };
}

const SECONDS = 2.5; // from the faces of a seed to those of the next one

const faces = {
  title: "Faces",
  about: "A variational autoencoder. The graph draws the latent variables from the seed.",
  source: "faces.py",
  isStill: true,
  start: () => ({}),
  inputs({ time, seed }) {
    const seeds = time / SECONDS;
    // Half of the time the faces stand still.
    const blend = Math.max(0, 2 * (seeds % 1) - 1);
    return { seed: [(seed + Math.floor(seeds)) % 2 ** 32], blend: [blend] };
  },
};

export const DEMOS = { life, fluid, faces };
