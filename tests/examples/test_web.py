"""The page of examples/web in headless Chromium: it runs, and its numbers are XLA's."""

from __future__ import annotations

import base64
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from processes import environment
from web_pages import drive, npm_packages

ROOT = Path(__file__).parents[2]
WEB = ROOT / "examples" / "web"
SERVE = [sys.executable, str(WEB / "serve.py"), "--port", "0"]

pytestmark = pytest.mark.wide


class Site(NamedTuple):
    """The page's address, and the folder of its models."""

    url: str
    models: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    runtime = npm_packages()
    models = tmp_path_factory.mktemp("models")
    command = [*SERVE, "--onnxruntime-web", str(runtime), "--models", str(models)]
    with subprocess.Popen(
        [*command, "--training-steps", "20"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(),
    ) as server:  # fmt: skip
        assert server.stdout is not None
        lines = []
        for line in server.stdout:
            lines.append(line)
            if line.startswith("http"):
                break
        try:
            assert lines and lines[-1].startswith("http"), "".join(lines)
            yield Site(lines[-1].strip(), models)
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def programs() -> Iterator[Any]:
    """The modules of the three programs, and the command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(WEB))
        import faces
        import fluid
        import life
        import serve

        yield {"life": life, "fluid": fluid, "faces": faces, "serve": serve}


# -- numbers --------------------------------------------------------------------------------------

STEPS = """
const found = [];
for (const { name, provider, states, steps } of given.cases) {
  const page = await open(`${given.url}?program=life`);
  await page.waitForFunction("Number(document.body.dataset.frames) >= 1");
  await page.click("#pause");
  found.push(await page.evaluate(run, name, provider, states, steps));
  await page.close();
}
return found;

async function run(name, provider, states, steps) {
  const { Program, loadRuntime } = await import("./program.js");
  const model = (await (await fetch("models/models.json")).json())[provider][name];
  const program = await Program.load(await loadRuntime(provider, 1), model, provider);
  const bytes = (numbers) => {
    const all = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
    let text = "";
    for (const byte of all) text += String.fromCharCode(byte);
    return btoa(text);
  };
  program.reset(states);
  const pictures = [];
  for (const inputs of steps) {
    const [pixels] = Object.values(await program.step(inputs));
    pictures.push(bytes(pixels.data));
  }
  const state = {};
  for (const [input, tensor] of Object.entries(program.state)) {
    state[input] = [tensor.location, bytes(await tensor.getData())];
  }
  return { state, pictures };
}
"""

CASES = [("life", "wasm", 60), ("fluid", "wasm", 30), ("faces", "wasm", 3)]
CASES += [("life", "webgpu", 10), ("fluid", "webgpu", 1), ("faces", "webgpu", 3)]
"""Programs, providers and how many steps. WebGPU is slow here: Chromium computes in software."""


class Run(NamedTuple):
    """What the browser computed: the last state, by input, and the pixels of each step.

    With the place where onnxruntime-web keeps each tensor of the state.
    """

    state: dict[str, tuple[str, bytes]]
    pictures: list[np.ndarray[Any, Any]]


class Inputs(NamedTuple):
    """The first state and what each step is given."""

    states: dict[str, np.ndarray[Any, Any]]
    steps: list[dict[str, np.ndarray[Any, Any]]]


def inputs_of(name: str, programs: Any, count: int) -> Inputs:
    if name == "life":
        board, up = programs["life"].arguments(seed=5)
        pens = [np.float32([0.5 + k / 100, 0.25]) if k % 3 == 0 else up for k in range(count)]
        states = {f"board/{key}": np.asarray(value) for key, value in board._asdict().items()}
        return Inputs(states, [{"pen": np.asarray(pen)} for pen in pens])
    if name == "fluid":
        at = [(0.5 + 0.2 * math.sin(k / 5), 0.5 + 0.3 * math.cos(k / 7)) for k in range(count + 1)]
        places = np.float32(at)
        colour = np.float32([0.9, 0.4, 0.1])
        pushes = zip(places[1:], np.diff(places, axis=0), strict=True)
        return Inputs({}, [{"pointer": x, "push": y, "colour": colour} for x, y in pushes])
    seeds = [(0, 0.0), (7, 0.25), (2**32 - 1, 0.0)]
    steps = [{"seed": np.uint32([seed]), "blend": np.float32([blend])} for seed, blend in seeds]
    return Inputs({}, steps)


@pytest.fixture(scope="module")
def runs(site: Site, programs: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the browser computed, by program and provider."""
    cases = []
    for name, provider, count in CASES:
        inputs = inputs_of(name, programs, count)
        states = {key: value.reshape(-1).tolist() for key, value in inputs.states.items()}
        steps = [{key: x.tolist() for key, x in step.items()} for step in inputs.steps]
        cases.append({"name": name, "provider": provider, "states": states, "steps": steps})
    folder = tmp_path_factory.mktemp("profile")
    found = drive(STEPS, folder, {"url": site.url, "cases": cases})
    runs = {}
    for (name, provider, _), run in zip(CASES, found, strict=True):
        state = {key: (place, base64.b64decode(x)) for key, (place, x) in run["state"].items()}
        pictures = [np.frombuffer(base64.b64decode(text), np.int32) for text in run["pictures"]]
        runs[name, provider] = Run(state, pictures)
    return runs


def colours(pixels: Any) -> Any:
    """Red, green, blue and opacity of each pixel, as integers that can be subtracted."""
    return np.asarray(pixels).reshape(-1).view(np.uint8).astype(int)


def counts(name: str) -> list[tuple[str, int]]:
    return [(provider, count) for case, provider, count in CASES if case == name]


@pytest.mark.parametrize(("provider", "count"), counts("life"))
def test_no_cell_differs(runs: Any, programs: Any, provider: str, count: int) -> None:
    run = runs["life", provider]
    step, (board, _) = jax.jit(programs["life"].step), programs["life"].arguments(seed=5)
    inputs = inputs_of("life", programs, count)
    for given, picture in zip(inputs.steps, run.pictures, strict=True):
        board, pixels = step(board, given["pen"])
        assert np.abs(colours(pixels) - colours(picture)).max() <= 1
    place, content = run.state["board/cells"]
    cells = np.frombuffer(content, bool).reshape(board.cells.shape)
    assert 2000 < cells.sum() < 30000
    np.testing.assert_array_equal(cells, board.cells)
    assert place == ("cpu" if provider == "wasm" else "gpu-buffer")


@pytest.mark.parametrize(("provider", "count"), counts("fluid"))
def test_the_fluid_flows_as_in_xla(runs: Any, programs: Any, provider: str, count: int) -> None:
    run = runs["fluid", provider]
    step, (fluid, *_) = jax.jit(programs["fluid"].step), programs["fluid"].arguments()
    inputs = inputs_of("fluid", programs, count)
    for given, picture in zip(inputs.steps, run.pictures, strict=True):
        fluid, pixels = step(fluid, given["pointer"], given["push"], given["colour"])
        assert np.abs(colours(pixels) - colours(picture)).max() <= 1
    for name, wanted in fluid._asdict().items():
        place, content = run.state[f"fluid/{name}"]
        found = np.frombuffer(content, np.float32).reshape(wanted.shape)
        largest = np.abs(wanted).max()
        assert largest > 0.1
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * largest)
        assert place == ("cpu" if provider == "wasm" else "gpu-buffer")


@pytest.mark.parametrize(("provider", "count"), counts("faces"))
def test_a_seed_gives_the_same_faces(
    site: Site, runs: Any, programs: Any, provider: str, count: int
) -> None:
    run = runs["faces", provider]
    decoder = programs["serve"].trained_decoder(site.models / "faces.npz", 0)
    paint, inputs = jax.jit(programs["faces"].paint), inputs_of("faces", programs, count)
    for given, picture in zip(inputs.steps, run.pictures, strict=True):
        wanted = colours(paint(decoder, given["seed"][0], given["blend"][0]))
        assert np.ptp(wanted[::4]) > 50
        assert np.abs(wanted - colours(picture)).max() <= 1
    assert (run.pictures[0] != run.pictures[1]).any()


# -- the page -------------------------------------------------------------------------------------

LOOK = """
const found = {};
for (const name of ["life", "fluid", "faces"]) {
  for (const [width, height] of [[1280, 800], [390, 844]]) {
    const page = await open(`${given.url}?program=${name}`, width, height);
    await page.waitForFunction("Number(document.body.dataset.frames) >= 20");
    const before = await page.evaluate(frame);
    const { x, y } = before.canvas;
    await page.mouse.move(x + 100, y + 100);
    await page.mouse.down();
    await page.mouse.move(x + 200, y + 250, { steps: 15 });
    await page.mouse.up();
    await page.waitForFunction(`Number(document.body.dataset.frames) >= ${before.frames + 20}`);
    let after = await page.evaluate(frame);
    while (after.sum === before.sum && after.frames < before.frames + 600) {
      after = await page.evaluate(frame); // faces stand still for a while
    }
    await page.click("#pause");
    const picture = `${given.folder}/${name}_${width}.png`;
    await page.screenshot({ path: picture });
    found[`${name} ${width}`] = { before, after, picture };
    await page.close();
  }
}
return found;

function frame() {
  const canvas = document.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const pixels = new Uint32Array(data.buffer);
  const { x, y, width, height } = canvas.getBoundingClientRect();
  return {
    frames: Number(document.body.dataset.frames), isIsolated: crossOriginIsolated,
    colours: new Set(pixels).size, sum: pixels.reduce((sum, pixel) => (sum * 31 + pixel) >>> 0, 0),
    canvas: { x, y, width, height }, page: document.documentElement.scrollWidth,
    window: innerWidth, runsOn: document.getElementById("runs-on").textContent,
    runtime: document.getElementById("runtime").textContent,
    message: document.getElementById("message").textContent,
    source: document.getElementById("source").textContent,
  };
}
"""
FEWEST_COLOURS = {"life": 40, "fluid": 200, "faces": 200}


def test_the_page_at_two_sizes(site: Site, tmp_path: Path) -> None:
    found = drive(LOOK, tmp_path, {"url": site.url, "folder": str(tmp_path)})
    assert len(found) == 6
    for key, item in found.items():
        before, after = item["before"], item["after"]
        name = key.split()[0]
        assert before["sum"] != after["sum"], key
        assert after["colours"] >= FEWEST_COLOURS[name], key
        assert after["page"] <= after["window"], f"{key}: the page is wider than its window"
        assert after["canvas"]["width"] == pytest.approx(after["canvas"]["height"], abs=1), key
        assert after["canvas"]["width"] > 300, key
        assert after["message"] == "" and after["isIsolated"], key
        assert after["runsOn"] == "WebAssembly, 1 thread", key
        assert after["runtime"].startswith("onnxruntime-web 1.30."), key
        assert after["source"] == (WEB / f"{name}.py").read_text(encoding="utf-8"), key
        assert Path(item["picture"]).stat().st_size > 20_000, key


STIR = """
const page = await open(`${given.url}?program=fluid`);
await page.waitForFunction("Number(document.body.dataset.frames) >= 3");
await page.evaluate(async () => {
  const { Program } = await import("./program.js");
  const { reset, step } = Program.prototype;
  Program.prototype.reset = function (numbers) {
    Object.assign(window, { program: this, steps: [] });
    reset.call(this, numbers);
  };
  Program.prototype.step = function (inputs) {
    window.steps?.push(inputs);
    return step.call(this, inputs);
  };
});
const box = await (await page.$("canvas")).boundingBox();
await page.mouse.move(box.x + 0.9 * box.width, box.y + 0.5 * box.height);
await page.click("#restart"); // the mouse leaves the canvas, and comes back without a push
await page.waitForFunction("window.steps?.length");
await page.mouse.move(box.x + 0.25 * box.width, box.y + 0.5 * box.height);
await page.mouse.move(box.x + 0.75 * box.width, box.y + 0.5 * box.height, { steps: 20 });
await page.waitForFunction("window.steps.at(-1).push[0] === 0");
await page.click("#pause");
await page.evaluate(() => new Promise(requestAnimationFrame));
return page.evaluate(() => ({
  steps: window.steps,
  velocity: Array.from(window.program.state["fluid/velocity"].data),
}));
"""


def test_the_mouse_stirs_the_fluid(site: Site, programs: Any, tmp_path: Path) -> None:
    """XLA is given what the page makes of the mouse, and comes to the same flow."""
    found = drive(STIR, tmp_path, {"url": site.url})
    steps = [{key: np.float32(value) for key, value in step.items()} for step in found["steps"]]
    assert 10 < len(steps) < 1000
    assert sum(given["push"][0] for given in steps) == pytest.approx(0.5, abs=0.05)
    step, (fluid, *_) = jax.jit(programs["fluid"].step), programs["fluid"].arguments()
    for given in steps:
        fluid, _ = step(fluid, given["pointer"], given["push"], given["colour"])
    velocity = np.float32(found["velocity"]).reshape(fluid.velocity.shape)
    largest = np.abs(velocity).max()
    assert largest > 0.1
    np.testing.assert_allclose(velocity, fluid.velocity, rtol=0, atol=2e-3 * largest)


# -- the command ----------------------------------------------------------------------------------


def test_the_command_says_what_to_install(tmp_path: Path) -> None:
    command = [*SERVE, "--onnxruntime-web", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert f"npm install --no-save --prefix {tmp_path} onnxruntime-web@1.30.0" in done.stderr


def test_the_models_are_small(site: Site) -> None:
    models = json.loads((site.models / "models.json").read_text())
    for provider in ("wasm", "webgpu"):
        sizes = {name: model["bytes"] for name, model in models[provider].items()}
        assert sizes["life"] < 50e3 and sizes["fluid"] < 300e3 and sizes["faces"] < 2e6
