"""Methods of a program that write its HTML report.

They import what they need when they are called: a translation alone does not pay for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as oir

from hlo2onnx.report import Report

if TYPE_CHECKING:
    from hlo2onnx.runtime.profiling.results import Profile
    from hlo2onnx.verify.views import VerificationView


class Reported:
    """A program with a report.

    Attributes:
        model: The model.
        report: What the translation did.
    """

    model: oir.Model
    report: Report

    def save_report(
        self,
        path: str | Path,
        *,
        verification: VerificationView | None = None,
        profile: Profile | None = None,
        errors: Mapping[str, float] | None = None,
        command: str = "",
    ) -> None:
        """Writes the report as one HTML page, which needs no other file and no network.

        The page shows the graph by JAX scope, and tables of what the translation did.

        Args:
            path: Path of the page. Its folder must exist.
            verification: What `verify` has returned. The page then shows the errors of the outputs.
            profile: What `profile` has returned. The page then shows the times of the nodes.
            errors: Errors of intermediate values by their names in the model, relative to the
                largest magnitude of each value. They colour the graph.
            command: The command that makes the report.

        Raises:
            UsageError: The path is no file, or its folder does not exist.
            WriteError: The file cannot be written.
        """
        from hlo2onnx.verify.page import save_page
        from hlo2onnx.verify.program_page import Findings, program_page

        findings = Findings(verification, profile, errors, command)
        save_page(path, program_page(self.model, self.report, findings))

    def _repr_html_(self) -> str:
        from hlo2onnx.verify.program_page import program_fragment

        return program_fragment(self.model, self.report)
