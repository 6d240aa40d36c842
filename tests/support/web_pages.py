"""Pages of a server in headless Chromium, driven by puppeteer-core, and packages of npm."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from browser import chromium

from tools.probe.environments import CACHE, InstallError, npm_folder

PACKAGES = ("onnxruntime-web", "puppeteer-core")
VERSION = "1.30"
"""That of onnxruntime-web."""
DRIVER = Path(__file__).with_name("drive_page.mjs")


def npm_packages() -> Path:
    """A folder of npm with `PACKAGES`. Without npm or a registry, the test is skipped."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian: apt-get install nodejs npm)")
    try:
        return npm_folder(PACKAGES[0], VERSION, CACHE, PACKAGES[1:])
    except InstallError as error:
        pytest.skip(f"npm does not install {' and '.join(PACKAGES)}: {error}")


def drive(script: str, folder: Path, arguments: Mapping[str, Any]) -> Any:
    """What the body of an async JavaScript function returns. Errors of pages are failures.

    Args:
        script: It runs in Node. `open(url, width, height)` opens a page.
        folder: For the script, and for the profile of Chromium.
        arguments: JSON, which the script has as `given`.
    """
    file = folder / "script.js"
    file.write_text(f"const given = {json.dumps(arguments)};\n{script}", encoding="utf-8")
    driver = [str(DRIVER), str(npm_packages()), chromium()]
    done = subprocess.run(
        ["node", *driver, str(folder / "profile"), str(file)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["problems"] == [], "\n".join(found["problems"])
    return found["result"]
