"""Opens a page in headless Chromium, runs a script in it, and returns what the script found."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1440,1100",
    "--virtual-time-budget=20000", "--enable-logging=stderr", "--disable-extensions",
)  # fmt: skip

_ERRORS = """<script>
window.problems = [];
window.addEventListener("error", (event) => window.problems.push(event.message));
console.error = (...texts) => window.problems.push(texts.join(" "));
</script>"""
_RESULT = """<script>
window.addEventListener("load", () => {
  const click = (element) => element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  let result = null;
  try { result = (function () { %s })(); } catch (error) { window.problems.push(String(error)); }
  document.body.dataset.found = JSON.stringify({ result, problems: window.problems });
});
</script>"""


def chromium() -> str:
    """The path of Chromium. Without it, the test is skipped."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    return found


def in_browser(page: Path, script: str) -> Any:
    """What the body of a JavaScript function returns on a page. Errors on the page are failures.

    The script may call `click(element)`.
    """
    text = page.read_text(encoding="utf-8")
    changed = page.with_name(f"changed_{page.name}")
    text = text.replace("<head>", f"<head>{_ERRORS}", 1)
    changed.write_text(f"{text}{_RESULT % script}", encoding="utf-8")
    command = [chromium(), *FLAGS, f"--user-data-dir={page.parent / 'chromium'}", "--dump-dom"]
    done = subprocess.run(
        [*command, changed.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    assert found is not None, done.stderr
    data = json.loads(html.unescape(found[1]))
    assert data["problems"] == []
    assert "CONSOLE" not in done.stderr, done.stderr
    return data["result"]


def screenshot(page: Path, picture: Path) -> None:
    """Writes a picture of a page (PNG)."""
    command = [chromium(), *FLAGS, f"--user-data-dir={page.parent / 'chromium'}"]
    subprocess.run(
        [*command, f"--screenshot={picture}", page.as_uri()],
        capture_output=True,
        timeout=120,
        check=True,
    )
