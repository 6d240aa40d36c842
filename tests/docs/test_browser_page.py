"""The JavaScript of docs/browser.md runs in headless Chromium, on the models of its Python."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pages import ROOT, Block, blocks_of
from processes import run_python
from web_pages import drive, npm_packages

PAGE = ROOT / "docs" / "browser.md"
END = "-- end of a block --"
BLOCKS = blocks_of(PAGE)

pytestmark = pytest.mark.wide

RUN = """
const page = await open(`${given.url}index.html`);
const lines = [];
page.on("console", (line) => lines.push(line.text()));
await page.addScriptTag({ type: "module", content: `${given.text}\\nwindow.isDone = true;` });
await page.waitForFunction("window.isDone", { timeout: 60000 });
return lines;
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server of the folder with the models and with node_modules."""
    packages = npm_packages()
    (tmp_path / "node_modules").symlink_to(packages / "node_modules")
    (tmp_path / "index.html").write_text('<!doctype html><link rel="icon" href="data:,">')
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def blocks(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def wanted(block: Block) -> str:
    """The `text` block right behind a block; "" if there is none."""
    after = BLOCKS[BLOCKS.index(block) + 1 :][:1]
    return after[0].text if after and after[0].language == "text" else ""


def test_the_javascript_of_the_page(url: str, tmp_path: Path) -> None:
    python = "\n".join(block.text for block in blocks("python"))
    (tmp_path / "models.py").write_text(python, encoding="utf-8")
    run_python(f"import os, runpy; os.chdir({str(tmp_path)!r}); runpy.run_path('models.py')")
    code = "\n".join(f"{block.text}\nconsole.log({END!r});" for block in blocks("js"))
    lines = drive(RUN, tmp_path, {"url": url, "text": code})
    printed = "\n".join(lines).split(END)[:-1]
    assert len(printed) == len(blocks("js")) > 4
    for block, output in zip(blocks("js"), printed, strict=True):
        assert output.split() == wanted(block).split(), f"{PAGE.name}:{block.line}"


def test_the_sizes_of_the_page() -> None:
    folder = npm_packages() / "node_modules/onnxruntime-web/dist"
    rows = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if line[:5] == "| ort"]
    assert len(rows) == 4
    for name, size in rows:
        number, unit = size.split()
        found = (folder / name.split()[0]).stat().st_size
        assert found == pytest.approx(float(number) * {"kB": 1e3, "MB": 1e6}[unit], rel=0.01)
